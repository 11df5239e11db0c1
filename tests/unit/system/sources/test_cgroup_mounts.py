from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrana.system.sources.cgroup_mounts import (
    Names,
    find_below,
    is_nameless_ancestor,
    parse_membership,
    parse_mounts,
)


def test_membership_by_controller() -> None:
    """Each v1 controller of a line has the line's path; the v2 line may stand anywhere."""
    found = parse_membership(b"4:cpuacct,cpu:/a\n0::/u/v\n2:memory:/slice:cri:name\n1:name=memory:/x\n")
    assert ("u", "v") == found.v2
    assert {b"cpu": ("a",), b"cpuacct": ("a",), b"memory": ("slice:cri:name",), b"name=memory": ("x",)} == found.v1


@pytest.mark.parametrize(
    "line", [b"", b"1:cpu", b"1::/x", b"0:cpu:/x", b"x:cpu:/y", b"3:cpu:relative", b"0::", b"0::a"]
)
def test_senseless_membership_line_is_skipped(line: bytes) -> None:
    """A bad line costs itself, not the good one after it."""
    found = parse_membership(line + b"\n0::/good")
    assert (("good",), {}) == (found.v2, found.v1)


def test_mount_is_known_by_its_type() -> None:
    """The file system type decides, not the source; there may be any number of optional fields, also none."""
    found = parse_mounts(
        b"1 0 0:1 / /a rw - cgroup2 none rw\n"
        b"2 0 0:1 /r /b rw shared:1 master:2 - cgroup  rw,cpuacct,cpu\n"
        b"3 0 0:1 / /c rw - tmpfs cgroup rw\n"
        b"4 0 0:1 / /d rw - 9p C:\\134Program Files rw,path=C:\\ - x\n"
    )
    assert [(2, (), "/a"), (1, ("r",), "/b")] == [mount[:3] for mount in found]
    assert found[1].controllers >= {b"cpu", b"cpuacct"}


def test_escapes_in_a_mount() -> None:
    """Blanks, tabs, newlines and backslashes of a path are written in octal."""
    (mount,) = parse_mounts(b"1 0 0:1 /job\\040one /my\\011mem\\134x\\012 rw - cgroup cgroup rw,memory")
    assert (("job one",), "/my\tmem\\x\n") == (mount.root, mount.point)


@pytest.mark.parametrize(
    "line", [b"1 0 0:1 / /a - cgroup2 x rw", b"1 0 0:1 / /a rw cgroup2 x rw", b"1 0 0:1 / a rw - cgroup2 x rw", b" - "]
)
def test_senseless_mount_is_skipped(line: bytes) -> None:
    """A bad line costs itself, not the good one after it."""
    found = parse_mounts(line + b"\n1 0 0:1 / /good rw - cgroup2 x rw")
    assert ["/good"] == [mount.point for mount in found]


def test_covered_mount_is_left_out() -> None:
    """Of two mounts at one point only the later one is seen."""
    (mount,) = parse_mounts(b"1 0 0:1 /../.. /a rw - cgroup2 x rw\n2 0 0:1 / /a rw - cgroup2 x rw")
    assert () == mount.root


@pytest.mark.parametrize(
    ("path", "root", "below", "nameless"),
    [
        ("/a/b", "/", "/a/b", False),
        ("/a/b", "/a", "/b", False),
        ("/a/b", "/a/b", "/", False),
        ("/ab", "/a", None, False),
        ("/", "/a", None, False),
        ("/../job/step", "/..", "/job/step", False),
        ("/", "/../..", None, True),
        ("/x", "/..", None, True),
        ("/../x", "/../..", None, True),
        ("/../x", "/", None, False),
        ("/../../x", "/..", None, False),
        ("/", "/../other", None, False),
    ],
)
def test_path_against_a_mount_root(path: str, root: str, below: str | None, nameless: bool) -> None:
    """A path lies below a root, or above it by names that the namespace hides, or elsewhere."""
    expected = None if below is None else names(below)
    assert expected == find_below(names(path), names(root))
    assert nameless == is_nameless_ancestor(names(root), names(path))


@given(st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    """Whatever the kernel's files hold, the parsers answer."""
    parse_membership(data)
    parse_mounts(data)
    parse_mounts(b"1 0 0:1 / /a rw - cgroup " + data)


def names(path: str) -> Names:
    return tuple(name for name in path.split("/") if name)
