"""Probes for supervisors and load balancers. They answer without a key."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from rmhdag.api.context import ApiContext

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    alive: bool = True


class Ready(BaseModel):
    ready: bool = True


@router.get("/livez")
async def livez() -> Alive:
    """The process answers."""
    return Alive()


@router.get("/readyz")
def readyz(api: ApiContext) -> Ready:
    """The database answers too; else 503."""
    with api.connection() as conn:
        conn.execute("SELECT 1 FROM dag_schema_meta LIMIT 1")
    return Ready()
