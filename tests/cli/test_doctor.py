"""`rmhdag doctor`: each check can be fine and can fail, with a value and a remedy."""

import json
from pathlib import Path

import psycopg
import pytest

from rmhdag.cli.checks import check_disk, check_packages, check_retention, find_fault, judge_geo, numbers
from rmhdag.cli.settings import Settings
from rmhdag.cli.storage_checks import check_storage
from tests.cli.conftest import RunCli

ALWAYS = [
    "python",
    "packages",
    "rasters",
    "encoding",
    "settings",
    "retention",
    "disk",
    "storage",
    "services",
    "ports",
    "postgresql",
    "connection",
]
CONNECTED = ["server version", "durability", "connections", "clock", "role", "secrets", "schema"]


def checks_of(text: str) -> dict[str, dict[str, str]]:
    return {check["name"]: check for check in json.loads(text)["checks"]}


def test_a_database_before_and_after_its_migration(call_cli: RunCli, database: str) -> None:
    before = call_cli("doctor", "--json", "--database-url", database)
    assert before.returncode == 1
    assert json.loads(before.stdout)["ok"] is False
    checks = checks_of(before.stdout)
    assert list(checks) == ALWAYS + CONNECTED
    assert checks["schema"]["status"] == "failed"
    assert "rmhdag db migrate" in checks["schema"]["remedy"]
    # Servers for tests are fast and forgetful.
    assert checks["durability"] | {"remedy": ""} == {
        "name": "durability",
        "status": "failed",
        "value": "fsync off, full_page_writes off",
        "threshold": "on",
        "remedy": "",
    }
    assert checks["clock"]["status"] == "ok"
    assert checks["server version"]["status"] == "ok"
    call_cli("db", "migrate", "--yes", "--database-url", database)
    after = checks_of(call_cli("doctor", "--json", "--database-url", database).stdout)
    assert after["schema"] == {
        "name": "schema",
        "status": "ok",
        "value": "dagapp is up to date",
        "threshold": "",
        "remedy": "",
    }


def test_as_text_with_remedies(call_cli: RunCli, database: str) -> None:
    done = call_cli("doctor", RMHDAG_DATABASE_URL=database, RMHDAG_SCHEMAA="x")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ok       python          ")
    settings = next(number for number, line in enumerate(lines) if " settings " in line)
    assert lines[settings].startswith("warning  settings        RMHDAG_SCHEMAA is set but means nothing")
    assert lines[settings + 1].strip().startswith("Correct the name")
    assert done.stderr == "2 of 19 checks failed\n"


def test_the_embedded_server_that_is_not_made_yet_is_only_a_warning(call_cli: RunCli, home: Path) -> None:
    done = call_cli("doctor", "--json")
    assert done.returncode == 0
    checks = checks_of(done.stdout)
    assert list(checks) == ALWAYS
    assert checks["postgresql"]["value"].startswith("embedded ")
    assert checks["connection"]["status"] == "warning"
    assert not (home / "data").exists()


def test_storage_is_tried_and_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMHDAG_HOME", str(tmp_path / "home"))
    assert check_storage(Settings()).status == "warning"
    good = check_storage(Settings(storage=str(tmp_path / "files")))
    assert (good.status, good.value) == ("ok", str(tmp_path / "files"))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    (tmp_path / "file").write_text("no folder")
    bad = check_storage(Settings(storage=str(tmp_path / "files"), storage_gold=str(tmp_path / "file")))
    assert bad.status == "failed"
    assert bad.value.startswith("gold: ")
    nested = check_storage(Settings(storage=str(tmp_path), storage_gold=str(tmp_path / "silver" / "gold")))
    assert "are nested" in nested.value


def test_a_server_that_is_not_there(call_cli: RunCli) -> None:
    done = call_cli("doctor", "--json", RMHDAG_DATABASE_URL="postgresql://me:secret@127.0.0.1:1/x")
    assert done.returncode == 1
    assert "secret" not in done.stdout + done.stderr
    assert checks_of(done.stdout)["connection"]["status"] == "failed"
    # It does not send to itself.
    assert "rmhdag doctor" not in checks_of(done.stdout)["connection"]["remedy"]


def test_a_schema_that_we_may_not_read_is_a_finding(call_cli: RunCli, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SCHEMA dagapp")
        connection.execute("CREATE TABLE dagapp.dag_jobs (job_id integer PRIMARY KEY)")
    checks = checks_of(call_cli("doctor", "--json", "--database-url", database).stdout)
    assert "cannot be done safely" in checks["schema"]["value"]


@pytest.mark.parametrize(
    ("requirement", "fault"),
    [
        ("pytest>=1.0", ""),
        ("pytest>=999", "pytest is "),
        ("pytest==0.1", "pytest is "),
        ("psycopg[binary,pool]>=3.3", ""),
        ("no-such-package>=1", "no-such-package is missing"),
    ],
)
def test_packages_that_are_missing_or_old(requirement: str, fault: str) -> None:
    found = find_fault(requirement)
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


def test_our_own_requirements_are_met() -> None:
    assert check_packages().status == "ok"
    assert numbers("3.11.7rc1") < numbers("3.12")


def test_disk_is_looked_at_where_the_data_will_be(tmp_path: Path) -> None:
    found = check_disk(Settings(home=tmp_path / "not" / "yet"))
    assert found.value.endswith(f" GiB free at {tmp_path}")


@pytest.mark.parametrize(
    ("requirements", "status", "value"),
    [
        (["pydantic>=2; extra == 'geo'", "orjson>=3; extra == 'geo'"], "ok", "2 libraries as required"),
        (["no-such-library>=2; extra == 'geo'"], "warning", "the geospatial libraries are not installed"),
        (["pydantic>=2; extra == 'geo'", "orjson>=99; extra == 'geo'"], "failed", "older than 99"),
    ],
)
def test_libraries_for_rasters_are_there_or_not_or_half(requirements: list[str], status: str, value: str) -> None:
    finding = judge_geo(requirements)
    assert finding.status == status
    assert value in finding.value
    assert "scripts/setup geo" in finding.remedy


def test_a_retention_of_minutes_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_retention(Settings()).status == "ok"
    monkeypatch.setenv("RMHDAG_RETENTION_DAYS", "0.01")
    found = check_retention(Settings())
    assert (found.status, found.value) == (
        "warning",
        "days: 0.01 for finished jobs, 92 for history, 1 for unused payloads",
    )
