from __future__ import annotations

from pathlib import Path

import pytest

from metrana.errors import RunNotFoundError, SettingError
from metrana.store.catalog import find_run, find_runs
from metrana.store.naming import select_runs
from tests.unit.store.build import T0, end, head, put


@pytest.fixture
def store(tmp_path: Path) -> str:
    named = {"abc1": "pretrain-7b", "abd2": "pretrain-13b", "f00d": "abd", "f11d": "evaluation-of-the-large-model"}
    for number, (id, name) in enumerate(named.items()):
        put(tmp_path, head(name, T0 + number, id=id, project="llm"), end(T0 + number), run=name, id=id)
    return str(tmp_path)


@pytest.mark.parametrize(
    ("text", "id"),
    [
        ("abc1", "abc1"),
        ("abc", "abc1"),
        ("abd", "f00d"),
        ("llm/pretrain-7b", "abc1"),
        ("default/default/llm/abd", "f00d"),
        (None, "f11d"),
    ],
)
def test_a_text_means_an_id_then_a_name_then_the_beginning_of_an_id(store: str, text: str | None, id: str) -> None:
    """What's exact goes before what's begun; nothing at all is the newest."""
    assert id == find_run(store, text).id


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pretrain-7", "did you mean 'pretrain-7b'"),
        ("llm/pretrian-7b", "'llm/pretrain-7b'"),
        ("abc2", "'abc1'"),
        ("Evaluation", "'evaluation-of-the-large-model'"),
        ("ab", r"2 ids in .* begin with 'ab': abd2 \(pretrain-13b\), abc1 \(pretrain-7b\)"),
        ("zzz", "no run 'zzz' in .*: 'metrana runs' lists the runs"),
        ("", "no run ''"),
    ],
)
def test_a_wrong_text_says_what_is_near(store: str, text: str, told: str) -> None:
    """Names, project/names and ids; the candidates where a beginning is one of several."""
    with pytest.raises(RunNotFoundError, match=told):
        find_run(store, text)


def test_what_is_no_text_names_no_run(store: str) -> None:
    """A number for a name gets an error that says which argument it is."""
    with pytest.raises(SettingError, match="run=7 is no text"):
        find_run(store, 7)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="name=7 is no text"):
        select_runs(find_runs(store), name=7)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="project=7 is no text"):
        select_runs(find_runs(store), project=7)  # type: ignore[arg-type]
