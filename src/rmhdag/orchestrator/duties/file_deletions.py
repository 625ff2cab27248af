"""Delete the files of unpublished revisions: claim due deletions, delete, record the outcomes.

Part of the thread that writes the catalogue, which waits for the same storage. A claim is a lease in the row, and
nothing is deleted once it has run out: another orchestrator may be done by then, and somebody may have written the file
again. Names come from rows of ours and are read as names of the row's namespace. Files in containers that namespaces
share are kept: rows of another namespace may mean the same file.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from rmhdag.models.records import Zone
from rmhdag.models.unpublishing import DeletionStatus
from rmhdag.observability.logs import get_logger
from rmhdag.observability.secrets import mask_and_cut
from rmhdag.storage.errors import OutsideStorage, StorageError
from rmhdag.storage.settings import StorageSettings
from rmhdag.storage.zones import Storage, open_storage
from rmhdag.store.connection import Conn
from rmhdag.store.file_deletions import (
    ClaimedDeletion,
    TriedDeletion,
    claim_deletions,
    has_due,
    needed_places,
    settle_deletions,
)

log = get_logger(__name__)
BITE = 50
LEASE_SECONDS = 30.0
# After this time, the rest of a bite is left to the next claim.
WORK_SECONDS = 20.0
MOST_DELAY_SECONDS = 900.0
MOST_TRIES_OF_STORAGE = 100
MOST_TRIES_OF_DATA = 3
MESSAGE_LETTERS = 2_000
NEEDED = "a revision or a job has a file at this place"
SHARED = "the container is shared between namespaces, so other namespaces may need the file"


class LeaseOver(Exception):
    """Too late to delete anything."""


@dataclass
class Remover:
    """What one orchestrator needs to delete files."""

    storage: StorageSettings
    jitter: Random = field(default_factory=Random)
    lease_seconds: float = LEASE_SECONDS
    was_warned: bool = False

    def is_shared(self, namespace: str, zone: Zone, container: str) -> bool:
        view = self.storage.view_of(namespace)
        if (zone, container) in view.shared:
            return True
        name = f"{zone}/{container}"
        return not view.home and any(name in shared for shared in self.storage.shares.values())


def run_once(conn: Conn, remover: Remover) -> int:
    """How many files were tried."""
    if not has_due(conn):
        return 0
    if not remover.storage.is_given:
        if not remover.was_warned:
            remover.was_warned = True
            log.warning("file_deletions_wait", error="no blob storage is configured: set RMHDAG_STORAGE")
        return 0
    deadline = time.monotonic() + remover.lease_seconds * WORK_SECONDS / LEASE_SECONDS
    claimed = claim_deletions(conn, limit=BITE, lease_seconds=remover.lease_seconds)
    tried = _try_all(remover, claimed, needed_places(conn, claimed) if claimed else set(), deadline)
    if tried:
        settle_deletions(conn, tried)
    return len(tried)


def _try_all(
    remover: Remover, claimed: Sequence[ClaimedDeletion], needed: set[str], deadline: float
) -> list[TriedDeletion]:
    tried: list[TriedDeletion] = []
    opened: dict[str, Storage] = {}

    def check_lease() -> None:
        if time.monotonic() >= deadline:
            raise LeaseOver

    for deletion in claimed:
        try:
            if deletion.file_id in needed:
                tried.append(TriedDeletion(deletion, DeletionStatus.KEPT, error=NEEDED))
            elif remover.is_shared(deletion.namespace, Zone(deletion.zone), deletion.container):
                tried.append(TriedDeletion(deletion, DeletionStatus.KEPT, error=SHARED))
            else:
                if deletion.namespace not in opened:
                    opened[deletion.namespace] = open_storage(remover.storage, deletion.namespace, check_lease)
                opened[deletion.namespace].delete(deletion.address)
                tried.append(TriedDeletion(deletion, DeletionStatus.DELETED))
        except LeaseOver:
            break
        except StorageError as error:
            most = MOST_TRIES_OF_DATA if isinstance(error, OutsideStorage) else MOST_TRIES_OF_STORAGE
            tried.append(_failed(remover, deletion, str(error), most))
        except Exception as error:  # whatever is wrong with this file is wrong with this file alone
            tried.append(_failed(remover, deletion, f"{type(error).__name__}: {error}", MOST_TRIES_OF_DATA))
    return tried


def _failed(remover: Remover, deletion: ClaimedDeletion, why: str, most: int) -> TriedDeletion:
    error = mask_and_cut(why, MESSAGE_LETTERS)
    if deletion.attempts >= most:
        log.warning("file_deletion_dead", file_id=deletion.file_id, tries=deletion.attempts, error=error)
        return TriedDeletion(deletion, DeletionStatus.DEAD, error=error)
    delay = min(MOST_DELAY_SECONDS, 2.0 ** min(deletion.attempts, 10)) * remover.jitter.uniform(0.8, 1.2)
    return TriedDeletion(deletion, DeletionStatus.DELETING, delay, error)
