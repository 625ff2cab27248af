"""Which program this is, and its last chaos campaigns."""

from __future__ import annotations

from fastapi import APIRouter

import rmhdag
from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.models.api.about import About
from rmhdag.models.chaos_results import read_results
from rmhdag.views import processes

router = APIRouter(prefix="/api/v1", tags=["health"])


@router.get("/about", summary="Versions, and the last chaos campaigns")
def about(caller: Reader, api: ApiContext) -> About:
    """The versions of the API and of the processes that are alive, and what the last chaos campaigns did and found.
    Their results come with the program; no campaign ran on this installation.
    """
    with api.connection() as conn:
        workers = processes.list_workers(conn, api.settings.orphan_seconds, caller.sees)
        orchestrators = processes.list_orchestrators(conn, api.settings.orphan_seconds, caller.sees)
    versions = {worker.version for worker in workers if worker.alive}
    versions |= {orchestrator.version for orchestrator in orchestrators if orchestrator.alive}
    return About(version=rmhdag.__version__, process_versions=sorted(versions), chaos=read_results())
