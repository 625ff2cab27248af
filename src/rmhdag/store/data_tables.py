"""Tables in the data database, as rows of ours: whose they are, which public name shows which, and what may be dropped.

Nothing here reaches the data database. Transactions that publish, roll back or unpublish change these rows; the
orchestrator's relay (`duties/data_tables`) makes the data database follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rmhdag.models.api.assets import DataTableView
from rmhdag.models.data_tables import PlaceStatus
from rmhdag.models.ids import revision_owner, table_id_of
from rmhdag.models.records import TableRecord
from rmhdag.store.batch_rows import PlaceName, PlaceTry, RevisionKey, TableRow, encode_rows
from rmhdag.store.bites import in_bites
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.file_deletions import complete_unpublishings
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all

SQL = load_queries(__file__)


class TableOwner(NamedTuple):
    """The job that publishes, and the revision that it works for, if any."""

    namespace: str
    job_id: str
    node_id: str
    asset_id: str | None
    revision: int | None


class TakenName(Exception):
    """The name shows a table of somebody else."""

    def __init__(self, table_name: str, asset_id: str | None) -> None:
        whose = "to a table of another job" if asset_id is None else f"to asset {asset_id}"
        remedy = "choose another table_name" + ("" if asset_id else ", or order with overwrite")
        super().__init__(f"TABLE_EXISTS: the name {table_name!r} belongs {whose}: {remedy}")


class OwnTable(NamedTuple):
    """`also_of` is another owner of the same stored table: it stays."""

    table_name: str
    stored_name: str
    role: str
    feature_count: int
    revision: int
    also_of: str | None


class ClaimedPlace(NamedTuple):
    namespace: str
    table_name: str
    owner: str
    version: int
    lease_epoch: int
    attempts: int
    stored_name: str | None
    revision: int | None
    details: dict[str, Any] | None


class ClaimedDrop(NamedTuple):
    table_id: str
    namespace: str
    stored_name: str
    attempts: int
    unpublishing_id: str | None
    is_needed: bool


def require_names(conn: Conn, owner: TableOwner, names: Sequence[str], *, overwrite: bool) -> None:
    """Raises TakenName."""
    values = owner._asdict() | {"names": sorted(names), "overwrite": overwrite}
    conn.execute(SQL["lock_names"], values)
    row = conn.execute(SQL["foreign_places"], values).fetchone()
    if row is not None:
        raise TakenName(*row)


def require_names_of(conn: Conn, key: RevisionKey) -> None:
    """A revision that is to be served can have its names. Raises TakenName."""
    names = [row[0] for row in conn.execute(SQL["names_of_revision"], key._asdict()).fetchall()]
    if names:
        require_names(conn, TableOwner(key.namespace, "", "", key.asset_id, key.revision), names, overwrite=True)


def put_tables(conn: Conn, owner: TableOwner, records: Sequence[TableRecord]) -> None:
    """Within the transaction that completes the node. Those of a job that makes no revision are shown at once."""
    for record in records:
        require_names(conn, owner, [record.table_name], overwrite=record.overwrite)
    rows = [
        TableRow(
            table_id=table_id_of(owner.job_id, record.stored_name),
            namespace=owner.namespace,
            table_name=record.table_name,
            stored_name=record.stored_name,
            role=record.role,
            geometry_type=record.geometry_type,
            feature_count=record.feature_count,
            asset_id=owner.asset_id,
            revision=owner.revision,
            job_id=owner.job_id,
            node_id=owner.node_id,
            details=record.details,
        )
        for record in records
    ]
    for _, text in in_bites(rows):
        with conn.pipeline():
            conn.execute(SQL["put_tables"], {"rows": text})
    if rows and owner.revision is None:
        conn.execute(SQL["show_tables_of_job"], {"tables": [row.table_id for row in rows]})


def show_tables(conn: Conn, keys: Sequence[RevisionKey]) -> None:
    """These revisions are current now: their names show their tables, and no other names of their assets show any."""
    revisions = {"revisions": encode_rows(keys)}
    conn.execute(SQL["withdraw_older_places"], revisions)
    conn.execute(SQL["show_tables"], revisions)


def withdraw_tables(conn: Conn, namespace: str, asset_id: str) -> None:
    conn.execute(SQL["withdraw_tables"], {"namespace": namespace, "asset_id": asset_id})


def copy_tables(conn: Conn, key: RevisionKey, of: int) -> None:
    """The tables of an earlier revision are those of a new one, too."""
    conn.execute(SQL["copy_tables"], key._asdict() | {"of": of, "owner": revision_owner(*key)})


def has_lost_tables(conn: Conn, key: RevisionKey) -> bool:
    row = conn.execute(SQL["has_lost_tables"], key._asdict()).fetchone()
    return row is not None and bool(row[0])


def take_over_tables(conn: Conn, job_id: str, nodes: Sequence[str], fan_outs: Sequence[str]) -> None:
    conn.execute(SQL["take_over_tables"], {"job_id": job_id, "nodes": list(nodes), "fan_outs": list(fan_outs)})


def tables_of_revisions(conn: Conn, where: dict[str, Any]) -> list[OwnTable]:
    return [OwnTable(*row) for row in conn.execute(SQL["tables_of_revisions"], where).fetchall()]


def list_tables(conn: Conn, key: RevisionKey, *, limit: int = 1_000) -> list[DataTableView]:
    return read_all(conn, DataTableView, SQL["list_tables"], key._asdict() | {"limit": limit})


def table_boxes(conn: Conn, key: RevisionKey, *, limit: int = 100) -> list[Any]:
    """As the handler has written them down, which need not be boxes."""
    return [row[0] for row in conn.execute(SQL["table_boxes"], key._asdict() | {"limit": limit}).fetchall()]


def drop_tables(conn: Conn, key: RevisionKey, unpublishing_id: str) -> None:
    conn.execute(SQL["drop_tables_of_revision"], key._asdict() | {"unpublishing_id": unpublishing_id})


def find_place(conn: Conn, namespace: str, table_name: str) -> tuple[str | None, int | None, str | None] | None:
    """Asset, revision and table of a public name; None if nobody ever had it."""
    row = conn.execute(SQL["find_place"], {"namespace": namespace, "table_name": table_name}).fetchone()
    return None if row is None else (row[0], row[1], row[2])


def drop_unowned(conn: Conn, namespace: str, table_name: str) -> list[str]:
    """The table of a job without an asset and all others of that job; their names."""
    values = {"namespace": namespace, "table_name": table_name}
    return sorted(row[0] for row in conn.execute(SQL["drop_unowned"], values).fetchall())


def has_due(conn: Conn) -> bool:
    row = conn.execute(SQL["has_due"], prepare=True).fetchone()
    return row is not None and bool(row[0])


@commit_site
def claim_places(conn: Conn, *, limit: int, lease_seconds: float) -> list[ClaimedPlace]:
    values = {"limit": limit, "lease_seconds": lease_seconds}
    with conn.transaction():
        names = [PlaceName(*row) for row in conn.execute(SQL["claim_places"], values).fetchall()]
        if not names:
            return []
        places = {"places": encode_rows(names)}
        return [ClaimedPlace(*row) for row in conn.execute(SQL["claimed_places"], places).fetchall()]


@commit_site
def settle_places(conn: Conn, tries: Sequence[PlaceTry], *, asset_id: str | None = None, keep: int = 0) -> None:
    """What was tried. With those that are shown, tables that nobody needs any more are to be dropped: in the same
    transaction, because nobody comes back to a name that is shown.

    `asset_id` is the owner of the names, if it is an asset; `keep` of its earlier revisions keep their tables.
    """
    with conn.transaction():
        if asset_id is not None:
            conn.execute(SQL["lock_owner"], {"namespace": tries[0].namespace, "asset_id": asset_id})
        conn.execute(SQL["settle_places"], {"rows": encode_rows(tries)})
        done = [place for place in tries if place.status is PlaceStatus.SHOWN]
        for place in done:
            values = {"namespace": place.namespace, "names": [place.table_name]}
            conn.execute(SQL["drop_overwritten"], values)
            conn.execute(SQL["hurry_drops"], values)
        if done and asset_id is not None:
            owner = {"namespace": done[0].namespace, "asset_id": asset_id, "keep": keep}
            conn.execute(SQL["outlive_tables"], owner)


def namespaces_with_tables(conn: Conn) -> list[str]:
    return [row[0] for row in conn.execute(SQL["namespaces_with_tables"]).fetchall()]


def unknown_names(conn: Conn, namespace: str, names: Sequence[str]) -> list[str]:
    """Of these stored tables, those that no row of ours names."""
    values = {"namespace": namespace, "names": list(names)}
    return [row[0] for row in conn.execute(SQL["unknown_names"], values).fetchall()]


@commit_site
def claim_drops(conn: Conn, *, limit: int, lease_seconds: float) -> list[ClaimedDrop]:
    values = {"limit": limit, "lease_seconds": lease_seconds}
    return [ClaimedDrop(*row) for row in conn.execute(SQL["claim_drops"], values).fetchall()]


@commit_site
def settle_drop(conn: Conn, drop: ClaimedDrop, *, is_dropped: bool, error: str | None, delay_seconds: float) -> None:
    values = {"table_id": drop.table_id, "is_dropped": is_dropped, "error": error, "delay_seconds": delay_seconds}
    with conn.transaction():
        conn.execute(SQL["settle_drop"], values)
        if is_dropped and drop.unpublishing_id is not None:
            complete_unpublishings(conn, [drop.unpublishing_id])
