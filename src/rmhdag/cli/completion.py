"""Words that a shell completes after Tab: statuses, and ids that the platform knows. Whatever goes wrong is no word."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rmhdag.cli.operations import Operations

W = TypeVar("W")
MOST_JOBS = 50


def complete_status(incomplete: str) -> list[str]:
    from rmhdag.models.states import JobStatus

    return [word for word in (*JobStatus, "active") if word.startswith(incomplete)]


def complete_workflow(incomplete: str) -> list[str]:
    return ask(lambda platform: [name for name in workflow_ids(platform) if name.startswith(incomplete)])


def workflow_ids(platform: Operations) -> list[str]:
    return [workflow.workflow_id for workflow in platform.client.workflows()]


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """The newest, each with what it is."""

    def read(platform: Operations) -> list[tuple[str, str]]:
        from rmhdag.cli.operations import JobQuery

        jobs, _ = platform.jobs(JobQuery(limit=MOST_JOBS))
        return [(job.job_id, f"{job.workflow_id} {job.status}") for job in jobs if job.job_id.startswith(incomplete)]

    return ask(read)


def ask(read: Callable[[Operations], list[W]]) -> list[W]:
    """Nothing if that would start a server, or if anything fails: a shell has no place for an error."""
    from rmhdag.cli.doors import connected

    try:
        with redirect_stderr(io.StringIO()):
            if not is_up():
                return []
            with connected() as platform:
                return read(platform)
    except Exception:
        return []


def is_up() -> bool:
    from rmhdag.cli.local_door import find_door
    from rmhdag.cli.server import choose_server
    from rmhdag.cli.settings import load_settings
    from rmhdag.embedded import EmbeddedPostgres

    settings = load_settings().settings
    if settings.url is not None or find_door(settings) is not None:
        return True
    server = choose_server(settings)
    return not isinstance(server, EmbeddedPostgres) or server.attach()
