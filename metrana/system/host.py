"""Host: every touch of the outside by the sampling child goes through it, so that any machine can be played back."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

READ_LIMIT_BYTES = 64 * 1024
PIECE_BYTES = 8 * 1024
THREADS_ASKED = 256


class Host:
    """A machine as seen by one process.

    ``root`` stands in front of every absolute path (another tree than ``/`` is read as the training process would see
    it, through its ``/proc/self``). ``pid`` is the training process, never the sampling child.
    """

    def __init__(
        self,
        root: str = "/",
        environ: Mapping[str, str] | None = None,
        pid: int | None = None,
        hostname: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        time: Callable[[], float] = time.time,
    ) -> None:
        self.root = os.path.abspath(root)
        self.environ = os.environ if environ is None else environ
        self.hostname = os.uname().nodename if hostname is None else hostname
        self.monotonic = monotonic
        self.time = time
        self.is_live = self.root == "/"
        self.sources: dict[type, object] = {}  # those that several collectors share
        self.pid = self._find_pid() if pid is None else pid

    @property
    def proc_self(self) -> str:
        """The training process's folder in procfs. The child's own would miss a move to another cgroup."""
        return f"/proc/{self.pid}" if self.is_live else "/proc/self"

    def path(self, path: str) -> str:
        """An absolute path of the played machine as a path of this one."""
        return path if self.is_live else self.root + path

    def read_bytes(self, path: str, limit: int = READ_LIMIT_BYTES, in_parts: bool = False) -> bytes:
        """A whole pseudo-file. Raises OSError.

        One short read ends a file that the kernel makes in one piece, as nearly all of them; ``in_parts`` is for those
        that it may hand out a page at a time. Opened anew each time: a descriptor kept across a removed cgroup answers
        ENODEV for ever. Never blocks, whatever stands in a played tree.
        """
        fd = os.open(self.path(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            # Small pieces: the memory for a large one, nearly all of it unused, would cost more than all the reading.
            piece = data = os.read(fd, min(limit, PIECE_BYTES))
            while piece and len(data) < limit and (in_parts or len(piece) == PIECE_BYTES):
                piece = os.read(fd, min(limit - len(data), PIECE_BYTES))
                data += piece
            return data
        finally:
            os.close(fd)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(self.path(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(self.path(path))

    def list_folders(self, path: str) -> list[str]:
        """The names of the folders in a folder, sorted, links left out. Raises OSError."""
        with os.scandir(self.path(path)) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def affinity(self, enough: int = 1) -> frozenset[int] | None:
        """The CPUs that the training process may run on; None where only a played tree is known. Raises OSError.

        Its other threads are asked too until ``enough`` CPUs are found: OpenMP pins each thread to a core of its own,
        the first one included, and that one core isn't what the process has.
        """
        if not self.is_live:
            return None
        cpus = os.sched_getaffinity(self.pid)
        if len(cpus) < enough:
            for thread in os.listdir(f"/proc/{self.pid}/task")[:THREADS_ASKED]:
                try:
                    cpus |= os.sched_getaffinity(int(thread))
                except ProcessLookupError:
                    continue
                if len(cpus) >= enough:
                    break
        return frozenset(cpus)

    def _find_pid(self) -> int:
        if self.is_live:
            return os.getpid()
        try:
            return int(self.read_bytes("/proc/self/stat").split(None, 1)[0])
        except (OSError, ValueError, IndexError):
            return 0
