"""Settings of workers: how many tasks they run, and what these may use, see and leave on the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, StringConstraints

from rmhdag.models.setting_types import Interval, SettingsGroup, split_names
from rmhdag.worker.task_environment import belongs_to_platform


def refuse_secrets_of_platform(text: str) -> str:
    """A handler with the platform's credentials could do whatever the platform may do."""
    for name in split_names(text):
        if belongs_to_platform(name):
            raise ValueError(f"{name} is not passed on to tasks: it belongs to the platform")
    return text


PassedVariables = Annotated[
    str,
    StringConstraints(pattern=r"^\s*([A-Za-z_][A-Za-z0-9_]*\*?([\s,]+|$))*$", max_length=10_000),
    AfterValidator(refuse_secrets_of_platform),
]
Umask = Annotated[str, StringConstraints(pattern=r"^0?[0-7]{3}$")]


class WorkerConfiguration(SettingsGroup):
    """Each worker reads its own environment."""

    concurrency: int | None = Field(
        default=None, ge=1, le=1000, description="Tasks that a worker runs at a time; default: one per processor"
    )
    task_memory_mb: int | None = Field(
        default=None, ge=16, description="Memory limit per task in MB; a task that uses more is killed"
    )
    worker_stop_seconds: Interval = Field(
        default=30.0, description="Seconds that tasks have to finish or save when their worker stops"
    )
    handlers: str = Field(default="", description="Modules that declare your own handlers, separated by commas")
    examples: bool | None = Field(
        default=None,
        description="Whether workers have the example handlers (echo, sleep, …); default: only in development mode",
    )
    warm: bool | None = Field(
        default=None,
        description="Load the raster libraries before the first task needs them; default: only with `rmhdag up`",
    )
    worker_health_host: str = Field(
        default="127.0.0.1", description="Address on which a worker reports its health over HTTP"
    )
    worker_health_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="Port for the worker's health over HTTP; 0 chooses a free one; default: none",
    )
    scratch: Path | None = Field(
        default=None,
        description="Folder for temporary files of tasks, accessible only to this user; default: `scratch` in the "
        "data folder",
    )
    task_env: PassedVariables = Field(
        default="",
        description="Environment variables of the worker that handlers may see; `MY_*` means all that begin with MY_",
    )
    task_umask: Umask = Field(
        default="077",
        description="Umask of files written by tasks; 027 lets the group read local storage and the mount",
    )

    def task_variables(self) -> tuple[str, ...]:
        return tuple(split_names(self.task_env))

    def task_umask_bits(self) -> int:
        return int(self.task_umask, 8)
