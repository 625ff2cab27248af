"""Orders and assets on the command line, beside the database and far away: the same words, JSON and exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.models.records import LineageRecord
from rmhdag.models.scopes import Scope
from tests.api.serving import served
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare
from tests.orchestrator.assets import raster_workflow
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_shown_revisions import publish

ORDER = ("submit", "make_raster", "--platform", "ddh", "--ref", "dataset_id=0038272", "--ref", "resource_id=r")


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    made.register(raster_workflow())
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


def read(cli: RunCli, name: str, *words: str) -> dict[str, Any]:
    done = cli(*words, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    compare(found, JSON_OBJECTS[name])
    return found


def test_from_an_order_to_a_rollback(cli: RunCli, platform: Platform) -> None:
    seat = platform.seat()
    for number in (1, 2):
        made = read(cli, "submit --platform", *ORDER, f"n={number}")
        assert (made["revision"], made["joined"]) == (number, False)
        platform.finish(seat)
    asset_id = made["asset_id"]
    assert [one["asset_id"] for one in read(cli, "assets", "assets", "--ref", "resource_id=r")["assets"]] == [asset_id]
    assert read(cli, "assets", "assets", "--status", "failed")["assets"] == []
    assert read(cli, "rollback", "rollback", asset_id, "1")["source"] == "rollback of 1"
    found = read(cli, "asset", "asset", asset_id)
    assert [one["revision"] for one in found["revisions"]] == [3, 2, 1]
    assert (found["current_revision"], found["current"]["outputs"]) == (3, {"n": 1})
    shown = cli("asset", asset_id).stdout
    assert "rollback of 1" in shown
    assert "dataset_id=0038272" in shown
    assert asset_id in cli("assets").stdout
    refused = cli("rollback", asset_id, "3")
    assert (refused.returncode, "is the current one already" in refused.stderr) == (ExitCode.CONFLICT, True)


def test_an_asset_names_what_it_was_made_from(cli: RunCli, platform: Platform) -> None:
    """A rollback is made from the earlier revision, which keeps its own sources."""
    seat = platform.seat()
    asset_id = ""
    for number in (1, 2):
        asset_id = read(cli, "submit --platform", *ORDER, f"n={number}")["asset_id"]
        seat.work()
        [claimed] = platform.claim()
        publish(platform, seat, claimed, LineageRecord(source_url=f"https://example.org/{number}.gpkg"))
        platform.finish(seat)
    assert f"made from    https://example.org/{number}.gpkg (source)" in cli("asset", asset_id).stdout
    read(cli, "rollback", "rollback", asset_id, "1")
    [source] = read(cli, "asset", "asset", asset_id)["sources"]
    assert (source["source_asset_id"], source["source_revision"], source["role"]) == (asset_id, 1, "rollback")
    assert f"made from    asset {asset_id}, revision 1 (rollback)" in cli("asset", asset_id).stdout


def test_a_workflow_that_makes_no_asset_is_not_ordered_for_a_platform(cli: RunCli, platform: Platform) -> None:
    platform.register(raster_workflow("plain", produces=None))
    # Also without references, or with those of nobody.
    for words in (ORDER[2:], ["--platform", "ddh"], ["--platform", "ddh", "--ref", "nobodys=1"]):
        refused = cli("submit", "plain", *words)
        assert (refused.returncode, "makes no asset" in refused.stderr) == (ExitCode.INVALID, True), refused.stderr


def test_a_deleted_asset_is_no_longer_shown_and_comes_back_with_an_order(cli: RunCli, platform: Platform) -> None:
    asset_id = read(cli, "submit --platform", *ORDER)["asset_id"]
    busy = cli("asset", "delete", asset_id)
    assert (busy.returncode, "is being processed" in busy.stderr) == (ExitCode.CONFLICT, True)
    platform.finish(platform.seat())
    read(cli, "asset delete --dry-run", "asset", "delete", asset_id, "--dry-run")
    assert [one["asset_id"] for one in read(cli, "assets", "assets")["assets"]] == [asset_id]
    assert read(cli, "asset delete", "asset", "delete", asset_id)["deleted_by"] is not None
    assert read(cli, "assets", "assets")["assets"] == []
    assert [one["asset_id"] for one in read(cli, "assets", "assets", "--all")["assets"]] == [asset_id]
    assert "deleted" in cli("asset", "show", asset_id).stdout
    assert read(cli, "submit --platform", *ORDER, "n=2")["revision"] == 2


def test_an_order_that_joins_another_is_called_so(cli: RunCli) -> None:
    assert "submitted job" in cli(*ORDER).stderr
    joined = cli(*ORDER).stderr
    assert "joined job" in joined
    assert "submitted" not in joined


def test_outputs_are_shown_in_short(cli: RunCli, platform: Platform) -> None:
    """A STAC item alone has some 200 lines."""
    long = {"item": {"type": "Feature", "id": "scene-1", "assets": {str(n): {"href": "x" * 50} for n in range(50)}}}
    asset_id = read(cli, "submit --platform", *ORDER)["asset_id"]
    platform.finish(platform.seat())
    platform.conn.execute("UPDATE dag_asset_revisions SET outputs = %s::jsonb || outputs", [json.dumps(long)])
    shown = cli("asset", asset_id).stdout
    assert len(shown.splitlines()) < 20
    assert "type Feature, id scene-1, {3 members}" in shown
    assert "--json shows outputs in full" in shown
    assert read(cli, "asset", "asset", asset_id)["current"]["outputs"] == {**long, "n": 1}


def test_what_is_refused(cli: RunCli) -> None:
    nobody = "0" * 32
    for words in (("asset", nobody), ("asset", "delete", nobody), ("rollback", nobody, "1")):
        unknown = cli(*words)
        assert (unknown.returncode, "rmhdag assets" in unknown.stderr) == (ExitCode.NOT_FOUND, True)
    assert cli("assets", "--kind", "roster").returncode == ExitCode.USAGE
    assert cli("assets", "--after", "nonsense").returncode == ExitCode.USAGE
    assert cli("assets", "--ref", "nonsense").returncode == ExitCode.USAGE
    assert cli("submit", "make_raster", "--ref", "a=b").returncode == ExitCode.USAGE
    wrong = cli("submit", "make_raster", "--platform", "ddh", "--ref", "dataset_id=1")
    assert (wrong.returncode, "resource_id" in wrong.stderr) == (ExitCode.INVALID, True)
    assert cli(*ORDER).returncode == 0
    other = cli(*ORDER, "n=2")
    assert (other.returncode, "with other parameters" in other.stderr) == (ExitCode.CONFLICT, True)
    assert "order it with --supersede" in other.stderr
    assert cli(*ORDER, "n=2", "--supersede").returncode == 0


def test_a_dry_run_says_what_an_order_would_do(cli: RunCli, platform: Platform) -> None:
    labelled = (*ORDER, "--ref", "version_id=2")
    preview = read(cli, "submit --dry-run --platform", *labelled, "--dry-run")
    assert (preview["outcome"], preview["revision"], preview["version_label"]) == ("create", 1, "2")
    assert platform.count("dag_jobs") == 0
    read(cli, "submit --platform", *labelled)
    joined = cli(*labelled, "--dry-run")
    assert (joined.returncode, "join" in joined.stdout) == (0, True)
    other = cli(*labelled, "n=5", "--dry-run")
    assert (other.returncode, "with other parameters" in other.stdout) == (ExitCode.CONFLICT, True)
    wrong = cli(*ORDER[:-2], "--dry-run")
    assert (wrong.returncode, "needs the reference 'resource_id'" in wrong.stdout) == (ExitCode.INVALID, True)
    assert platform.count("dag_jobs") == 1


def test_versions_are_shown(cli: RunCli, platform: Platform) -> None:
    made = read(cli, "submit --platform", *ORDER, "--ref", "version_id=2024")
    platform.finish(platform.seat())
    shown = cli("asset", made["asset_id"]).stdout
    assert "2024" in shown
    assert read(cli, "asset", "asset", made["asset_id"])["latest_version"] == "2024"
