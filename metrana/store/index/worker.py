"""One of several processes that read a long run: takes writers from its standard input, leaves columns in a file."""

from __future__ import annotations

import json
import sys
from typing import Any

from metrana.model import labels_of
from metrana.store.index.files import ColumnsWriter
from metrana.store.index.intake import Harvest, Intake, SegmentPosition


def main(folder: str) -> None:
    """Answer each line, a writer to read, with a line that says what was found; end with the input."""
    columns = ColumnsWriter(folder)
    _tell({"token": columns.token})
    for line in sys.stdin:
        _tell(read_job(json.loads(line), columns))


def encode_job(writer: int, positions: dict[str, SegmentPosition]) -> str:
    """The line that asks for a writer's segments from these positions on."""
    return json.dumps({"writer": writer, "segments": _encode_positions(positions)})


def read_job(job: dict[str, Any], columns: ColumnsWriter) -> dict[str, Any]:
    """Read one writer's segments and write what they held. Raises OSError where the columns can't be written."""
    intake, unreadable = Intake(), []
    positions = decode_positions(job["segments"])
    for path, position in positions.items():
        try:
            with open(path, "rb") as file:
                intake.read_segment(file, position)
        except OSError:
            unreadable.append(path)
    harvest = intake.finish()
    rows = columns.write([piece for _, piece in harvest.pieces])
    columns.flush()
    return {
        "writer": job["writer"],
        "segments": _encode_positions(positions),
        "unreadable": unreadable,
        "size": columns.size,
        "pieces": [[*key, row] for (key, _), row in zip(harvest.pieces, rows, strict=True)],
        "attributes": harvest.attributes,
        "skipped_lines": harvest.skipped_lines,
        "newest_version": harvest.newest_version,
    }


def decode_harvest(answer: dict[str, Any]) -> Harvest:
    """What an answer says besides its pieces."""
    return Harvest(
        attributes={name: (timestamp, value) for name, (timestamp, value) in answer["attributes"].items()},
        skipped_lines=answer["skipped_lines"],
        newest_version=answer["newest_version"],
    )


def decode_positions(segments: list[list[Any]]) -> dict[str, SegmentPosition]:
    """Positions by path, as they cross between the processes."""
    return {
        path: SegmentPosition(
            offset, {number: (name, labels_of(dict(labels))) for number, name, labels in declared}, is_torn, seen_bytes
        )
        for path, offset, declared, is_torn, seen_bytes in segments
    }


def _encode_positions(positions: dict[str, SegmentPosition]) -> list[list[Any]]:
    return [
        [path, at.offset, [[n, *key] for n, key in (at.declared or {}).items()], at.is_torn, at.seen_bytes]
        for path, at in positions.items()
    ]


def _tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
