"""A process of multiprocessing's spawn context that is safe to launch from anybody's script.

The plain ``Process.start()`` imports the user's ``__main__`` again, is joined at exit without a deadline, starts a
resource tracker and fixes the start method for good. Here the object is the same, ``get_context("spawn").Process``,
and the launch is ours: an isolated interpreter, started by posix_spawn, that inherits nothing but its own pipes.

What is used of multiprocessing's insides (present from 3.10 to 3.13, and pinned by a test): ``popen_fork.Popen``,
``context.set_spawning_popen``, ``reduction.dump``, ``spawn.spawn_main``.
"""

from __future__ import annotations

import io
import os
import select
import signal
import sys
from multiprocessing import context, popen_fork, process, reduction

from metrana.descriptors import OwnDescriptor
from metrana.imports import StdlibFirst
from metrana.system.packages import own_folder
from metrana.threads import original, sleep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "metrana-sampler"

# Blocked in the child from its first instruction: a Ctrl-C, a hang-up or a launcher's SIGTERM to the whole group is the
# training's affair; the child ends when the training process does.
BLOCKED_SIGNALS = {
    getattr(signal, name)
    for name in (
        *("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"),
        *("SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGALRM", "SIGPIPE"),
    )
    if hasattr(signal, name)  # this module is imported on every platform, and launches on Linux
}
# What "terminate" means for a child that is deaf to SIGTERM: a signal that ends a process, and that nobody sends to a
# group.
TERMINATE = getattr(signal, "SIGVTALRM", signal.SIGTERM)

_START_DATA_LIMIT_BYTES = 60_000  # the pipe holds 64 KiB; with more, a child that dies at once would stall the launch
_CHILD_PROGRAM = """\
'{name}'
import os, sys
for fd in os.listdir('/proc/self/fd'):
    if int(fd) > 2 and int(fd) not in {keep!r}:
        try: os.close(int(fd))
        except OSError: pass
own = [p for p in sys.path if p]
for name, folder in {packages!r}:
    package = sys.modules[name] = type(sys)(name)
    package.__path__ = [folder]
sys.modules['metrana'].system = package
sys.path[:] = own + {folders!r}
from multiprocessing.spawn import spawn_main
spawn_main(tracker_fd=None, pipe_handle={start_fd})
"""


class CannotLaunch(Exception):
    """There's no way to start a child here; the message says why."""


class ChildProcess:
    """A launched child: signalled, waited for with a deadline, reaped. Never known to multiprocessing's own lists.

    No descriptor of it is kept: a script that closes all it finds open could have its own file under that number.
    """

    def __init__(self, process_object: context.SpawnProcess, folders: list[str]) -> None:
        """Launch. ``folders`` are appended to the child's module path. Raises CannotLaunch, OSError."""
        self.owner_pid = os.getpid()
        self.pid = _Popen(process_object, folders).pid
        self._is_gone = False
        self.ending = "ended in an unknown way"
        """How it ended, once it's reaped: a signal's name or its exit code."""

    def send_signal(self, number: int) -> None:
        """Signal the child, never a stranger that got its pid later."""
        pidfd = open_pidfd(self.pid)
        try:
            # Asked after opening: what is still an unreaped child now is what the pidfd names.
            if self._reap():
                return
            if pidfd is not None:
                signal.pidfd_send_signal(pidfd.fd, number)
            else:
                os.kill(self.pid, number)
        except OSError:
            pass  # gone, or the script has given up the right to signal it: the child leaves by itself
        finally:
            if pidfd is not None:
                pidfd.close()

    def wait(self, timeout_secs: float) -> bool:
        """True when the child is gone (and reaped) within the time."""
        if self._reap():
            return True
        pidfd = open_pidfd(self.pid)
        if pidfd is not None:
            try:
                poller = original("select", "poll")()
                poller.register(pidfd.fd, select.POLLIN)
                poller.poll(max(0, round(timeout_secs * 1000)))
            finally:
                pidfd.close()
            return self._reap()
        for _ in range(max(1, round(timeout_secs / 0.005))):
            if self._reap():
                return True
            sleep(0.005)
        return self._reap()

    def close(self) -> None:
        """Have no more to do with it: it's reaped, abandoned, or, in a forked copy of the parent, another's child."""
        self._is_gone = True

    def _reap(self) -> bool:
        if self._is_gone:
            return True
        try:
            pid, status = original("os", "waitpid")(self.pid, os.WNOHANG)
            if pid:
                self.ending = _describe_status(status)
        except ChildProcessError:
            # Reaped by somebody else: SIGCHLD is ignored, or the script waits for any child.
            pid = self.pid
        self._is_gone = self._is_gone or pid != 0
        return self._is_gone


