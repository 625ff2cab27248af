"""Clients of the gateway in the caller's namespace: what each may use."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Administrator, check_scope
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.routes.jobs import plain
from rmhdag.api.routes.keys import check_scopes, default_days
from rmhdag.models.api.clients import (
    ClientChanges,
    ClientPage,
    ClientQuotaView,
    ClientView,
    IdentityList,
    IdentityRequest,
    IdentityView,
)
from rmhdag.models.clients import CLIENT_QUOTAS
from rmhdag.models.scopes import Scope
from rmhdag.store import client_identities, clients
from rmhdag.store.clients import ClientLine

router = APIRouter(prefix="/api/v1/clients", tags=["keys"])

ClientName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._@:+-]{0,63}$", description="The name of its keys")]

IdentityId = Annotated[str, Path(max_length=64, pattern=r"^[0-9a-f]+$")]


@router.get("")
def list_clients(
    caller: Administrator,
    api: ApiContext,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: CursorParameter = None,
) -> ClientPage:
    """Clients that have quotas of their own or were disabled."""
    with api.connection() as conn:
        lines = clients.list_clients(conn, caller.namespace, after=read_cursor(cursor, plain) or "", limit=limit + 1)
    more = write_cursor(lines[limit - 1].client_id) if len(lines) > limit else None
    return ClientPage(clients=[view_of(api, line.client_id, line) for line in lines[:limit]], next_cursor=more)


@router.get("/{client_id}")
def get_client(client_id: ClientName, caller: Administrator, api: ApiContext) -> ClientView:
    """One client; a name without quotas of its own has the defaults."""
    with api.connection() as conn:
        return view_of(api, client_id, clients.find_client(conn, caller.namespace, client_id))


@router.post("/{client_id}")
def change_client(client_id: ClientName, body: ClientChanges, caller: Administrator, api: ApiContext) -> ClientView:
    """Change quotas of a client, or disable it. Gateways follow within seconds."""
    with api.connection() as conn:
        line = clients.set_client(
            conn, caller.namespace, client_id, quotas=body.quotas, active=body.active, changed_by=caller.name
        )
    return view_of(api, client_id, line)


@router.get("/{client_id}/identities")
def list_identities(client_id: ClientName, caller: Administrator, api: ApiContext) -> IdentityList:
    """Whose tokens are those of the client, beside its keys."""
    with api.connection() as conn:
        return IdentityList(identities=client_identities.list_identities(conn, caller.namespace, client_id))


@router.post("/{client_id}/identities", status_code=201)
def bind_identity(client_id: ClientName, body: IdentityRequest, caller: Administrator, api: ApiContext) -> IdentityView:
    """Accept the tokens of an application or a person as those of the client. Gateways follow within seconds.

    All namespaces share the issuers, so this takes the scope `platform` beside `admin`.
    """
    check_scope(caller, Scope.PLATFORM)
    check_scopes(caller, frozenset(body.scopes))
    request = body.model_copy(update={"expires_days": body.expires_days or default_days(caller)})
    with api.connection() as conn:
        return client_identities.add_identity(conn, caller.namespace, client_id, request, created_by=caller.name)


@router.delete("/{client_id}/identities/{identity_id}")
def unbind_identity(
    client_id: ClientName, identity_id: IdentityId, caller: Administrator, api: ApiContext
) -> IdentityView:
    """Refuse tokens of this identity from now on. Gateways follow within seconds."""
    with api.connection() as conn:
        return client_identities.remove_identity(conn, caller.namespace, client_id, identity_id, removed_by=caller.name)


def view_of(api: Api, client_id: str, line: ClientLine | None) -> ClientView:
    own = {} if line is None else line.quotas
    limits = api.settings.client_quotas.with_overrides(own)
    return ClientView(
        client_id=client_id,
        active=line is None or line.active,
        quotas=[
            ClientQuotaView(name=name, what=facts["what"], limit=getattr(limits, name), is_own=name in own)
            for name, facts in CLIENT_QUOTAS.items()
        ],
        changed_by=None if line is None else line.changed_by,
        updated_at=None if line is None else line.updated_at,
    )
