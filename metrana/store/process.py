"""What a writer tells of its process in the head of its segments."""

from __future__ import annotations

import os

from metrana.procstat import read_pid_namespace, read_start_ticks


class WriterProcess:
    """What a writer tells of its process: where it runs, which launch and rank it belongs to.

    ``launcher`` names the process that started it; ``is_resumed`` says that it continues an earlier launch's run,
    ``is_forked`` that it's a copy of another writer's process. ``attempt`` counts the launches of the run, from 0;
    ``launch`` is what the processes of one launch have in common, None where nothing is known.
    """

    def __init__(
        self,
        host: str,
        rank: int | None = None,
        local_rank: int | None = None,
        launcher: str | None = None,
        is_resumed: bool = False,
        is_forked: bool = False,
        pid: int | None = None,
        attempt: int = 0,
        launch: str | None = None,
    ) -> None:
        self.host = host
        self.pid = os.getpid() if pid is None else pid
        self.pid_start = read_start_ticks(self.pid)
        self.pid_namespace = read_pid_namespace()
        self.rank = rank
        self.local_rank = local_rank
        self.launcher = launcher
        self.is_resumed = is_resumed
        self.is_forked = is_forked
        self.attempt = attempt
        self.launch = launch

    @property
    def is_ranked(self) -> bool:
        """Whether its launcher has numbered it."""
        return (self.rank, self.local_rank) != (None, None)

    def in_fork(self) -> WriterProcess:
        """This process, where the object was inherited from the one that forked it."""
        return WriterProcess(
            self.host,
            self.rank,
            self.local_rank,
            self.launcher,
            self.is_resumed,
            is_forked=True,
            attempt=self.attempt,
            launch=self.launch,
        )

    def to_dict(self) -> dict[str, object]:
        return {
            "host": self.host,
            "pid": self.pid,
            "pid_start": self.pid_start,
            "pid_namespace": self.pid_namespace,
            "rank": self.rank,
            "local_rank": self.local_rank,
            "launcher": self.launcher,
            "resumed": self.is_resumed,
            "forked": self.is_forked,
            "attempt": self.attempt,
            "launch": self.launch,
        }
