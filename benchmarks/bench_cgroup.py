"""What one tick costs: the cgroup work in a v2 tree six deep, and the CPU, memory, disk and process collectors.

Prints medians of CPU time. The tree lies in a temp folder; the collectors read the machine at hand.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import CALLS, ROUNDS, cpu_us
from metrana.system.collectors.cpu import CpuCollector
from metrana.system.collectors.disk import DiskCollector
from metrana.system.collectors.memory import MemoryCollector
from metrana.system.collectors.process import ProcessCollector
from metrana.system.health import Health
from metrana.system.host import Host
from metrana.system.sources.cgroup import Cgroup

NAMES = ("a", "b", "c", "d", "e", "f")
MOUNTS = "".join(f"{n} 1 0:{n} / /mnt/{n} rw,relatime shared:{n} - ext4 /dev/sd{n} rw\n" for n in range(50, 90))


def build_tree(root: Path) -> None:
    """A v2 machine whose process sits six levels deep, each level with limits and a memory.stat of usual length."""
    stat = "".join(f"line_{n} {n * 123456}\n" for n in range(25)) + "inactive_file 4096\n" + "more 123456789\n" * 25
    files = {
        "proc/self/cgroup": "0::/" + "/".join(NAMES) + "\n",
        "proc/self/mountinfo": MOUNTS + "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
        "proc/stat": "".join(f"cpu{n} 90000 120 30000 360000 900 0 300 0 0 0\n" for n in ["", *range(128)]),
        "proc/meminfo": "MemTotal: 536870912 kB\nMemFree: 9 kB\nMemAvailable: 268435456 kB\n" + "Other: 9 kB\n" * 45,
        "sys/devices/system/cpu/online": "0-127\n",
    }
    for depth in range(len(NAMES) + 1):
        folder = "/".join(("sys/fs/cgroup", *NAMES[:depth]))
        files |= {
            f"{folder}/memory.max": f"{(depth + 1) << 30}\n",
            f"{folder}/memory.current": f"{1 << 29}\n",
            f"{folder}/memory.stat": stat,
            f"{folder}/cpu.max": f"{(depth + 1) * 100000} 100000\n",
            f"{folder}/cpu.stat": "usage_usec 123456789\nuser_usec 1\nsystem_usec 1\n",
            f"{folder}/cpuset.cpus.effective": "0-127\n",
        }
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        build_tree(Path(folder))
        played = Host(root=folder)
        cgroups = (Cgroup(played), Cgroup(played))

        def read_cgroup() -> None:
            cgroups[0].memory()
            cgroups[1].cpu()

        print(f"cgroup work of a tick, v2, six deep    {cpu_us(read_cgroup):7.1f} us")
    host, health = Host(), Health(print)
    collectors = [
        collector(host, health) for collector in (CpuCollector, MemoryCollector, DiskCollector, ProcessCollector)
    ]
    for collector in collectors:
        print(f"{collector.name:<38} {cpu_us(collector.collect):7.1f} us")
    print(f"{'whole tick of these four':<38} {cpu_us(lambda: [c.collect() for c in collectors]):7.1f} us")
    print(f"on {os.cpu_count()} CPUs, Python {sys.version.split()[0]}, medians of {ROUNDS} x {CALLS}")


if __name__ == "__main__":
    main()
