from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrana.system.host import Host
from metrana.system.sources.cgroup import Cgroup
from tests.trees import entries_of
from tests.unit.system.played import CASES, V2_MOUNT, PlayedHost, build_tree, load_case

MIB = 1 << 20
UNLIMITED = "9223372036854771712\n"


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    """Each machine's version, memory limit, its level, the working set there and the CPU limit are as written down."""
    host, expected = load_case(name)
    cgroup = Cgroup(host)
    memory, cpu = cgroup.memory(), cgroup.cpu()
    assert expected["version"] == cgroup.levels().version
    assert expected["memory_limit_bytes"] == memory.limit_bytes
    assert expected["memory_limit_from"] == memory.limit_from
    assert expected["memory_used_bytes"] == memory.used_bytes
    assert expected["cpu_limit_cores"] == cpu.limit_cores
    kind = (
        "host" if cpu.limit_cores is None else "quota" if cpu.limit_cores == expected["cpu_quota_cores"] else "cpuset"
    )
    assert kind == cpu.kind
    if kind == "quota" and expected["cpu_quota_from"].startswith("/"):
        assert expected["cpu_quota_from"] == cpu.limit_from


def test_cases_are_there() -> None:
    """The folder of cases isn't empty."""
    assert len(CASES) >= 30


def v1(controller: str, path: str, root: str = "/", number: int = 1) -> dict[str, str]:
    """The two kernel files of a machine with one v1 controller, mounted at its usual place."""
    mount = f"3{number} 2 0:{number} {root} /sys/fs/cgroup/{controller} rw - cgroup cgroup rw,{controller}\n"
    return {"proc/self/cgroup": f"{number}:{controller}:{path}\n", "proc/self/mountinfo": mount}


def together(files: dict[str, str], more: dict[str, str]) -> dict[str, str]:
    """A machine that has both controllers: the lines of the one below those of the other."""
    return {path: content + more[path] for path, content in files.items()}


def v1_memory(folder: str, limit: str, usage: int, stat: str = "", use_hierarchy: int = 1) -> dict[str, str]:
    folder = f"sys/fs/cgroup/memory{folder}"
    return {
        f"{folder}/memory.limit_in_bytes": limit,
        f"{folder}/memory.usage_in_bytes": f"{usage}\n",
        f"{folder}/memory.stat": stat,
        f"{folder}/memory.use_hierarchy": f"{use_hierarchy}\n",
    }


def v2_memory(folder: str, limit: str, usage: int, inactive: int = 0) -> dict[str, str]:
    folder = f"sys/fs/cgroup{folder}"
    return {
        f"{folder}/memory.max": limit,
        f"{folder}/memory.current": f"{usage}\n",
        f"{folder}/memory.stat": f"anon 1\ninactive_file {inactive}\n",
    }


def v2(path: str) -> dict[str, str]:
    return {"proc/self/cgroup": f"0::{path}\n", "proc/self/mountinfo": V2_MOUNT}


def test_v1_ancestor_without_hierarchy(tmp_path: Path) -> None:
    """A v1 ancestor that isn't charged for its children doesn't limit them."""
    files = v1("memory", "/a/b") | v1_memory("", UNLIMITED, 900_000, use_hierarchy=0)
    files |= v1_memory("/a", "100000\n", 5, use_hierarchy=0)
    files |= v1_memory("/a/b", "500000\n", 300_000, "hierarchical_memory_limit 500000\ntotal_inactive_file 50000\n")
    memory = Cgroup(PlayedHost(build_tree(tmp_path, files))).memory()
    assert (500_000, "/sys/fs/cgroup/memory/a/b", 250_000) == memory


def test_v1_limit_above_the_mount(tmp_path: Path) -> None:
    """A limit that only the kernel's own answer shows is measured at the outermost level that can be seen."""
    stat = "hierarchical_memory_limit 400000\ntotal_inactive_file 10\n"
    files = v1("memory", "/pod/ctr/x", root="/pod/ctr") | v1_memory("", "600000", 310, "total_inactive_file 10\n")
    files |= v1_memory("/x", UNLIMITED, 100, stat)
    memory = Cgroup(PlayedHost(build_tree(tmp_path, files))).memory()
    assert (400_000, "/sys/fs/cgroup/memory", 300) == memory


