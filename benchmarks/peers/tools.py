"""The tools that are compared, metrana first: what each is installed from, and what keeps it on this machine."""

from __future__ import annotations

from typing import NamedTuple


class Tool(NamedTuple):
    """A tool: its adapter's name, its title, what pip installs (nothing: this interpreter's own) and its variables."""

    name: str
    title: str
    requirements: tuple[str, ...] = ()
    environ: tuple[tuple[str, str], ...] = ()


TOOLS = (
    Tool("metrana", "metrana"),
    Tool("thread", "psutil thread"),
    Tool(
        "mlflow",
        "MLflow",
        ("mlflow", "psutil", "nvidia-ml-py"),
        (("MLFLOW_DISABLE_TELEMETRY", "true"), ("DO_NOT_TRACK", "true"), ("MLFLOW_LOGGING_LEVEL", "ERROR")),
    ),
    Tool(
        "wandb",
        "W&B offline",
        ("wandb",),
        (("WANDB_MODE", "offline"), ("WANDB_SILENT", "true"), ("WANDB_ERROR_REPORTING", "false")),
    ),
    Tool("trackio", "Trackio", ("trackio", "psutil", "nvidia-ml-py"), (("HF_HUB_OFFLINE", "1"),)),
)
OWN = TOOLS[0]
# The user's settings of any of them must not decide what's measured; nor must bytecode be compiled anew each time.
FOREIGN = ("METRANA_", "MLFLOW_", "WANDB_", "TRACKIO_", "HF_", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
