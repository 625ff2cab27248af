"""`rmhdag catalogue`, beside the database and far away: the same words, JSON and exit codes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.models.scopes import Scope
from tests.api.serving import served
from tests.cli.conftest import RunCli
from tests.cli.test_assets import read
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_catalogue import put


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    put(made, "", 1)
    for item_id in ("a", "b", "with space", "owned"):
        put(made, item_id, 1)
    made.conn.execute(
        "UPDATE dag_catalogue_entries SET asset_id = %s, revision = 1 WHERE item_id = 'owned'", ["f" * 32]
    )
    yield made
    made.close()


@pytest.fixture(params=["near", "far"])
def cli(request: pytest.FixtureRequest, platform: Platform, call_cli: RunCli) -> Iterator[RunCli]:
    if request.param == "near":
        yield lambda *words, **more: call_cli(*words, RMHDAG_DATABASE_URL=platform.dsn)
        return
    with served(platform.dsn) as api:
        key = api.key(Scope.ADMIN, name="ada")
        yield lambda *words, **more: call_cli(*words, RMHDAG_URL=api.url, RMHDAG_KEY=key)


def left(platform: Platform) -> list[str]:
    query = "SELECT item_id FROM dag_catalogue_entries WHERE NOT removed AND item_id <> '' ORDER BY item_id"
    return [row[0] for row in platform.conn.execute(query)]


def test_items_are_taken_out(cli: RunCli, platform: Platform) -> None:
    done = read(cli, "catalogue remove", "catalogue", "remove", "c", "with space", "--reason", "clouds")
    assert done == {"collection_id": "c", "removed": 1, "kept": 0, "item_ids": ["with space"], "dry_run": False}
    assert left(platform) == ["a", "b", "owned"]
    tried = cli("catalogue", "remove", "c", "--all", "--dry-run")
    assert (tried.returncode, "2 items of c would be removed" in tried.stdout + tried.stderr) == (0, True)
    assert left(platform) == ["a", "b", "owned"]
    whole = cli("catalogue", "remove", "c", "--all")
    assert "2 items of c were removed from the catalogue; 1 that belong to assets stay" in whole.stdout + whole.stderr
    assert left(platform) == ["owned"]
    noted = "SELECT subject, reason FROM dag_audit WHERE action = 'catalogue.remove' ORDER BY seq"
    rows = platform.conn.execute(noted).fetchall()
    assert rows == [("c/with space", "clouds"), ("c", None)]


def test_what_is_refused(cli: RunCli, platform: Platform) -> None:
    for words in (("c", "nobody"), ("nowhere", "--all")):
        unknown = cli("catalogue", "remove", *words)
        assert (unknown.returncode, "the catalogue has no" in unknown.stderr) == (ExitCode.NOT_FOUND, True)
    owned = cli("catalogue", "remove", "c", "owned")
    assert (owned.returncode, "belongs to asset ffff" in owned.stderr) == (ExitCode.CONFLICT, True)
    for wrong in (["c"], ["c", "a", "--all"]):
        assert cli("catalogue", "remove", *wrong).returncode == ExitCode.USAGE
    assert left(platform) == ["a", "b", "owned", "with space"]
