"""The relay to the static catalogue: eventually and exactly so, whoever dies, is held up or is away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rmhdag.catalogue.static import StaticCatalogue
from rmhdag.models.catalogue import CatalogueKind, EntryStatus
from rmhdag.orchestrator.duties import catalogue as relaying
from rmhdag.orchestrator.duties.catalogue import Relay, run_once
from rmhdag.services.dead_letters import requeue
from rmhdag.storage import StorageSettings, open_storage
from rmhdag.store import crash_points
from rmhdag.store.batch_rows import EntryChange
from rmhdag.store.catalogue_entries import TriedEntry, claim_entries, keep_entries, settle_entries
from rmhdag.store.dead_letters import dead_letters
from rmhdag.store.publishing import put_in_catalogue
from tests.orchestrator.platform import Platform


class Killed(BaseException):
    """Nothing catches it."""


@pytest.fixture
def settings(tmp_path: Path) -> StorageSettings:
    return StorageSettings(str(tmp_path / "blobs"))


@pytest.fixture
def shown(settings: StorageSettings) -> StaticCatalogue:
    return StaticCatalogue(open_storage(settings, "default"))


@pytest.fixture
def relay(settings: StorageSettings) -> Iterator[Relay]:
    yield Relay(CatalogueKind.STATIC, settings)
    crash_points.disarm()


def put(platform: Platform, item_id: str, number: int, *, removed: bool = False, collection_id: str = "c") -> None:
    body = {"id": item_id, "n": number} if item_id else {"id": collection_id, "n": number, "type": "Collection"}
    with platform.conn.transaction():
        change = EntryChange(collection_id, item_id, "default", removed, body)
        put_in_catalogue(platform.conn, CatalogueKind.STATIC, [change])


def make_due(platform: Platform) -> None:
    platform.conn.execute("UPDATE dag_catalogue_entries SET next_attempt_at = '2000-01-01' WHERE status = 'pending'")


def statuses(platform: Platform) -> list[str]:
    query = "SELECT status::text FROM dag_catalogue_entries ORDER BY collection_id, item_id"
    return [row[0] for row in platform.conn.execute(query)]


def number_of(shown: StaticCatalogue, item_id: str = "i") -> int | None:
    found = shown.find_item("c", item_id)
    return None if found is None else found["n"]


def test_entries_are_told_once_and_then_rest(platform: Platform, relay: Relay, shown: StaticCatalogue) -> None:
    put(platform, "", 1)
    put(platform, "i", 1)
    assert run_once(platform.conn, relay) == 2
    assert (statuses(platform), number_of(shown)) == (["published"] * 2, 1)
    assert run_once(platform.conn, relay) == 0
    put(platform, "i", 2)
    put(platform, "i", 3)
    assert run_once(platform.conn, relay) == 1
    assert number_of(shown) == 3
    put(platform, "i", 3, removed=True)
    run_once(platform.conn, relay)
    assert number_of(shown) is None
    put(platform, "i", 3)
    run_once(platform.conn, relay)
    assert number_of(shown) == 3


@pytest.mark.parametrize("damage", [None, "{broken"])
def test_the_same_again_brings_back_a_file_that_was_lost(
    platform: Platform, relay: Relay, shown: StaticCatalogue, tmp_path: Path, damage: str | None
) -> None:
    put(platform, "i", 1)
    run_once(platform.conn, relay)
    file = next(tmp_path.rglob("items/i.json"))
    if damage is None:
        file.unlink()
    else:
        file.write_text(damage)
    put(platform, "i", 1)
    assert run_once(platform.conn, relay) == 1
    assert (statuses(platform), number_of(shown)) == (["published"], 1)


@pytest.mark.parametrize("point", ["claim_entries.before", "claim_entries.after"])
def test_whoever_dies_with_a_claim_leaves_it_to_the_others(
    platform: Platform, relay: Relay, shown: StaticCatalogue, point: str
) -> None:
    _die_at(platform, relay, f"{point}_commit")
    assert number_of(shown) is None
    make_due(platform)
    run_once(platform.conn, relay)
    assert (statuses(platform), number_of(shown)) == (["published"], 1)


@pytest.mark.parametrize("point", ["settle_entries.before", "settle_entries.after"])
def test_whoever_dies_after_the_file_was_written_has_done_no_harm(
    platform: Platform, relay: Relay, shown: StaticCatalogue, point: str
) -> None:
    _die_at(platform, relay, f"{point}_commit")
    assert number_of(shown) == 1
    make_due(platform)
    run_once(platform.conn, relay)
    assert (statuses(platform), number_of(shown)) == (["published"], 1)


@pytest.mark.parametrize("point", ["keep_entries.before", "keep_entries.after"])
def test_whoever_dies_among_the_files_leaves_the_rest_to_the_others(
    platform: Platform, relay: Relay, shown: StaticCatalogue, point: str
) -> None:
    relay.renewal_seconds = 0
    put(platform, "another", 1)
    _die_at(platform, relay, f"{point}_commit")
    assert statuses(platform) == ["published", "pending"]
    make_due(platform)
    assert run_once(platform.conn, relay) == 1
    assert (statuses(platform), number_of(shown)) == (["published"] * 2, 1)


def test_what_changes_while_it_waits_for_its_turn_is_left_to_the_next_turn(
    platform: Platform, relay: Relay, shown: StaticCatalogue
) -> None:
    relay.renewal_seconds = 0
    put(platform, "another", 1)
    put(platform, "i", 1)
    crash_points.arm("settle_entries.after_commit", lambda: put(platform, "i", 2))
    assert run_once(platform.conn, relay) == 1
    assert (statuses(platform), number_of(shown)) == (["published", "pending"], None)
    assert run_once(platform.conn, relay) == 1
    assert (statuses(platform), number_of(shown)) == (["published"] * 2, 2)


def test_a_file_that_takes_longer_than_its_lease_is_settled_by_whoever_wrote_it_first(
    platform: Platform, relay: Relay, shown: StaticCatalogue
) -> None:
    """Or two of them would take it from each other for ever."""
    put(platform, "i", 1)
    [slow] = claim_entries(platform.conn, limit=10, lease_seconds=0)
    [second] = claim_entries(platform.conn, limit=10, lease_seconds=60)
    assert keep_entries(platform.conn, [slow], lease_seconds=60) == []
    assert keep_entries(platform.conn, [second], lease_seconds=60) == [second]
    assert settle_entries(platform.conn, [TriedEntry(slow, EntryStatus.DEAD, None, "it was away for me")]) == 0
    assert statuses(platform) == ["pending"]
    assert settle_entries(platform.conn, [relaying._try(relay, slow)]) == 1
    assert settle_entries(platform.conn, [relaying._try(relay, second)]) == 0
    assert (statuses(platform), number_of(shown)) == (["published"], 1)
    assert dead_letters(platform.conn, "default") == []


def _die_at(platform: Platform, relay: Relay, point: str) -> None:
    def die() -> None:
        raise Killed

    put(platform, "i", 1)
    crash_points.arm(point, die)
    with pytest.raises(Killed):
        run_once(platform.conn, relay)


def test_an_older_entry_never_takes_the_place_of_a_newer_one(
    platform: Platform, relay: Relay, settings: StorageSettings, shown: StaticCatalogue
) -> None:
    """One relay is held up between its claim and its file; another one tells the next version meanwhile."""
    put(platform, "i", 1)
    [late] = claim_entries(platform.conn, limit=10, lease_seconds=60)
    put(platform, "i", 2)
    run_once(platform.conn, relay)
    assert number_of(shown) == 2
    tried = relaying._try(relay, late)
    assert number_of(shown) == 2
    settle_entries(platform.conn, [tried])
    assert statuses(platform) == ["published"]
    versions = platform.conn.execute("SELECT version, published_version FROM dag_catalogue_entries").fetchall()
    assert versions == [(2, 2)]


@pytest.mark.parametrize("item_id", ["i", ""])
def test_an_entry_that_counts_from_one_again_overtakes_its_file(
    platform: Platform, relay: Relay, shown: StaticCatalogue, item_id: str
) -> None:
    """The entry was deleted after its removal, or the database is new; the file still has the version of back then."""
    for number in range(1, 6):
        put(platform, item_id, number)
        run_once(platform.conn, relay)
    if item_id:
        put(platform, item_id, 5, removed=True)
        run_once(platform.conn, relay)
    platform.conn.execute("DELETE FROM dag_catalogue_entries")
    put(platform, item_id, 7)
    for _ in range(2):
        make_due(platform)
        run_once(platform.conn, relay)
    found = shown.find_item("c", item_id) if item_id else shown.find_collection("c")
    assert found is not None
    assert (found["n"], statuses(platform)) == (7, ["published"])


def test_storage_that_is_away_is_asked_again_later(
    platform: Platform, relay: Relay, settings: StorageSettings, shown: StaticCatalogue, tmp_path: Path
) -> None:
    put(platform, "i", 1)
    blocked = tmp_path / "blobs" / "gold"
    blocked.parent.mkdir(exist_ok=True)
    blocked.write_text("a file where the folder should be")
    for _ in range(relaying.MOST_TRIES_OF_DATA + 2):
        make_due(platform)
        run_once(platform.conn, relay)
    assert statuses(platform) == ["pending"]
    waits = platform.conn.execute(
        "SELECT attempts, next_attempt_at > clock_timestamp(), last_error IS NOT NULL FROM dag_catalogue_entries"
    ).fetchall()
    assert waits == [(relaying.MOST_TRIES_OF_DATA + 2, True, True)]
    blocked.unlink()
    make_due(platform)
    run_once(platform.conn, relay)
    assert (statuses(platform), number_of(shown)) == (["published"], 1)


def test_an_entry_that_cannot_be_told_ends_as_a_dead_letter_and_may_come_back(
    platform: Platform, relay: Relay, shown: StaticCatalogue
) -> None:
    put(platform, "i", 1)
    put(platform, "good", 1)
    platform.conn.execute("UPDATE dag_catalogue_entries SET body = '[1]' WHERE item_id = 'i'")
    for _ in range(relaying.MOST_TRIES_OF_DATA):
        make_due(platform)
        run_once(platform.conn, relay)
    assert statuses(platform) == ["published", "dead"]
    [letter] = dead_letters(platform.conn, "default")
    assert letter.reason == "catalogue"
    assert letter.error_message
    platform.conn.execute("""UPDATE dag_catalogue_entries SET body = '{"id": "i", "n": 4}' WHERE item_id = 'i'""")
    requeue(platform.conn, "default", letter, issued_by="ann")
    run_once(platform.conn, relay)
    assert (statuses(platform), number_of(shown)) == (["published"] * 2, 4)
    assert dead_letters(platform.conn, "default") == []


def test_without_storage_entries_wait(platform: Platform) -> None:
    put(platform, "i", 1)
    assert run_once(platform.conn, Relay(CatalogueKind.STATIC, StorageSettings())) == 0
    assert statuses(platform) == ["pending"]
