"""The statements of the gateway: each reads views that `rmhdag db roles` has made, and nothing else."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.gateway.database import Database, Row
from rmhdag.gateway.keys import Holder
from rmhdag.gateway.problems import Problem
from rmhdag.models.labels import LabelFilter

MOST_PROGRESS = 10_000
# Counting nodes costs more than all the rest of a poll; nobody sees a difference within a second.
PROGRESS_SECONDS = 1.0

# Files that a result lists; each has 100,000 features of a vector file.
MOST_FILES = 1_000

STATUS_COLUMNS = """
    r.request_id, r.platform_request_id, r.workflow_id, r.platform_id, r.platform_refs, r.labels, r.asset_id,
    r.revision, r.job_id, r.submitted_at, r.client_id, r.job_status, r.completed_at, r.result_data, r.error, r.warnings,
    r.is_waiting, r.is_cancelling, r.revision_status, r.revision_completed_at, r.outputs, r.revision_error,
    r.revision_warnings, r.review_state, r.clearance, r.version_label, r.content_hash, r.decision_reason, r.kind,
    r.current_revision, r.is_deleted, r.is_unpublished, r.job_updated_at, r.decided_at,
    r.retry_key"""
LINE_COLUMNS = """
    r.request_id, r.platform_request_id, r.workflow_id, r.platform_id, r.platform_refs, r.labels, r.version_label,
    r.submitted_at, r.completed_at, r.job_status, r.is_waiting, r.is_cancelling, r.revision_status, r.review_state"""
VERSIONS = """(
    SELECT jsonb_agg(to_jsonb(v) ORDER BY v.revision DESC) FROM (
        SELECT v.revision, v.version_label, v.status, v.review_state, v.clearance, v.created_at, v.completed_at
        FROM {schema}.dag_gateway_versions AS v
        WHERE v.namespace = r.namespace AND v.asset_id = r.asset_id
        ORDER BY v.revision DESC
        LIMIT 20
    ) AS v
) AS versions"""
GATES = """(
    SELECT jsonb_agg(to_jsonb(w) ORDER BY w.requested_at, w.node_id) FROM (
        SELECT w.node_id, w.message, w.approvers, w.requested_at, w.deadline_at
        FROM {schema}.dag_gateway_gates AS w
        WHERE w.namespace = v.namespace AND w.asset_id = v.asset_id AND w.revision = v.revision
    ) AS w
) AS gates"""
OUTPUTS = """(
    SELECT jsonb_agg(to_jsonb(o)) FROM (
        SELECT o.collection_id, o.item_id, o.table_name, o.container, o.path FROM {schema}.dag_gateway_outputs AS o
        WHERE o.namespace = r.namespace AND o.asset_id = r.asset_id AND o.revision = r.revision
        LIMIT 50
    ) AS o
) AS service_outputs"""
# A job that has another state than a second ago is counted again, so that what is final is never shown half-counted.
PROGRESS = """CASE
    WHEN r.job_status <> 'pending'
        AND (r.job_id, r.job_status) IS DISTINCT FROM (%(known_job)s::text, %(known_status)s::text)
    THEN (
    SELECT to_jsonb(p) FROM {schema}.dag_gateway_progress AS p WHERE p.job_id = r.job_id
) END AS progress"""
# What a client calls an order is found among its own by an index of both: no row of another client is ever read.
OWN = "r.namespace = %(namespace)s AND r.client_id = %(client_id)s"
ALL = "r.namespace = %(namespace)s"
# Those who see the orders of all clients may use the platform's id, which tells two apart that are called the same.
BY_EITHER_ID = "(r.request_id = %(request_id)s OR r.platform_request_id = %(request_id)s)"


class Place(NamedTuple):
    """Where a page ended."""

    at: datetime
    id: str


class Sighting(NamedTuple):
    """The progress of a job while it has this status, for a moment."""

    until: float = 0.0
    job_id: str | None = None
    job_status: str | None = None
    progress: Row | None = None


class Reads:
    def __init__(self, database: Database, *, with_outputs: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._with_outputs = with_outputs
        self._clock = clock
        self._progress: OrderedDict[tuple[str, str, str], Sighting] = OrderedDict()

    async def find_request(self, holder: Holder, request_id: str) -> tuple[Row, float | None] | None:
        """A request that the holder may see, with its `progress`, and how far it is. Raises a 409 if several are called
        so.
        """
        key = (holder.namespace, "" if holder.sees_all else holder.client_id, request_id)
        memory = self._progress.get(key, Sighting())
        if self._clock() >= memory.until:
            memory = Sighting()
        parts = [STATUS_COLUMNS, VERSIONS, *([OUTPUTS] if self._with_outputs else []), PROGRESS]
        query = self._text(
            f"SELECT {', '.join(parts)} FROM {{schema}}.dag_gateway_requests AS r"
            f" WHERE {_scope(holder)} AND {BY_EITHER_ID if holder.sees_all else 'r.request_id = %(request_id)s'}"
        )
        names = {"known_job": memory.job_id, "known_status": memory.job_status}
        row = _chosen(
            await self._database.read(query, _given(holder, request_id=request_id, **names)), holder, request_id
        )
        if row is None:
            return None
        if (row["job_id"], row["job_status"]) != (memory.job_id, memory.job_status):
            until = self._clock() + PROGRESS_SECONDS
            memory = Sighting(until, row["job_id"], row["job_status"], row["progress"])
            self._progress[key] = memory
            if len(self._progress) > MOST_PROGRESS:
                self._progress.popitem(last=False)
        progress = memory.progress or {}
        return {**row, "progress": progress}, progress.get("percent")

    async def names_outputs(self, holder: Holder, platform_request_id: str) -> bool | None:
        """Whether the workflow of a request names its outputs; None if that is not known any more."""
        query = self._text(
            "SELECT r.names_outputs FROM {schema}.dag_gateway_requests AS r"
            f" WHERE {ALL} AND r.platform_request_id = %(request_id)s"
        )
        rows = await self._database.read(query, _given(holder, request_id=platform_request_id))
        return rows[0]["names_outputs"] if rows else None

    async def list_requests(
        self,
        holder: Holder,
        *,
        state: str | None,
        since: datetime | None,
        until: datetime | None = None,
        refs: Mapping[str, Any] | None,
        before: Place | None,
        limit: int,
        labels: Sequence[LabelFilter] = (),
    ) -> list[Row]:
        conditions = [_scope(holder), *_state_condition(state)]
        if since is not None:
            conditions.append("r.submitted_at >= %(since)s")
        if until is not None:
            conditions.append("r.submitted_at < %(until)s")
        if refs:
            conditions.append("r.platform_refs @> %(refs)s::text::jsonb")
        values = {label.key: label.value for label in labels if label.value is not None}
        keys = [label.key for label in labels if label.value is None]
        if values:
            conditions.append("r.labels @> %(labels)s::text::jsonb")
        if keys:
            conditions.append("r.labels ?& %(label_keys)s")
        if before is not None:
            conditions.append("(r.submitted_at, r.request_id) < (%(at)s, %(before)s)")
        query = self._text(
            f"SELECT {LINE_COLUMNS} FROM {{schema}}.dag_gateway_requests AS r WHERE {' AND '.join(conditions)}"
            " ORDER BY r.submitted_at DESC, r.request_id DESC LIMIT %(limit)s"
        )
        at, last = before if before is not None else (None, None)
        parameters = _given(holder, since=since, until=until, refs=_json(refs), at=at, before=last, limit=limit)
        parameters |= {"labels": _json(values), "label_keys": keys}
        return await self._database.read(query, parameters)

    async def shares_job(self, row: Row) -> bool:
        """Whether another order has joined the work for this one, or the other way round."""
        query = self._text(
            "SELECT 1 AS other FROM {schema}.dag_gateway_requests AS r"
            " WHERE r.job_id = %(job_id)s AND r.platform_request_id <> %(request_id)s LIMIT 1"
        )
        parameters = {"job_id": row["job_id"], "request_id": row["platform_request_id"]}
        return bool(await self._database.read(query, parameters))

    async def list_files(self, holder: Holder, row: Row, sha256: str | None = None) -> list[Row]:
        """Files of the revision of a request, or of its job if it makes none."""
        owner = "f.job_id = %(job_id)s AND f.asset_id IS NULL"
        if row["asset_id"] is not None:
            owner = "f.asset_id = %(asset_id)s AND f.revision = %(revision)s"
        query = self._text(
            "SELECT f.blob_id, f.path, f.size_bytes, f.sha256, f.media_type FROM {schema}.dag_gateway_files AS f"
            f" WHERE f.namespace = %(namespace)s AND {owner}"
            f"{'' if sha256 is None else ' AND f.sha256 = %(sha256)s'} ORDER BY f.path LIMIT {MOST_FILES}"
        )
        names = {name: row[name] for name in ("asset_id", "revision", "job_id")}
        return await self._database.read(query, _given(holder, **names, sha256=sha256))

    async def find_by_key(self, holder: Holder, submitted_by: str, key: str) -> Row | None:
        """The order that was placed with this idempotency key, for operators."""
        query = self._text(
            "SELECT r.request_id, r.job_id FROM {schema}.dag_gateway_requests AS r"
            f" WHERE {ALL} AND r.submitted_by = %(submitted_by)s AND r.idempotency_key = %(key)s"
        )
        rows = await self._database.read(query, _given(holder, submitted_by=submitted_by, key=key))
        return rows[0] if rows else None

    async def list_assets(
        self,
        holder: Holder,
        *,
        platform_id: str | None,
        refs: Mapping[str, Any] | None,
        before: Place | None,
        limit: int,
    ) -> list[Row]:
        """Each asset once, with its newest versions."""
        conditions = [_scope(holder), "r.deleted_at IS NULL"]
        if platform_id is not None:
            conditions.append("r.platform_id = %(platform_id)s")
        if refs:
            conditions.append("r.platform_refs @> %(refs)s::text::jsonb")
        if before is not None:
            conditions.append("(r.created_at, r.asset_id) < (%(at)s, %(before)s)")
        query = self._text(
            f"SELECT r.*, {VERSIONS} FROM ("
            "SELECT DISTINCT r.namespace, r.asset_id, r.platform_id, r.platform_refs, r.kind, r.processing_status,"
            " r.current_revision, r.approval_state, r.clearance, r.created_at, r.updated_at"
            f" FROM {{schema}}.dag_gateway_assets AS r WHERE {' AND '.join(conditions)}"
            " ORDER BY r.created_at DESC, r.asset_id DESC LIMIT %(limit)s"
            ") AS r ORDER BY r.created_at DESC, r.asset_id DESC"
        )
        at, last = before if before is not None else (None, None)
        parameters = _given(holder, platform_id=platform_id, refs=_json(refs), at=at, before=last, limit=limit)
        return await self._database.read(query, parameters)

    async def list_reviews(self, holder: Holder, *, state: str, before: Place | None, limit: int) -> list[Row]:
        """Versions in this state of review, newest first; of those that wait, only what can be decided now."""
        in_state = "v.review_state = %(state)s"
        if state == "pending_review":
            in_state = (
                f"({in_state} AND v.status = 'completed' OR (v.asset_id, v.revision) IN ("
                "SELECT w.asset_id, w.revision FROM {schema}.dag_gateway_gates AS w WHERE w.namespace = %(namespace)s))"
            )
        conditions = ["v.namespace = %(namespace)s", in_state]
        if before is not None:
            conditions.append("(v.created_at, v.asset_id) < (%(at)s, %(before)s)")
        query = self._text(
            "SELECT v.asset_id, v.revision, v.version_label, v.status, v.review_state, v.clearance, v.content_hash,"
            " v.created_by, v.created_at, v.completed_at, v.decided_at, v.decision_reason, a.platform_id,"
            f" a.platform_refs, a.kind, {GATES}"
            " FROM {schema}.dag_gateway_versions AS v JOIN LATERAL ("
            "SELECT a.platform_id, a.platform_refs, a.kind FROM {schema}.dag_gateway_assets AS a"
            " WHERE a.namespace = v.namespace AND a.asset_id = v.asset_id LIMIT 1"
            f") AS a ON true WHERE {' AND '.join(conditions)}"
            " ORDER BY v.created_at DESC, v.asset_id DESC LIMIT %(limit)s"
        )
        at, last = before if before is not None else (None, None)
        return await self._database.read(query, _given(holder, state=state, at=at, before=last, limit=limit))

    async def find_version(self, holder: Holder, asset_id: str, revision: int) -> Row | None:
        """With `current_revision`, which its asset serves."""
        query = self._text(
            "SELECT v.*, (SELECT a.current_revision FROM {schema}.dag_gateway_assets AS a"
            " WHERE a.namespace = v.namespace AND a.asset_id = v.asset_id LIMIT 1) AS current_revision"
            " FROM {schema}.dag_gateway_versions AS v WHERE v.namespace = %(namespace)s"
            " AND v.asset_id = %(asset_id)s AND v.revision = %(revision)s"
        )
        rows = await self._database.read(query, _given(holder, asset_id=asset_id, revision=revision))
        return rows[0] if rows else None

    async def find_gates(self, holder: Holder, asset_id: str, revision: int) -> list[Row]:
        """The approval nodes at which the job of a revision waits now."""
        query = self._text(
            "SELECT w.job_id, w.node_id FROM {schema}.dag_gateway_gates AS w WHERE w.namespace = %(namespace)s"
            " AND w.asset_id = %(asset_id)s AND w.revision = %(revision)s ORDER BY w.requested_at, w.node_id"
        )
        return await self._database.read(query, _given(holder, asset_id=asset_id, revision=revision))

    async def list_platforms(self, holder: Holder) -> list[Row]:
        """Those of the namespace before those of all."""
        query = self._text(
            "SELECT DISTINCT ON (p.platform_id) p.* FROM {schema}.dag_gateway_platforms AS p"
            " WHERE p.namespace IN (%(namespace)s, 'default')"
            " ORDER BY p.platform_id, p.namespace = %(namespace)s DESC"
        )
        return await self._database.read(query, _given(holder))

    async def list_workflows(self, holder: Holder) -> list[Row]:
        query = self._text(
            "SELECT w.* FROM {schema}.dag_gateway_workflows AS w WHERE w.namespace = %(namespace)s"
            " ORDER BY w.workflow_id LIMIT 500"
        )
        return await self._database.read(query, _given(holder))

    async def check(self) -> Row:
        """Whether every view is there, and whether this role could write."""
        query = self._text(
            "SELECT (SELECT count((is_unpublished, retry_key, labels)) FROM {schema}.dag_gateway_requests WHERE false)"
            " + (SELECT count(*) FROM {schema}.dag_gateway_keys WHERE false)"
            " + (SELECT count(*) FROM {schema}.dag_gateway_identities WHERE false)"
            " + (SELECT count(*) FROM {schema}.dag_gateway_outputs WHERE false)"
            " + (SELECT count(*) FROM {schema}.dag_gateway_gates WHERE false)"
            " + (SELECT count(*) FROM {schema}.dag_gateway_files WHERE false) AS rows, EXISTS ("
            "SELECT FROM pg_class AS c WHERE c.relnamespace = %(schema)s::regnamespace AND c.relkind IN ('r', 'p', 'v')"
            " AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')) AS can_write"
        )
        return (await self._database.read(query, {"schema": self._database.schema}))[0]

    def _text(self, query: str) -> str:
        return query.replace("{schema}", self._database.schema)


def _scope(holder: Holder) -> str:
    return ALL if holder.sees_all else OWN


def _chosen(rows: list[Row], holder: Holder, request_id: str) -> Row | None:
    """The holder's own, or the only one."""
    own = [row for row in rows if row["client_id"] == holder.client_id or row["platform_request_id"] == request_id]
    if len(own or rows) > 1:
        ids = ", ".join(f"{row['platform_request_id']} of {row['client_id']}" for row in own or rows)
        remedy = f"Use the platform's id: {ids}."
        raise Problem(409, "ambiguous", f"{len(rows)} clients have an order with this id", remedy=remedy)
    return next(iter(own or rows), None)


def _given(holder: Holder, **more: Any) -> dict[str, Any]:
    return {"namespace": holder.namespace, "client_id": holder.client_id, **more}


def _json(refs: Mapping[str, Any] | None) -> str | None:
    return None if not refs else orjson.dumps(dict(refs)).decode()


STATES = {
    "pending": "r.job_status = 'pending'",
    "running": "r.job_status = 'running' AND NOT r.is_waiting",
    "awaiting_approval": "(r.is_waiting OR COALESCE(r.job_status, r.revision_status) = 'completed'"
    " AND r.review_state = 'pending_review')",
    "completed": "COALESCE(r.job_status, r.revision_status) = 'completed'"
    " AND COALESCE(r.review_state, 'none') IN ('none', 'approved')",
    "failed": "(COALESCE(r.job_status, r.revision_status, 'failed') NOT IN ('pending', 'running', 'completed')"
    " OR COALESCE(r.job_status, '') NOT IN ('pending', 'running')"
    " AND r.review_state IN ('rejected', 'revoked', 'superseded'))",
}


def _state_condition(state: str | None) -> list[str]:
    return [] if state is None else [STATES[state]]
