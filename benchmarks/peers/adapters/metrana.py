"""metrana."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    import metrana
    from metrana.store.reader import StoredRun


class MetranaAdapter:
    def load(self) -> None:
        global metrana
        import metrana

    def open(self, folder: str, interval_secs: float | None) -> None:
        metrana.init(
            dir=os.path.join(folder, "store"),
            run_name="bench",
            capture_system_metrics=interval_secs is not None,
            system_metrics_interval_secs=interval_secs,
        )

    def log(self, name: str, value: float) -> None:
        metrana.log(name, value)

    def log_many(self, values: dict[str, float]) -> None:
        metrana.log(values)

    def log_series(self, name: str, values: Sequence[float]) -> None:
        log = metrana.log
        for value in values:
            log(name, value)

    def close(self) -> None:
        metrana.close()

    def read(self, folder: str, name: str) -> int:
        series = self._read(folder).series.get((name, ()))
        return len(series.values) if series is not None else 0

    count = read

    def read_system(self, folder: str) -> dict[str, list[float]]:
        return {
            f"{name} {labels}": list(series.timestamps)
            for (name, labels), series in self._read(folder).series.items()
            if name.startswith("system/")
        }

    def _read(self, folder: str) -> StoredRun:
        from metrana.store.reader import open_run

        return open_run(os.path.join(folder, "store"), "bench")


ADAPTER = MetranaAdapter()
