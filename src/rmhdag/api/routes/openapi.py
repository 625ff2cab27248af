"""The description of all routes, for programs; it needs a key like everything else."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from rmhdag.api.identity import Reader

router = APIRouter(prefix="/api/v1", tags=["description"])


@router.get("/openapi.json")
def openapi(caller: Reader, request: Request) -> dict[str, Any]:
    """This document."""
    document: dict[str, Any] = request.app.openapi()
    return document
