"""What a key is worth, for whoever holds it."""

from __future__ import annotations

from fastapi import APIRouter

from rmhdag.api.identity import Reader
from rmhdag.models.api.keys import Me

router = APIRouter(prefix="/api/v1", tags=["keys"])


@router.get("/me")
def me(caller: Reader) -> Me:
    """Who the caller is."""
    return Me(name=caller.name, namespace=caller.namespace, scopes=sorted(caller.scopes), key_id=caller.key_id)
