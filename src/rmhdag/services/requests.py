"""Work orders of platforms: request, asset, revision and job are created in one transaction, or none of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from psycopg import errors

from rmhdag.assets.identity import AssetReferences, Platforms
from rmhdag.assets.reviews import check_previous_version
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
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.services.callbacks.destinations import PUBLIC_ONLY, Rules, check_callback_url
from rmhdag.services.plans import definition_of
from rmhdag.services.platforms import read_platforms
from rmhdag.services.reviews import supersede_reviews
from rmhdag.services.submissions import Completion, Submission, complete_inputs, new_job_row, shown_inputs
from rmhdag.store import assets, callbacks, jobs
from rmhdag.store.asset_states import RevisionOfJob, follow_jobs
from rmhdag.store.assets import LockedAsset, StoredRequest
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.commands import Command, issue_command
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id
from rmhdag.workflow.definition import WorkflowDefinition


class OtherRequestError(Refusal):
    """The request id, or the idempotency key, was used for something else."""

    def __init__(self, message: str) -> None:
        super().__init__(Kind.REUSED, "request_reused", message, pointer="/request_id")


class PlatformMissingError(Refusal):
    """The workflow creates an asset, but the order names no platform."""

    def __init__(self, message: str) -> None:
        super().__init__(Kind.INVALID, "platform_missing", message, pointer="/platform_id")


class NoAssetError(Refusal):
    """The order names an asset, but the workflow creates none."""

    def __init__(self, message: str) -> None:
        super().__init__(Kind.INVALID, "no_asset", message, pointer="/platform_refs")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """An order of a platform. `client_id` is the sender, `submitted_by` the person on whose behalf it is sent.

    `is_client`: the sender is a client of the gateway. It chooses ids among its own orders, and learns nothing about
    those of others. The id of anybody else is that of the platform, and unique in the namespace.
    """

    workflow_id: str
    input_params: Mapping[str, Any]
    submitted_by: str
    client_id: str
    is_client: bool = False
    request_id: str | None = None
    platform_id: str | None = None
    platform_refs: Mapping[str, Any] | None = None
    callback_url: str | None = None
    # Instead of `callback_url`: addresses by what each of them is told, with `success` among them.
    subscriber: Mapping[str, str] | None = None
    priority: int = 0
    idempotency_key: str | None = None
    supersede: bool = False
    # The version label that the submitter builds on: refused if another one is served by now.
    previous_version: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    def digest(self) -> str:
        """Digest of the order's content, without its sender and its id."""
        apart = ("client_id", "is_client", "request_id", "idempotency_key")
        content = {name: getattr(self, name) for name in self.__slots__ if name not in apart}
        # Orders of versions of rmhdag that did not know these have the same digest as then.
        for name in ("previous_version", "subscriber", "labels"):
            if not content[name]:
                del content[name]
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Ordered(NamedTuple):
    """`is_repeat`: the request existed already."""

    request: StoredRequest
    is_repeat: bool = False


def order(
    conn: Conn,
    work: WorkOrder,
    *,
    namespace: str = "default",
    platforms: Platforms | None = None,
    callback_rules: Rules = PUBLIC_ONLY,
    source_app: str = "api",
    complete: Completion = complete_inputs,
    admit: Callable[[Conn], None] = lambda conn: None,
) -> Ordered:
    """Accept an order; a repetition returns the first result, even if the workflow has changed since. `platforms` are
    those of the namespace; they are read if they are not given.

    `admit` is called in the transaction of a new order, and raises if the sender may have no more of them.

    Raises OtherRequestError, PlatformMissingError, NoAssetError, InvalidReferences, AssetConflict, and what submissions
    raise.
    """
    earlier = find_repeat(conn, namespace, work)
    if earlier is not None:
        return earlier
    try:
        with conn.transaction():
            admit(conn)
            subscriber = check_subscriber(work, callback_rules.for_namespace(namespace))
            submission = _submission(work, subscriber)
            row = new_job_row(conn, namespace, submission, callback_rules, _for_order(work, complete))
            platforms = platforms or read_platforms(conn, namespace)
            return Ordered(_order(conn, namespace, work, platforms, row, subscriber, source_app))
    except errors.UniqueViolation:
        # Another caller has used the same id or key meanwhile, and our transaction was rolled back.
        earlier = find_repeat(conn, namespace, work)
        if earlier is None:
            raise
        return earlier


