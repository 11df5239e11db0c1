"""Weights & Biases, offline. https://docs.wandb.ai

An offline run is one file of protocol buffers in the format of LevelDB's log. wandb has no reader of it for programs;
to see which points it holds the records are taken apart here.
"""

from __future__ import annotations

import os
import struct

from benchmarks.peers.adapters import NotOfferedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    import wandb

# https://github.com/google/leveldb/blob/main/doc/log_format.md
BLOCK_BYTES = 32768
HEAD = struct.Struct("<IHB")  # checksum, length, type
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
FILE_HEAD_BYTES = 7


def parse_log(data: bytes) -> Iterator[bytes]:
    """The whole records of a log, up to the first that's cut short."""
    position = FILE_HEAD_BYTES
    pieces: list[bytes] = []
    while position + HEAD.size <= len(data):
        left = BLOCK_BYTES - position % BLOCK_BYTES
        if left < HEAD.size:
            position += left
            continue
        _, length, kind = HEAD.unpack_from(data, position)
        position += HEAD.size
        if kind not in (FULL, FIRST, MIDDLE, LAST) or position + length > len(data):
            return
        if kind in (FULL, FIRST):
            pieces = []
        pieces.append(data[position : position + length])
        position += length
        if kind in (FULL, LAST):
            yield b"".join(pieces)


class WandbAdapter:
    def load(self) -> None:
        global wandb
        import wandb

    def open(self, folder: str, interval_secs: float | None) -> None:
        settings = wandb.Settings(
            x_disable_stats=interval_secs is None, x_stats_sampling_interval=interval_secs or 15.0, silent=True
        )
        self._run = wandb.init(project="bench", name="bench", dir=folder, mode="offline", settings=settings)

    def log(self, name: str, value: float) -> None:
        self._run.log({name: value})

    def log_many(self, values: dict[str, float]) -> None:
        self._run.log(values)

    def log_series(self, name: str, values: Sequence[float]) -> None:
        log = self._run.log
        for value in values:
            log({name: value})

    def close(self) -> None:
        self._run.finish()

    def read(self, folder: str, name: str) -> int:
        raise NotOfferedError("no reader of offline runs")

    def count(self, folder: str, name: str) -> int:
        return sum(
            name in (item.key, *item.nested_key)
            for record in self._records(folder)
            if record.HasField("history")
            for item in record.history.item
        )

    def read_system(self, folder: str) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for record in self._records(folder):
            if record.HasField("stats"):
                timestamp = record.stats.timestamp.seconds + record.stats.timestamp.nanos / 1e9
                for item in record.stats.item:
                    found.setdefault(item.key, []).append(timestamp)
        return found

    def _records(self, folder: str) -> Iterator[Any]:
        from wandb.proto import wandb_internal_pb2

        for parent, _, names in os.walk(folder):
            for name in names:
                if name.endswith(".wandb"):
                    with open(os.path.join(parent, name), "rb") as file:
                        for data in parse_log(file.read()):
                            record = wandb_internal_pb2.Record()
                            record.ParseFromString(data)
                            yield record


ADAPTER = WandbAdapter()
