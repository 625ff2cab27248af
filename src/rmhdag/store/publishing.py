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
from rmhdag.models.ids import blob_id_of, file_id_of, lineage_id_of
from rmhdag.models.namespaces import DEFAULT, RESERVED
from rmhdag.models.public_items import without_internals
from rmhdag.models.records import (
    AnyRecord,
    ApprovalDecisionRecord,
    ApprovalRequestRecord,
    BlobRecord,
    ExternalPromotionRecord,
    LineageRecord,
    PromotionRecord,
    StacCollectionRecord,
    StacItemRecord,
    TableClaimRecord,
    TableRecord,
    UnpublishRecord,
)
from rmhdag.models.refusals import Refusal
from rmhdag.store.assets import lock_asset
from rmhdag.store.batch_rows import BlobRow, EntryChange, LineageRow, PromotionRow, RevisionKey, StagedItem
from rmhdag.store.bites import in_bites
from rmhdag.store.connection import Conn
from rmhdag.store.data_tables import TableOwner, TakenName, put_tables, require_names, take_over_tables
from rmhdag.store.file_deletions import keep_files
from rmhdag.store.pgstac import CollectionMissing, put_in_pgstac
from rmhdag.store.queries import load_queries
from rmhdag.store.revision_items import stage_items, take_over_items
from rmhdag.store.service_calls import announce_approval
from rmhdag.store.unpublishing import Unpublish, find_by_item, find_by_table, unpublish_within
from rmhdag.store.verdicts import Verdict, judge

SQL = load_queries(__file__)
MOST_COLLECTION_LETTERS = 64
MOST_ITEM_LETTERS = 255


class PublishFailed(Exception):
    """The records cannot be published as they are; the transaction is to be rolled back. Says why."""


class Reviews(NamedTuple):
    """The use cases behind records about reviews. They raise Refusal."""

    request: Callable[[Conn, str, RevisionKey | None, ApprovalRequestRecord], None]
    decide: Callable[[Conn, str, ApprovalDecisionRecord, CatalogueKind], None]


class Publication(NamedTuple):
    """The records of one node that completes. `is_ours` says whether a URL is that of a file of the job's namespace."""

    job_id: str
    node_id: str
    records: Sequence[AnyRecord]
    catalogue: CatalogueKind
    is_ours: Callable[[str], bool]
    reviews: Reviews


class TakeOver(NamedTuple):
    """A rerun that begins: these nodes, and the finished children of these fan-outs, are not done again."""

    job_id: str
    nodes: Sequence[str]
    fan_outs: Sequence[str]


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
    submitted_by: str


def publish(conn: Conn, publications: Sequence[Publication]) -> None:
    """Within the transaction that holds the jobs. Raises PublishFailed for what would fail again in the same way."""
    # When the pipeline is left, every statement has been answered.
    with told_apart(), conn.pipeline():
        rows = conn.execute(
            SQL["revisions_of_jobs"], {"jobs": [publication.job_id for publication in publications]}
        ).fetchall()
        owners = {row[0]: _Owner(*row) for row in rows}
        for publication in publications:
            owner = owners[publication.job_id]
            if owner.revision is None:
                owner = owner._replace(asset_id=None)
            _put_rows(conn, owner, publication)
            _put_tables(conn, owner, publication)
            _put_stac(conn, owner, publication)
            _put_reviews(conn, owner, publication)
            for record in publication.records:
                if isinstance(record, ExternalPromotionRecord):
                    _promote(conn, owner, record)
                elif isinstance(record, UnpublishRecord):
                    _unpublish(conn, owner, publication.node_id, record)


def take_over(conn: Conn, begun: TakeOver) -> None:
    """The records of what a rerun does not do again, for its own revision."""
    values = {"job_id": begun.job_id, "nodes": list(begun.nodes), "fan_outs": list(begun.fan_outs)}
    for name in ("take_over_blobs", "take_over_lineage", "take_over_entries"):
        conn.execute(SQL[name], values)
    take_over_items(conn, *begun)
    take_over_tables(conn, *begun)


