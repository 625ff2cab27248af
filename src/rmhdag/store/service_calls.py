"""The outbox of external services: written with what it announces, claimed for a while, settled by the holder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.models.api.services import ServiceCallView
from rmhdag.models.assets import Classification
from rmhdag.models.service_calls import CallStatus, ServiceAction, ServiceKind
from rmhdag.store.batch_rows import NewServiceCall, RevisionKey, ServiceTry, encode_rows
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.identity import new_id
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all

SQL = load_queries(__file__)
REASON = "service_call"
NOT_PUBLIC = "the content is not public, so no external service is notified"
NOT_CONFIGURED = "no external service is configured, so none is notified"


class _Facts(NamedTuple):
    platform_id: str
    platform_refs: dict[str, str]
    kind: str
    content_hash: str | None
    version_label: str | None
    clearance: str
    collection_id: str | None
    item_id: str | None
    container: str | None
    path: str | None


class ClaimedCall(NamedTuple):
    call_id: str
    lease_epoch: int
    namespace: str
    service_id: str
    asset_id: str
    revision: int
    action: str
    attempts: int
    run_id: str | None
    body: dict[str, Any]
    created_at: datetime
    claimed_at: datetime
    service: str
    kind: str
    url: str
    settings: dict[str, Any]
    secret: str | None


class TriedCall(NamedTuple):
    """What became of one try. `promoted_url`: where the content is available from now on."""

    claimed: ClaimedCall
    status: CallStatus
    counts: bool = True
    run_id: str | None = None
    delay_seconds: float | None = None
    http_status: int | None = None
    error: str | None = None
    promoted_url: str | None = None


def announce_approval(
    conn: Conn,
    key: RevisionKey,
    clearance: Classification | str,
    *,
    requested_by: str,
    service: str | None = None,
) -> list[str]:
    """Within the transaction of the approval: a call per enabled service, or for the named one only. What to say of it.

    A second announcement of the same revision to the same service changes nothing.
    """
    if clearance != Classification.PUBLIC:
        return [NOT_PUBLIC]
    services = conn.execute(SQL["enabled_services"], {"namespace": key.namespace, "name": service}).fetchall()
    if not services:
        return [NOT_CONFIGURED if service is None else f"no external service {service!r} is configured and enabled"]
    facts = _facts_of(conn, key, clearance)
    calls = [
        NewServiceCall(new_id(), *_subject(key, service_id), ServiceAction.APPROVAL, requested_by, _body(key, facts))
        for service_id, *_ in services
    ]
    conn.execute(SQL["insert_calls"], {"rows": encode_rows(calls)})
    return [f"external service {name!r} ({kind}) will be notified" for _, name, kind, _ in services]


def announce_withdrawal(conn: Conn, key: RevisionKey, *, requested_by: str) -> list[str]:
    """Within the transaction that revokes or unpublishes: who may know of the approval is told that it is over."""
    parameters = key._asdict()
    announced = conn.execute(SQL["announced_services"], parameters).fetchall()
    if not announced:
        return []
    conn.execute(SQL["cancel_calls"], parameters)
    facts = _facts_of(conn, key, None)
    calls, notices = [], []
    for service_id, name, kind, settings, was_sent in announced:
        if not was_sent:
            notices.append(f"external service {name!r} had not been notified yet, and will not be")
        elif kind == ServiceKind.ADF and not settings.get("withdrawal_pipeline"):
            notices.append(
                f"external service {name!r} has no withdrawal_pipeline: what it copied stays there until somebody "
                "deletes it"
            )
        else:
            subject = _subject(key, service_id)
            calls.append(NewServiceCall(new_id(), *subject, ServiceAction.WITHDRAWAL, requested_by, _body(key, facts)))
            notices.append(f"external service {name!r} ({kind}) will be notified of the withdrawal")
    if calls:
        conn.execute(SQL["insert_calls"], {"rows": encode_rows(calls)})
    return notices


def has_due(conn: Conn) -> bool:
    row = conn.execute(SQL["has_due"], prepare=True).fetchone()
    return row is not None and bool(row[0])


@commit_site
def claim_calls(conn: Conn, *, limit: int, per_service: int, lease_seconds: float) -> list[ClaimedCall]:
    parameters = {"limit": limit, "per_service": per_service, "lease_seconds": lease_seconds}
    return [ClaimedCall(*row) for row in conn.execute(SQL["claim_calls"], parameters).fetchall()]


@commit_site
def settle_calls(conn: Conn, tried: Sequence[TriedCall]) -> set[str]:
    """Those that were still ours. What a delivery brings about, and a death, are written in the same transaction."""
    rows = [
        ServiceTry(
            call_id=call.claimed.call_id,
            lease_epoch=call.claimed.lease_epoch,
            status=call.status,
            counts=call.counts,
            run_id=call.run_id,
            delay_seconds=call.delay_seconds,
            last_status=call.http_status,
            last_error=call.error,
        )
        for call in tried
    ]
    with conn.transaction():
        settled = {row[0] for row in conn.execute(SQL["settle_calls"], {"tries": encode_rows(rows)}).fetchall()}
        for call in sorted(tried, key=lambda call: call.claimed.service_id):
            if call.claimed.call_id in settled:
                _follow(conn, call)
    return settled


def announced_revisions(conn: Conn, namespace: str, asset_id: str) -> list[int]:
    """Those of an asset that services know of, or may know of."""
    values = {"namespace": namespace, "asset_id": asset_id}
    return [row[0] for row in conn.execute(SQL["announced_revisions"], values).fetchall()]


def retry_call(conn: Conn, namespace: str, call_id: str) -> bool:
    """Within the caller's transaction: a dead one gets another chance, unless what it announces was withdrawn."""
    values = {"namespace": namespace, "call_id": call_id}
    conn.execute(SQL["lock_asset_of_call"], values)
    return conn.execute(SQL["retry_call"], values).rowcount == 1