def test_v1_limit_at_a_level_that_hides_it(tmp_path: Path) -> None:
    """A limit whose file can't be read is measured at that level, not at the root that has no limit."""
    files = v1("memory", "/job/task") | v1_memory("", UNLIMITED, 900_000) | v1_memory("/job", "400000", 300)
    files |= v1_memory("/job/task", UNLIMITED, 100, "hierarchical_memory_limit 400000\n")
    inject = {"sys/fs/cgroup/memory/job/memory.limit_in_bytes": "EACCES"}
    memory = Cgroup(PlayedHost(build_tree(tmp_path, files), inject)).memory()
    assert (400_000, "/sys/fs/cgroup/memory/job", 300) == memory


def test_usage_that_is_hidden(tmp_path: Path) -> None:
    """Where the limiting level hides its usage the next one inside answers; where all do, the host."""
    files = v2("/a/b") | v2_memory("/a", "500000", 300) | v2_memory("/a/b", "max", 200, 50)
    inject = {"sys/fs/cgroup/a/memory.current": "EACCES"}
    host = PlayedHost(build_tree(tmp_path, files), inject)
    assert (500_000, "/sys/fs/cgroup/a", 150) == Cgroup(host).memory()
    inject["sys/fs/cgroup/a/b/memory.current"] = "EACCES"
    assert (1000 * 1024, "host", 400 * 1024) == Cgroup(host).memory()


def test_usage_without_statistics(tmp_path: Path) -> None:
    """Without a memory.stat all usage counts."""
    files = v2("/a") | v2_memory("/a", "500000", 300)
    del files["sys/fs/cgroup/a/memory.stat"]
    assert (500_000, "/sys/fs/cgroup/a", 300) == Cgroup(PlayedHost(build_tree(tmp_path, files))).memory()


def test_limit_of_zero_is_ignored(tmp_path: Path) -> None:
    """A limit of 0 is none; a limit equal to the host's memory is the cgroup's."""
    files = v2("/a/b") | v2_memory("/a", "1024000", 300) | v2_memory("/a/b", "0", 200)
    assert (1_024_000, "/sys/fs/cgroup/a", 300) == Cgroup(PlayedHost(build_tree(tmp_path, files))).memory()


def test_memory_alone_on_v2(tmp_path: Path) -> None:
    """Each controller is looked for by itself: v1 for the CPU, v2 for memory."""
    files = v1("cpu", "/job") | v2_memory("/svc", "500000", 300)
    files["proc/self/cgroup"] += "0::/svc\n"
    files["proc/self/mountinfo"] += V2_MOUNT.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
    files = {path.replace("cgroup/svc", "cgroup/unified/svc"): content for path, content in files.items()}
    files |= {
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "50000",
        "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
    }
    cgroup = Cgroup(PlayedHost(build_tree(tmp_path, files)))
    assert "hybrid" == cgroup.levels().version
    assert (500_000, "/sys/fs/cgroup/unified/svc", 300) == cgroup.memory()
    assert (0.5, "/sys/fs/cgroup/cpu/job", "quota") == cgroup.cpu()[:3]


def test_removed_cgroup(tmp_path: Path) -> None:
    """A process whose cgroup was removed is still under the limits of those above it."""
    files = v2("/a/gone (deleted)") | v2_memory("/a", "500000", 300)
    assert (500_000, "/sys/fs/cgroup/a", 300) == Cgroup(PlayedHost(build_tree(tmp_path, files))).memory()


def test_process_outside_every_mount(tmp_path: Path) -> None:
    """A process that was moved out of what its mount shows is measured at the mount point."""
    files = v1("memory", "/elsewhere", root="/docker/abc") | v1_memory("", "500000", 300)
    files |= v1_memory("/elsewhere", "1000", 3)
    assert (500_000, "/sys/fs/cgroup/memory", 300) == Cgroup(PlayedHost(build_tree(tmp_path, files))).memory()
    files = v2("/../job") | v2_memory("", "400000", 200)
    files["proc/self/cgroup"] = "0::/../job\n"
    assert (400_000, "/sys/fs/cgroup", 200) == Cgroup(PlayedHost(build_tree(tmp_path, files))).memory()


