"""The points of a run as columns, derived from its lines: what charts, tables and exports read.

Needs NumPy.
"""

from __future__ import annotations

from metrana.extras import need

need("reading a run as columns", "numpy")

from metrana.store.index.buckets import Buckets  # noqa: E402 - after the clear error
from metrana.store.index.run import Columns, RunIndex  # noqa: E402
from metrana.store.series import SeriesInfo  # noqa: E402

__all__ = ["Buckets", "Columns", "RunIndex", "SeriesInfo"]
