"""Identities of issuers whose tokens are those of a client of the gateway, and when what was used."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import orjson

from rmhdag.models.api.clients import IdentityRequest, IdentityView, Uses
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.store.audit import add_audit
from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all

SQL = load_queries(__file__)


class IdentityTaken(Refusal):
    """It is bound already, maybe in another namespace."""

    def __init__(self) -> None:
        super().__init__(
            Kind.CONFLICT,
            "identity_taken",
            "this identity of the issuer is bound to a client already",
            remedy="Unbind it first: `rmhdag clients unbind CLIENT IDENTITY_ID`.",
        )


class IdentityUnknown(Refusal):
    """The client has no such identity."""

    def __init__(self) -> None:
        remedy = "`rmhdag clients identities CLIENT` lists them."
        super().__init__(Kind.NOT_FOUND, "not_found", "the client has no such identity", remedy=remedy)


def list_identities(conn: Conn, namespace: str, client_id: str, identity_id: str | None = None) -> list[IdentityView]:
    parameters = {"namespace": namespace, "client_id": client_id, "identity_id": identity_id}
    return read_all(conn, IdentityView, SQL["list_identities"], parameters)


def add_identity(conn: Conn, namespace: str, client_id: str, body: IdentityRequest, *, created_by: str) -> IdentityView:
    """Raises IdentityTaken."""
    identity_id = secrets.token_hex(8)
    parameters = {
        "identity_id": identity_id,
        "namespace": namespace,
        "client_id": client_id,
        "issuer": body.issuer,
        "kind": body.kind,
        "value": body.value,
        "scopes": orjson.dumps(body.scopes).decode(),
        "created_by": created_by,
        "days": body.expires_days,
    }
    with conn.transaction():
        if conn.execute(SQL["add_identity"], parameters).rowcount == 0:
            raise IdentityTaken
        [identity] = list_identities(conn, namespace, client_id, identity_id)
        add_audit(conn, namespace, created_by, "client.bind", f"client {client_id}", after=_facts(identity))
    return identity


def remove_identity(conn: Conn, namespace: str, client_id: str, identity_id: str, *, removed_by: str) -> IdentityView:
    """What it was. Raises IdentityUnknown."""
    with conn.transaction():
        identities = list_identities(conn, namespace, client_id, identity_id)
        parameters = {"namespace": namespace, "client_id": client_id, "identity_id": identity_id}
        if not identities or conn.execute(SQL["remove_identity"], parameters).rowcount == 0:
            raise IdentityUnknown
        add_audit(conn, namespace, removed_by, "client.unbind", f"client {client_id}", before=_facts(identities[0]))
    return identities[0]


def note_uses(conn: Conn, uses: Uses) -> int:
    """How many rows were changed."""
    return _note(conn, "keys", uses.key_ids) + _note(conn, "identities", uses.identity_ids)


def _note(conn: Conn, what: str, ids: Sequence[str]) -> int:
    return conn.execute(SQL[f"note_uses_of_{what}"], {"ids": sorted(ids)}).rowcount if ids else 0


def _facts(identity: IdentityView) -> dict[str, object]:
    return {
        "identity_id": identity.identity_id,
        "issuer": identity.issuer,
        identity.kind.value: identity.value,
        "scopes": list(identity.scopes),
    }
