"""`rmhdag platforms`, beside the database and far away."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.models.scopes import Scope
from tests.api.serving import served
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare
from tests.orchestrator.assets import raster_workflow
from tests.orchestrator.platform import Platform


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
        key = api.key(Scope.ADMIN, Scope.PLATFORM, name="ada")
        yield lambda *words, **more: call_cli(*words, RMHDAG_URL=api.url, RMHDAG_KEY=key)


def read(cli: RunCli, name: str, *words: str) -> dict[str, Any]:
    done = cli(*words, "--json")
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout)
    compare(facts, JSON_OBJECTS[name])
    return facts


def test_a_platform_from_its_registration_to_its_end(cli: RunCli) -> None:
    listed = cli("platforms")
    assert (listed.returncode, "dataset_id,resource_id" in listed.stdout) == (0, True)
    words = ("--ref", "dataset", "--optional", "layer", "--version-ref", "edition", "--review", "required")
    view = read(cli, "platforms set", "platforms", "set", "geonode", *words)
    assert (view["identity_refs"], view["version_ref"], view["review"]) == (["dataset"], "edition", "required")
    assert [line["platform_id"] for line in read(cli, "platforms list", "platforms", "list")["platforms"]] == [
        "arcgis",
        "ddh",
        "geonode",
    ]
    assert read(cli, "platforms show", "platforms", "show", "geonode") == view
    assert "edition" in cli("platforms", "show", "geonode").stdout
    ended = cli("platforms", "deactivate", "geonode")
    assert (ended.returncode, "takes no more orders" in ended.stderr) == (0, True)
    assert not read(cli, "platforms deactivate", "platforms", "deactivate", "geonode")["active"]
    refused = cli("submit", "make_raster", "--platform", "geonode", "--ref", "dataset=d")
    assert (refused.returncode, "is inactive and takes no orders" in refused.stderr) == (ExitCode.INVALID, True)


def test_what_is_wrong_is_said(cli: RunCli) -> None:
    unknown = cli("platforms", "show", "nobodys")
    assert (unknown.returncode, "there is no platform 'nobodys'" in unknown.stderr) == (ExitCode.NOT_FOUND, True)
    assert cli("platforms", "deactivate", "nobodys").returncode == ExitCode.NOT_FOUND
    wrong = cli("platforms", "set", "geonode", "--ref", "a", "--review", "twice")
    assert (wrong.returncode, "four_eyes" in wrong.stderr) == (ExitCode.USAGE, True)
    twice = cli("platforms", "set", "geonode", "--ref", "a", "--optional", "a")
    assert (twice.returncode, "occurs twice" in twice.stderr) == (ExitCode.USAGE, True)
    assert (
        cli("submit", "make_raster", "--platform", "ddh", "--ref", "dataset_id=1", "--ref", "resource_id=2").returncode
        == 0
    )
    used = cli("platforms", "set", "ddh", "--ref", "other")
    assert (used.returncode, "would not be found any more" in used.stderr) == (ExitCode.CONFLICT, True)
