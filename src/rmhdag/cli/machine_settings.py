"""Settings for what processes leave on the machine they run on, and what they pass on to tasks."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, Field

from rmhdag.cli.output import warn
from rmhdag.cli.raster_settings import RasterSettings
from rmhdag.cli.setting_types import PassedVariables, Umask, split_names
from rmhdag.machine.private_files import UnsafeFolder, make_private_folder


class MachineSettings(RasterSettings):
    scratch: Path | None = Field(
        default=None,
        validation_alias=AliasChoices("RMHDAG_SCRATCH"),
        description="Folder for temporary files of tasks, for this user alone; else `scratch` in the data folder",
    )
    task_env: PassedVariables = Field(
        default="",
        validation_alias=AliasChoices("RMHDAG_TASK_ENV"),
        description="Variables of the worker's environment that handlers see too; `MY_*` means all that begin so",
    )
    task_umask: Umask = Field(
        default="077",
        validation_alias=AliasChoices("RMHDAG_TASK_UMASK"),
        description="Permissions that files written by tasks lack; 027 lets the group read local storage and the mount",
    )

    def task_variables(self) -> tuple[str, ...]:
        return tuple(split_names(self.task_env))

    def task_umask_bits(self) -> int:
        return int(self.task_umask, 8)

    def scratch_folder(self, home: Path) -> Path | None:
        """The folder that is named; else one in the data folder; None, a new temporary one, where neither is safe."""
        if self.scratch is not None:
            return self.scratch
        try:
            return make_private_folder(home / "scratch")
        except UnsafeFolder as error:
            warn(f"{error}; tasks use a new temporary folder instead, unless RMHDAG_SCRATCH names one")
        except OSError:
            # A worker that reaches the platform over HTTP needs no data folder.
            pass
        return None
