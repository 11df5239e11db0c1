from __future__ import annotations

from pathlib import Path

from metrana.store.catalog import find_run
from metrana.store.reading import PlainReading
from tests.unit.store.build import T0, declare, head, points, put


def test_a_plain_reading_follows_a_live_run(tmp_path: Path) -> None:
    """Without NumPy a run is read whole again where it grew, and only there."""
    path = put(tmp_path, head(), declare(1, "loss"), points(T0, 0, {1: 5.0}))
    reading = PlainReading(find_run(str(tmp_path), "train"))
    assert not reading.refresh()
    with open(path, "ab") as file:
        file.write(points(T0 + 1, 1, {1: 4.0}))
    put(tmp_path, head(), declare(1, "loss"), points(T0 + 2, 2, {1: 3.0}), number=2)
    assert reading.refresh()
    (series,) = reading.series
    assert (3, 3.0, 3.0, 5.0) == (series.count, series.last_value, series.low, series.high)
    points_read = reading.read(series, T0 + 1, T0 + 2)
    assert [4.0, 3.0] == list(points_read.values)