def _describe_status(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


class _DupFd:
    def __init__(self, fd: int) -> None:
        self.fd = fd

    def detach(self) -> int:
        return self.fd


class _Popen(popen_fork.Popen):
    """multiprocessing's view of the launch: what pickles the process object and passes its descriptors."""

    method = "spawn"
    DupFd = _DupFd

    def __init__(self, process_object: context.SpawnProcess, folders: list[str]) -> None:
        # Not super().__init__(): it would flush the user's streams.
        self._fds: list[int] = []
        self._folders = folders
        self.returncode = None
        self.finalizer = None
        self._launch(process_object)

    def duplicate_for_child(self, fd: int) -> int:
        self._fds.append(fd)
        return fd

    def _launch(self, process_object: Any) -> None:
        data = self._start_data(process_object)
        with StandardDescriptors():
            read_fd, write_fd = os.pipe()
        try:
            self.pid = _posix_spawn(read_fd, self._fds, self._folders)
            os.write(write_fd, data)
        finally:
            os.close(read_fd)
            os.close(write_fd)

    def _start_data(self, process_object: Any) -> bytes:
        # Nothing of the user's: no __main__, no module path, no working folder that may be gone.
        preparation = {
            "name": NAME,
            "authkey": process.current_process().authkey,
            "log_to_stderr": False,
            "sys_argv": [NAME],
            "dir": "/",
        }
        buffer = io.BytesIO()
        context.set_spawning_popen(self)  # type: ignore[arg-type]
        try:
            with StdlibFirst():  # pickling imports by name what it pickles: a multiprocessing.py would be run here
                reduction.dump(preparation, buffer)
                reduction.dump(process_object, buffer)
        finally:
            context.set_spawning_popen(None)
        if buffer.tell() > _START_DATA_LIMIT_BYTES:
            raise CannotLaunch(f"{buffer.tell()} bytes of start data don't fit into the pipe")
        return buffer.getvalue()


class StandardDescriptors:
    """While open, the numbers 0, 1 and 2 are taken, so that no pipe lands where the child opens /dev/null."""

    def __enter__(self) -> None:
        self._placeholders: list[int] = []
        while True:
            fd = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            if fd > 2:
                os.close(fd)
                return
            self._placeholders.append(fd)

    def __exit__(self, *exc_info: object) -> None:
        for fd in self._placeholders:
            os.close(fd)


def find_interpreter() -> str:
    """An interpreter that is surely this Python. Raises CannotLaunch.

    ``sys.executable`` may be empty or name the application that embeds Python, which must not be started again.
    """
    if getattr(sys, "frozen", False):
        raise CannotLaunch("a frozen application has no interpreter to start")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    candidates = (sys.executable, os.path.join(sys.base_exec_prefix, "bin", version))
    try:
        running = os.path.realpath("/proc/self/exe", strict=True)
    except OSError:
        running = ""
    for index, candidate in enumerate(candidates):
        # The second one is named by its version and stands in the prefix that this Python was built for.
        if not candidate or not os.access(candidate, os.X_OK):
            continue
        if index == 1 or running in ("", os.path.realpath(candidate)):
            return candidate
    raise CannotLaunch("no Python interpreter found to start")


def _posix_spawn(start_fd: int, queue_fds: list[int], folders: list[str]) -> int:
    keep = [*queue_fds, start_fd]
    # metrana itself is this one, also where another release of it lies beside the packages that the child needs. Its
    # two packages are made bare: what they import for the training process would be a tenth of the child's memory.
    own = os.path.join(own_folder(), "metrana")
    packages = [("metrana", own), ("metrana.system", os.path.join(own, "system"))]
    program = _CHILD_PROGRAM.format(name=NAME, keep=keep, folders=folders, packages=packages, start_fd=start_fd)
    # -I can't be where the standard library is found through PYTHONHOME; the program drops '' from the path itself.
    flags = ["-s", "-S", "-B"] if "PYTHONHOME" in os.environ else ["-I", "-S", "-B"]
    command = [find_interpreter(), *flags, "-c", program, "--multiprocessing-fork"]
    environ = {
        key: value
        for key, value in os.environ.items()
        if key == "PYTHONHOME" or not key.startswith(("PYTHON", "LD_PRELOAD"))
    }
    # dup2 onto the same number clears close-on-exec in the child and nowhere else.
    actions: list[Any] = [(os.POSIX_SPAWN_DUP2, fd, fd) for fd in keep]
    actions += [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDONLY if fd == 0 else os.O_WRONLY, 0) for fd in (0, 1, 2)]
    # An ignored signal stays ignored across exec: give the child the defaults of those that matter to it.
    defaults = [signal.SIGCHLD, signal.SIGXFSZ, TERMINATE]
    return os.posix_spawn(
        command[0], command, environ, file_actions=actions, setsigmask=BLOCKED_SIGNALS, setsigdef=defaults
    )


def open_pidfd(pid: int) -> OwnDescriptor | None:
    """Readable when the process has ended.

    None on kernels before 5.3, and in Pythons that were built on older headers, such as conda's.
    """
    try:
        return OwnDescriptor(os.pidfd_open(pid))
    except (AttributeError, OSError):
        return None