def test_mount_root_above_the_namespace(tmp_path: Path) -> None:
    """Where the path and the mount's root both lead out of the namespace, what they have in common is taken off."""
    files = v2("/../job_1/step_0") | v2_memory("/job_1", "500000", 300)
    files["proc/self/mountinfo"] = V2_MOUNT.replace("0:26 /", "0:26 /..")
    files["sys/fs/cgroup/job_1/step_0/cgroup.procs"] = ""
    assert (500_000, "/sys/fs/cgroup/job_1", 300) == Cgroup(PlayedHost(build_tree(tmp_path, files))).memory()


def test_nameless_path_that_is_not_found(tmp_path: Path) -> None:
    """Where the namespace hides the names and no cgroup.procs has the process, the host answers."""
    files = v2("/") | v2_memory("", "1000", 3) | v2_memory("/a", "500000", 300)
    files["proc/self/mountinfo"] = V2_MOUNT.replace("0:26 /", "0:26 /../..")
    assert "host" == Cgroup(PlayedHost(build_tree(tmp_path, files))).memory().limit_from


def test_mount_with_more_ancestors(tmp_path: Path) -> None:
    """Of two mounts of one hierarchy the one that shows more ancestors is read."""
    files = v1("memory", "/pod/ctr", root="/pod/ctr") | v1_memory("", "500000", 100)
    files["proc/self/mountinfo"] += "40 2 0:1 / /hostfs/memory rw - cgroup cgroup rw,memory\n"
    for path, content in v1_memory("/pod", "300000", 200).items():
        files[path.replace("sys/fs/cgroup", "hostfs")] = content
    for path, content in v1_memory("/pod/ctr", "500000", 100).items():
        files[path.replace("sys/fs/cgroup", "hostfs")] = content
    assert (300_000, "/hostfs/memory/pod", 200) == Cgroup(PlayedHost(build_tree(tmp_path, files))).memory()


def test_moved_process_is_followed(tmp_path: Path) -> None:
    """A process that's moved to another cgroup is measured there from the next tick on."""
    files = v2("/a") | v2_memory("/a", "500000", 300) | v2_memory("/b", "400000", 200)
    host = PlayedHost(build_tree(tmp_path, files))
    cgroup = Cgroup(host)
    assert "/sys/fs/cgroup/a" == cgroup.memory().limit_from
    (tmp_path / "proc/self/cgroup").write_text("0::/b\n")
    host.now += 1.0
    assert "/sys/fs/cgroup/b" == cgroup.memory().limit_from


def test_the_collectors_of_a_host_share_its_cgroup(tmp_path: Path) -> None:
    """One look a tick for where the process is; a new mount is seen within half a minute."""
    files = v2("/a") | v2_memory("/a", "500000", 300)
    host = PlayedHost(build_tree(tmp_path, files))
    assert Cgroup.of(host) is Cgroup.of(host)
    cgroup = Cgroup.of(host)
    assert "/sys/fs/cgroup/a" == cgroup.memory().limit_from
    (tmp_path / "proc/self/mountinfo").write_text("")
    host.now += 1.0
    assert "/sys/fs/cgroup/a" == cgroup.memory().limit_from
    host.now += 30.0
    assert "host" == cgroup.memory().limit_from


def test_changed_limit_is_seen(tmp_path: Path) -> None:
    """Limits are read anew each time."""
    files = v2("/a") | v2_memory("/a", "500000", 300) | {"sys/fs/cgroup/a/cpu.max": "100000"}
    cgroup = Cgroup(PlayedHost(build_tree(tmp_path, files)))
    assert (500_000, 1.0) == (cgroup.memory().limit_bytes, cgroup.cpu().limit_cores)
    build_tree(tmp_path, {"sys/fs/cgroup/a/memory.max": "600000", "sys/fs/cgroup/a/cpu.max": "150000 100000"})
    assert (600_000, 1.5) == (cgroup.memory().limit_bytes, cgroup.cpu().limit_cores)


