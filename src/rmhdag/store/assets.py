"""Assets, revisions and requests: what commands write, and what is shown of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson
from psycopg import sql
from psycopg.rows import class_row

from rmhdag.models.api.assets import AssetSummary, BlobView, Descendant, LineageSource, VersionView
from rmhdag.models.ids import lineage_id_of, revision_owner
from rmhdag.models.references import holder_of_revision
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.connection import Conn
from rmhdag.store.data_tables import copy_tables
from rmhdag.store.payloads import copy_uses
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all
from rmhdag.store.revision_items import copy_items

SQL = load_queries(__file__)

LAST_REVISION = 2**31 - 1
HAS_VERSION = """(platform_refs @> %(version_refs)s::jsonb OR (platform_id = ANY(%(labelling)s) AND EXISTS (
    SELECT FROM dag_asset_revisions AS v
    WHERE v.namespace = dag_geospatial_assets.namespace AND v.asset_id = dag_geospatial_assets.asset_id
        AND v.version_label = %(version_label)s)))"""


class VersionFilter(NamedTuple):
    """A reference that is the version label of these platforms; in older assets it is one of the references."""

    name: str
    label: str
    platform_ids: Sequence[str]


class LockedAsset(NamedTuple):
    """An asset and its newest revision. `request_id` is what the client of the first request for it calls that;
    `is_ending`: its job is.
    """

    asset_id: str
    kind: str
    is_deleted: bool
    latest_revision: int
    status: str
    params_digest: str | None
    job_id: str | None
    request_id: str | None
    client_id: str | None
    is_ending: bool
    current_revision: int | None
    current_source: str | None
    current_label: str | None


class StoredRequest(NamedTuple):
    """`client_request_id` is what its client calls it."""

    request_id: str
    client_request_id: str
    client_id: str
    workflow_id: str
    asset_id: str | None
    revision: int | None
    job_id: str | None
    joined: bool
    created_at: datetime
    digest: str
    platform_id: str | None
    submitted_by: str
    callback_url: str | None
    labels: dict[str, str]


class RevisionLine(NamedTuple):
    revision: int
    status: str
    source: str
    job_id: str | None
    content_hash: str | None
    created_by: str
    created_at: datetime
    completed_at: datetime | None
    error_message: str | None
    version_label: str | None
    review_state: str
    clearance: str
    decided_by: str | None
    decided_at: datetime | None
    decision_reason: str | None
    unpublished_at: datetime | None
    outputs: dict[str, Any] | None = None
    footprint: Any = None
    error: dict[str, Any] | None = None
    warnings: Sequence[dict[str, Any]] = ()
    made_by: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetFilters:
    """`before` is where the page before ended: (created_at, asset_id)."""

    platform_id: str | None = None
    kind: str | None = None
    processing_status: str | None = None
    approval_state: str | None = None
    refs: Mapping[str, str] | None = None
    versions: Sequence[VersionFilter] = ()
    deleted_too: bool = False
    before: tuple[datetime, str] | None = None
    limit: int = 50


def lock_asset(conn: Conn, namespace: str, asset_id: str) -> LockedAsset | None:
    """Until the end of the transaction nobody else makes a revision of it."""
    values = {"namespace": namespace, "asset_id": asset_id}
    if conn.execute(SQL["lock_asset"], values).fetchone() is None:
        return None
    row = conn.execute(SQL["asset_state"], values).fetchone()
    assert row is not None, "an asset has a revision"
    return LockedAsset(*row)


def read_asset_state(conn: Conn, namespace: str, asset_id: str) -> LockedAsset | None:
    """As `lock_asset`, for those who only look."""
    row = conn.execute(SQL["asset_state"], {"namespace": namespace, "asset_id": asset_id}).fetchone()
    return None if row is None else LockedAsset(*row)


def insert_asset_if_absent(
    conn: Conn,
    namespace: str,
    asset_id: str,
    *,
    platform_id: str,
    platform_refs: Mapping[str, str],
    kind: str,
    created_by: str,
) -> bool:
    """False: it is there. Of several at once the others wait until the first one's transaction has ended."""
    values = {
        "namespace": namespace,
        "asset_id": asset_id,
        "platform_id": platform_id,
        "platform_refs": orjson.dumps(dict(platform_refs)).decode(),
        "kind": kind,
        "created_by": created_by,
    }
    return conn.execute(SQL["insert_asset"], values).fetchone() is not None