def put_in_catalogue(conn: Conn, kind: CatalogueKind, changes: Sequence[EntryChange]) -> None:
    """Within the caller's transaction. Of two changes of one thing the later one counts."""
    newest = {
        (change.namespace, change.collection_id, change.item_id): change._replace(body={}) if change.removed else change
        for change in sorted(changes, key=lambda change: change.item_id != "")
    }
    for change in newest.values():
        _check_ids(kind, change.namespace, change.collection_id, change.item_id)
    with told_apart():
        for bite, text in in_bites(newest.values()):
            conn.execute(SQL["put_entries"], {"rows": text})
            if kind is CatalogueKind.PGSTAC:
                put_in_pgstac(conn, [(change.namespace, change.collection_id, change.item_id) for change in bite])


@contextmanager
def told_apart() -> Iterator[None]:
    """What the database says of the data is the node's failure; what it says of itself is not."""
    try:
        yield
    except CollectionMissing as error:
        raise PublishFailed(str(error)) from None
    except psycopg.errors.QueryCanceled as error:
        raise PublishFailed("publishing exceeded the statement timeout: return fewer records at once") from error
    except psycopg.Error as error:
        if judge(error) is not Verdict.DATA:
            raise
        # Not str(error): its details quote rows, and rows hold what users gave us.
        raise PublishFailed(f"the database refused it: {error.diag.message_primary or type(error).__name__}") from error


def _put_rows(conn: Conn, owner: _Owner, publication: Publication) -> None:
    blobs: dict[str, BlobRow] = {}
    refs: dict[str, LineageRow] = {}
    promotions: dict[tuple[Any, ...], PromotionRow] = {}
    for record in publication.records:
        match record:
            case BlobRecord():
                _check_place(owner.namespace, record)
                blob_id = blob_id_of(owner.job_id, record.zone, record.container, record.path, record.role)
                blobs[blob_id] = BlobRow(
                    blob_id=blob_id,
                    namespace=owner.namespace,
                    zone=record.zone,
                    container=record.container,
                    path=record.path,
                    size_bytes=record.size_bytes,
                    sha256=record.sha256,
                    role=record.role,
                    media_type=record.media_type,
                    asset_id=owner.asset_id,
                    revision=owner.revision,
                    job_id=owner.job_id,
                    node_id=publication.node_id,
                )
            case LineageRecord():
                source = record.source_url or f"{record.source_asset_id}/{record.source_revision}"
                ref_id = lineage_id_of(owner.job_id, record.role, source)
                refs[ref_id] = LineageRow(
                    ref_id=ref_id,
                    namespace=owner.namespace,
                    asset_id=owner.asset_id,
                    revision=owner.revision,
                    job_id=owner.job_id,
                    node_id=publication.node_id,
                    role=record.role,
                    source_asset_id=record.source_asset_id,
                    source_revision=record.source_revision,
                    source_url=record.source_url,
                )
            case PromotionRecord():
                row = PromotionRow(owner.namespace, record.asset_id, record.revision, record.target, url=record.url)
                promotions[row.asset_id, row.revision, row.target] = row
            case ApprovalRequestRecord() | ApprovalDecisionRecord():
                pass  # after all the others: a review is about what they publish
            case StacItemRecord() | StacCollectionRecord():
                pass  # the catalogue's
            case TableClaimRecord() | TableRecord():
                pass  # the data database's
            case ExternalPromotionRecord() | UnpublishRecord():
                pass  # commands, which come after all that is published
    for query, rows in (
        ("put_blobs", blobs.values()),
        ("put_lineage", refs.values()),
        ("put_promotions", promotions.values()),
    ):
        for _, text in in_bites(rows):
            # A pipeline that is left has been answered: no more than one bite is on its way.
            with conn.pipeline():
                conn.execute(SQL[query], {"rows": text})
    if blobs:
        _keep(conn, owner, publication.node_id, [*blobs.values()])


def _keep(conn: Conn, owner: _Owner, node_id: str, blobs: Sequence[BlobRow]) -> None:
    """These files are needed from now on, even if somebody was about to delete them."""
    files = [file_id_of(owner.namespace, blob.zone, blob.container, blob.path) for blob in blobs]
    name = keep_files(conn, files, owner.job_id, node_id)
    if name is not None:
        raise PublishFailed(
            f"the file {name[:200]!r} was deleted while this task relied on it, because it was unpublished: the next "
            "attempt writes it again"
        )


