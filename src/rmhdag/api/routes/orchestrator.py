"""What the orchestrator beside this API, or all of them, know of themselves."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.models.api.orchestrator_figures import (
    OrchestratorActivity,
    OrchestratorStatsList,
    OrchestratorStatusList,
)
from rmhdag.views import orchestrator_figures as views

router = APIRouter(prefix="/api/v1/orchestrator", tags=["orchestrators"])

All = Annotated[bool, Query(alias="all", description="Of all orchestrators instead of the one beside this API")]


@router.get("/status", summary="What the orchestrator does now")
def orchestrator_status(caller: Reader, api: ApiContext, everyone: All = False) -> OrchestratorStatusList:
    """Phase and jobs, as of its last heartbeat; with the scope `platform` also backlog and last error."""
    with api.connection() as conn:
        lines = views.find_orchestrators(conn, caller.sees, api.settings.orphan_seconds, everyone=everyone)
    return OrchestratorStatusList(orchestrators=[views.status_of(line) for line in lines])


@router.get("/stats", summary="What the orchestrator has done")
def orchestrator_stats(caller: Reader, api: ApiContext, everyone: All = False) -> OrchestratorStatsList:
    """Counted since it started; figures of all namespaces together need the scope `platform`."""
    with api.connection() as conn:
        lines = views.find_orchestrators(conn, caller.sees, api.settings.orphan_seconds, everyone=everyone)
    return OrchestratorStatsList(orchestrators=[views.stats_of(line) for line in lines])


@router.get("/activity", summary="What has lately ended and what fails")
def orchestrator_activity(caller: Reader, api: ApiContext, everyone: All = False) -> OrchestratorActivity:
    """The last completions and failures of the namespace, failing handlers and queues, events of orchestrators."""
    with api.connection() as conn:
        own = (
            [] if everyone else views.find_orchestrators(conn, caller.sees, api.settings.orphan_seconds, everyone=False)
        )
        owners = None if everyone else [line.owner_id for line in own]
        return views.activity_of(conn, caller.namespace, owners, with_errors=caller.sees is None)
