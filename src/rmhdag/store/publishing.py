"""The publish lane: what a handler hands over as records becomes rows in the transaction that completes its node.

Files, lineage, promotions and requests for approval are rows at once. STAC items and collections are entries of the
catalogue: pgSTAC is told in the same transaction, files in blob storage by the orchestrator's relay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import orjson
import psycopg

from rmhdag.models.blobs import check_path
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.ids import approval_id_of, blob_id_of, lineage_id_of
from rmhdag.models.records import (
    AnyRecord,
    ApprovalRequestRecord,
    BlobRecord,
    LineageRecord,
    PromotionRecord,
    StacCollectionRecord,
    StacItemRecord,
)
from rmhdag.store.pgstac import CollectionMissing, ToldEntry, tell_pgstac
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]
MOST_COLLECTION_LETTERS = 64
MOST_ITEM_LETTERS = 255


class PublishFailed(Exception):
    """The records cannot be published as they are; the transaction is to be rolled back. Says why."""


class Publication(NamedTuple):
    """The records of one node that completes."""

    job_id: str
    node_id: str
    records: Sequence[AnyRecord]
    catalogue: CatalogueKind


class TakeOver(NamedTuple):
    """A rerun that begins: these nodes, and the finished children of these fan-outs, are not done again."""

    job_id: str
    nodes: Sequence[str]
    fan_outs: Sequence[str]


class EntryChange(NamedTuple):
    """A collection (`item_id` is '') or an item as the catalogue is to show it, or not to show it any more."""

    collection_id: str
    item_id: str
    namespace: str
    removed: bool
    body: Mapping[str, Any]
    asset_id: str | None = None
    revision: int | None = None
    job_id: str | None = None
    node_id: str | None = None


class _Owner(NamedTuple):
    job_id: str
    namespace: str
    asset_id: str | None
    revision: int | None


def publish(conn: Conn, publications: Sequence[Publication]) -> None:
    """Within the transaction that holds the jobs. Raises PublishFailed for what trying the same again cannot mend."""
    # Left, the pipeline has heard what became of every statement.
    with told_apart(), conn.pipeline():
        rows = conn.execute(SQL["revisions_of_jobs"], {"jobs": [one.job_id for one in publications]}).fetchall()
        owners = {row[0]: _Owner(*row) for row in rows}
        for one in publications:
            owner = owners[one.job_id]
            if owner.revision is None:
                owner = owner._replace(asset_id=None)
            _put_rows(conn, owner, one)
            put_in_catalogue(conn, one.catalogue, _entries(owner, one))


def take_over(conn: Conn, begun: TakeOver) -> None:
    """The records of what a rerun does not do again, for its own revision."""
    given = {"job_id": begun.job_id, "nodes": list(begun.nodes), "fan_outs": list(begun.fan_outs)}
    for name in ("take_over_blobs", "take_over_lineage", "take_over_entries"):
        conn.execute(SQL[name], given)


def put_in_catalogue(conn: Conn, kind: CatalogueKind, changes: Sequence[EntryChange]) -> None:
    """Within the caller's transaction. Of two changes of one thing the later one counts."""
    newest = {(one.collection_id, one.item_id): one for one in changes}
    if not newest:
        return
    for one in newest.values():
        _check_ids(one)
    with told_apart():
        entries = orjson.dumps([list(one) for one in newest.values()]).decode()
        conn.execute(SQL["put_entries"], {"entries": entries, "told": kind is CatalogueKind.PGSTAC})
        theirs = conn.execute(SQL["entries_of_others"], {"entries": entries}).fetchone()
        if theirs is not None:
            raise PublishFailed(f"the collection {theirs[0]!r} belongs to another namespace: choose another id")
        if kind is CatalogueKind.PGSTAC:
            rows = conn.execute(SQL["newest_entries"], {"entries": entries}).fetchall()
            tell_pgstac(conn, [ToldEntry(*row) for row in rows])


def keep_catalogue(conn: Conn, job_ids: Sequence[str]) -> None:
    """After the rows of these jobs, which make revisions: what the catalogue shows of those that are completed now."""
    given = {"jobs": list(job_ids)}
    conn.execute(SQL["keep_catalogue"], given, prepare=True)
    conn.execute(SQL["withdraw_older_entries"], given, prepare=True)


def publish_again(conn: Conn, namespace: str, asset_id: str, revision: int, catalogue: Sequence[Any]) -> None:
    """What an earlier revision has published, and nothing else, as that of a new one."""
    withdraw_asset(conn, namespace, asset_id)
    items = [StacItemRecord.model_validate(one) for one in catalogue]
    changes = [
        EntryChange(one.collection_id, str(one.item["id"]), namespace, False, one.item, asset_id, revision)
        for one in items
    ]
    put_in_catalogue(conn, CatalogueKind.STATIC, changes)


