"""What a key is worth, for whoever holds it."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from rmhdag.api.identity import Reader
from rmhdag.models.scopes import Scope

router = APIRouter(prefix="/api/v1", tags=["keys"])


class Me(BaseModel):
    name: str
    namespace: str
    scopes: list[Scope]
    key_id: str | None


@router.get("/me")
def me(caller: Reader) -> Me:
    """Who the caller is."""
    return Me(name=caller.name, namespace=caller.namespace, scopes=sorted(caller.scopes), key_id=caller.key_id)