def test_v1_cpuset_with_accounting_at_the_root(tmp_path: Path) -> None:
    """Where accounting is the whole machine's, the busy time of the allowed CPUs alone counts."""
    files = together(v1("cpuset", "/slurm/job"), v1("cpu,cpuacct", "/", number=2)) | {
        "sys/fs/cgroup/cpuset/slurm/job/cpuset.cpus": "1,3\n",
        "sys/fs/cgroup/cpuset/slurm/cpuset.cpus": "0-3\n",
        "sys/fs/cgroup/cpu,cpuacct/cpuacct.usage": "99000000000\n",
    }
    cpu = Cgroup(PlayedHost(build_tree(tmp_path, files))).cpu()
    ticks = os.sysconf("SC_CLK_TCK")
    assert (2, "/sys/fs/cgroup/cpuset/slurm/job", "cpuset", 200 / ticks, 2000 / ticks, "/proc/stat") == cpu


def test_cpuset_is_measured_where_it_narrows(tmp_path: Path) -> None:
    """A cpuset that the own level inherits is the ancestor's that narrowed it, and so is the usage."""
    files = v2("/job/task") | {
        "sys/fs/cgroup/job/task/cpuset.cpus.effective": "0-1\n",
        "sys/fs/cgroup/job/cpuset.cpus.effective": "0-1\n",
        "sys/fs/cgroup/cpuset.cpus.effective": "0-3\n",
        "sys/fs/cgroup/job/task/cpu.stat": "usage_usec 1000000\n",
        "sys/fs/cgroup/job/cpu.stat": "usage_usec 2000000\n",
    }
    cpu = Cgroup(PlayedHost(build_tree(tmp_path, files))).cpu()
    assert (2, "/sys/fs/cgroup/job", "cpuset", 2.0, None, "/sys/fs/cgroup/job/cpu.stat") == cpu


def test_smallest_of_quota_cpuset_and_affinity(tmp_path: Path) -> None:
    """The smallest allowance counts; of equal ones the quota, then the cpuset, then the affinity."""
    files = v2("/a") | {
        "sys/fs/cgroup/a/cpuset.cpus.effective": "0-2\n",
        "sys/fs/cgroup/a/cpu.max": "200000 100000\n",
        "sys/fs/cgroup/a/cpu.stat": "usage_usec 1000000\n",
    }
    build_tree(tmp_path, files)
    quota = tmp_path / "sys/fs/cgroup/a/cpu.max"
    assert (2.0, "quota") == Cgroup(PlayedHost(tmp_path, cpus=frozenset({0, 1}))).cpu()[::2][:2]
    assert (1.0, "affinity", "affinity") == Cgroup(PlayedHost(tmp_path, cpus=frozenset({3}))).cpu()[:3]
    quota.write_text("300000 100000\n")
    assert (3.0, "quota") == Cgroup(PlayedHost(tmp_path)).cpu()[::2][:2]
    quota.write_text("350000 100000\n")
    assert (3, "cpuset") == Cgroup(PlayedHost(tmp_path, cpus=frozenset({0, 1, 2}))).cpu()[::2][:2]


def test_quota_of_all_cores_is_the_cgroups(tmp_path: Path) -> None:
    """A quota equal to the host's cores is the cgroup's, a wider one is none."""
    files = v2("/a") | {"sys/fs/cgroup/a/cpu.max": "400000", "sys/fs/cgroup/a/cpu.stat": "usage_usec 1000000\n"}
    build_tree(tmp_path, files)
    assert (4.0, "/sys/fs/cgroup/a", "quota") == Cgroup(PlayedHost(tmp_path)).cpu()[:3]
    (tmp_path / "sys/fs/cgroup/a/cpu.max").write_text("400001")
    assert (None, "host", "host") == Cgroup(PlayedHost(tmp_path)).cpu()[:3]


def test_equal_quotas_are_the_outermost(tmp_path: Path) -> None:
    """Of two equal ratios the outer level's counts."""
    files = v2("/a/b") | {
        "sys/fs/cgroup/a/cpu.max": "300000 100000",
        "sys/fs/cgroup/a/b/cpu.max": "150000 50000",
        "sys/fs/cgroup/a/cpu.stat": "usage_usec 7000000\n",
    }
    assert (3.0, "/sys/fs/cgroup/a", "quota", 7.0) == Cgroup(PlayedHost(build_tree(tmp_path, files))).cpu()[:4]