def add_revision(
    conn: Conn,
    key: RevisionKey,
    *,
    job_id: str,
    params_digest: str,
    version_label: str | None,
    source: str,
    created_by: str,
    is_reviewed: bool = False,
) -> None:
    """The caller holds the asset. How it stands follows from its job. Its platform may ask for a review, too."""
    values = key._asdict() | {
        "job_id": job_id,
        "params_digest": params_digest,
        "version_label": version_label,
        "source": source,
        "created_by": created_by,
        "is_reviewed": is_reviewed,
    }
    conn.execute(SQL["insert_revision"], values)
    conn.execute(SQL["name_latest_revision"], key._asdict())


def copy_revision(conn: Conn, key: RevisionKey, of: int, *, source: str, created_by: str) -> None:
    """The content of an earlier revision as a new one, files, items and origin included."""
    values = key._asdict() | {
        "of": of,
        "source": source,
        "created_by": created_by,
        "owner": revision_owner(*key),
        "ref_id": lineage_id_of(revision_owner(*key), "rollback", f"{key.asset_id}/{of}"),
    }
    for name in ("copy_revision", "copy_blobs", "insert_lineage", "name_latest_revision"):
        conn.execute(SQL[name], values)
    copy_items(conn, key, of)
    copy_tables(conn, key, of)
    earlier = holder_of_revision(key.asset_id, of)
    copy_uses(conn, key.namespace, earlier, holder_of_revision(key.asset_id, key.revision))


def delete_asset(conn: Conn, namespace: str, asset_id: str, by: str) -> bool:
    values = {"namespace": namespace, "asset_id": asset_id, "by": by}
    return conn.execute(SQL["delete_asset"], values).rowcount == 1


def insert_request(conn: Conn, row: Mapping[str, Any]) -> datetime:
    """Raises UniqueViolation if its id or its idempotency key was used."""
    subscriber = row["subscriber"]
    values = {
        **row,
        "payload": orjson.dumps(row["payload"]).decode(),
        "subscriber": None if subscriber is None else orjson.dumps(subscriber).decode(),
        "labels": orjson.dumps(row["labels"]).decode(),
    }
    line = conn.execute(SQL["insert_request"], values).fetchone()
    assert line is not None
    created_at: datetime = line[0]
    return created_at


def move_requests(conn: Conn, namespace: str, job_id: str, new_job_id: str, revision: int | None) -> None:
    values = {"namespace": namespace, "job_id": job_id, "new_job_id": new_job_id, "revision": revision}
    conn.execute(SQL["move_requests"], values)


def waits_for_person(conn: Conn, job_id: str) -> bool:
    """Whether an approval node of the job waits for a decision."""
    return conn.execute(SQL["waits_for_person"], {"job_id": job_id}).fetchone() is not None


def find_request(conn: Conn, namespace: str, request_id: str) -> StoredRequest | None:
    row = conn.execute(SQL["find_request"], {"namespace": namespace, "request_id": request_id}).fetchone()
    return None if row is None else StoredRequest(*row)


def find_request_of_client(conn: Conn, namespace: str, client_id: str, request_id: str) -> StoredRequest | None:
    """By what the client calls it."""
    values = {"namespace": namespace, "client_id": client_id, "request_id": request_id}
    row = conn.execute(SQL["find_request_of_client"], values).fetchone()
    return None if row is None else StoredRequest(*row)


def find_newest_request(conn: Conn, namespace: str, request_id: str) -> StoredRequest | None:
    """By what any client calls it."""
    row = conn.execute(SQL["find_newest_request"], {"namespace": namespace, "request_id": request_id}).fetchone()
    return None if row is None else StoredRequest(*row)


def find_request_by_key(conn: Conn, namespace: str, submitted_by: str, key: str) -> StoredRequest | None:
    values = {"namespace": namespace, "submitted_by": submitted_by, "idempotency_key": key}
    row = conn.execute(SQL["find_request_by_key"], values).fetchone()
    return None if row is None else StoredRequest(*row)


