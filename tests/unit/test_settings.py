"""Settings: argument, then environment, then default; nonsense in a system setting warns and is ignored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from metrana.errors import SettingError
from metrana.settings import SETTINGS, resolve_dir, resolve_settings


def test_defaults_hold_where_nothing_is_said() -> None:
    """Capture is on, every 30 seconds, into ./.metrana."""
    settings = resolve_settings({})
    assert (True, 30.0, os.path.abspath(".metrana"), None) == (
        settings.capture,
        settings.interval_secs,
        settings.dir,
        settings.orchestration_id,
    )
    assert [] == settings.warnings


def test_an_argument_wins_over_the_environment() -> None:
    """Argument, then environment, then default."""
    environ = {"METRANA_CAPTURE_SYSTEM_METRICS": "0", "METRANA_SYSTEM_METRICS_INTERVAL_SECS": "7"}
    assert (False, 7.0) == (resolve_settings(environ).capture, resolve_settings(environ).interval_secs)
    settings = resolve_settings(environ, capture_system_metrics=True, system_metrics_interval_secs=5)
    assert (True, 5.0) == (settings.capture, settings.interval_secs)


@pytest.mark.parametrize("value", [0, 0.2, "0.5", 1])
def test_an_interval_below_one_second_becomes_one(value: object) -> None:
    """No warning: the wish is clear, and the limit is known."""
    settings = resolve_settings({}, system_metrics_interval_secs=value)
    assert (1.0, []) == (settings.interval_secs, settings.warnings)


@pytest.mark.parametrize("value", ["abc", "nan", float("nan"), "inf", float("inf"), -1, "-3", True, [], 10**400])
def test_a_senseless_interval_warns_and_the_default_holds(value: object) -> None:
    """One warning names the setting and its value."""
    settings = resolve_settings({}, system_metrics_interval_secs=value)
    assert 30.0 == settings.interval_secs
    (warning,) = settings.warnings
    assert "system_metrics_interval_secs" in warning and repr(value) in warning


def test_a_senseless_variable_is_named_by_the_warning() -> None:
    """The name in the warning is the one that the user wrote."""
    settings = resolve_settings(
        {"METRANA_SYSTEM_METRICS_INTERVAL_SECS": "often", "METRANA_CAPTURE_SYSTEM_METRICS": "maybe"}
    )
    assert (True, 30.0) == (settings.capture, settings.interval_secs)
    assert ["METRANA_CAPTURE_SYSTEM_METRICS='maybe'", "METRANA_SYSTEM_METRICS_INTERVAL_SECS='often'"] == [
        warning.split(" ")[0] for warning in settings.warnings
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1", True),
        ("true", True),
        (" ON ", True),
        ("no", False),
        ("False", False),
        (0, False),
        (1, True),
        (False, False),
    ],
)
def test_a_switch_takes_the_usual_words(value: object, expected: bool) -> None:
    """1, true, yes, on and their opposites, in any case."""
    settings = resolve_settings({}, capture_system_metrics=value)
    assert (expected, []) == (settings.capture, settings.warnings)


def test_an_empty_variable_is_no_setting() -> None:
    """As with most programs, VARIABLE= takes a setting back."""
    environ = {
        "METRANA_DIR": "",
        "METRANA_CAPTURE_SYSTEM_METRICS": "",
        "METRANA_SYSTEM_METRICS_INTERVAL_SECS": "",
        "METRANA_ORCHESTRATION_ID": "",
    }
    settings = resolve_settings(environ)
    assert (True, 30.0, os.path.abspath(".metrana"), None, []) == (
        settings.capture,
        settings.interval_secs,
        settings.dir,
        settings.orchestration_id,
        settings.warnings,
    )


def test_the_store_takes_any_path(tmp_path: Path) -> None:
    """Text, bytes and path objects; ~ is the home folder."""
    assert (
        str(tmp_path) == resolve_dir({}, tmp_path) == resolve_dir({}, str(tmp_path)) == resolve_dir({}, bytes(tmp_path))
    )
    assert os.path.expanduser("~/runs") == resolve_dir({"METRANA_DIR": "~/runs"})


@pytest.mark.parametrize("value", ["", 5, "a\0b", ["x"]])
def test_a_senseless_folder_is_one_clear_error(value: object) -> None:
    """The store is no system setting: without its folder nothing could be kept."""
    with pytest.raises(SettingError, match="dir="):
        resolve_dir({}, value)


def test_an_orchestration_id_must_be_a_text() -> None:
    """An empty or foreign id would mix runs up."""
    with pytest.raises(SettingError, match="orchestration_id=7"):
        resolve_settings({}, orchestration_id=7)


def test_a_variable_that_is_nearly_a_setting_is_warned_of() -> None:
    """The warning names the one that may be meant; what only begins as ours do is somebody else's."""
    environ = {"METRANA_DIRR": "x", "METRANA_QUIT": "1", "METRANA_PORT_7430_TCP": "tcp", "METRANA_IMAGE": "a/b"}
    assert [
        "METRANA_DIRR is no setting and is ignored: did you mean METRANA_DIR?",
        "METRANA_QUIT is no setting and is ignored: did you mean METRANA_QUIET?",
    ] == resolve_settings(environ).warnings
    assert [] == resolve_settings({setting.variable: "" for setting in SETTINGS}).warnings


def test_quiet_is_a_switch() -> None:
    """Argument, then variable, then false."""
    assert not resolve_settings({}).quiet
    assert resolve_settings({"METRANA_QUIET": "1"}).quiet
    assert not resolve_settings({"METRANA_QUIET": "1"}, quiet=False).quiet
