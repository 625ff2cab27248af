"""Takes revisions back: state, catalogue, files and records of it, in one transaction.

Nothing is deleted from blob storage here. The transaction writes down which files are to be deleted, and the
orchestrator's relay does that (`file_deletions`). Files that another revision or job has as well are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import orjson

from rmhdag.models.api.assets import PromotedPlace, UnpublishedItem, UnpublishingView
from rmhdag.models.assets import ApprovalState
from rmhdag.models.ids import file_id_of, unpublishing_id_of
from rmhdag.models.records import UnpublishRecord
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.models.unpublishing import UnpublishingStatus
from rmhdag.store import assets
from rmhdag.store.asset_states import show_revision
from rmhdag.store.audit import add_audit
from rmhdag.store.batch_rows import DoomedFile, FilePlace, RevisionKey, encode_rows
from rmhdag.store.bites import in_bites
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.data_tables import OwnTable, drop_tables, drop_unowned, find_place, tables_of_revisions
from rmhdag.store.identity import new_id
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all
from rmhdag.store.revision_items import CompletedRevision, show_current, withdraw_asset
from rmhdag.store.service_calls import announce_withdrawal

SQL = load_queries(__file__)
# Waits for all who are recording files, and lets nobody record one until the end of the transaction: a file that
# another revision is just getting would seem to have no other owner. Unpublishing is rare and short.
LOCK_FILES = "LOCK TABLE dag_blob_assets IN SHARE ROW EXCLUSIVE MODE"
ACTION = "asset.unpublish"
# What a record names of each kind; it counts all.
MOST_NAMED = 100
# A statement has a time limit, and an asset may have any number of files.
FILES_PER_STATEMENT = 2_000


Row = TypeVar("Row")


class Unpublish(NamedTuple):
    """What is asked for. Without a revision: all of the asset. `owner` is the node that asks, as `job/node`."""

    namespace: str
    asset_id: str
    revision: int | None
    issued_by: str
    force: bool = False
    reason: str | None = None
    owner: str | None = None


class OwnFile(NamedTuple):
    """`also_of` is another owner of a file at the same place: it stays."""

    zone: str
    container: str
    path: str
    size_bytes: int
    revision: int
    also_of: str | None


class RevisionState(NamedTuple):
    revision: int
    status: str
    review_state: str
    clearance: str
    content_hash: str | None
    unpublished_at: datetime | None


class Preview(NamedTuple):
    """`revisions` are those that are not unpublished yet; without any, nothing is left to do. `blob_ids` are the rows
    of `files`: several, if revisions share one.
    """

    asset_id: str
    current_revision: int | None
    revisions: list[RevisionState]
    files: list[OwnFile]
    items: list[UnpublishedItem]
    outside: list[PromotedPlace]
    blob_ids: list[str]
    tables: list[OwnTable]

    @property
    def numbers(self) -> list[int]:
        return [state.revision for state in self.revisions]

    @property
    def approved(self) -> list[int]:
        return [state.revision for state in self.revisions if state.review_state == ApprovalState.APPROVED]

    @property
    def deleted_files(self) -> list[OwnFile]:
        return [file for file in self.files if file.also_of is None]

    @property
    def dropped_tables(self) -> list[OwnTable]:
        return [table for table in self.tables if table.also_of is None]


class Unpublished(NamedTuple):
    """`unpublishing_ids` by revision; `notices` say what the caller should know of services outside."""

    preview: Preview
    status: UnpublishingStatus | None
    unpublishing_ids: dict[int, str]
    notices: list[str]


class NothingToUnpublish(Refusal):
    """There is no such asset, or no such revision of it."""

    def __init__(self, asset_id: str, revision: int | None) -> None:
        what = f"asset {asset_id!r}" if revision is None else f"revision {revision} of asset {asset_id!r}"
        super().__init__(
            Kind.NOT_FOUND,
            "not_found",
            f"there is no {what}, so there is nothing to unpublish",
            remedy="`GET /api/v1/assets` lists assets, `GET /api/v1/assets/{asset_id}/revisions` their revisions.",
        )


class UnpublishConflict(Refusal):
    """The asset's state does not allow it."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(Kind.CONFLICT, code, message, remedy=remedy)


