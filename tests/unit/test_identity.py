"""Identity: names, ranks, and the id that the processes of one launch agree on."""

from __future__ import annotations

import pytest

from metrana.errors import SettingError
from metrana.identity import (
    Identity,
    default_run_name,
    find_launch,
    find_launcher_process,
    find_rank,
    fingerprint,
    random_token,
    resolve_name,
)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"TORCHELASTIC_RUN_ID": "abc"}, "torchelastic:abc"),
        ({"TORCHELASTIC_RUN_ID": "none"}, None),
        ({"TORCHELASTIC_RUN_ID": "none", "SLURM_JOB_ID": "7"}, "slurm:7"),
        ({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "2"}, "slurm:7:2"),
        ({"SLURM_JOB_ID": "7"}, "slurm:7"),
        ({"TORCHELASTIC_RUN_ID": "abc", "SLURM_JOB_ID": "7"}, "torchelastic:abc"),
        ({"PMIX_NAMESPACE": "prterun-1"}, "pmix:prterun-1"),
        (
            {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_MCA_ess_base_jobid": "99", "SLURM_JOB_ID": "7"},
            "openmpi:4:99",
        ),
        ({"PBS_JOBID": "12.server"}, "pbs:12.server"),
        ({"LSB_JOBID": "5", "LSB_JOBINDEX": "3"}, "lsf:5:3"),
        ({"LSB_JOBID": "5"}, "lsf:5"),
        ({"RAY_JOB_ID": "01000000"}, "ray:01000000"),
        ({"RANK": "3"}, "launcher:parent"),
        ({"RANK": "3", "TORCHELASTIC_RUN_ID": "none"}, "launcher:parent"),
    ],
)
def test_a_launch_is_known_by_what_its_launcher_gives(environ: dict[str, str], expected: str | None) -> None:
    """Each launcher's own id; the word "none" is no id; ranks without one share their parent process."""
    assert expected == find_launch(environ, "parent")


def test_a_rank_without_a_known_launcher_process_says_nothing() -> None:
    """Where /proc can't be read, a random token is better than a wrong match."""
    assert find_launch({"RANK": "0"}, None) is None


def test_the_launcher_process_is_the_same_for_all_its_children() -> None:
    """Two looks at one parent agree."""
    assert find_launcher_process() == find_launcher_process()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"RANK": "5", "SLURM_PROCID": "1"}, 5),
        ({"SLURM_PROCID": "1"}, 1),
        ({"RANK": "", "OMPI_COMM_WORLD_RANK": "2"}, 2),
        ({"RANK": "x"}, None),
        ({"RANK": "-1"}, None),
        ({"RANK": "١"}, None),
    ],
)
def test_the_rank_comes_from_the_launcher(environ: dict[str, str], expected: int | None) -> None:
    """Digits only: what isn't a rank is none."""
    assert expected == find_rank(environ)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["train.py"], "train"),
        (["/a/b/pre.train.py", "--x"], "pre.train"),
        (["-c"], "run"),
        (["-"], "run"),
        ([""], "run"),
        ([], "run"),
        (["/a/package/__main__.py"], "package"),
    ],
)
def test_a_run_without_a_name_is_named_after_its_script(argv: list[str], expected: str) -> None:
    """Every rank finds the same name by itself."""
    assert expected == default_run_name(argv)


def test_equal_identities_have_equal_ids_and_unequal_ones_do_not() -> None:
    """All five parts count, and no part can pretend to be two."""
    parts = ("a", "b", "c", "d", "e")
    ids = {Identity(*parts).run_id}
    assert {Identity(*parts).run_id} == ids
    for index in range(5):
        ids.add(Identity(*(part + "x" if i == index else part for i, part in enumerate(parts))).run_id)
    ids.add(Identity("a", "bc", "", "d", "e").run_id)
    assert 7 == len(ids)


def test_a_fingerprint_takes_any_text() -> None:
    """Lone surrogates too: they come out of undecodable environment variables."""
    assert 16 == len(fingerprint("\udc80"))
    assert "cbf29ce484222325" == fingerprint("")
    assert "af63dc4c8601ec8c" == fingerprint("a")


def test_random_tokens_differ() -> None:
    """Two starts of a script are two runs."""
    assert random_token() != random_token()


@pytest.mark.parametrize("value", ["", 5, b"x", ["a"]])
def test_a_senseless_name_is_one_clear_error(value: object) -> None:
    """It names the argument."""
    with pytest.raises(SettingError, match="project_name="):
        resolve_name("project_name", value, "default")
