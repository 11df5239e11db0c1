"""A number that the script has closed, and that names its own file by now, is let alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from metrana.descriptors import OwnDescriptor
from tests.scripts import DEADLINE_SECS


def test_a_descriptor_is_ours_until_it_is_closed() -> None:
    """Closed twice, it's closed once."""
    fd, other = os.pipe()
    own = OwnDescriptor(fd)
    assert own.is_ours()
    own.close()
    assert not own.is_ours()
    os.dup2(other, fd)
    own.close()
    os.close(fd)
    os.close(other)


def test_a_number_that_names_another_file_is_not_ours(tmp_path: Path) -> None:
    """Neither a closed number nor one that was opened anew, be it on a file of the same name."""
    path = tmp_path / "file"
    path.write_text("mine")
    own = OwnDescriptor(os.open(path, os.O_RDONLY))
    os.close(own.fd)
    assert not own.is_ours()
    path.rename(tmp_path / "moved")
    path.write_text("the user's")
    users = os.open(path, os.O_RDONLY)
    os.dup2(users, own.fd)
    assert not own.is_ours()
    own.close()
    assert b"the user's" == os.read(own.fd, 100)
    for fd in {users, own.fd}:
        os.close(fd)


def test_a_file_moves_above_the_standard_numbers() -> None:
    """The standard ones that it took are free again; one that's above them stays where it is."""
    code = (
        "import os; from metrana.descriptors import above_standard\n"
        "read, write = os.pipe(); own = os.dup(2); os.closerange(0, 3)\n"
        "fd = above_standard(os.dup(write)); assert fd > 2 and fd == above_standard(fd)\n"
        "os.write(fd, b'x'); assert b'x' == os.read(read, 1)\n"
        "assert 0 == os.dup(own) and 1 == os.dup(own) and 2 == os.dup(own)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=DEADLINE_SECS)