def find_by_item(conn: Conn, namespace: str, collection_id: str, item_id: str) -> tuple[str, int] | None:
    """Asset and revision of an item; None if none of them has it."""
    values = {"namespace": namespace, "collection_id": collection_id, "item_id": item_id}
    row = conn.execute(SQL["find_by_item"], values).fetchone()
    return None if row is None else (row[0], row[1])


def find_by_table(conn: Conn, namespace: str, record: UnpublishRecord, issued_by: str) -> tuple[str, int | None] | None:
    """Asset and revision of the table that a public name shows. A table of a job without an asset is taken back here,
    and None is returned, as for a name that shows nothing.
    """
    table_name = str(record.table_name)
    place = find_place(conn, namespace, table_name)
    if place is None:
        raise UnpublishConflict("unknown_table", f"there is no table {table_name!r}", "Check its name.")
    asset_id, revision, table_id = place
    if asset_id is not None:
        return asset_id, revision
    if table_id is not None and not record.dry_run:
        names = drop_unowned(conn, namespace, table_name)
        add_audit(
            conn,
            namespace,
            issued_by,
            "table.unpublish",
            f"table {table_name}",
            after={"tables": names},
            reason=record.reason,
        )
    return None


def preview(conn: Conn, request: Unpublish) -> Preview:
    """Every file and item that would go, of approved content too. Raises NothingToUnpublish, UnpublishConflict."""
    where: dict[str, Any] = {"namespace": request.namespace, "asset_id": request.asset_id, "revision": request.revision}
    asset = conn.execute(SQL["asset"], where).fetchone()
    if asset is None:
        raise NothingToUnpublish(request.asset_id, None)
    current, is_busy, job_id = asset
    chosen = [RevisionState(*row) for row in conn.execute(SQL["revisions"], where).fetchall()]
    if not chosen:
        raise NothingToUnpublish(request.asset_id, request.revision)
    if is_busy:
        raise UnpublishConflict(
            "asset_processing",
            f"asset {request.asset_id} is being processed; it cannot be unpublished now",
            f"Wait for its end, or cancel job {job_id}.",
        )
    remaining = [state for state in chosen if state.unpublished_at is None]
    where["revisions"] = [state.revision for state in remaining]
    files, blob_ids = _files(conn, where)
    return Preview(
        request.asset_id,
        current,
        remaining,
        files,
        read_all(conn, UnpublishedItem, SQL["items"], where),
        read_all(conn, PromotedPlace, SQL["places_outside"], where),
        blob_ids,
        tables_of_revisions(conn, where),
    )


def _files(conn: Conn, where: dict[str, Any]) -> tuple[list[OwnFile], list[str]]:
    """Each place once, with the newest revision that has a file there, and the ids of all rows."""
    own: dict[FilePlace, tuple[int, int]] = {}
    blob_ids: list[str] = []
    # By hand: the cursors of the driver fail on the connection of an orchestrator, which begins transactions by itself.
    conn.execute(b"DECLARE own_files NO SCROLL CURSOR FOR " + SQL["files"], where, prepare=False)
    fetch = f"FETCH {FILES_PER_STATEMENT} FROM own_files".encode()
    while rows := conn.execute(fetch, prepare=False).fetchall():
        for blob_id, zone, container, path, size_bytes, revision in rows:
            blob_ids.append(blob_id)
            place = FilePlace(zone, container, path)
            size, newest = own.get(place, (0, 0))
            own[place] = (max(size, size_bytes), max(newest, revision))
    conn.execute("CLOSE own_files", prepare=False)
    owners: dict[FilePlace, str] = {}
    for places in _pieces(sorted(own)):
        values = {**where, "places": encode_rows(places)}
        owners.update({FilePlace(*row[:3]): row[3] for row in conn.execute(SQL["other_owners"], values).fetchall()})
    return [OwnFile(*place, *own[place], owners.get(place)) for place in sorted(own)], blob_ids


