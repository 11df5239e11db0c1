"""Parsers of the kernel's pseudo-files. Pure; None stands for a file that says nothing usable.

Numbers are strictly ``[0-9]+``: ``int()`` alone would take ``1_000``, ``+5`` and digits of other scripts.
https://docs.kernel.org/admin-guide/cgroup-v2.html, https://docs.kernel.org/admin-guide/cgroup-v1/
"""

from __future__ import annotations

DEFAULT_PERIOD_USECS = 100_000
_DIGITS_LIMIT = 20
_CPUS_LIMIT = 1 << 16


def parse_number(data: bytes) -> int | None:
    """A file, or a field, that holds one number."""
    data = data.strip()
    # More than 20 digits is no 64-bit number, and int() refuses thousands of them.
    return int(data) if data.isdigit() and len(data) <= _DIGITS_LIMIT else None


def parse_limit(data: bytes) -> int | None:
    """A memory limit in bytes; ``max``, 0 and nonsense are none."""
    return parse_number(data) or None


def find_value(data: bytes, key: bytes) -> bytes | None:
    """What follows a key at the start of a line; the key includes its separator."""
    if data.startswith(key):
        start = 0
    else:
        start = data.find(b"\n" + key) + 1
        if not start:
            return None
    end = data.find(b"\n", start)
    return data[start + len(key) : end if end >= 0 else len(data)]


def parse_value(data: bytes, key: bytes) -> int | None:
    """The number behind a key in a file of ``key number`` lines, such as memory.stat and cpu.stat."""
    value = find_value(data, key)
    return None if value is None else parse_number(value)


def parse_kilobytes(data: bytes, key: bytes) -> int | None:
    """The bytes behind a key in /proc/meminfo, whose ``kB`` are units of 1024."""
    fields = (find_value(data, key) or b"").split()
    number = parse_number(fields[0]) if fields else None
    return None if number is None else number * 1024


def parse_cpu_max(data: bytes) -> float | None:
    """The quota in cores of a v2 cpu.max: ``quota period`` in microseconds; a quota alone has the default period."""
    fields = data.split()
    if len(fields) == 1:
        return divide_quota(parse_number(fields[0]), DEFAULT_PERIOD_USECS)
    return divide_quota(parse_number(fields[0]), parse_number(fields[1])) if len(fields) == 2 else None


def divide_quota(quota_usecs: int | None, period_usecs: int | None) -> float | None:
    """A quota in cores, never rounded to whole ones; zero and unknown numbers are none."""
    return quota_usecs / period_usecs if quota_usecs and period_usecs else None


def parse_cpus(data: bytes) -> frozenset[int] | None:
    """The CPU numbers of a list such as ``0,2-3,5``. An empty list says nothing: v1 starts with one."""
    cpus: set[int] = set()
    for part in data.strip().split(b","):
        first, dash, last = part.partition(b"-")
        # parse_number forgives the blanks and the newline around a whole file; within a list there are none.
        low = parse_number(first) if first == first.strip() else None
        high = (parse_number(last) if last == last.strip() else None) if dash else low
        if low is None or high is None or not low <= high < _CPUS_LIMIT:
            return None
        cpus.update(range(low, high + 1))
    return frozenset(cpus)
