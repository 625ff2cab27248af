"""What needs a person, and how the last hours went."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.models.api.attention import Attention, Pulse
from rmhdag.views import processes
from rmhdag.views.attention import read_attention, read_pulse

router = APIRouter(prefix="/api/v1", tags=["attention"])

Hours = Annotated[int, Query(ge=1, le=168, description="So far back")]


@router.get("/attention")
def attention(caller: Reader, api: ApiContext, hours: Hours = 24) -> Attention:
    """What needs a person: failures by error, slow jobs, queues without workers, dead letters, decisions."""
    with api.connection() as conn:
        queues = processes.queues(conn, caller.namespace, api.settings.queues, api.settings.orphan_seconds).queues
        return read_attention(conn, caller.namespace, _since(hours), queues)


@router.get("/pulse")
def pulse(caller: Reader, api: ApiContext, hours: Hours = 24) -> Pulse:
    """How the jobs of the last hours went: counts, success, durations, waits."""
    with api.connection() as conn:
        return read_pulse(conn, caller.namespace, _since(hours))


def _since(hours: int) -> datetime:
    return datetime.now(UTC) - timedelta(hours=hours)