def find_repeat(conn: Conn, namespace: str, work: WorkOrder) -> Ordered | None:
    """The request that the same order has created before. Raises OtherRequestError."""
    earlier, named = None, ""
    if work.request_id is not None:
        named = f"request id {work.request_id!r}"
        if work.is_client:
            earlier = assets.find_request_of_client(conn, namespace, work.client_id, work.request_id)
        else:
            earlier = assets.find_request(conn, namespace, work.request_id)
    if earlier is None and work.idempotency_key is not None:
        named = f"idempotency key {work.idempotency_key!r}"
        earlier = assets.find_request_by_key(conn, namespace, work.submitted_by, work.idempotency_key)
        if earlier is not None and work.request_id not in (None, earlier.client_request_id):
            raise OtherRequestError(f"{named} was used for request {earlier.client_request_id!r}; choose a new key")
    if earlier is None:
        return None
    if earlier.digest != work.digest():
        raise OtherRequestError(f"{named} was used for another order; choose a new one")
    return Ordered(earlier, True)


def _for_order(work: WorkOrder, complete: Completion) -> Completion:
    """References that would be lost are refused before anybody looks for files."""

    def check_and_complete(
        definition: WorkflowDefinition, params: Mapping[str, Any], *, with_references: bool = False
    ) -> dict[str, Any]:
        if definition.produces is None:
            refuse_references(work)
        return complete(definition, params, with_references=with_references)

    return check_and_complete


def check_subscriber(work: WorkOrder, rules: Rules) -> dict[str, str] | None:
    """Its addresses in their normal form. Raises CallbackRefused."""
    if work.subscriber is None:
        return None
    if not work.is_client or work.callback_url is not None:
        raise Refusal(
            Kind.INVALID,
            "subscriber_refused",
            "`subscriber` is for orders over OGC API – Processes at the gateway, and stands instead of `callback_url`",
            remedy="Give `callback_url`.",
            pointer="/subscriber",
        )
    return {name: check_callback_url(url, rules, f"/subscriber/{name}") for name, url in work.subscriber.items()}


def _submission(work: WorkOrder, subscriber: Mapping[str, str] | None) -> Submission:
    return Submission(
        workflow_id=work.workflow_id,
        input_params=work.input_params,
        submitted_by=work.submitted_by,
        priority=work.priority,
        correlation_id=new_id() if work.is_client or work.request_id is None else work.request_id,
        # A job with an address says how it ended; the request knows who is told what.
        callback_url=work.callback_url if subscriber is None else subscriber["success"],
        labels=work.labels,
    )


def _order(
    conn: Conn,
    namespace: str,
    work: WorkOrder,
    platforms: Platforms,
    row: dict[str, Any],
    subscriber: Mapping[str, str] | None,
    source_app: str,
) -> StoredRequest:
    request_id = row["request_id"] = row["correlation_id"]
    definition = definition_of(conn, namespace, row["workflow_id"], row["workflow_version"], row["workflow_hash"])
    request: dict[str, Any] = {
        "namespace": namespace,
        "request_id": request_id,
        "client_id": work.client_id,
        "client_request_id": work.request_id if work.is_client else None,
        "platform_id": work.platform_id,
        "workflow_id": work.workflow_id,
        "asset_id": None,
        "revision": None,
        "job_id": row["job_id"],
        "joined": False,
        "submitted_by": work.submitted_by,
        "idempotency_key": work.idempotency_key,
        "callback_url": row["callback_url"],
        "digest": work.digest(),
        "subscriber": subscriber,
        "payload": {
            "platform_refs": dict(work.platform_refs or {}),
            "input_params": shown_inputs(definition, work.input_params),
        },
        "labels": dict(work.labels),
    }
    if definition.produces is None:
        jobs.insert_jobs(conn, [row], source_app)
    else:
        request |= _order_asset(conn, work, platforms, definition, row, source_app)
    created_at = assets.insert_request(conn, request)
    if request["joined"] and "in_progress" in (subscriber or {}):
        # The job may be running already.
        callbacks.insert_start_callbacks(conn, request["job_id"])
    columns = {name: request[name] for name in StoredRequest._fields if name != "created_at"}
    columns["client_request_id"] = columns["client_request_id"] or request_id
    return StoredRequest(**columns, created_at=created_at)


