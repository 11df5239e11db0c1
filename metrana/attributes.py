"""Every attribute that metrana itself sets on a run. ``docs/reference/attributes.md`` is checked against this table.

A plain class: this module may be loaded into the training process.
"""

from __future__ import annotations


class Attribute:
    """A constant fact of a run. A part of ``name`` in angle brackets stands for what varies."""

    __slots__ = ("name", "help")

    def __init__(self, name: str, help: str) -> None:
        self.name = name
        self.help = help

    def __repr__(self) -> str:
        return f"Attribute({self.name!r})"


ATTRIBUTES = (
    Attribute("config/<key>", "One entry of init()'s config; nested dicts are joined by slashes."),
    Attribute("tags", "The list given to init() as tags."),
    Attribute("system/platform", "Platform string of the machine."),
    Attribute("system/cpu/limit_cores", "Cores that 100 % of system/cpu/utilization stands for."),
    Attribute("system/memory/limit_bytes", "Bytes that 100 % of system/memory/utilization stands for."),
    Attribute("system/gpu/driver_version", "Version of the NVIDIA driver."),
    Attribute("system/gpu/visible_count", "GPUs that the process sees."),
    Attribute("system/gpu/host_device_count", "GPUs that the driver lists on the node."),
    Attribute("system/gpu/mig_partitioned_count", "Visible GPUs that are skipped for being MIG-partitioned."),
    Attribute("system/arbitration_mode", "How processes agreed on who reports what: shm, tmp, unavailable or none."),
    Attribute("system/capture", "Why the hardware isn't charted, or isn't any more; absent while it is."),
    Attribute("system/capture_replaced", "How often the sampling process was replaced, and how the last was lost."),
    Attribute("system/capture_dropped_batches", "Batches that a stalled training process lost; absent for none."),
    Attribute("system/capture/cpu", "ok, or why the CPU isn't charted."),
    Attribute("system/capture/memory", "ok, or why the memory isn't charted."),
    Attribute("system/capture/disk", "ok, or why the disk isn't charted."),
    Attribute("system/capture/process", "ok, or why the process isn't charted."),
    Attribute("system/capture/gpu", "ok, or why the GPUs aren't charted."),
    Attribute("system/capture/gpu/<index>", "Why that GPU isn't charted any more; absent while it is."),
    Attribute("system/capture/gpu/<index>/<reading>", "Why that reading of it isn't charted; absent while it is."),
)
