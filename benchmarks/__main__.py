"""Runs every benchmark: ``python -m benchmarks``."""

from __future__ import annotations

from benchmarks import bench_cgroup, bench_gpu, bench_process

if __name__ == "__main__":
    bench_process.main()
    bench_cgroup.main()
    bench_gpu.main()