def _order_asset(
    conn: Conn,
    work: WorkOrder,
    platforms: Platforms,
    definition: WorkflowDefinition,
    row: dict[str, Any],
    source_app: str,
) -> dict[str, Any]:
    """The columns of the request about its asset, revision and job."""
    kind = AssetKind(definition.produces or "")
    namespace = row["namespace"]
    references = check_references(work, platforms, kind)
    target = find_target(conn, namespace, references)
    asset_id = target.asset_id
    digest = params_digest_of(row["workflow_id"], hide_secrets(row["input_params"]), target.version_label)
    is_new = assets.insert_asset_if_absent(
        conn,
        namespace,
        asset_id,
        platform_id=references.platform.platform_id,
        platform_refs=target.refs,
        kind=kind,
        created_by=work.submitted_by,
    )
    step: NextRevision | Join = NextRevision(1)
    if not is_new:
        locked = assets.lock_asset(conn, namespace, asset_id)
        assert locked is not None, "assets are never removed"
        step = decide_submission(state_of(locked, work), kind, digest, supersede=work.supersede)
        if not isinstance(step, Join):
            check_previous_version(asset_id, work.previous_version, locked.current_label)
    else:
        check_previous_version(asset_id, work.previous_version, None)
    if isinstance(step, Join):
        return {"asset_id": asset_id, "revision": step.revision, "job_id": step.job_id, "joined": True}
    if step.supersedes is not None:
        supersede(conn, namespace, step.supersedes, work.submitted_by, row["request_id"])
    make_revision(
        conn,
        RevisionKey(namespace, asset_id, step.revision),
        row,
        definition,
        params_digest=digest,
        version_label=target.version_label,
        created_by=work.submitted_by,
        source_app=source_app,
    )
    return {"asset_id": asset_id, "revision": step.revision}


def refuse_references(work: WorkOrder) -> None:
    """Of a workflow that creates no asset, be they right or wrong."""
    if work.platform_refs is not None:
        raise NoAssetError(
            f"workflow {work.workflow_id!r} makes no asset, so the references of {work.platform_id!r} would be "
            "lost: order it without a platform, or a workflow that says `produces`, such as raster_processing"
        )


def check_references(work: WorkOrder, platforms: Platforms, kind: AssetKind) -> AssetReferences:
    if work.platform_id is None or work.platform_refs is None:
        raise PlatformMissingError(
            f"workflow {work.workflow_id!r} creates a {kind}: name its owner by platform_id and refs"
        )
    return platforms.check(work.platform_id, work.platform_refs)


class OrderTarget(NamedTuple):
    """The asset that an order is for, and the version that it is to become."""

    asset_id: str
    refs: dict[str, str]
    version_label: str | None


def find_target(conn: Conn, namespace: str, references: AssetReferences) -> OrderTarget:
    """Assets from the time when the version was part of the identity are still found by the same references."""
    label, former_id = references.version_label, references.id_with_version
    if former_id is not None and assets.find_asset(conn, namespace, former_id) is not None:
        return OrderTarget(former_id, dict(references.refs), label)
    return OrderTarget(references.asset_id, references.identity, label)


def make_revision(
    conn: Conn,
    key: RevisionKey,
    row: dict[str, Any],
    definition: WorkflowDefinition,
    *,
    params_digest: str,
    version_label: str | None,
    created_by: str,
    source_app: str,
) -> bool:
    """Insert the job and its revision, and close earlier reviews; the caller locks the asset. False if the idempotency
    key was used.
    """
    row |= {"asset_id": key.asset_id, "revision": key.revision}
    if not jobs.insert_jobs(conn, [row], source_app):
        return False
    assets.add_revision(
        conn,
        key,
        job_id=row["job_id"],
        params_digest=params_digest,
        version_label=version_label,
        source=PROCESSED,
        created_by=created_by,
        is_reviewed=definition.asks_for_review,
    )
    supersede_reviews(conn, key, issued_by=created_by)
    follow_jobs(conn, [RevisionOfJob(row["job_id"], key)])
    return True


def supersede(conn: Conn, namespace: str, job_id: str, by: str, request_id: str) -> None:
    """Cancel the job; its revision becomes superseded when the job has ended."""
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


def state_of(locked: LockedAsset, work: WorkOrder | None = None) -> AssetState:
    """As `work` may know it: a client of the gateway hears nothing about orders of others."""
    return AssetState(
        asset_id=locked.asset_id,
        kind=AssetKind(locked.kind),
        is_deleted=locked.is_deleted,
        latest_revision=locked.latest_revision,
        status=ProcessingStatus(locked.status),
        params_digest=locked.params_digest,
        job_id=locked.job_id,
        request_id=locked.request_id,
        is_of_others=work is not None and work.is_client and locked.client_id != work.client_id,
        is_ending=locked.is_ending,
    )
