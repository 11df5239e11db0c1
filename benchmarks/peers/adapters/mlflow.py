"""MLflow with its default store, SQLite, and its system metrics monitor. https://mlflow.org/docs/latest/system-metrics/"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import mlflow

BATCH = 1000  # metrics in one log_batch at most


class MlflowAdapter:
    def __init__(self) -> None:
        self._step = 0

    def load(self) -> None:
        global mlflow
        import mlflow

    def open(self, folder: str, interval_secs: float | None) -> None:
        self._point(folder)
        if interval_secs is not None:
            mlflow.set_system_metrics_sampling_interval(interval_secs)
            mlflow.set_system_metrics_samples_before_logging(1)
        mlflow.start_run(run_name="bench", log_system_metrics=interval_secs is not None)

    def log(self, name: str, value: float) -> None:
        self._step += 1
        mlflow.log_metric(name, value, step=self._step)

    def log_many(self, values: dict[str, float]) -> None:
        self._step += 1
        mlflow.log_metrics(values, step=self._step)

    def log_series(self, name: str, values: Sequence[float]) -> None:
        client, run_id = mlflow.MlflowClient(), mlflow.active_run().info.run_id
        for first in range(0, len(values), BATCH):
            metrics = []
            for value in values[first : first + BATCH]:
                self._step += 1
                metrics.append(mlflow.entities.Metric(name, value, time.time_ns() // 10**6, self._step))
            client.log_batch(run_id, metrics)

    def close(self) -> None:
        mlflow.end_run()

    def read(self, folder: str, name: str) -> int:
        run, client = self._find(folder), mlflow.MlflowClient()
        return len(client.get_metric_history(run.info.run_id, name))

    count = read

    def read_system(self, folder: str) -> dict[str, list[float]]:
        run, client = self._find(folder), mlflow.MlflowClient()
        names = [name for name in run.data.metrics if name.startswith("system/")]
        return {
            name: sorted(metric.timestamp / 1e3 for metric in client.get_metric_history(run.info.run_id, name))
            for name in names
        }

    def _point(self, folder: str) -> None:
        mlflow.set_tracking_uri(f"sqlite:///{os.path.join(folder, 'mlflow.db')}")

    def _find(self, folder: str) -> Any:
        """The newest run of the folder's store."""
        self._point(folder)
        (run,) = mlflow.search_runs(["0"], max_results=1, output_format="list")
        return run


ADAPTER = MlflowAdapter()