def _put_tables(conn: Conn, owner: _Owner, publication: Publication) -> None:
    """Those of a child job belong to the revision that an ancestor makes."""
    mine = TableOwner(owner.namespace, owner.job_id, publication.node_id, owner.item_asset_id, owner.item_revision)
    try:
        for record in publication.records:
            if isinstance(record, TableClaimRecord):
                require_names(conn, mine, record.table_names, overwrite=record.overwrite)
        put_tables(conn, mine, [record for record in publication.records if isinstance(record, TableRecord)])
    except TakenName as error:
        raise PublishFailed(str(error)) from None


def _promote(conn: Conn, owner: _Owner, record: ExternalPromotionRecord) -> None:
    # Until the call is written down, nobody revokes what it announces.
    lock_asset(conn, owner.namespace, record.asset_id)
    values = {"namespace": owner.namespace, "asset_id": record.asset_id, "revision": record.revision}
    row = conn.execute(SQL["promotable_revision"], values).fetchone()
    if row is None:
        which = "no revision that is served" if record.revision is None else f"no served revision {record.revision}"
        raise PublishFailed(f"asset {record.asset_id} has {which}: only that is promoted")
    revision, clearance = row
    if clearance != "public":
        raise PublishFailed(
            f"revision {revision} of asset {record.asset_id} is {clearance}, and only public content is promoted: "
            "decide its clearance when you approve it"
        )
    announce_approval(
        conn,
        RevisionKey(owner.namespace, record.asset_id, revision),
        clearance,
        requested_by=owner.submitted_by,
        service=record.service,
    )


def _unpublish(conn: Conn, owner: _Owner, node_id: str, record: UnpublishRecord) -> None:
    holder = {"namespace": owner.namespace, "name": owner.submitted_by, "job_id": owner.job_id}
    if conn.execute(SQL["may_unpublish"], holder).fetchone() != (True,):
        raise PublishFailed(
            f"{owner.submitted_by} has submitted the job and has no key with the scope `operate`, so it cannot "
            "unpublish. Let an operator submit it."
        )
    asset_id, revision = record.asset_id, record.revision
    if record.collection_id is not None and record.item_id is not None:
        subject = find_by_item(conn, owner.namespace, record.collection_id, record.item_id)
        if subject is None:
            return  # nobody has such an item, so nothing is left to do
        asset_id, revision = subject
    if record.table_name is not None:
        try:
            place = find_by_table(conn, owner.namespace, record, owner.submitted_by)
        except Refusal as refusal:
            raise PublishFailed(f"{refusal.message}. {refusal.remedy or ''}".strip()) from None
        if place is None:
            return
        asset_id, revision = place
    assert asset_id is not None, "the record names one of the three"
    request = Unpublish(
        owner.namespace,
        asset_id,
        revision,
        owner.submitted_by,
        record.force,
        record.reason,
        f"{owner.job_id}/{node_id}",
    )
    try:
        unpublish_within(conn, request, dry_run=record.dry_run)
    except Refusal as refusal:
        raise PublishFailed(f"{refusal.message}. {refusal.remedy or ''}".strip()) from None


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
            body = {**without_internals(record.item), "collection": record.collection_id}
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


def _put_reviews(conn: Conn, owner: _Owner, publication: Publication) -> None:
    own = None
    if owner.asset_id is not None and owner.revision is not None:
        own = RevisionKey(owner.namespace, owner.asset_id, owner.revision)
    for record in publication.records:
        try:
            if isinstance(record, ApprovalRequestRecord):
                publication.reviews.request(conn, owner.job_id, own, record)
            elif isinstance(record, ApprovalDecisionRecord):
                publication.reviews.decide(conn, owner.job_id, record, publication.catalogue)
        except Refusal as refusal:
            raise PublishFailed(" ".join(filter(None, (f"{refusal.message}.", refusal.remedy)))) from None


def _check_hrefs(document: Mapping[str, Any], publication: Publication) -> None:
    fault = find_href_fault(document, publication.is_ours)
    if fault is not None:
        raise PublishFailed(f"{HREF_REFUSED}: {document['id'][:80]!r}: {fault}")


def _check_place(namespace: str, record: BlobRecord) -> None:
    """As storage checks it for readers of the file. A container is always one of the job's namespace."""
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
