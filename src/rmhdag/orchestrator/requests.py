"""Work orders of platforms: request, asset, revision and job come to be in one transaction, or none of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
import psycopg
from psycopg import errors

from rmhdag.assets.identity import Platforms, asset_id_of
from rmhdag.assets.revisions import (
    PROCESSED,
    AssetState,
    Join,
    NextRevision,
    decide_submission,
    params_digest_of,
)
from rmhdag.models.assets import AssetKind, ProcessingStatus
from rmhdag.models.jobs import CommandKind
from rmhdag.models.references import hide_secrets
from rmhdag.orchestrator.callbacks.destinations import PUBLIC_ONLY, Rules
from rmhdag.orchestrator.definitions import definition_of
from rmhdag.orchestrator.submissions import Completion, Submission, complete_inputs, new_job_row, shown_inputs
from rmhdag.store import assets, jobs
from rmhdag.store.asset_states import RevisionKey, RevisionOfJob, follow_jobs
from rmhdag.store.assets import LockedAsset, StoredRequest
from rmhdag.store.commands import Command, issue_command
from rmhdag.store.identity import new_id

Conn = psycopg.Connection[Any]


class OtherRequestError(Exception):
    """The request id, or the idempotency key, was used for something else."""


class PlatformMissingError(Exception):
    """The workflow makes an asset, and nobody said whose."""


class NoAssetError(Exception):
    """The order names an asset, and the workflow makes none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """What a platform orders. `client_id` is who sends it, `submitted_by` in whose name."""

    workflow_id: str
    input_params: Mapping[str, Any]
    submitted_by: str
    client_id: str
    request_id: str | None = None
    platform_id: str | None = None
    platform_refs: Mapping[str, Any] | None = None
    callback_url: str | None = None
    priority: int = 0
    idempotency_key: str | None = None
    supersede: bool = False

    def digest(self) -> str:
        """Of all that is ordered; who sends it, and under which id, is no part of that."""
        apart = ("client_id", "request_id", "idempotency_key")
        asked = {name: getattr(self, name) for name in self.__slots__ if name not in apart}
        return hashlib.sha256(orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Ordered(NamedTuple):
    """`is_repeat`: the request was there already."""

    request: StoredRequest
    is_repeat: bool = False


def order(
    conn: Conn,
    wanted: WorkOrder,
    *,
    namespace: str = "default",
    platforms: Platforms | None = None,
    callback_rules: Rules = PUBLIC_ONLY,
    source_app: str = "api",
    complete: Completion = complete_inputs,
) -> Ordered:
    """Take an order; the same one again is answered with what it led to, even if the workflow has changed since.

    Raises OtherRequestError, PlatformMissingError, NoAssetError, InvalidReferences, AssetConflict, and what submissions
    raise.
    """
    found = _repeat(conn, namespace, wanted)
    if found is not None:
        return found
    try:
        with conn.transaction():
            submission = _submission(wanted)
            row = new_job_row(conn, namespace, submission, callback_rules, complete)
            return Ordered(_order(conn, namespace, wanted, platforms or Platforms(), row, source_app))
    except errors.UniqueViolation:
        # Somebody has used the same id or key in between, and all that we did is undone.
        found = _repeat(conn, namespace, wanted)
        if found is None:
            raise
        return found


def _repeat(conn: Conn, namespace: str, wanted: WorkOrder) -> Ordered | None:
    found, named = None, ""
    if wanted.request_id is not None:
        found, named = assets.find_request(conn, namespace, wanted.request_id), f"request id {wanted.request_id!r}"
    if found is None and wanted.idempotency_key is not None:
        named = f"idempotency key {wanted.idempotency_key!r}"
        found = assets.find_request_by_key(conn, namespace, wanted.submitted_by, wanted.idempotency_key)
        if found is not None and wanted.request_id not in (None, found.request_id):
            raise OtherRequestError(f"{named} was used for request {found.request_id!r}; choose a new key")
    if found is None:
        return None
    if found.digest != wanted.digest():
        raise OtherRequestError(f"{named} was used for another order; choose a new one")
    return Ordered(found, True)


def _submission(wanted: WorkOrder) -> Submission:
    return Submission(
        workflow_id=wanted.workflow_id,
        input_params=wanted.input_params,
        submitted_by=wanted.submitted_by,
        priority=wanted.priority,
        correlation_id=wanted.request_id or new_id(),
        callback_url=wanted.callback_url,
    )


def _order(
    conn: Conn, namespace: str, wanted: WorkOrder, platforms: Platforms, row: dict[str, Any], source_app: str
) -> StoredRequest:
    request_id = row["request_id"] = row["correlation_id"]
    definition = definition_of(conn, namespace, row["workflow_id"], row["workflow_version"], row["workflow_hash"])
    request: dict[str, Any] = {
        "namespace": namespace,
        "request_id": request_id,
        "client_id": wanted.client_id,
        "platform_id": wanted.platform_id,
        "workflow_id": wanted.workflow_id,
        "asset_id": None,
        "revision": None,
        "job_id": row["job_id"],
        "joined": False,
        "submitted_by": wanted.submitted_by,
        "idempotency_key": wanted.idempotency_key,
        "callback_url": row["callback_url"],
        "digest": wanted.digest(),
        "payload": {
            "platform_refs": dict(wanted.platform_refs or {}),
            "input_params": shown_inputs(definition, wanted.input_params),
        },
    }
    if wanted.platform_id is not None and wanted.platform_refs is not None:
        platforms.check(wanted.platform_id, wanted.platform_refs)
    if definition.produces is None:
        if wanted.platform_refs:
            raise NoAssetError(
                f"workflow {wanted.workflow_id!r} makes no asset, so the references of {wanted.platform_id!r} would be "
                "lost: order it without a platform, or a workflow that says `produces`, such as raster_processing"
            )
        jobs.insert_jobs(conn, [row], source_app)
    else:
        request |= _order_asset(conn, wanted, platforms, AssetKind(definition.produces), row, source_app)
    created_at = assets.insert_request(conn, request)
    shown = {name: request[name] for name in StoredRequest._fields if name != "created_at"}
    return StoredRequest(**shown, created_at=created_at)


def _order_asset(
    conn: Conn, wanted: WorkOrder, platforms: Platforms, kind: AssetKind, row: dict[str, Any], source_app: str
) -> dict[str, Any]:
    """What the request then says of asset, revision and job."""
    if wanted.platform_id is None or wanted.platform_refs is None:
        raise PlatformMissingError(
            f"workflow {wanted.workflow_id!r} makes a {kind}: name whose, by platform_id and refs"
        )
    namespace = row["namespace"]
    refs = platforms.check(wanted.platform_id, wanted.platform_refs)
    asset_id = asset_id_of(wanted.platform_id, refs)
    digest = params_digest_of(row["workflow_id"], hide_secrets(row["input_params"]))
    is_new = assets.insert_asset_if_absent(
        conn,
        namespace,
        asset_id,
        platform_id=wanted.platform_id,
        platform_refs=refs,
        kind=kind,
        created_by=wanted.submitted_by,
    )
    step: NextRevision | Join = NextRevision(1)
    if not is_new:
        locked = assets.lock_asset(conn, namespace, asset_id)
        assert locked is not None, "assets are never removed"
        step = decide_submission(state_of(locked), kind, digest, supersede=wanted.supersede)
    if isinstance(step, Join):
        return {"asset_id": asset_id, "revision": step.revision, "job_id": step.job_id, "joined": True}
    if step.supersedes is not None:
        supersede(conn, namespace, step.supersedes, wanted.submitted_by, row["request_id"])
    make_revision(
        conn,
        RevisionKey(namespace, asset_id, step.revision),
        row,
        params_digest=digest,
        created_by=wanted.submitted_by,
        source_app=source_app,
    )
    return {"asset_id": asset_id, "revision": step.revision}


def make_revision(
    conn: Conn, key: RevisionKey, row: dict[str, Any], *, params_digest: str, created_by: str, source_app: str
) -> bool:
    """The job and the revision that it makes; the caller holds the asset. False: the job's idempotency key was used."""
    row |= {"asset_id": key.asset_id, "revision": key.revision}
    if not jobs.insert_jobs(conn, [row], source_app):
        return False
    assets.add_revision(
        conn, key, job_id=row["job_id"], params_digest=params_digest, source=PROCESSED, created_by=created_by
    )
    follow_jobs(conn, [RevisionOfJob(row["job_id"], key)])
    return True


def supersede(conn: Conn, namespace: str, job_id: str, by: str, request_id: str) -> None:
    """Its owner stops it; the revision ends as superseded when the job does."""
    reason = f"superseded by request {request_id}"
    issue_command(
        conn,
        Command(
            command_id=new_id(),
            namespace=namespace,
            job_id=job_id,
            kind=CommandKind.CANCEL,
            issued_by=by,
            body={"reason": reason},
        ),
    )


def state_of(locked: LockedAsset) -> AssetState:
    return AssetState(
        asset_id=locked.asset_id,
        kind=AssetKind(locked.kind),
        is_deleted=locked.is_deleted,
        latest_revision=locked.latest_revision,
        status=ProcessingStatus(locked.status),
        params_digest=locked.params_digest,
        job_id=locked.job_id,
        request_id=locked.request_id,
        is_ending=locked.is_ending,
    )
