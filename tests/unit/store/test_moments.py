from __future__ import annotations

import importlib
import importlib.util
import time
from datetime import datetime, timedelta, timezone

import pytest

from metrana.errors import SettingError
from metrana.store.moments import parse_moment
from tests.unit.store.build import T0

START, LAST = T0, T0 + 7200


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (T0 + 5, 5),
        (int(T0) + 5, 5),
        ("10m", 600),
        ("+10m", 600),
        ("1h30m", 5400),
        ("0.5s", 0.5),
        ("250ms", 0.25),
        ("1d", 86_400),
        ("-10m", 6600),
        ("2026-01-01T00:01:00Z", 60),
        ("2026-01-01 02:01:00+02:00", 60),
        (datetime(2026, 1, 1, 0, 2, tzinfo=timezone.utc), 120),
        (datetime(2026, 1, 1, 2, 2, tzinfo=timezone(timedelta(hours=2))), 120),
    ],
)
def test_moments_are_understood(value: object, expected: float) -> None:
    """Numbers, datetimes, ISO times with a zone, spans from the start and back from the end."""
    assert expected == pytest.approx(parse_moment(value, START, LAST) - T0)


def test_a_time_without_a_zone_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """As everything else that's printed, whosever datetime it is."""
    monkeypatch.setenv("TZ", "EST5")
    time.tzset()
    try:
        local = datetime.fromtimestamp(T0 + 60)
        moments: list[object] = [local, local.isoformat()]
        if importlib.util.find_spec("pandas"):
            moments.append(importlib.import_module("pandas").Timestamp(local))
        assert [T0 + 60] * len(moments) == [parse_moment(moment, START, LAST) for moment in moments]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_numbers_of_numpy_are_numbers() -> None:
    """Whatever their type."""
    np = pytest.importorskip("numpy", reason="needs NumPy")
    assert [5.0, 5.0] == [parse_moment(value, START, LAST) for value in (np.int64(5), np.float32(5))]


@pytest.mark.parametrize(
    "value", ["", "soon", "10", "10 minutes", "1x", "-", True, None, float("nan"), "2026-13-01", [], datetime(1, 1, 1)]
)
def test_senseless_moments_are_one_clear_error(value: object) -> None:
    """It names the value and what could stand there."""
    with pytest.raises(SettingError, match="10m") as caught:
        parse_moment(value, START, LAST)
    assert repr(value) in str(caught.value)