def list_calls(
    conn: Conn,
    namespace: str,
    service_id: str,
    *,
    before: str | None = None,
    status: CallStatus | None = None,
    call_id: str | None = None,
    limit: int = 50,
) -> list[ServiceCallView]:
    parameters = {
        "namespace": namespace,
        "service_id": service_id,
        "before": before,
        "status": status,
        "call_id": call_id,
        "limit": limit,
    }
    return read_all(conn, ServiceCallView, SQL["list"], parameters)


def _follow(conn: Conn, call: TriedCall) -> None:
    claimed = call.claimed
    if call.counts or call.status is CallStatus.DELIVERED:
        failed = call.status is not CallStatus.DELIVERED
        conn.execute(SQL["count_failures"], {"service_id": claimed.service_id, "failed": failed})
    place = {
        "namespace": claimed.namespace,
        "asset_id": claimed.asset_id,
        "revision": claimed.revision,
        "target": claimed.service,
    }
    if call.status is CallStatus.DELIVERED and claimed.action == ServiceAction.WITHDRAWAL:
        conn.execute(SQL["remove_promoted"], place)
    elif call.status is CallStatus.DELIVERED and call.promoted_url is not None:
        conn.execute(SQL["put_promoted"], place | {"url": call.promoted_url})
    elif call.status is CallStatus.DEAD:
        text = orjson.dumps([claimed.call_id, claimed.lease_epoch])
        body = {"call_id": claimed.call_id, "service": claimed.service, "action": claimed.action}
        parameters = {
            "letter": f"dl-{hashlib.sha256(text).hexdigest()[:56]}",
            "namespace": claimed.namespace,
            "reason": REASON,
            "error": call.error,
            "body": orjson.dumps(body | {"asset_id": claimed.asset_id, "revision": claimed.revision}).decode(),
        }
        conn.execute(SQL["bury_call"], parameters)


def _subject(key: RevisionKey, service_id: str) -> tuple[str, str, str, int]:
    return key.namespace, service_id, key.asset_id, key.revision


def _facts_of(conn: Conn, key: RevisionKey, clearance: str | None) -> _Facts:
    row = conn.execute(SQL["facts"], key._asdict()).fetchone()
    if row is None:
        raise ValueError(f"asset {key.asset_id} has no revision {key.revision}")
    facts = _Facts(*row)
    return facts if clearance is None else facts._replace(clearance=str(clearance))


def _body(key: RevisionKey, facts: _Facts) -> dict[str, Any]:
    """`parameters` are those of a pipeline; receivers of messages do not get them, for they name our files."""
    return {
        "asset_id": key.asset_id,
        "revision": key.revision,
        "platform_id": facts.platform_id,
        "platform_refs": facts.platform_refs,
        "version_label": facts.version_label,
        "kind": facts.kind,
        "content_hash": facts.content_hash,
        "clearance": facts.clearance,
        "stac": {"collection_id": facts.collection_id, "item_id": facts.item_id},
        "parameters": {
            "release_id": f"{key.asset_id}-{key.revision}",
            "asset_id": key.asset_id,
            "stac_item_id": facts.item_id or "",
            "stac_collection_id": facts.collection_id or "",
            "data_type": facts.kind,
            "table_names": [],
            "blob_path": "" if facts.path is None else f"{facts.container}/{facts.path}",
        },
    }