def _pieces(rows: list[Row]) -> Iterator[list[Row]]:
    return (rows[start : start + FILES_PER_STATEMENT] for start in range(0, len(rows), FILES_PER_STATEMENT))


@commit_site
def unpublish(conn: Conn, request: Unpublish) -> Unpublished:
    """In a transaction of its own. A repetition finds nothing left to do. Raises NothingToUnpublish,
    UnpublishConflict.
    """
    with conn.transaction():
        return unpublish_within(conn, request)


def unpublish_within(conn: Conn, request: Unpublish, *, dry_run: bool = False) -> Unpublished:
    """Within the caller's transaction. With `dry_run` only the preview is written down."""
    if dry_run:
        content = preview(conn, request)
        return Unpublished(content, UnpublishingStatus.DRY_RUN, _write_down(conn, request, content, dry_run=True), [])
    # Before the asset: publishing takes these locks in this order.
    conn.execute(LOCK_FILES)
    if assets.lock_asset(conn, request.namespace, request.asset_id) is None:
        raise NothingToUnpublish(request.asset_id, None)
    content = preview(conn, request)
    if not content.revisions:
        return Unpublished(content, None, {}, [])
    if content.approved and not request.force:
        raise UnpublishConflict(
            "approved_content",
            f"revision {content.approved[0]} of asset {request.asset_id} is approved",
            "Revoke it first, or repeat the call with `force: true`, which revokes it.",
        )
    ids = _write_down(conn, request, content, dry_run=False)
    values: dict[str, Any] = {
        "namespace": request.namespace,
        "asset_id": request.asset_id,
        "revisions": content.numbers,
        "by": request.issued_by,
        "reason": request.reason or "unpublished",
    }
    for name in ("mark_revisions", "close_approvals"):
        conn.execute(SQL[name], values)
    for blob_ids in _pieces(content.blob_ids):
        conn.execute(SQL["mark_blobs"], {"blob_ids": blob_ids})
    for files in _pieces(content.deleted_files):
        doomed = (
            DoomedFile(file_id_of(request.namespace, *file[:3]), request.namespace, *file[:3], ids[file.revision])
            for file in files
        )
        for _, text in in_bites(doomed):
            conn.execute(SQL["delete_files"], {"rows": text})
    for number in content.numbers:
        drop_tables(conn, RevisionKey(request.namespace, request.asset_id, number), ids[number])
    _show_what_is_left(conn, request, content)
    notices = []
    for number in content.numbers:
        notices += announce_withdrawal(
            conn, RevisionKey(request.namespace, request.asset_id, number), requested_by=request.issued_by
        )
    artifacts = _artifacts(content)
    for state in content.revisions:
        _audit(conn, request, content, state, ids[state.revision], artifacts[state.revision])
    has_work = bool(content.deleted_files or content.tables)
    status = UnpublishingStatus.PENDING if has_work else UnpublishingStatus.COMPLETED
    return Unpublished(content, status, ids, notices)


def list_unpublishings(
    conn: Conn,
    namespace: str,
    asset_id: str,
    *,
    before: tuple[datetime, str] | None = None,
    previews_too: bool = True,
    limit: int = 50,
) -> list[UnpublishingView]:
    """Newest first; `before` is where the page before ended."""
    values: dict[str, Any] = {
        "namespace": namespace,
        "asset_id": asset_id,
        "previews_too": previews_too,
        "limit": limit,
    }
    values["before_at"], values["before_id"] = before or (None, None)
    return read_all(conn, UnpublishingView, SQL["list"], values)


