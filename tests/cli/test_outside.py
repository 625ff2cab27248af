"""`unpublish`, `services` and `promoted`, beside the database and far away: the same words, JSON and exit codes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.scopes import Scope
from rmhdag.services.callbacks.destinations import Rules
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.outside import announce_approval
from rmhdag.store.batch_rows import EntryChange, RevisionKey
from rmhdag.store.publishing import put_in_catalogue
from tests.api.serving import served
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare
from tests.documentation.fences import Fence, fences_of
from tests.orchestrator.assets import raster_workflow
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_published_revisions import make
from tests.orchestrator.test_publishing import blob, collection, item

HOST = "127.0.0.1:9999"


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    made.register(raster_workflow())
    yield made
    made.close()


@pytest.fixture
def asset_id(platform: Platform) -> str:
    found: str = make(platform, platform.seat(), (blob(), collection(), item("i"))).request.asset_id
    return found


@pytest.fixture(params=["near", "far"])
def cli(request: pytest.FixtureRequest, platform: Platform, call_cli: RunCli) -> Iterator[RunCli]:
    if request.param == "near":
        here = {"RMHDAG_DATABASE_URL": platform.dsn, "RMHDAG_CALLBACK_HOSTS": HOST, "RMHDAG_PLAIN_SECRETS": "1"}
        yield lambda *words, **more: call_cli(*words, **here, **more)
        return
    callbacks = CallbackSettings(rules=Rules(frozenset({HOST})), allow_plain=True)
    with served(platform.dsn, callbacks=callbacks) as api:
        key = api.key(Scope.ADMIN, name="ada")
        yield lambda *words, **more: call_cli(*words, RMHDAG_URL=api.url, RMHDAG_KEY=key, **more)


def read(cli: RunCli, name: str, *words: str, **more: str) -> dict[str, Any]:
    done = cli(*words, "--json", **more)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    compare(found, JSON_OBJECTS[name])
    return found


def test_unpublish_shows_first_and_acts_when_told(cli: RunCli, platform: Platform, asset_id: str) -> None:
    shown = cli("unpublish", asset_id)
    assert (shown.returncode, "silver/cogs/a.tif" in shown.stdout) == (0, True)
    assert "nothing was changed (--no-dry-run does it)" in shown.stderr
    platform.conn.execute("UPDATE dag_asset_revisions SET review_state = 'approved'")
    approved = cli("unpublish", asset_id)
    assert (approved.returncode, "silver/cogs/a.tif" in approved.stdout) == (0, True)
    assert "nothing was changed (--no-dry-run --force does it)" in approved.stderr
    assert "revision 1 is approved: to unpublish it takes --force, which revokes the approval" in approved.stderr
    refused = cli("unpublish", asset_id, "--no-dry-run")
    assert (refused.returncode, "--force" in refused.stderr) == (ExitCode.CONFLICT, True)
    missing = cli("unpublish", asset_id, "--revision", "5")
    assert (missing.returncode, "nothing to unpublish" in missing.stderr) == (ExitCode.NOT_FOUND, True)
    done = read(cli, "unpublish", "unpublish", asset_id, "--revision", "1", "--yes", "--force", "--reason", "old")
    assert (done["status"], done["file_count"]) == ("pending", 1)
    assert "nothing of asset" in cli("unpublish", asset_id, "--yes").stderr
    found = read(cli, "asset", "asset", asset_id)
    assert (found["current"], found["unpublishings"][0]["reason"]) == (None, "old")
    assert "UNPUBLISHED" in cli("asset", asset_id).stdout


def test_services_are_set_up_listed_and_retried(cli: RunCli, platform: Platform, asset_id: str) -> None:
    hook = f"http://{HOST}/hook"
    made = read(cli, "services set", "services", "set", "portal", "--kind", "webhook", "--to", hook)
    assert made["new_secret"].startswith("whsec_")
    words = ("--set", "subscription_id=0012", "--set", "resource_group=maps", "--set", "factory=maps")
    given = read(cli, "services set", "services", "set", "adf", "--kind", "adf", *words, RMHDAG_SERVICE_SECRET="token")
    assert (given["settings"]["subscription_id"], given["has_secret"]) == ("0012", True)
    assert [one["name"] for one in read(cli, "services", "services", "list")["services"]] == ["adf", "portal"]
    with platform.conn.transaction():
        announce_approval(platform.conn, RevisionKey("default", asset_id, 1), "public")
    [line] = read(cli, "services calls", "services", "calls", "portal")["calls"]
    assert cli("services", "retry", "portal", line["call_id"]).returncode == ExitCode.CONFLICT
    platform.conn.execute("UPDATE dag_service_calls SET status = 'dead', settled_at = clock_timestamp()")
    assert read(cli, "services retry", "services", "retry", "portal", line["call_id"]) == {"retried": [line["call_id"]]}
    assert read(cli, "services delete", "services", "delete", "portal")["calls_not_delivered"] == 1
    assert cli("services", "calls", "portal").returncode == ExitCode.NOT_FOUND
    assert cli("services", "set", "x", "--kind", "ftp").returncode == ExitCode.USAGE


def test_promote_order_and_demote(cli: RunCli, platform: Platform, asset_id: str) -> None:
    words = ("--public", "--title", "A map", "--tag", "flood", "--role", "admin0")
    made = read(cli, "promoted promote", "promoted", "promote", "map", "c", "i", *words)
    assert (made["title"], made["visible_outside"], made["tags"]) == ("A map", True, ["flood"])
    read(cli, "promoted promote", "promoted", "promote", "all", "c")
    listed = read(cli, "promoted", "promoted", "list", "--outside")["promoted"]
    assert [one["promoted_id"] for one in listed] == ["map"]
    gallery = read(cli, "promoted gallery", "promoted", "gallery", "all", "map")["promoted"]
    assert [one["gallery_order"] for one in gallery] == [1, 2]
    assert "map" in cli("promoted").stdout
    assert cli("promoted", "promote", "x", "never").returncode == ExitCode.NOT_FOUND
    refused = cli("promoted", "demote", "map")
    assert (refused.returncode, "--confirm-system" in refused.stderr) == (ExitCode.CONFLICT, True)
    read(cli, "promoted demote", "promoted", "demote", "map", "--confirm-system")
    assert read(cli, "promoted gallery", "promoted", "gallery", "--empty")["promoted"] == []


# -- the pages -------------------------------------------------------------------------------------------------------


def run_block(cli: RunCli, fence: Fence, **values: str) -> None:
    """Each command as it is printed, with the names that readers fill in."""
    for line in fence.commands():
        words = shlex.split(line, comments=True)
        environment = dict(word.split("=", 1) for word in words[: words.index("rmhdag")])
        done = cli(*(values.get(word, word) for word in words[words.index("rmhdag") + 1 :]), **environment)
        assert done.returncode == 0, f"{line}\n{done.stderr}"


def test_the_commands_of_unpublishing_run_as_printed(cli: RunCli, platform: Platform, asset_id: str) -> None:
    make(platform, platform.seat(), (blob("b.tif"), item("i")))
    platform.conn.execute("UPDATE dag_asset_revisions SET review_state = 'revoked' WHERE revision = 2")
    [fence] = fences_of("docs/unpublishing.md", "sh")
    run_block(cli, fence, ASSET=asset_id)
    query = "SELECT count(*) FROM dag_asset_revisions WHERE unpublished_at IS NOT NULL"
    row = platform.conn.execute(query).fetchone()
    assert row == (2,)


def test_the_commands_of_external_services_run_as_printed(cli: RunCli, platform: Platform, asset_id: str) -> None:
    setting_up, promoting = fences_of("docs/external-services.md", "sh")
    *first, retry = setting_up.commands()
    run_block(cli, setting_up._replace(text="\n".join(first)))
    with platform.conn.transaction():
        announce_approval(platform.conn, RevisionKey("default", asset_id, 1), "public")
    platform.conn.execute("UPDATE dag_service_calls SET status = 'dead', settled_at = clock_timestamp()")
    query = (
        "SELECT call_id, body FROM dag_service_calls JOIN dag_external_services USING (service_id) WHERE name = 'adf'"
    )
    row = platform.conn.execute(query).fetchone()
    assert row is not None
    run_block(cli, setting_up._replace(text=retry), CALL=row[0])
    [message] = fences_of("docs/external-services.md", "json")
    assert set(json.loads(message.text)) == {"type", "occurred_at", *row[1]} - {"parameters"}
    entries = [EntryChange("floods", name, "default", False, {"id": name or "floods"}) for name in ("", "nairobi")]
    with platform.conn.transaction():
        put_in_catalogue(platform.conn, CatalogueKind.STATIC, entries)
    run_block(cli, promoting)
