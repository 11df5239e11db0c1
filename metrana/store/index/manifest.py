"""The manifest: all that an index knows besides the columns, as one JSON file that's replaced as a whole."""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from typing import Any

from metrana.model import labels_of
from metrana.store.index.files import SUFFIX, ColumnsFile
from metrana.store.index.holding import Held, SeriesPieces
from metrana.store.index.intake import SegmentPosition
from metrana.store.index.snapshot import Snapshot
from metrana.store.reader import SeriesKey

INDEX_VERSION = 2
NAME = "manifest.json"
_PROBE_BYTES = 4096
_LITTER_SECS = 3600.0  # a file that no manifest names may still be in the making for that long


def save_manifest(folder: str, run_folder: str, snapshot: Snapshot, files: list[ColumnsFile]) -> None:
    """Write what has been read, and remove files that belong to nothing. Raises OSError."""
    used = {held.token for found in snapshot.by_key.values() for held in found.held}
    files = [file for file in files if file.token in used]
    for file in files:
        file.sync()
    numbers: dict[SeriesKey, int] = {}
    for key in snapshot.by_key:
        numbers.setdefault(key, len(numbers))
    newest = {writer: path for path, writer in _segments(snapshot)}
    segments = []
    for path, writer in _segments(snapshot):
        position = snapshot.positions[path]
        # An older segment doesn't grow: its declarations aren't needed again.
        declared = None
        if path == newest[writer] and position.declared is not None:
            declared = [[n, numbers.setdefault(key, len(numbers))] for n, key in position.declared.items()]
        probe = read_probe(path, position.offset)
        segments.append([writer, os.path.basename(path), position.offset, probe, declared])
    places = {file.token: index for index, file in enumerate(files)}
    record = {
        "index": INDEX_VERSION,
        "byteorder": sys.byteorder,
        "files": [[file.token, file.size] for file in files],
        "series": [[name, dict(labels)] for name, labels in numbers],
        "pieces": [
            [numbers[key], held.writer, places[held.token], held.row]
            for key, found in snapshot.by_key.items()
            for held in found.held
            if held.token is not None
        ],
        "writers": [os.path.relpath(path, run_folder) for path in snapshot.writers],
        "segments": segments,
        "attributes": snapshot.attributes,
        "skipped_lines": snapshot.skipped_lines,
        "newest_version": snapshot.newest_version,
    }
    path = os.path.join(folder, NAME)
    part = f"{path}.{os.getpid()}.part"
    try:
        with open(part, "w", encoding="ascii") as output:
            json.dump(record, output, separators=(",", ":"))
            output.flush()
            os.fsync(output.fileno())
        os.replace(part, path)
    except BaseException:  # an interrupt, too: no part of a manifest stays behind
        if os.path.lexists(part):
            os.unlink(part)
        raise
    _remove_litter(folder, {file.token for file in files})


def load_manifest(folder: str, run_folder: str) -> tuple[Snapshot, list[ColumnsFile]] | None:
    """What was saved, where it belongs to the run as it stands now; None where it doesn't, or isn't whole."""
    try:
        with open(os.path.join(folder, NAME), encoding="ascii") as file:
            record = json.load(file)
        if record["index"] != INDEX_VERSION or record["byteorder"] != sys.byteorder:
            return None
        return _restore(record, folder, run_folder)
    except Exception:  # whatever stands in a damaged file: the index is made anew from the lines
        return None


def read_probe(path: str, offset: int) -> int:
    """A checksum of a segment's first bytes and of those before an offset. Raises OSError."""
    with open(path, "rb") as file:
        checksum = zlib.crc32(file.read(min(_PROBE_BYTES, offset)))
        file.seek(max(0, offset - _PROBE_BYTES))
        return zlib.crc32(file.read(min(_PROBE_BYTES, offset)), checksum)


def _restore(record: dict[str, Any], folder: str, run_folder: str) -> tuple[Snapshot, list[ColumnsFile]] | None:
    keys: list[SeriesKey] = [
        (str(name), labels_of({key: str(value) for key, value in labels.items()})) for name, labels in record["series"]
    ]
    files = [ColumnsFile(os.path.join(folder, str(token) + SUFFIX), token, size) for token, size in record["files"]]
    snapshot = Snapshot()
    held: dict[SeriesKey, list[Held]] = {}
    for series, writer, file, row in record["pieces"]:
        piece = files[file].read(row)
        held.setdefault(keys[series], []).append(Held(piece, writer, files[file].token, row))
    snapshot.by_key = {key: SeriesPieces(key, tuple(pieces)) for key, pieces in held.items()}
    writers = [os.path.join(run_folder, name) for name in record["writers"]]
    snapshot.writers = {path: number for number, path in enumerate(writers)}
    for writer, name, offset, probe, declared in record["segments"]:
        path = os.path.join(writers[writer], name)
        if os.stat(path).st_size < offset or read_probe(path, offset) != probe:
            return None
        known = None if declared is None else {number: keys[series] for number, series in declared}
        snapshot.positions[path] = SegmentPosition(offset, known, seen_bytes=offset)
    snapshot.attributes = {name: (float(timestamp), value) for name, (timestamp, value) in record["attributes"].items()}
    snapshot.skipped_lines = int(record["skipped_lines"])
    snapshot.newest_version = int(record["newest_version"])
    return snapshot, files


def _segments(snapshot: Snapshot) -> list[tuple[str, int]]:
    return [(path, snapshot.writers[os.path.dirname(path)]) for path in snapshot.positions]


def _remove_litter(folder: str, tokens: set[str]) -> None:
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith((SUFFIX, ".part")) and name.partition(".")[0] not in tokens:
            try:
                if time.time() - os.stat(path).st_mtime > _LITTER_SECS:
                    os.unlink(path)
            except OSError:
                pass  # another process was first
