"""Make the data database show what our rows say: give tables their public names, and drop those that nobody needs.

Part of the thread that writes the catalogue. All names of one asset, or of one job without an asset, change in one
transaction of the data database, so that readers see all old tables or all new ones. A claim is a lease in the row; the
version in the data database decides between two who switch at once. Each claim takes one owner or one table, so a
lease is short: what an orchestrator leaves when it is killed is taken over after LEASE_SECONDS.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from random import Random

import psycopg

from rmhdag.models.data_tables import PlaceStatus
from rmhdag.observability.logs import get_logger
from rmhdag.observability.secrets import mask_and_cut
from rmhdag.postgis.database import Conn as DataConn
from rmhdag.postgis.database import DataDatabase, DataDatabaseError
from rmhdag.postgis.switching import (
    Overtaken,
    PlaceChange,
    SwitchRefused,
    drop_stored,
    find_strays,
    switch_places,
)
from rmhdag.store.batch_rows import PlaceTry
from rmhdag.store.connection import Conn
from rmhdag.store.data_tables import (
    ClaimedDrop,
    ClaimedPlace,
    claim_drops,
    claim_places,
    has_due,
    namespaces_with_tables,
    settle_drop,
    settle_places,
    unknown_names,
)

log = get_logger(__name__)
BITE = 50
# Longer than a switch or a drop usually takes. One that takes longer may be done twice, which changes nothing.
LEASE_SECONDS = 10.0
MOST_DELAY_SECONDS = 300.0
MOST_TRIES_OF_DATA = 3
STRAYS_SECONDS = 3_600.0
MOST_TRIES = 1_000
MESSAGE_LETTERS = 2_000


@dataclass
class Shower:
    """What one orchestrator needs to reach the data database; None: there is none."""

    dsn: str | None
    keep_revisions: int = 2
    # Tables of this age that no row names are left over from jobs that failed.
    stray_days: float = 30.0
    strays_due_at: float = 0.0
    jitter: Random = field(default_factory=Random)
    was_warned: bool = False


def run_once(conn: Conn, shower: Shower) -> int:
    """How many names and tables were tried."""
    if shower.dsn is not None and time.monotonic() >= shower.strays_due_at:
        shower.strays_due_at = time.monotonic() + STRAYS_SECONDS
        _drop_strays(conn, shower, shower.dsn)
    if not has_due(conn):
        return 0
    if shower.dsn is None:
        if not shower.was_warned:
            shower.was_warned = True
            log.warning("data_tables_wait", error="no data database is configured: set RMHDAG_POSTGIS_URL")
        return 0
    tried = 0
    while tried < BITE and (places := claim_places(conn, limit=1, lease_seconds=LEASE_SECONDS)):
        for (namespace, _), group in groupby(sorted(places, key=_owner), key=_owner):
            _switch(conn, shower, shower.dsn, namespace, list(group))
        tried += len(places)
    dropped = 0
    while dropped < BITE and (drops := claim_drops(conn, limit=1, lease_seconds=LEASE_SECONDS)):
        _drop(conn, shower, shower.dsn, drops[0])
        dropped += 1
    return tried + dropped


def _drop_strays(conn: Conn, shower: Shower, dsn: str) -> None:
    """A failure matters to nobody: the next hour tries again."""
    for namespace in namespaces_with_tables(conn):
        database = DataDatabase(dsn, namespace)
        try:
            with _reached(database) as data:
                for name in unknown_names(conn, namespace, find_strays(database, data, shower.stray_days)):
                    drop_stored(database, data, name)
                    log.info("stray_table_dropped", namespace=namespace, table=name)
        except (psycopg.Error, DataDatabaseError) as error:
            log.warning("stray_tables_not_dropped", namespace=namespace, error=type(error).__name__)


def _owner(place: ClaimedPlace) -> tuple[str, str]:
    return place.namespace, place.owner


def _switch(conn: Conn, shower: Shower, dsn: str, namespace: str, places: Sequence[ClaimedPlace]) -> None:
    database = DataDatabase(dsn, namespace)
    newer: dict[str, int] = {}
    error, most = None, MOST_TRIES
    try:
        with _reached(database) as data:
            switch_places(database, data, [_change(place) for place in places])
    except Overtaken as overtaken:
        newer, error = overtaken.versions, str(overtaken)
    except SwitchRefused as refusal:
        error, most = str(refusal), MOST_TRIES_OF_DATA
    except DataDatabaseError as fault:
        # Of the server, not of the table: somebody will install PostGIS.
        error = str(fault)
    except psycopg.errors.LockNotAvailable:
        error = "somebody reads the tables that are to be replaced"
    except psycopg.Error as failure:
        error = failure.diag.message_primary or type(failure).__name__
    tries = [_try(shower, place, error, most, newer.get(place.table_name)) for place in places]
    owner = places[0]
    settle_places(conn, tries, asset_id=None if owner.revision is None else owner.owner, keep=shower.keep_revisions)
    if error is not None:
        log.warning(
            "data_tables_not_shown", tables=[place.table_name for place in places][:10], error=mask_and_cut(error, 500)
        )


def _change(place: ClaimedPlace) -> PlaceChange:
    label = "" if place.revision is None else f"r{place.revision}"
    return PlaceChange(place.table_name, place.version, place.stored_name, label, place.details or {})


def _try(shower: Shower, place: ClaimedPlace, error: str | None, most: int, newer: int | None) -> PlaceTry:
    status = PlaceStatus.SHOWN if error is None else PlaceStatus.PENDING
    if error is not None and newer is None and place.attempts >= most:
        status = PlaceStatus.DEAD
    return PlaceTry(
        namespace=place.namespace,
        table_name=place.table_name,
        version=place.version,
        lease_epoch=place.lease_epoch,
        status=status,
        delay_seconds=_delay_seconds(shower, place.attempts) if status is PlaceStatus.PENDING else None,
        error=None if error is None else mask_and_cut(error, MESSAGE_LETTERS),
        newer_version=newer,
    )


def _drop(conn: Conn, shower: Shower, dsn: str, drop: ClaimedDrop) -> None:
    error = None
    is_dropped = drop.is_needed
    if not drop.is_needed:
        database = DataDatabase(dsn, drop.namespace)
        try:
            with _reached(database) as data:
                is_dropped = drop_stored(database, data, drop.stored_name)
            if not is_dropped:
                error = "a public name still shows it"
                log.warning("data_table_not_dropped", table=drop.stored_name, tries=drop.attempts, error=error)
        except (psycopg.Error, DataDatabaseError) as failure:
            diagnosis = failure.diag.message_primary if isinstance(failure, psycopg.Error) else str(failure)
            error = mask_and_cut(diagnosis or type(failure).__name__, MESSAGE_LETTERS)
            log.warning("data_table_not_dropped", table=drop.stored_name, tries=drop.attempts, error=error)
    settle_drop(conn, drop, is_dropped=is_dropped, error=error, delay_seconds=_delay_seconds(shower, drop.attempts))


@contextmanager
def _reached(database: DataDatabase) -> Iterator[DataConn]:
    with database.connect() as conn:
        conn.execute("SET statement_timeout = '10s'")
        yield conn


def _delay_seconds(shower: Shower, attempts: int) -> float:
    return min(MOST_DELAY_SECONDS, 2.0 ** min(attempts - 1, 20)) * shower.jitter.uniform(0.5, 1.0)
