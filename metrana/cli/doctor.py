"""``metrana doctor``: what capture would do on this machine, and why."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from metrana.cli.apart import NoAnswer, ask_apart
from metrana.cli.text import escape_text, format_table, format_value
from metrana.errors import SettingError
from metrana.system.hints import find_hint
from metrana.system.host import Host

if TYPE_CHECKING:
    from metrana.system.holders import Holder
    from metrana.system.sources.cgroup import Cgroup

NAME = "doctor"
HELP = "tell what capture would do here, and why"
NEEDS_STORE = False
_UNLIMITED_BYTES = 1 << 62
"""v1 writes "no limit" as the largest number of whole pages."""
LONGEST_TIMEOUT_SECS = 86_400.0
_VERSIONS = {None: "none", 1: "v1", 2: "v2", "hybrid": "hybrid of v1 and v2"}
_WHY = {
    "quota": "quota",
    "cpuset": "cpuset",
    "affinity": "the process's affinity",
    "host": "no quota, cpuset or affinity below the host's cores",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as one JSON object, sizes in bytes")
    parser.add_argument(
        "--driver-timeout",
        metavar="SECS",
        type=float,
        default=60.0,
        help="how long the NVIDIA driver may take to answer (default: 60; it may have to wake its cards)",
    )
    parser.add_argument("--root", metavar="DIR", help="look at a machine whose files are below DIR instead of this one")


def run(args: argparse.Namespace) -> int:
    # Here and in _describe_gpus this command crosses the wall to the sampling side: it's a process of its own.
    from metrana.system.holders import list_holders
    from metrana.system.sources.cgroup import Cgroup

    if not 0 < args.driver_timeout <= LONGEST_TIMEOUT_SECS:
        raise SettingError(f"--driver-timeout {args.driver_timeout:g} makes no sense: give seconds, up to a day")
    host = _open_host(args.root)
    cgroup = Cgroup(host)
    facts = _describe(cgroup)
    if not args.json:
        # Before the driver is asked, which may take its time.
        print("\n".join(_format_memory(cgroup, facts) + _format_cpu(cgroup, facts)), flush=True)
    # The driver of this machine says nothing about another one.
    gpus = _describe_gpus(host, args.driver_timeout) if host.is_live else None
    holders = list_holders(host)
    if args.json:
        facts["claims"] = _describe_holders(holders)
        print(json.dumps(facts if gpus is None else {**facts, "gpus": gpus}, indent=2))
    else:
        print("\n".join([*(_format_gpus(gpus) if gpus is not None else ()), *_format_holders(holders)]))
    return 0


def _open_host(root: str | None) -> Host:
    if root is None:
        return Host()
    if not os.path.isdir(root):
        raise SettingError(f"--root {root} isn't a folder: give the folder that stands for a machine's /")
    return Host(root=root)


def _describe(cgroup: Cgroup) -> dict[str, Any]:
    memory, cpu = cgroup.memory(), cgroup.cpu()
    return {
        "memory": memory._asdict(),
        "cpu": {"limit_cores": cpu.limit_cores, "limit_from": cpu.limit_from},
        "cgroup": {"version": cgroup.levels().version},
    }


def _describe_gpus(host: Host, timeout_secs: float) -> dict[str, Any]:
    """In a process apart: a driver that crashes or hangs is what one calls a doctor for."""

    def ask() -> dict[str, Any]:
        from metrana.system.collectors.gpu import describe

        return describe(host, find_hint(sys.modules, own_thread=True))

    try:
        return ask_apart(ask, timeout_secs)
    except NoAnswer as failure:
        return {
            "driver_version": None,
            "host_count": 0,
            "visible": [],
            "owned": None,
            "basis": "the NVIDIA driver couldn't be asked",
            "mig_count": 0,
            "reason": f"the NVIDIA driver: {failure}",
        }


def _format_memory(cgroup: Cgroup, facts: dict[str, dict[str, Any]]) -> list[str]:
    memory = facts["memory"]
    levels = cgroup.levels()
    used, limit = (_bytes(memory[key]) for key in ("used_bytes", "limit_bytes"))
    rows = [
        (folder, _bytes(found) if found and found < _UNLIMITED_BYTES else "no limit")
        for folder, found in cgroup.memory_limits()
    ]
    return [
        f"cgroup  {_VERSIONS[levels.version]}",
        f"memory  {used} used of {limit}, the tightest limit: {_place(memory['limit_from'])}",
        *_format_walk("memory", levels.memory.version, rows),
    ]


def _format_cpu(cgroup: Cgroup, facts: dict[str, dict[str, Any]]) -> list[str]:
    reading, levels = cgroup.cpu(), cgroup.levels()
    host_cores = cgroup.host_cores()
    of_host = f"of the host's {host_cores}" if host_cores else "of an unknown number"
    cores = f"all {host_cores or ''}".rstrip() if reading.limit_cores is None else f"{reading.limit_cores:g}"
    rows = [(folder, f"{found:g} cores" if found else "no quota") for folder, found in cgroup.cpu_quotas()]
    source = escape_text(reading.counter) if reading.used_secs is not None else "nothing that can be read"
    where = f" at {_place(reading.limit_from)}" if reading.kind in ("quota", "cpuset") else ""
    return [
        f"cpu     {cores} cores {of_host}: {_WHY[reading.kind]}{where}",
        f"        CPU time from {source}",
        *_format_walk("cpu", levels.cpu.version, rows),
    ]


def _format_walk(controller: str, version: int, rows: list[tuple[str, str]]) -> list[str]:
    """The levels from the own cgroup outwards."""
    if not rows:
        return [f"        no {controller} controller that can be read"]
    lines = format_table([(escape_text(folder), found) for folder, found in rows])
    return [f"        {controller} controller v{version}, own cgroup first:", *(f"          {line}" for line in lines)]


def _format_gpus(gpus: dict[str, Any]) -> list[str]:
    if gpus["driver_version"] is None and not gpus["host_count"]:
        return [f"gpus    none: {gpus['reason']}"]
    driver = gpus["driver_version"] or "of unknown version"
    owned = "none" if gpus["owned"] is None else gpus["owned"]
    lines = [
        f"gpus    {gpus['host_count']} on the host, driver {driver}, {gpus['mig_count']} MIG-partitioned",
        f"        visible {gpus['visible']}, this process drives {owned} ({gpus['basis']})",
    ]
    if gpus["reason"]:
        lines.append(f"        not sampled: {gpus['reason']}")
    return [escape_text(line) for line in lines]


def _describe_holders(holders: list[Holder]) -> list[dict[str, Any]]:
    return [
        {
            "run_id": holder.run_id,
            "file": holder.file,
            "arbitration_mode": holder.mode,
            "host": holder.host,
            "pid": holder.pid,
            "rank": holder.rank,
            "alive": holder.is_alive,
        }
        for holder in holders
    ]


def _format_holders(holders: list[Holder]) -> list[str]:
    """Run by run, what's held by whom."""
    if not holders:
        return ["claims  none: no run of this user reports anything here"]
    lines = []
    for run_id, mode in dict.fromkeys((holder.run_id, holder.mode) for holder in holders):
        rows = [
            (escape_text(holder.file), *_format_holder(holder))
            for holder in holders
            if (holder.run_id, holder.mode) == (run_id, mode)
        ]
        lines += [f"claims  run {run_id}, through {mode}:", *(f"          {line}" for line in format_table(rows))]
    return lines


def _format_holder(holder: Holder) -> tuple[str, str, str]:
    rank = "no rank" if holder.rank is None else f"rank {holder.rank}"
    state = {True: "alive", False: "gone", None: f"on {escape_text(holder.host) or 'an unknown host'}"}
    return rank, f"pid {holder.pid}", state[holder.is_alive]


def _place(limit_from: str) -> str:
    return "the host's" if limit_from == "host" else escape_text(limit_from)


def _bytes(number: int | None) -> str:
    return "unknown" if number is None else format_value(number, "bytes")