def withdraw_asset(conn: Conn, namespace: str, asset_id: str) -> None:
    """The catalogue is not to show it any more."""
    conn.execute(SQL["withdraw_asset"], {"namespace": namespace, "asset_id": asset_id})


@contextmanager
def told_apart() -> Iterator[None]:
    """What the database says of the data is the node's failure; what it says of itself is not."""
    try:
        yield
    except CollectionMissing as error:
        raise PublishFailed(str(error)) from None
    except psycopg.errors.QueryCanceled as error:
        raise PublishFailed("publishing took longer than a statement may: hand over fewer records at once") from error
    except (psycopg.OperationalError, psycopg.InterfaceError):
        raise
    except psycopg.Error as error:
        # Not str(error): its details quote rows, and rows hold what users gave us.
        raise PublishFailed(f"the database refused it: {error.diag.message_primary or type(error).__name__}") from error


def _put_rows(conn: Conn, owner: _Owner, publication: Publication) -> None:
    node_id = publication.node_id
    whose = [owner.asset_id, owner.revision, owner.job_id, node_id]
    blobs: dict[str, list[Any]] = {}
    refs: dict[str, list[Any]] = {}
    promotions: dict[tuple[Any, ...], list[Any]] = {}
    approvals: dict[str, list[Any]] = {}
    for record in publication.records:
        match record:
            case BlobRecord():
                place = [record.zone, record.container, record.path]
                blob_id = blob_id_of(owner.job_id, record.zone, record.container, record.path, record.role)
                content = [record.size_bytes, record.sha256, record.role, record.media_type]
                blobs[blob_id] = [blob_id, owner.namespace, *place, *content, *whose]
            case LineageRecord():
                source = record.source_url or f"{record.source_asset_id}/{record.source_revision}"
                ref_id = lineage_id_of(owner.job_id, record.role, source)
                origin = [record.role, record.source_asset_id, record.source_revision, record.source_url]
                refs[ref_id] = [ref_id, owner.namespace, *whose, *origin]
            case PromotionRecord():
                key = (owner.namespace, record.asset_id, record.revision, record.target)
                promotions[key] = [*key, record.url]
            case ApprovalRequestRecord():
                bound = (owner.namespace, record.asset_id, record.revision, record.content_hash)
                approval_id = approval_id_of(owner.job_id, *bound)
                approvals[approval_id] = [approval_id, *bound, record.requested_by, record.message]
            case StacItemRecord() | StacCollectionRecord():
                pass  # the catalogue's
    for query, name, rows in (
        ("put_blobs", "blobs", blobs),
        ("put_lineage", "refs", refs),
        ("put_promotions", "promotions", promotions),
        ("put_approvals", "approvals", approvals),
    ):
        if rows:
            conn.execute(SQL[query], {name: orjson.dumps(list(rows.values())).decode()})


def _entries(owner: _Owner, publication: Publication) -> list[EntryChange]:
    """Collections belong to no revision: many share them."""
    changes = []
    for record in publication.records:
        if isinstance(record, StacItemRecord):
            body = {**record.item, "collection": record.collection_id}
            changes.append(
                EntryChange(
                    record.collection_id,
                    str(record.item["id"]),
                    owner.namespace,
                    False,
                    body,
                    owner.asset_id,
                    owner.revision,
                    owner.job_id,
                    publication.node_id,
                )
            )
        elif isinstance(record, StacCollectionRecord):
            body = record.collection
            found = EntryChange(str(body["id"]), "", owner.namespace, False, body)
            changes.append(found._replace(job_id=owner.job_id, node_id=publication.node_id))
    return changes


def _check_ids(change: EntryChange) -> None:
    """Ids become names of files, in every catalogue that somebody makes of this one."""
    named = [("collection", change.collection_id, MOST_COLLECTION_LETTERS), ("item", change.item_id, MOST_ITEM_LETTERS)]
    for what, value, most in named:
        if not value and what == "item":
            continue
        try:
            check_path(value)
        except ValueError as error:
            raise PublishFailed(f"the {what} id {value[:80]!r} cannot be published: {error}") from None
        if "/" in value:
            raise PublishFailed(f"the {what} id {value[:80]!r} cannot be published: it has a /, write - instead")
        if len(value) > most:
            raise PublishFailed(f"the {what} id {value[:80]!r} has more than {most} letters: shorten it")
