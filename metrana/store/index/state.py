"""How an index comes to know a run: from what was saved, then from the lines, alone or with a crew of processes."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterable

from metrana.store.catalog import list_segments
from metrana.store.ends import RUNNING
from metrana.store.index.counting import Attempts
from metrana.store.index.crew import Crew, can_start
from metrana.store.index.files import FOLDER, ColumnsFile, ColumnsWriter
from metrana.store.index.holding import Held, SeriesPieces, add_pieces
from metrana.store.index.intake import Harvest, Intake, SegmentPosition
from metrana.store.index.manifest import NAME, load_manifest, save_manifest
from metrana.store.index.snapshot import Snapshot
from metrana.store.place import find_place
from metrana.store.reader import SeriesKey, keep_newest
from metrana.store.run_info import RunInfo

SAVED_BYTES = 1 << 20  # of lines: fewer are read again as fast as an index
GROWTH_TO_SAVE = 0.25
SYNCED_BYTES = 8 << 20  # of columns, which are waited for until they're on the disk
CREW_BYTES = 24 << 20  # of lines, from which on starting other processes pays
RETRY_SECS = 30.0  # a file server may be back by then


class IndexState:
    """Reads a run's lines into pieces, and keeps them. ``snapshot`` may be read while another thread reads on."""

    def __init__(self, info: RunInfo, may_write: bool) -> None:
        self._info = info
        self._folder = find_place(info.folder, FOLDER, NAME) if may_write else None
        self._files: list[ColumnsFile] = []
        self._crew: Crew | None = None
        self._spare: tempfile.TemporaryDirectory[str] | None = None
        self._saver: threading.Thread | None = None
        self._saved_bytes = 0
        self._is_loaded = False
        self._refused: dict[str, tuple[int, float]] = {}  # segments that can't be read: their size at the try, and when
        self._attempts = Attempts(info)
        self.snapshot = Snapshot()
        self.counting = self.everything = self.snapshot.by_key
        self.unreadable = info.unreadable
        self.progress = 0.0

    @property
    def skipped_lines(self) -> int:
        snapshot = self.snapshot
        return snapshot.skipped_lines + sum(at.is_torn for at in list(snapshot.positions.values()))

    def read_on(self, end: float | None) -> bool:
        """Take in what the segments hold beyond what was read, until ``end`` on the monotonic clock."""
        is_new, before = self._read_lines(end), self.counting
        self.counting, self.everything = self._attempts.choose(self.snapshot)
        return is_new or self.counting is not before

    def _read_lines(self, end: float | None) -> bool:
        is_new = not self._is_loaded and self._load()
        unreadable = self._recall_unreadable()
        sizes = self._find_segments(unreadable)
        if not self._crew and self._is_replaced(sizes, unreadable):
            self.snapshot, self._files, self._saved_bytes = Snapshot(), [], 0
            sizes, is_new = self._find_segments(unreadable), True
        before = self.snapshot.by_key
        for harvest in self._read(sizes, unreadable, end):
            is_new = self._add_beside(harvest) or is_new
        is_new = is_new or self.snapshot.by_key is not before
        self.unreadable = tuple(unreadable)
        read, total = self._read_bytes(), sum(sizes.values())
        self.progress = 1.0 if self._is_all_read(sizes) else min(0.999, read / max(1, total))
        if self.progress == 1.0 and self._folder is not None and self._is_worth_saving(read):
            self._save(self._folder, read)
        return is_new

    def _recall_unreadable(self) -> dict[str, None]:
        """What couldn't be read so far, less what was read since."""
        read = {path for path, at in self.snapshot.positions.items() if at.seen_bytes}
        return dict.fromkeys((*(path for path in self._info.unreadable if path not in read), *self._refused))

    def close(self) -> None:
        """End what may still be reading in the background, and wait for what's being saved."""
        self._end_crew()
        if self._saver is not None:
            self._saver.join()

    def _end_crew(self) -> None:
        if self._crew is not None:
            self._crew.close()
            self._crew = None
        if self._spare is not None:
            self._spare.cleanup()
            self._spare = None

    def _load(self) -> bool:
        self._is_loaded = True
        found = None if self._folder is None else load_manifest(self._folder, self._info.folder)
        if found is None:
            return False
        self.snapshot, self._files = found
        self._saved_bytes = self._read_bytes()
        return True

    def _find_segments(self, unreadable: dict[str, None]) -> dict[str, int]:
        """The run's segments now, oldest first in each writer's folder, with their sizes."""
        found: dict[str, int] = {}
        writers = self.snapshot.writers
        for folder, segments in list_segments(self._info, unreadable):
            writers.setdefault(folder, len(writers))
            for path in segments:
                try:
                    found[path] = os.stat(path).st_size
                except OSError:
                    unreadable[path] = None
        return found

    def _is_replaced(self, sizes: dict[str, int], unreadable: dict[str, None]) -> bool:
        """Whether what was read isn't there any more: another copy of the run stands in its place."""
        return any(
            path in sizes
            and (sizes[path] < at.offset or (at.declared is None and sizes[path] > at.seen_bytes))
            # A folder that can't be listed now may be tomorrow: what was read of it stands.
            or (path not in sizes and path not in unreadable and os.path.dirname(path) not in unreadable)
            for path, at in self.snapshot.positions.items()
        )

    def _read(self, sizes: dict[str, int], unreadable: dict[str, None], end: float | None) -> Iterable[Harvest]:
        todo = self._find_todo(sizes)
        if self._crew is None and len(todo) > 1 and can_start():
            new = [(path, at) for positions in todo.values() for path, at in positions.items()]
            size = sum(sizes[path] - at.offset for path, at in new if path not in self._refused)
            if size >= CREW_BYTES:
                self._crew = self._start_crew(todo)
        if self._crew is not None:
            for result in self._crew.results(end):
                self._judge(result.positions, result.unreadable, sizes, unreadable)
                self._files.append(result.file)
                self.snapshot.positions.update(result.positions)
                rows = ((key, row, result.file.read(row)) for key, row in result.pieces)
                self._add((key, Held(piece, result.writer, result.file.token, row)) for key, row, piece in rows)
                yield result.harvest
            if not self._crew.is_over:
                return
            self._end_crew()
            todo = self._find_todo(sizes)
        for writer, positions in todo.items():
            harvest = self._read_writer(positions, sizes, unreadable, end)
            self._add((key, Held(piece, writer)) for key, piece in harvest.pieces)
            yield harvest
            if end is not None and time.monotonic() >= end:
                return

    def _find_todo(self, sizes: dict[str, int]) -> dict[int, dict[str, SegmentPosition]]:
        """The segments that hold something new, by writer."""
        todo: dict[int, dict[str, SegmentPosition]] = {}
        for path, size in sizes.items():
            position = self.snapshot.positions.get(path, SegmentPosition())
            refused_size, refused_at = self._refused.get(path, (-1, 0.0))
            is_refused = refused_size == size and time.monotonic() < refused_at + RETRY_SECS
            if size > position.seen_bytes and not is_refused:
                todo.setdefault(self.snapshot.writers[os.path.dirname(path)], {})[path] = position
        return dict(sorted(todo.items()))

    def _start_crew(self, todo: dict[int, dict[str, SegmentPosition]]) -> Crew | None:
        try:
            if self._folder is None:
                self._spare = tempfile.TemporaryDirectory(prefix="metrana-index-")
                return Crew(list(todo.items()), self._spare.name)
            os.makedirs(self._folder, exist_ok=True)
            return Crew(list(todo.items()), self._folder)
        except OSError:
            return None

    def _read_writer(
        self,
        positions: dict[str, SegmentPosition],
        sizes: dict[str, int],
        unreadable: dict[str, None],
        end: float | None,
    ) -> Harvest:
        intake = Intake()
        is_over = None if end is None else lambda: time.monotonic() >= end
        for path, position in positions.items():
            self.snapshot.positions[path] = position
            try:
                with open(path, "rb") as file:
                    if not intake.read_segment(file, position, is_over):
                        break
            except OSError:
                self._judge([path], [path], sizes, unreadable)
            else:
                self._judge([path], [], sizes, unreadable)
        return intake.finish()

    def _judge(
        self, tried: Iterable[str], refused: Iterable[str], sizes: dict[str, int], unreadable: dict[str, None]
    ) -> None:
        """Leave segments alone that can't be read, until they grow or some time has passed."""
        for path in tried:
            self._refused.pop(path, None)
            unreadable.pop(path, None)
        for path in refused:  # without a size: deleted while it was to be read
            self._refused[path] = sizes.get(path, -1), time.monotonic()
            unreadable[path] = None

    def _add(self, new: Iterable[tuple[SeriesKey, Held]]) -> None:
        pieces = list(new)
        if pieces:
            self.snapshot.by_key = add_pieces(self.snapshot.by_key, pieces)

    def _add_beside(self, harvest: Harvest) -> bool:
        """Take in what isn't points; whether that's anything."""
        snapshot = self.snapshot
        attributes = dict(snapshot.attributes)
        for name, (timestamp, value) in harvest.attributes.items():
            keep_newest(attributes, name, timestamp, value)
        snapshot.attributes = attributes
        snapshot.skipped_lines += harvest.skipped_lines
        snapshot.newest_version = max(snapshot.newest_version, harvest.newest_version)
        return bool(harvest.attributes or harvest.skipped_lines)

    def _read_bytes(self) -> int:
        return sum(at.offset for at in self.snapshot.positions.values())

    def _is_all_read(self, sizes: dict[str, int]) -> bool:
        return self._crew is None and not self._find_todo(sizes)

    def _is_worth_saving(self, read: int) -> bool:
        new = read - self._saved_bytes
        if read < SAVED_BYTES or new < SAVED_BYTES / 16 or (self._saver is not None and self._saver.is_alive()):
            return False
        return new >= GROWTH_TO_SAVE * read or self._info.status != RUNNING

    def _save(self, folder: str, read: int) -> None:
        self._saved_bytes = read
        try:
            os.makedirs(folder, exist_ok=True)
            self._save_pieces(folder)
        except OSError:
            self._folder = None  # full, read-only, gone: then it's kept in memory
            return
        arguments = (folder, self.snapshot.freeze(), list(self._files))
        if sum(file.size for file in self._files if not file.is_synced) < SYNCED_BYTES:
            self._save_manifest(*arguments)
            return
        # A slow disk takes its time for so much, and nobody has to wait for it.
        self._saver = threading.Thread(target=self._save_manifest, args=arguments, name="metrana-index")
        try:
            self._saver.start()
        except RuntimeError:  # no thread to be had
            self._saver = None
            self._save_manifest(*arguments)

    def _save_manifest(self, folder: str, snapshot: Snapshot, files: list[ColumnsFile]) -> None:
        try:
            save_manifest(folder, self._info.folder, snapshot, files)
        except OSError:
            self._folder = None

    def _save_pieces(self, folder: str) -> None:
        """Bring the pieces that are in memory only into a file, and use them from there."""
        loose = [(key, held) for key, found in self.snapshot.by_key.items() for held in found.held if not held.token]
        if not loose:
            return
        columns = ColumnsWriter(folder)
        try:
            rows = columns.write([held.piece for _, held in loose])
        finally:
            columns.close()
        file = ColumnsFile(columns.path, columns.token, columns.size)
        self._files.append(file)
        saved = {
            id(held): Held(file.read(row), held.writer, file.token, row)
            for (_, held), row in zip(loose, rows, strict=True)
        }
        self.snapshot.by_key = {
            key: SeriesPieces(key, tuple(saved.get(id(held), held) for held in found.held))
            for key, found in self.snapshot.by_key.items()
        }
