"""The publish lane: what a handler hands over as records becomes rows in the transaction that completes its node.

Items of a job that makes a revision are kept with it until the revision is current (`revision_items`). Collections,
and items of other jobs, are entries of the catalogue at once: pgSTAC gets them in the same transaction, files in blob
storage are written by the orchestrator's relay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from rmhdag.models.blobs import check_container, check_path
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.hrefs import CODE as HREF_REFUSED
from rmhdag.models.hrefs import find_href_fault
from rmhdag.models.ids import approval_id_of, blob_id_of, lineage_id_of
from rmhdag.models.namespaces import DEFAULT, RESERVED
from rmhdag.models.records import (
    AnyRecord,
    ApprovalRequestRecord,
    BlobRecord,
    LineageRecord,
    PromotionRecord,
    StacCollectionRecord,
    StacItemRecord,
)
from rmhdag.store.bites import in_bites
from rmhdag.store.pgstac import CollectionMissing, put_in_pgstac
from rmhdag.store.queries import load_queries
from rmhdag.store.revision_items import StagedItem, stage_items, take_over_items
from rmhdag.store.verdicts import Verdict, judge

SQL = load_queries(__file__)
Conn = psycopg.Connection[Any]
MOST_COLLECTION_LETTERS = 64
MOST_ITEM_LETTERS = 255


class PublishFailed(Exception):
    """The records cannot be published as they are; the transaction is to be rolled back. Says why."""


class Publication(NamedTuple):
    """The records of one node that completes. `is_ours` says whether a URL is that of a file of the job's namespace."""

    job_id: str
    node_id: str
    records: Sequence[AnyRecord]
    catalogue: CatalogueKind
    is_ours: Callable[[str], bool]


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
    job_id: str | None = None
    node_id: str | None = None


class _Owner(NamedTuple):
    """A job and the revision that it makes. Items of a child job belong to `item_revision`, which an ancestor makes."""

    job_id: str
    namespace: str
    asset_id: str | None
    revision: int | None
    item_asset_id: str | None
    item_revision: int | None
    item_job_id: str | None
    item_node_id: str | None


def publish(conn: Conn, publications: Sequence[Publication]) -> None:
    """Within the transaction that holds the jobs. Raises PublishFailed for what would fail again in the same way."""
    # When the pipeline is left, every statement has been answered.
    with told_apart(), conn.pipeline():
        rows = conn.execute(SQL["revisions_of_jobs"], {"jobs": [one.job_id for one in publications]}).fetchall()
        owners = {row[0]: _Owner(*row) for row in rows}
        for one in publications:
            owner = owners[one.job_id]
            if owner.revision is None:
                owner = owner._replace(asset_id=None)
            _put_rows(conn, owner, one)
            _put_stac(conn, owner, one)


def take_over(conn: Conn, begun: TakeOver) -> None:
    """The records of what a rerun does not do again, for its own revision."""
    given = {"job_id": begun.job_id, "nodes": list(begun.nodes), "fan_outs": list(begun.fan_outs)}
    for name in ("take_over_blobs", "take_over_lineage", "take_over_entries"):
        conn.execute(SQL[name], given)
    take_over_items(conn, *begun)


def put_in_catalogue(conn: Conn, kind: CatalogueKind, changes: Sequence[EntryChange]) -> None:
    """Within the caller's transaction. Of two changes of one thing the later one counts."""
    newest = {
        (one.namespace, one.collection_id, one.item_id): one._replace(body={}) if one.removed else one
        for one in sorted(changes, key=lambda one: one.item_id != "")
    }
    for one in newest.values():
        _check_ids(kind, one.namespace, one.collection_id, one.item_id)
    with told_apart():
        for bite, text in in_bites(newest.values()):
            conn.execute(SQL["put_entries"], {"rows": text})
            if kind is CatalogueKind.PGSTAC:
                put_in_pgstac(conn, [(one.namespace, one.collection_id, one.item_id) for one in bite])


@contextmanager
def told_apart() -> Iterator[None]:
    """What the database says of the data is the node's failure; what it says of itself is not."""
    try:
        yield
    except CollectionMissing as error:
        raise PublishFailed(str(error)) from None
    except psycopg.errors.QueryCanceled as error:
        raise PublishFailed("publishing took longer than a statement may: hand over fewer records at once") from error
    except psycopg.Error as error:
        if judge(error) is not Verdict.DATA:
            raise
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
                _check_place(owner.namespace, record)
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
    for query, rows in (
        ("put_blobs", blobs),
        ("put_lineage", refs),
        ("put_promotions", promotions),
        ("put_approvals", approvals),
    ):
        for _, text in in_bites(rows.values()):
            # A pipeline that is left has been answered: no more than one bite is on its way.
            with conn.pipeline():
                conn.execute(SQL[query], {"rows": text})


def _put_stac(conn: Conn, owner: _Owner, publication: Publication) -> None:
    """Collections belong to no revision: many share them."""
    changes: list[EntryChange] = []
    items: dict[tuple[str, str], StagedItem] = {}
    whose = (owner.job_id, publication.node_id)
    for record in publication.records:
        if isinstance(record, StacCollectionRecord):
            body = record.collection
            _check_hrefs(body, publication)
            changes.append(EntryChange(str(body["id"]), "", owner.namespace, False, body, *whose))
        elif isinstance(record, StacItemRecord):
            key = (record.collection_id, str(record.item["id"]))
            body = {**record.item, "collection": record.collection_id}
            _check_hrefs(body, publication)
            if owner.item_asset_id is None or owner.item_revision is None:
                changes.append(EntryChange(*key, owner.namespace, False, body, *whose))
            else:
                _check_ids(publication.catalogue, owner.namespace, *key)
                revision = (owner.namespace, owner.item_asset_id, owner.item_revision)
                maker = (owner.item_job_id or owner.job_id, owner.item_node_id or publication.node_id)
                items[key] = StagedItem(*revision, *key, body, *maker)
    put_in_catalogue(conn, publication.catalogue, changes)
    stage_items(conn, publication.catalogue, list(items.values()))


def _check_hrefs(document: Mapping[str, Any], publication: Publication) -> None:
    fault = find_href_fault(document, publication.is_ours)
    if fault is not None:
        raise PublishFailed(f"{HREF_REFUSED}: {document['id'][:80]!r}: {fault}")


def _check_place(namespace: str, record: BlobRecord) -> None:
    """As storage checks it for whoever reads the file. A container is always one of the job's namespace."""
    try:
        check_container(record.container)
        check_path(record.path)
    except ValueError as error:
        raise PublishFailed(f"the file {record.path[:80]!r} cannot be recorded: {error}") from None
    if namespace == DEFAULT and record.container.startswith(RESERVED):
        raise PublishFailed(f"the file {record.path[:80]!r} cannot be recorded: its container is another namespace's")


def _check_ids(kind: CatalogueKind, namespace: str, collection_id: str, item_id: str) -> None:
    """Ids become names of files, in every catalogue that somebody makes of this one."""
    if kind is CatalogueKind.PGSTAC and namespace == DEFAULT and collection_id.startswith(RESERVED):
        raise PublishFailed(
            f"the collection id {collection_id[:80]!r} cannot be published: {RESERVED} begins the ids of other "
            "namespaces in pgSTAC, choose another"
        )
    named = [("collection", collection_id, MOST_COLLECTION_LETTERS), ("item", item_id, MOST_ITEM_LETTERS)]
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
