"""Update the catalogue: claim due entries, write them, record the outcomes.

This duty has a thread and a connection of its own: blob storage may be slow or away, and no job waits for it. A claim
is a lease in the row, so several orchestrators share the work and nobody has to notice that one of them is gone; it is
short, so that what one of them left is soon told, and renewed between files. No transaction is open while a file is
written. Each file decides by the version between two writers, so that a delayed writer does not put an older entry
in the place of a newer one; a file that takes longer than a lease may be written twice, which changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import psycopg

from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.models.catalogue import CatalogueKind, EntryStatus
from rmhdag.observability.logs import get_logger
from rmhdag.observability.secrets import mask_and_cut
from rmhdag.storage.errors import OutsideStorage, StorageError
from rmhdag.storage.settings import StorageSettings
from rmhdag.storage.zones import open_storage
from rmhdag.store.catalogue_entries import (
    ClaimedEntry,
    TriedEntry,
    claim_entries,
    has_due,
    keep_entries,
    settle_entries,
    settle_entries_in_pgstac,
)
from rmhdag.store.connection import Conn
from rmhdag.store.pgstac import CollectionMissing

log = get_logger(__name__)
BITE = 50
MOST_OPEN = 64
LEASE_SECONDS = 15.0
MOST_DELAY_SECONDS = 900.0
# Storage that is away comes back, within a day or so; what an entry says stays as it is.
MOST_TRIES_OF_STORAGE = 100
MOST_TRIES_OF_DATA = 3
MESSAGE_LETTERS = 2_000


@dataclass
class Relay:
    """What one orchestrator needs to reach the catalogue. Storage is opened when there is something to tell."""

    kind: CatalogueKind
    storage: StorageSettings
    jitter: Random = field(default_factory=Random)
    renewal_seconds: float = 3.0
    opened: dict[str, StaticCatalogue] = field(default_factory=dict)
    was_warned: bool = False

    def catalogue(self, namespace: str) -> StaticCatalogue:
        """That of a namespace: each has a root of its own."""
        if namespace not in self.opened:
            if len(self.opened) >= MOST_OPEN:
                self.opened.clear()
            self.opened[namespace] = StaticCatalogue(open_storage(self.storage, namespace))
        return self.opened[namespace]


def run_once(conn: Conn, relay: Relay) -> int:
    """How many entries were tried."""
    if not has_due(conn):
        return 0
    if relay.kind is CatalogueKind.PGSTAC:
        return _tell_pgstac(conn, relay)
    if not relay.storage.is_given:
        if not relay.was_warned:
            relay.was_warned = True
            log.warning("catalogue_waits", error="no blob storage is configured: set RMHDAG_STORAGE")
        return 0
    waiting = claim_entries(conn, limit=BITE, lease_seconds=LEASE_SECONDS)
    times = 0
    while waiting:
        tried = _try_for_a_while(relay, waiting)
        settle_entries(conn, tried)
        times += len(tried)
        if waiting := waiting[len(tried) :]:
            waiting = keep_entries(conn, waiting, lease_seconds=LEASE_SECONDS)
    return times


def _tell_pgstac(conn: Conn, relay: Relay) -> int:
    """Together if possible; one by one if that is refused, so that the one at fault stands alone."""
    claimed = claim_entries(conn, limit=BITE, lease_seconds=LEASE_SECONDS)
    try:
        if claimed and settle_entries_in_pgstac(conn, claimed) == len(claimed):
            return len(claimed)
    except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, CollectionMissing):
        pass
    for entry in claimed:
        try:
            settle_entries_in_pgstac(conn, [entry])
        except (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, CollectionMissing) as error:
            reason = error.diag.message_primary if isinstance(error, psycopg.Error) else str(error)
            settle_entries(conn, [_failed(relay, entry, reason or type(error).__name__, MOST_TRIES_OF_DATA)])
    return len(claimed)


def _try_for_a_while(relay: Relay, waiting: Sequence[ClaimedEntry]) -> list[TriedEntry]:
    """At least one of them."""
    renewal = time.monotonic() + relay.renewal_seconds
    tried: list[TriedEntry] = []
    for entry in waiting:
        tried.append(_try(relay, entry))
        if time.monotonic() >= renewal:
            break
    return tried


def _try(relay: Relay, entry: ClaimedEntry) -> TriedEntry:
    try:
        catalogue = relay.catalogue(entry.namespace)
        if not entry.item_id:
            is_shown = catalogue.put_collection(entry.body, version=entry.version)
        elif entry.removed:
            is_shown = catalogue.remove_item(entry.collection_id, entry.item_id, version=entry.version)
        else:
            is_shown = catalogue.put_item(entry.collection_id, entry.body, version=entry.version)
        newer = None if is_shown else catalogue.version_of(entry.collection_id, entry.item_id)
    except StorageError as error:
        most = MOST_TRIES_OF_DATA if isinstance(error, OutsideStorage) else MOST_TRIES_OF_STORAGE
        return _failed(relay, entry, str(error), most)
    except Exception as error:  # whatever is wrong with this entry is wrong with this entry alone
        return _failed(relay, entry, f"{type(error).__name__}: {error}", MOST_TRIES_OF_DATA)
    if newer is None:
        return TriedEntry(entry, EntryStatus.PUBLISHED)
    # Another orchestrator was quicker with a newer entry, and then nothing is settled. Or the file is of a time before
    # this row: then the entry takes the version after the file's.
    log.warning("catalogue_has_newer", collection_id=entry.collection_id, item_id=entry.item_id, version=entry.version)
    return TriedEntry(entry, EntryStatus.PENDING, _delay_seconds(relay, entry), None, newer)


def _failed(relay: Relay, entry: ClaimedEntry, message: str, most_tries: int) -> TriedEntry:
    reason = mask_and_cut(message, MESSAGE_LETTERS)
    is_dead = entry.attempts >= most_tries
    names = {"collection_id": entry.collection_id, "item_id": entry.item_id, "times": entry.attempts, "error": reason}
    log.warning("catalogue_entry_dead" if is_dead else "catalogue_entry_not_told", **names)
    if is_dead:
        return TriedEntry(entry, EntryStatus.DEAD, None, reason)
    return TriedEntry(entry, EntryStatus.PENDING, _delay_seconds(relay, entry), reason)


def _delay_seconds(relay: Relay, entry: ClaimedEntry) -> float:
    return min(MOST_DELAY_SECONDS, 2.0 ** min(entry.attempts - 1, 20)) * relay.jitter.uniform(0.5, 1.0)
