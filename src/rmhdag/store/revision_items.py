"""The STAC items of revisions, and the switch that makes the catalogue show those of the current one.

A node's items are stored with the revision that its job makes, and nobody sees them. The transaction that makes the
revision current calls `show_current`: what the asset showed before is withdrawn and the new items are put in its place.
Bodies are copied within the server, in statements of bounded size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmhdag.models.catalogue import CatalogueKind
from rmhdag.store.batch_rows import RevisionKey, StagedItem, encode_rows
from rmhdag.store.bites import in_bites
from rmhdag.store.connection import Conn
from rmhdag.store.data_tables import show_tables, withdraw_tables
from rmhdag.store.pgstac import hide_removed, rehearse_items, show_range
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
# A statement that copies as much takes about half a second; one may take ten.
RANGE_BYTES = 8 * 1024 * 1024


class CompletedRevision(NamedTuple):
    """`catalogue` is the one that this transaction can write itself, if it is pgSTAC."""

    key: RevisionKey
    catalogue: CatalogueKind = CatalogueKind.STATIC


class ItemRange(NamedTuple):
    """Some items of a revision: those after a key, up to and including the last one."""

    namespace: str
    asset_id: str
    revision: int
    after_collection: str
    after_item: str
    last_collection: str
    last_item: str


def stage_items(conn: Conn, kind: CatalogueKind, items: Sequence[StagedItem]) -> None:
    """Keep them with their revision; the same item of the same revision again replaces the first."""
    for bite, text in in_bites(items):
        conn.execute(SQL["stage_items"], {"rows": text})
        if kind is CatalogueKind.PGSTAC:
            rehearse_items(conn, [item[:5] for item in bite])
        _wait(conn)


def take_over_items(conn: Conn, job_id: str, nodes: Sequence[str], fan_outs: Sequence[str]) -> None:
    """What a rerun does not do again belongs to its revision too."""
    values = {"job_id": job_id, "nodes": list(nodes), "fan_outs": list(fan_outs)}
    row = conn.execute(SQL["rerun_revisions"], values).fetchone()
    if row is not None:
        for items in _ranges(conn, [RevisionKey(*row[:3])]):
            conn.execute(SQL["copy_items"], items._asdict() | values | {"to_revision": row[3]})
            _wait(conn)
        conn.execute(SQL["take_over_shown_entries"], values)


def copy_items(conn: Conn, key: RevisionKey, of: int) -> None:
    """All items of an earlier revision, for a new one that no job makes."""
    values = {"to_revision": key.revision, "job_id": None, "nodes": None, "fan_outs": None}
    earlier = key._replace(revision=of)
    for items in _ranges(conn, [earlier]):
        conn.execute(SQL["copy_items"], items._asdict() | values)
        _wait(conn)
    conn.execute(SQL["copy_kept_catalogue"], earlier._asdict() | values)


def show_current(conn: Conn, completed: Sequence[CompletedRevision]) -> None:
    """Of these revisions, let the catalogue show those that are to be shown, and nothing else of their assets.

    After the assets' rows say which revision is current, and under their locks.
    """
    rows = conn.execute(
        SQL["revisions_to_show"], {"revisions": encode_rows(revision.key for revision in completed)}
    ).fetchall()
    if not rows:
        return
    keys = [RevisionKey(*row) for row in rows]
    revisions = {"revisions": encode_rows(keys)}
    conn.execute(SQL["keep_shown_entries"], revisions)
    conn.execute(SQL["withdraw_older_entries"], revisions)
    in_pgstac = {revision.key for revision in completed if revision.catalogue is CatalogueKind.PGSTAC}
    for key in in_pgstac.intersection(keys):
        hide_removed(conn, key.namespace, key.asset_id)
    for items in _ranges(conn, keys):
        conn.execute(SQL["show_items"], items._asdict())
        if items[:3] in in_pgstac:
            show_range(conn, items)
        _wait(conn)
    show_tables(conn, keys)


def withdraw_asset(conn: Conn, namespace: str, asset_id: str, catalogue: CatalogueKind = CatalogueKind.STATIC) -> None:
    """The catalogue shows nothing of it any more; the caller holds its lock."""
    conn.execute(SQL["withdraw_asset"], {"namespace": namespace, "asset_id": asset_id})
    withdraw_tables(conn, namespace, asset_id)
    if catalogue is CatalogueKind.PGSTAC:
        hide_removed(conn, namespace, asset_id)


def _ranges(conn: Conn, keys: Sequence[RevisionKey]) -> list[ItemRange]:
    values = {"revisions": encode_rows(keys), "range_bytes": RANGE_BYTES}
    return [ItemRange(*row) for row in conn.execute(SQL["item_ranges"], values).fetchall()]


def _wait(conn: Conn) -> None:
    """Until all that was sent is answered: so little is on its way at a time, and no answer takes long."""
    with conn.pipeline() as pipeline:
        pipeline.sync()