def test_counter_that_is_hidden(tmp_path: Path) -> None:
    """Where the limiting level hides its counter the next one inside answers, and the host's where all do."""
    files = v2("/a/b") | {
        "sys/fs/cgroup/a/cpu.max": "200000",
        "sys/fs/cgroup/a/b/cpu.stat": "usage_usec 5000000\n",
    }
    host = PlayedHost(build_tree(tmp_path, files))
    cpu = Cgroup(host).cpu()
    assert ("/sys/fs/cgroup/a", 5.0, "/sys/fs/cgroup/a/b/cpu.stat") == (cpu.limit_from, cpu.used_secs, cpu.counter)
    host.inject["sys/fs/cgroup/a/b/cpu.stat"] = "read:ENODEV"
    ticks = os.sysconf("SC_CLK_TCK")
    assert (2.0, "/sys/fs/cgroup/a", "quota", 400 / ticks, None, "/proc/stat") == Cgroup(host).cpu()


def test_own_accounting_path(tmp_path: Path) -> None:
    """cpuacct may be mounted apart with paths of its own; its root is no answer, it counts the whole machine."""
    files = together(v1("cpu", "/job"), v1("cpuacct", "/acct", number=2)) | {
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "100000",
        "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpuacct/acct/cpuacct.usage": "3000000000",
        "sys/fs/cgroup/cpuacct/cpuacct.usage": "9000000000",
    }
    build_tree(tmp_path, files)
    assert "/sys/fs/cgroup/cpuacct/acct/cpuacct.usage" == Cgroup(PlayedHost(tmp_path)).cpu().counter
    (tmp_path / "proc/self/cgroup").write_text("1:cpu:/job\n2:cpuacct:/\n")
    assert "/proc/stat" == Cgroup(PlayedHost(tmp_path)).cpu().counter


def test_nothing_at_all(tmp_path: Path) -> None:
    """A machine that says nothing has no numbers, and no error."""
    cgroup = Cgroup(PlayedHost(tmp_path))
    assert (None, "host", None) == cgroup.memory()
    assert (None, "host", "host", None, None, "/proc/stat") == cgroup.cpu()
    assert cgroup.levels().version is None


def test_this_machine() -> None:
    """The machine that runs the tests has a memory limit, and usage below it."""
    cgroup = Cgroup(Host())
    memory, cpu = cgroup.memory(), cgroup.cpu()
    assert memory.limit_bytes is not None and memory.used_bytes is not None
    assert 0 < memory.used_bytes <= memory.limit_bytes
    assert cpu.used_secs is not None and cpu.used_secs > 0


SHAPES = (
    "hybrid-unified-empty",
    "v1-slurm-task-below-job",
    "v2-ns-old-mount-dotdot-root",
    "v2-cpuset-only",
    "v1-torque",
)
FILES = {
    name: {
        entry.path: entry.content
        for entry in entries_of(f"cgroup/{name}")
        if entry.kind == "file" and not entry.path.startswith("later/") and entry.path != "expected.json"
    }
    for name in SHAPES
}
CHANGES = st.one_of(
    st.binary(max_size=64),
    st.sampled_from(["missing", "folder", "EACCES", "read:ENODEV", "EIO"]),
    st.sampled_from([b"max", b"0", b"-1", b"18446744073709551615", b"1 0", b"0-3,9", b"0::/\n", b"usage_usec 1\xff"]),
)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_no_tree_raises(data: st.DataObject) -> None:
    """Whatever stands in a machine's files, or in place of them, both readings answer."""
    name = data.draw(st.sampled_from(SHAPES))
    changes = data.draw(st.dictionaries(st.sampled_from(sorted(FILES[name])), CHANGES, max_size=6))
    with tempfile.TemporaryDirectory() as folder:
        inject = {}
        for path, content in FILES[name].items():
            target = Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            change = changes.get(path)
            if change == "folder":
                target.mkdir()
            elif change != "missing":
                target.write_bytes(change if isinstance(change, bytes) else content)
            if isinstance(change, str) and change.isupper() or change == "read:ENODEV":
                inject[path] = str(change)
        cgroup = Cgroup(PlayedHost(Path(folder), inject))
        memory, cpu = cgroup.memory(), cgroup.cpu()
        assert memory.used_bytes is None or memory.used_bytes >= 0
        assert memory.limit_bytes is None or memory.limit_bytes > 0
        assert cpu.limit_cores is None or cpu.limit_cores > 0
