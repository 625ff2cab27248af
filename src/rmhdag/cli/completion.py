"""Words that a shell completes after Tab: statuses, and ids that the platform knows. Whatever goes wrong is no word."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rmhdag.cli.platform import Platform

W = TypeVar("W")
MOST_JOBS = 50


def complete_status(incomplete: str) -> list[str]:
    from rmhdag.models.states import JobStatus

    return [word for word in (*JobStatus, "active") if word.startswith(incomplete)]


def complete_workflow(incomplete: str) -> list[str]:
    return ask(lambda platform: [name for name in workflow_ids(platform) if name.startswith(incomplete)])


def workflow_ids(platform: Platform) -> list[str]:
    return [one.workflow_id for one in platform.workflows()]


def complete_job(incomplete: str) -> list[tuple[str, str]]:
    """The newest, each with what it is."""

    def read(platform: Platform) -> list[tuple[str, str]]:
        from rmhdag.cli.platform import JobQuery

        jobs, _ = platform.jobs(JobQuery(limit=MOST_JOBS))
        return [(one.job_id, f"{one.workflow_id} {one.status}") for one in jobs if one.job_id.startswith(incomplete)]

    return ask(read)


def ask(read: Callable[[Platform], list[W]]) -> list[W]:
    """Nothing if that would start a server, or if anything fails: a shell has no place for an error."""
    from rmhdag.cli.platform import connected

    try:
        with redirect_stderr(io.StringIO()):
            if not is_up():
                return []
            with connected() as platform:
                return read(platform)
    except Exception:
        return []


def is_up() -> bool:
    from rmhdag.cli.server import choose_server
    from rmhdag.cli.settings import load_settings
    from rmhdag.embedded import EmbeddedPostgres

    settings = load_settings().settings
    if settings.url is not None:
        return True
    server = choose_server(settings)
    return not isinstance(server, EmbeddedPostgres) or server.attach()
