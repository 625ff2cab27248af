"""What a namespace may use of the platform; operators of the platform change it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import PlatformOperator, Reader
from rmhdag.models.api.quotas import QuotaChanges, QuotaList
from rmhdag.store import quotas
from rmhdag.views.quotas import read_quotas_of

router = APIRouter(prefix="/api/v1/quotas", tags=["processes"])

NamespacePath = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


@router.get("")
def get_quotas(caller: Reader, api: ApiContext) -> QuotaList:
    """The quotas of the caller's namespace, with what it uses."""
    with api.connection() as conn:
        listeners = api.streams.listeners_of(caller.namespace)
        return read_quotas_of(conn, caller.namespace, api.settings.quotas, listeners)


@router.post("/{namespace}")
def change_quotas(namespace: NamespacePath, body: QuotaChanges, caller: PlatformOperator, api: ApiContext) -> QuotaList:
    """Change quotas of a namespace. It needs the scope `platform`, so that a tenant cannot raise its own."""
    with api.connection() as conn:
        quotas.set_quotas(conn, namespace, body.quotas, caller.name)
        return read_quotas_of(conn, namespace, api.settings.quotas)
