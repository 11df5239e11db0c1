"""Locks on open files: never waited for, and gone with the file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from metrana.system.locks import HELD, try_lock
from tests.scripts import DEADLINE_SECS


def open_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def test_one_has_it_until_the_file_is_closed(tmp_path: Path) -> None:
    """Asking again is no second lock, and closing gives it back."""
    first, second = open_file(tmp_path / "lock"), open_file(tmp_path / "lock")
    assert [True, True, HELD] == [try_lock(first), try_lock(first), try_lock(second)]
    os.close(first)
    assert try_lock(second)
    os.close(second)


def test_many_share_it(tmp_path: Path) -> None:
    """Shared locks go together; an exclusive one goes with nobody's."""
    fds = [open_file(tmp_path / "lock") for _ in range(3)]
    assert [True, True] == [try_lock(fd, is_shared=True) for fd in fds[:2]]
    assert HELD == try_lock(fds[2])
    os.close(fds[0])
    assert try_lock(fds[1])
    assert HELD == try_lock(fds[2], is_shared=True)
    for fd in fds[1:]:
        os.close(fd)


def test_what_cant_be_locked_is_an_oserror(tmp_path: Path) -> None:
    """Whatever portalocker makes of it."""
    fd = open_file(tmp_path / "lock")
    os.close(fd)
    with pytest.raises(OSError):
        try_lock(fd)


@pytest.mark.parametrize("first", ["", "import portalocker\n"])
def test_no_more_of_the_package_is_loaded_than_the_calls(tmp_path: Path, first: str) -> None:
    """Where the script itself uses portalocker, that one is taken as it is."""
    code = (
        "import os, sys\nfrom metrana.system.locks import try_lock\n"
        f"fd = os.open({str(tmp_path / 'lock')!r}, os.O_RDWR | os.O_CREAT)\nassert try_lock(fd)\n"
        "print(len([name for name in sys.modules if name.startswith('portalocker.')]), 'email' in sys.modules)\n"
        "import portalocker\nassert portalocker.Lock and portalocker.__file__ and try_lock(fd)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", first + code], capture_output=True, text=True, timeout=DEADLINE_SECS, check=True
    )
    count, is_mail_loaded = done.stdout.split()
    if not first:
        assert "False" == is_mail_loaded
        assert int(count) <= 5
    else:
        assert int(count) > 5
