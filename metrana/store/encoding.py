"""The lines of a segment as text: see metrana.store.layout for what stands in them."""

from __future__ import annotations

import json

from metrana.model import Labels
from metrana.store.layout import encode_value

SeriesKey = str | tuple[str, Labels]
"""A series by its metric's name, or by name and labels where it has labels."""

Entry = tuple[float, int, SeriesKey, float]
"""Timestamp, step, series, value: a point on its way to the disk."""


def encode_columns(number: int, points: list[Entry]) -> str:
    """Many points of one series as one line. Timestamps are kept to the microsecond."""
    times = [round(timestamp * 1e6) for timestamp, _, _, _ in points]
    steps = [step for _, step, _, _ in points]
    values = encode_values([value for _, _, _, value in points])
    return f'{{"c":{number},"u":{times},"s":{steps},"v":{values},"t":{max(times) / 1e6!r}}}'


def encode_values(values: list[float]) -> str:
    """Values as a JSON list."""
    text = repr(values)
    if "n" in text:  # nan, inf: JSON has no numbers for them
        text = "[" + ",".join(map(encode_value, values)) + "]"
    return text


def encode_declaration(key: SeriesKey, number: int) -> str:
    name, labels = (key, ()) if isinstance(key, str) else key
    text = f'{{"d":{number},"n":{json.dumps(name)}'
    return text + (f',"l":{json.dumps(dict(labels), separators=(",", ":"))}}}' if labels else "}")


def encode_attributes(attributes: dict[str, object], timestamp: float) -> str:
    return json.dumps({"a": attributes, "t": timestamp}, separators=(",", ":"))


def encode_end(event: str, timestamp: float) -> str:
    return json.dumps({"e": event, "t": timestamp}, separators=(",", ":"))


def add_time_of_writing(line: str, now: float) -> str:
    """A line of points that tells also when it was written, in seconds since the epoch."""
    return f'{line[:-1]},"w":{now!r}}}'
