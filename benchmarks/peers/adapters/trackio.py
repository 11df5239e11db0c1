"""Trackio, local. https://huggingface.co/docs/trackio"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    import trackio


class TrackioAdapter:
    def load(self) -> None:
        global trackio
        import trackio

    def open(self, folder: str, interval_secs: float | None) -> None:
        trackio.init(
            project="bench",
            name="bench",
            embed=False,
            resume="allow",
            auto_log_gpu=None if interval_secs is not None else False,  # None: where there's one
            auto_log_cpu=interval_secs is not None,
            cpu_log_interval=interval_secs or 1.0,
            gpu_log_interval=interval_secs or 1.0,
        )

    def log(self, name: str, value: float) -> None:
        trackio.log({name: value})

    def log_many(self, values: dict[str, float]) -> None:
        trackio.log(values)

    def log_series(self, name: str, values: Sequence[float]) -> None:
        for value in values:
            trackio.log({name: value})

    def close(self) -> None:
        trackio.finish()

    def read(self, folder: str, name: str) -> int:
        # What `trackio get metric` calls; there's no other reader.
        from trackio.sqlite_storage import SQLiteStorage

        return len(SQLiteStorage.get_metric_values("bench", "bench", name))

    count = read

    def read_system(self, folder: str) -> dict[str, list[float]]:
        from datetime import datetime

        from trackio.sqlite_storage import SQLiteStorage

        found: dict[str, list[float]] = {}
        for row in SQLiteStorage.get_system_logs("bench", "bench"):
            timestamp = datetime.fromisoformat(row.pop("timestamp")).timestamp()
            for name in row:
                found.setdefault(name, []).append(timestamp)
        return found


ADAPTER = TrackioAdapter()