def find_asset(conn: Conn, namespace: str, asset_id: str) -> AssetSummary | None:
    query = sql.SQL(SQL["asset"].decode()) + sql.SQL(" AND asset_id = %(asset_id)s")
    with conn.cursor(row_factory=class_row(AssetSummary)) as cursor:
        return cursor.execute(query, {"namespace": namespace, "asset_id": asset_id}).fetchone()


def list_assets(conn: Conn, namespace: str, filters: AssetFilters) -> list[AssetSummary]:
    """Newest first; only the filters that are given are in the statement, so that an index fits them."""
    values: dict[str, Any] = {"namespace": namespace, "limit": filters.limit}
    clauses = [sql.SQL(SQL["asset"].decode())]
    for name, cast in (
        ("platform_id", ""),
        ("kind", "::asset_kind"),
        ("processing_status", "::processing_status"),
        ("approval_state", "::approval_state"),
    ):
        if getattr(filters, name) is not None:
            values[name] = getattr(filters, name)
            clauses.append(sql.SQL(f"{name} = %({name})s{cast}"))
    if filters.refs is not None:
        values["refs"] = orjson.dumps(dict(filters.refs)).decode()
        clauses.append(sql.SQL("platform_refs @> %(refs)s::jsonb"))
    for number, version in enumerate(filters.versions):
        refs = orjson.dumps({version.name: version.label}).decode()
        version_values = {"version_refs": refs, "version_label": version.label, "labelling": list(version.platform_ids)}
        clause = HAS_VERSION
        for name, value in version_values.items():
            values[f"{name}_{number}"] = value
            clause = clause.replace(f"%({name})s", f"%({name}_{number})s")
        clauses.append(sql.SQL(clause))
    if not filters.deleted_too:
        clauses.append(sql.SQL("deleted_at IS NULL"))
    if filters.before is not None:
        values["before_at"], values["before_id"] = filters.before
        clauses.append(sql.SQL("(created_at, asset_id) < (%(before_at)s, %(before_id)s::text)"))
    query = sql.SQL(" AND ").join(clauses) + sql.SQL(" ORDER BY created_at DESC, asset_id DESC LIMIT %(limit)s")
    with conn.cursor(row_factory=class_row(AssetSummary)) as cursor:
        return cursor.execute(query, values, prepare=False).fetchall()


def find_revision(conn: Conn, key: RevisionKey) -> RevisionLine | None:
    row = conn.execute(SQL["revision"], key._asdict()).fetchone()
    return None if row is None else RevisionLine(*row)


def list_revisions(
    conn: Conn, namespace: str, asset_id: str, *, before: int | None = None, limit: int = 50
) -> list[RevisionLine]:
    values = {"namespace": namespace, "asset_id": asset_id, "before": before or LAST_REVISION, "limit": limit}
    return [RevisionLine(*row) for row in conn.execute(SQL["revisions"], values).fetchall()]


def version_label_of(conn: Conn, key: RevisionKey) -> str | None:
    row = conn.execute(SQL["version_label"], key._asdict()).fetchone()
    return None if row is None else row[0]


def list_versions(conn: Conn, namespace: str, asset_id: str) -> list[VersionView]:
    """Revisions that are versions of the platform's, newest first; the newest hundred."""
    keys = {"namespace": namespace, "asset_id": asset_id}
    return read_all(conn, VersionView, SQL["versions"], keys)


def list_blobs(conn: Conn, key: RevisionKey, *, after: str = "", limit: int = 50) -> list[BlobView]:
    values = key._asdict() | {"after": after, "limit": limit}
    return read_all(conn, BlobView, SQL["blobs"], values)


def unpublished_revision_of(conn: Conn, job_id: str) -> int | None:
    """The revision of a job, if its files are deleted."""
    row = conn.execute(SQL["unpublished_revision_of_job"], {"job_id": job_id}).fetchone()
    return None if row is None else int(row[0])


def sources_of(conn: Conn, key: RevisionKey) -> list[LineageSource]:
    return read_all(conn, LineageSource, SQL["lineage"], key._asdict())


def descendants_of(conn: Conn, key: RevisionKey) -> list[Descendant]:
    return read_all(conn, Descendant, SQL["descendants"], key._asdict())
