"""CPU time of one tick over eight GPUs whose scripted driver answers at once: ``python -m benchmarks.bench_gpu``.

The scripted driver costs something itself: a loop of the same bare driver calls tells how much. Aim: 2 ms a tick.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.fake_driver import FakeDriver, run_python

AIM_MS = 2.0
MEASURE = """
import json
import pynvml
from benchmarks.measure import cpu_us
from metrana.system.collectors.gpu import GpuCollector
from metrana.system.health import Health
from metrana.system.host import Host

def cpu_ms(call):
    return cpu_us(call, rounds=7, calls=200) / 1e3

health = Health(print)
collector = GpuCollector(Host(environ={}), health)
handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(8)]

def call_driver():
    for handle in handles:
        pynvml.nvmlDeviceGetUtilizationRates(handle)
        pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
        pynvml.nvmlDeviceGetTemperatureV(handle, 0)
        pynvml.nvmlDeviceGetPowerUsage(handle)
        pynvml.nvmlDeviceGetClockInfo(handle, 1)

print(json.dumps({
    "samples": len(collector.collect()),
    "tick_ms": cpu_ms(collector.collect),
    "driver_calls_ms": cpu_ms(call_driver),
}))
"""


def measure(cached: bool) -> dict[str, float]:
    """CPU milliseconds of a tick and of its bare calls; ``cached``: the script is read once, not at each call."""
    with tempfile.TemporaryDirectory() as folder:
        driver = FakeDriver(Path(folder))
        driver.script({"gpu": {"mem_total": 1000, "mem_used": 400}, **{f"gpu{index}": {} for index in range(8)}})
        environ = driver.environment({"FAKE_NVML_CACHE": "1"} if cached else None)
        del environ["FAKE_NVML_LOG"]
        found: dict[str, float] = run_python(MEASURE, environ)
        return found


def main() -> int:
    """Print the figures; 1 where the aim is missed."""
    for name, cached in (("script read at each call", False), ("script read once", True)):
        found = measure(cached)
        own_ms = found["tick_ms"] - found["driver_calls_ms"]
        print(
            f"{name}: {found['samples']:.0f} samples, {found['tick_ms']:.3f} ms a tick, of which"
            f" {found['driver_calls_ms']:.3f} ms driver calls and {own_ms:.3f} ms collector"
        )
    print(json.dumps(found))
    return 0 if found["tick_ms"] <= AIM_MS else 1


if __name__ == "__main__":
    sys.exit(main())
