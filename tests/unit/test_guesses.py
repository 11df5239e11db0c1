"""The module's names, and what's said of a misspelt one."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable

import pytest

import metrana
from metrana.data import Selection


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    """What a person sees who presses the tab key, the reading side among it; each is there."""
    assert sorted(metrana.__all__) == dir(metrana)
    assert {"init", "log", "open_run", "runs"} <= set(dir(metrana))
    assert all(hasattr(metrana, name) for name in dir(metrana))


@pytest.mark.parametrize(
    ("function", "given", "expected"),
    [
        (
            metrana.init,
            {"run_nmae": "x"},
            "init() got an unexpected keyword argument 'run_nmae': did you mean run_name?",
        ),
        (metrana.init, {"qiet": True}, "init() got an unexpected keyword argument 'qiet': did you mean quiet?"),
        (metrana.log_attributes, {"atributes": {}}, "'atributes': did you mean attributes?"),
        (metrana.open_run, {"dri": "x"}, "'dri': did you mean dir?"),
        (metrana.runs, {"projcet": "x"}, "'projcet': did you mean project?"),
        (metrana.open_run, {"zzz": 1}, "'zzz': it takes run, dir"),
        (metrana.Run.log_attributes, {"self": None, "zzz": {}}, "'zzz': it takes attributes"),
        (Selection.to_pandas, {"self": None, "every_sec": 1.0}, "'every_sec': did you mean every_secs?"),
        (Selection.to_polars, {"self": None, "wid": True}, "'wid': did you mean wide?"),
    ],
)
def test_a_misspelt_argument_gets_a_guess(
    function: Callable[..., object], given: dict[str, object], expected: str
) -> None:
    """A TypeError as Python's own, with the argument that may be meant, or all that there are."""
    with pytest.raises(TypeError) as caught:
        function(**given)
    assert str(caught.value).endswith(expected)


def test_a_misspelt_argument_of_log_is_named() -> None:
    """Python's own TypeError, without a guess: what guesses would cost every call something."""
    with pytest.raises(TypeError, match="'stpe'"):
        metrana.log("loss", 1.0, stpe=3)  # type: ignore[call-arg]


def test_a_type_error_from_inside_is_left_alone() -> None:
    """Only the call itself is looked at."""
    with pytest.raises(TypeError, match="no dict|missing"):
        metrana.log_attributes()  # type: ignore[call-arg]


def test_the_signatures_can_be_inspected() -> None:
    """help() and editors see the arguments."""
    assert "run_name" in inspect.signature(metrana.init).parameters
    assert ["dir", "limit", "name", "project", "status"] == sorted(inspect.signature(metrana.runs).parameters)


def test_guessing_is_loaded_once_something_is_wrong() -> None:
    """A training that spells its arguments right loads neither difflib nor inspect, nor what's for a terminal."""
    names = ("difflib", "inspect", "metrana.announce")
    code = f"import metrana, sys; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "[]\n" == done.stdout
