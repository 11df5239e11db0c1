"""The folder of lock files: private, followed nowhere, gone with the run, and never two of it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from metrana.errors import SettingError
from metrana.system import SystemMonitor
from metrana.system.claim_folder import ClaimFolder
from metrana.system.lock_files import CannotClaim, clear, is_key, lock_places
from tests.scripts import DEADLINE_SECS, needs_namespaces
from tests.unit.system.ranks import KEY, Node

BASE = f"metrana-{os.geteuid()}"


def paths(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_is_the_users_alone(tmp_path: Path) -> None:
    """Nobody else can look into it, whatever the umask."""
    before = os.umask(0)
    try:
        folder = ClaimFolder(KEY, [("shm", str(tmp_path))])
        os.close(folder.open_file("node"))
    finally:
        os.umask(before)
    assert [BASE, f"{BASE}/{KEY}", f"{BASE}/{KEY}/node", f"{BASE}/{KEY}/present"] == paths(tmp_path)
    modes = [stat.S_IMODE((tmp_path / path).stat().st_mode) for path in paths(tmp_path)]
    assert [0o700, 0o700, 0o600, 0o600] == modes
    folder.leave()
    assert [] == paths(tmp_path)


def test_the_last_to_leave_deletes_everything(tmp_path: Path) -> None:
    """Not before; the user's own folder goes too, when no other run has one in it."""
    first, second = (ClaimFolder(KEY, [("shm", str(tmp_path))]) for _ in range(2))
    other = ClaimFolder("f" * 16, [("shm", str(tmp_path))])
    os.close(first.open_file("node"))
    first.leave()
    assert f"{BASE}/{KEY}/node" in paths(tmp_path)
    second.leave()
    assert [BASE, f"{BASE}/{'f' * 16}", f"{BASE}/{'f' * 16}/present"] == paths(tmp_path)
    other.leave()
    assert [] == paths(tmp_path)


def test_who_leaves_after_its_file_was_deleted_deletes_nothing(tmp_path: Path) -> None:
    """The others have made it anew, and it holds a lock on nothing."""
    first = ClaimFolder(KEY, [("shm", str(tmp_path))])
    (tmp_path / BASE / KEY / "present").unlink()
    second = ClaimFolder(KEY, [("shm", str(tmp_path))])
    os.close(second.open_file("node"))
    assert [False, True] == [first.is_whole, second.is_whole]
    first.leave()
    assert (True, [BASE, f"{BASE}/{KEY}", f"{BASE}/{KEY}/node", f"{BASE}/{KEY}/present"]) == (
        second.is_whole,
        paths(tmp_path),
    )
    second.leave()
    assert [] == paths(tmp_path)


def test_what_killed_runs_left_is_swept_and_living_ones_stay(tmp_path: Path) -> None:
    """The next run sweeps; names that are no run's, and files that aren't ours, are left alone."""
    node = Node(tmp_path)
    dead, living = node.start(key="d" * 16), node.start(key="a" * 16)
    dead.tick(), living.tick()
    dead.die()
    base = node.shm / BASE
    (base / ("b" * 16)).mkdir()  # killed before it had made its file
    (base / "notes").mkdir()
    (base / ("c" * 16)).write_text("no folder")
    (base / ("e" * 16)).symlink_to(base / ("a" * 16))
    process = node.start()
    process.tick()
    assert {"a" * 16, "c" * 16, "e" * 16, KEY, "notes"} == {path.name for path in base.iterdir()}
    assert living.tick()


def test_a_run_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    """What it left behind is in nobody's way."""
    node = Node(tmp_path)
    dead = node.start()
    dead.tick()
    dead.die()
    process = node.start()
    assert process.tick()
    process.release()
    assert [] == list(node.shm.iterdir())


def make_link(place: Path, elsewhere: Path) -> None:
    (place / BASE).symlink_to(elsewhere)


def make_dangling_link(place: Path, elsewhere: Path) -> None:
    (place / BASE).symlink_to(elsewhere / "nothing")


def make_file(place: Path, elsewhere: Path) -> None:
    (place / BASE).write_text("")


def make_fifo(place: Path, elsewhere: Path) -> None:
    os.mkfifo(place / BASE)


def make_inner_link(place: Path, elsewhere: Path) -> None:
    (place / BASE).mkdir()
    (place / BASE / KEY).symlink_to(elsewhere)


def make_inner_fifo(place: Path, elsewhere: Path) -> None:
    (place / BASE / KEY).mkdir(parents=True)
    os.mkfifo(place / BASE / KEY / "present")


