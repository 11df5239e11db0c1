"""Identity: the names of a run, and the id that the processes of one launch agree on without talking to each other."""

from __future__ import annotations

import os
import sys

from metrana.errors import SettingError
from metrana.procstat import read_start_ticks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_NAME = "default"

RANK_VARIABLES = (
    "RANK",
    "SLURM_PROCID",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "FLUX_TASK_RANK",
    "PALS_RANKID",
)

LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")

WORLD_SIZE_VARIABLES = (
    "WORLD_SIZE",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_NTASKS",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "FLUX_JOB_SIZE",
)

# Each launcher by the variables that together name one launch of its job.
_LAUNCHERS = (
    ("torchelastic", ("TORCHELASTIC_RUN_ID",)),
    # mpirun inside a Slurm job: its ranks on the first node carry no step id, those on the others do.
    ("openmpi", ("OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE")),
    ("openmpi", ("OMPI_COMM_WORLD_SIZE", "OMPI_MCA_ess_base_jobid")),
    ("openmpi", ("OMPI_COMM_WORLD_SIZE", "OMPI_MCA_orte_ess_jobid")),
    ("slurm", ("SLURM_JOB_ID", "SLURM_STEP_ID")),
    ("slurm", ("SLURM_JOBID", "SLURM_STEPID")),
    ("slurm", ("SLURM_JOB_ID",)),
    ("pmix", ("PMIX_NAMESPACE",)),
    ("pbs", ("PBS_JOBID",)),
    ("lsf", ("LSB_JOBID", "LSB_JOBINDEX")),
    ("lsf", ("LSB_JOBID",)),
    ("ray", ("RAY_JOB_ID",)),
)


class Identity:
    """The five things that make two processes share a run. ``run_id`` stands for all of them in folder names."""

    __slots__ = ("organization", "workspace_name", "project_name", "run_name", "orchestration_id")

    def __init__(
        self, organization: str, workspace_name: str, project_name: str, run_name: str, orchestration_id: str
    ) -> None:
        self.organization = organization
        self.workspace_name = workspace_name
        self.project_name = project_name
        self.run_name = run_name
        self.orchestration_id = orchestration_id

    @property
    def names(self) -> tuple[str, str, str, str]:
        return (self.organization, self.workspace_name, self.project_name, self.run_name)

    @property
    def run_id(self) -> str:
        return fingerprint("\0".join((*self.names, self.orchestration_id)))


def resolve_name(argument: str, value: object, default: str) -> str:
    """A name as given, or its default. Any character may stand in it. Raises SettingError."""
    if value is None:
        return default
    if not isinstance(value, str) or not value:
        raise SettingError(f"{argument}={value!r} is no name: give a non-empty text")
    return value


def default_run_name(argv: list[str]) -> str:
    """The script's name without its ending, so that ``python train.py`` makes a run named train."""
    stem = os.path.splitext(os.path.basename(argv[0]))[0] if argv and argv[0] else ""
    if stem == "__main__":  # python -m package, or a zip
        stem = os.path.splitext(os.path.basename(os.path.dirname(argv[0])))[0]
    return stem if stem and not stem.startswith("-") else "run"


def find_rank(environ: Mapping[str, str], variables: tuple[str, ...] = RANK_VARIABLES) -> int | None:
    """The process's rank in its launch, from the launcher's variables."""
    for variable in variables:
        value = environ.get(variable, "")
        if value.isascii() and value.isdigit():
            return int(value)
    return None


def find_launch(environ: Mapping[str, str], launcher_process: str | None = None) -> str | None:
    """What the launcher gives the processes of one launch in common, or None where there's no sign of a launcher.

    ``launcher_process`` names the process that started the ranks: used where a rank is set and nothing else is.
    """
    for launcher, variables in _LAUNCHERS:
        values = [environ.get(variable, "") for variable in variables]
        if all(values) and not (launcher == "torchelastic" and values == ["none"]):
            return ":".join((launcher, *values))
    if launcher_process and find_rank(environ, (*RANK_VARIABLES, *LOCAL_RANK_VARIABLES)) is not None:
        return f"launcher:{launcher_process}"
    return None


def find_restarts(environ: Mapping[str, str]) -> tuple[int, int]:
    """How often torchrun has restarted its workers, and how often Slurm has requeued the job."""
    torchrun, slurm = (environ.get(name, "") for name in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"))
    return _parse_count(torchrun), _parse_count(slurm)


def _parse_count(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def name_launch(environ: Mapping[str, str], launcher_process: str | None) -> str | None:
    """What the processes of one launch have in common and no restart of it has; None as in ``find_launch``."""
    launch = find_launch(environ, launcher_process)
    return None if launch is None else "{}+{}+{}".format(launch, *find_restarts(environ))


def find_launcher_process() -> str | None:
    """The parent process as host, pid and start time: unlike a bare pid it's never the same twice."""
    parent = os.getppid()
    start_ticks = read_start_ticks(parent)
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read().decode("ascii", "replace").strip()
    except OSError:
        return None
    if start_ticks is None:
        return None
    return f"{boot}:{parent}:{start_ticks}"


def fingerprint(text: str) -> str:
    """Sixteen hexadecimal digits that stand for a text: FNV-1a, 64 bits.

    Not for secrets. ``hashlib`` would map OpenSSL into the training process, 4 MB for one name.
    """
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8", "surrogatepass"):
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def random_token() -> str:
    """An orchestration id that nobody else has."""
    return os.urandom(8).hex()


def script_name() -> str:
    return default_run_name(getattr(sys, "argv", []))