def _show_what_is_left(conn: Conn, request: Unpublish, content: Preview) -> None:
    """The asset as its other revisions make it; the relay of the catalogue does the rest."""
    show_revision(conn, RevisionKey(request.namespace, request.asset_id, content.numbers[-1]))
    line = assets.find_asset(conn, request.namespace, request.asset_id)
    assert line is not None, "it is locked"
    if line.current_revision is None:
        withdraw_asset(conn, request.namespace, request.asset_id)
    elif line.current_revision != content.current_revision:
        key = RevisionKey(request.namespace, request.asset_id, line.current_revision)
        show_current(conn, [CompletedRevision(key)])


def _write_down(conn: Conn, request: Unpublish, content: Preview, *, dry_run: bool) -> dict[int, str]:
    ids: dict[int, str] = {}
    for number, artifacts in _artifacts(content).items():
        has_tables = any(table.revision == number for table in content.tables)
        status = UnpublishingStatus.PENDING if artifacts["files"] or has_tables else UnpublishingStatus.COMPLETED
        place = (request.namespace, request.asset_id, number)
        ids[number] = new_id() if request.owner is None else unpublishing_id_of(request.owner, *place)
        values = {
            "unpublishing_id": ids[number],
            "namespace": request.namespace,
            "asset_id": request.asset_id,
            "revision": number,
            "status": UnpublishingStatus.DRY_RUN if dry_run else status,
            "forced": request.force,
            "by": request.issued_by,
            "reason": request.reason,
            "artifacts": orjson.dumps(artifacts).decode(),
        }
        conn.execute(SQL["insert_unpublishing"], values)
    return ids


def _artifacts(content: Preview) -> dict[int, dict[str, Any]]:
    """By revision."""
    files: dict[int, list[OwnFile]] = {number: [] for number in content.numbers}
    for file in content.files:
        files[file.revision].append(file)
    return {number: _artifacts_of(content, number, files[number]) for number in content.numbers}


def _artifacts_of(content: Preview, number: int, files: list[OwnFile]) -> dict[str, Any]:
    """Everything is counted, and the first of each kind are named."""
    deleted = [file for file in files if file.also_of is None]
    shared = [file for file in files if file.also_of is not None]
    items = [item for item in content.items if item.revision == number]
    outside = [place for place in content.outside if place.revision == number]
    tables = [table for table in content.dropped_tables if table.revision == number]
    return {
        "files": len(deleted),
        "bytes": sum(file.size_bytes for file in deleted),
        "shared_files": len(shared),
        "tables": len(tables),
        "items": len(items),
        "outside": [place.model_dump() for place in outside],
        "named": {
            "files": [_place(file) for file in deleted[:MOST_NAMED]],
            "shared_files": [_place(file) for file in shared[:MOST_NAMED]],
            "items": [f"{item.collection_id}/{item.item_id}" for item in items[:MOST_NAMED]],
            "tables": [table.table_name for table in tables[:MOST_NAMED]],
        },
    }


def _place(file: OwnFile) -> str:
    return f"{file.zone}/{file.container}/{file.path}"


def _audit(
    conn: Conn,
    request: Unpublish,
    content: Preview,
    state: RevisionState,
    unpublishing_id: str,
    artifacts: dict[str, Any],
) -> None:
    counts = {name: artifacts[name] for name in ("files", "bytes", "shared_files", "tables", "items")}
    add_audit(
        conn,
        request.namespace,
        request.issued_by,
        ACTION,
        f"asset {request.asset_id}",
        before={
            "revision": state.revision,
            "status": state.status,
            "review_state": state.review_state,
            "clearance": state.clearance,
            "content_hash": state.content_hash,
            "was_current": state.revision == content.current_revision,
        },
        after={"unpublishing_id": unpublishing_id, "forced": request.force, **counts},
        reason=request.reason,
    )