def make_linked_file(place: Path, elsewhere: Path) -> None:
    (place / BASE / KEY).mkdir(parents=True)
    (place / BASE / KEY / "present").symlink_to(elsewhere / "victim")


def make_other_users(place: Path, elsewhere: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    (place / BASE).mkdir()
    os.chown(place / BASE, 12345, 12345)


def make_other_users_inside(place: Path, elsewhere: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    (place / BASE / KEY).mkdir(parents=True)
    os.chown(place / BASE / KEY, 12345, 12345)


def remove(place: Path, elsewhere: Path) -> None:
    place.rmdir()


def replace_by_file(place: Path, elsewhere: Path) -> None:
    place.rmdir()
    place.write_text("")


HOSTILE = (
    make_link,
    make_dangling_link,
    make_file,
    make_fifo,
    make_inner_link,
    make_inner_fifo,
    make_linked_file,
    make_other_users,
    make_other_users_inside,
    remove,
    replace_by_file,
)


@pytest.mark.parametrize("make", HOSTILE)
def test_a_place_in_which_somebody_lies_in_wait_isnt_used(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    """The next place is; what stood there is as it was, and nothing that it points to is touched."""
    node = Node(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    make(node.shm, elsewhere)
    before = paths(node.shm) if node.shm.is_dir() else []
    process = node.start()
    assert (True, "tmp") == (process.tick(), process.claims.mode)
    assert before == (paths(node.shm) if node.shm.is_dir() else [])
    assert [] == paths(elsewhere)
    process.release()
    assert [] == paths(node.tmp)


@pytest.mark.parametrize("make", HOSTILE)
def test_with_no_place_left_the_reason_names_each(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    """Then no process claims anything, and none fails."""
    node = Node(tmp_path, cards=1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    make(node.shm, elsewhere)
    make(node.tmp, elsewhere)
    process = node.start(grace_secs=0.0)
    assert (False, {}, "unavailable") == (process.tick(), process.cards(), process.claims.mode)
    assert str(node.shm) in process.claims.reason
    assert str(node.tmp) in process.claims.reason
    process.release()


def test_a_folder_of_our_own_that_others_may_write_is_closed_to_them(tmp_path: Path) -> None:
    """It's repaired, not refused."""
    (tmp_path / BASE).mkdir()
    (tmp_path / BASE).chmod(0o777)
    folder = ClaimFolder(KEY, [("shm", str(tmp_path))])
    assert 0o700 == stat.S_IMODE((tmp_path / BASE).stat().st_mode)
    folder.leave()


def run_below(code: str, *command: str) -> str:
    """What a Python process prints that's started by another command; nothing may go to stderr."""
    done = subprocess.run(
        [*command, sys.executable, "-c", code], capture_output=True, text=True, timeout=DEADLINE_SECS, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.strip()


CLAIM = (
    "import sys, time\nfrom metrana.system.claims import Claims\n"
    "claims = Claims({key!r}, {places!r}, {{'pid': 1}}, time.monotonic, 0.0, 2.0)\n"
    "claims.tick(False)\nclaims.hand_down({{'cpu': 'x' * 3000}})\nclaims.tick(False)\n"
    "print(claims.mode, claims.holds_node)\nclaims.release()\n"
)


def test_a_place_that_cant_be_written_isnt_used() -> None:
    """A folder of mode 0555, for a user whom modes concern."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as name:
        node = Node(Path(name))
        node.folder.chmod(0o755)
        node.shm.chmod(0o555)
        node.tmp.chmod(0o777)
        os.seteuid(12345)
        try:
            process = node.start()
            assert (True, "tmp") == (process.tick(), process.claims.mode)
            assert [] == list(node.shm.iterdir())
            process.release()
            assert [] == list(node.tmp.iterdir())
        finally:
            os.seteuid(0)


@pytest.mark.parametrize(
    ("options", "before", "expected"),
    [
        ("nr_inodes=1", "", "tmp True"),  # no space for the user's folder
        ("nr_inodes=2", "", "tmp True"),  # for the run's
        ("nr_inodes=3", "", "tmp True"),  # for the file that says who's present
        # A lock needs no space: it's only not told who has it.
        ("size=4k", "head -c 4096 /dev/zero > {shm}/filler;", "shm True"),
        ("ro", "", "tmp True"),
    ],
)
def test_a_place_without_space_is_left_as_it_was(tmp_path: Path, options: str, before: str, expected: str) -> None:
    """The next one is used, if a lock can't be had without."""
    needs_namespaces("-m")
    node = Node(tmp_path)
    shm = node.shm
    script = (
        f"mount -t tmpfs -o {options} tmpfs {shm} && {{ {before.format(shm=shm)} ls {shm} > {tmp_path}/before;"
        f' "$@"; ls {shm} > {tmp_path}/after; }}'
    )
    code = CLAIM.format(key=KEY, places=node.places)
    assert expected == run_below(code, "unshare", "-m", "sh", "-c", script, "sh")
    assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text()
    assert [] == list(node.tmp.iterdir())


ENTER_AND_LEAVE = """
import os, random, sys, time
from metrana.errors import SettingError
from metrana.system import SystemMonitor
from metrana.system.claim_folder import ClaimFolder
from metrana.system.claims import Claims
places, witness, secs = {places!r}, {witness!r}, float(sys.argv[1])
chance, modes, held = random.Random(os.getpid()), set(), 0
sys.stdin.read(1)  # all at once
end = time.monotonic() + secs
while time.monotonic() < end:
    folder = ClaimFolder({key!r}, places)
    assert folder.is_whole, "entered a folder that's deleted"
    folder.leave()
    claims = Claims({key!r}, places, {{"pid": os.getpid()}}, time.monotonic, 0.0, 0.0)
    modes.add(claims.mode)
    for _ in range(chance.randrange(1, 4)):
        claims.tick(False)
        if claims.holds_node:
            # Two at once would meet here.
            os.close(os.open(witness, os.O_CREAT | os.O_EXCL))
            time.sleep(chance.choice((0.0, 0.0, 0.001)))
            os.unlink(witness)
            held += 1
    (claims.release, claims.release, claims.leave)[chance.randrange(3)]()
    if chance.randrange(3) == 0:
        time.sleep(0.001)
    # What leave() has kept open goes with the process: here with the next descriptors.
    os.closerange(3, 200)
print(sorted(modes), held)
"""


def test_newcomers_and_deleters_never_make_two_holders(tmp_path: Path) -> None:
    """Processes that enter and leave as fast as they can: one holder at most, all in one place, nothing left."""
    node = Node(tmp_path)
    code = ENTER_AND_LEAVE.format(places=node.places, key=KEY, witness=str(tmp_path / "witness"))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, "3"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    try:
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("x")
            process.stdin.flush()
        told = [process.communicate(timeout=DEADLINE_SECS) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert ["" for _ in processes] == [err for _, err in told]
    assert {"['shm']"} == {out.rsplit(maxsplit=1)[0] for out, _ in told}
    assert 100 <= sum(int(out.rsplit(maxsplit=1)[1]) for out, _ in told)
    assert [] == [*node.shm.iterdir(), *node.tmp.iterdir()]


def test_a_key_is_a_runs_id() -> None:
    """Sixteen hexadecimal digits, small ones, and nothing else."""
    assert [True, False, False, False, False] == [
        is_key(text) for text in (KEY, KEY.upper().replace("0", "A"), KEY[1:], KEY + "0", "..............//")
    ]
    with pytest.raises(CannotClaim, match="no place"):
        ClaimFolder(KEY, [])


def test_the_places_are_shared_memory_and_the_temp_folder() -> None:
    """The temp folder is the training process's own."""
    assert [("shm", "/dev/shm"), ("tmp", "/tmp")] == lock_places({})
    assert ("tmp", "/scratch") == lock_places({"TMPDIR": "", "TEMP": "/scratch"})[1]


def test_only_a_runs_own_folder_is_cleared(tmp_path: Path) -> None:
    """A key that is a path deletes nothing and changes nothing."""
    place = tmp_path / "place"
    base = place / f"metrana-{os.geteuid()}"
    (base / KEY).mkdir(parents=True)
    (base / KEY / "node").touch()
    (place / "thesis.txt").touch()
    place.chmod(0o755)
    environ = {"TMPDIR": str(place)}
    for key in ("..", ".", "", "../..", f"../{base.name}/{KEY}"):
        clear(key, "tmp", environ)
        with pytest.raises(SettingError, match="sixteen"):
            SystemMonitor(print, run_id=key)
    assert (0o755, True) == (place.stat().st_mode & 0o777, (place / "thesis.txt").exists())
    assert (base / KEY / "node").exists()
    clear(KEY, "shm", environ)
    assert (base / KEY / "node").exists()
    clear(KEY, "tmp", environ)
    assert ["thesis.txt"] == [path.name for path in place.iterdir()]
