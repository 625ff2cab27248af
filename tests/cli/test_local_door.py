"""How commands on a machine are let in by the API of `rmhdag up`: by a file that only its owner can read."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rmhdag.cli.local_door import FILE, Door, find_door, open_door, read_secret
from rmhdag.cli.settings import Settings
from rmhdag.models.local_callers import NAME_HEADER, NAMESPACE_HEADER, local_headers, new_local_secret
from rmhdag.models.scopes import Scope
from tests.api.serving import ServedHere, served
from tests.cli.conftest import plain_environment, start_cli
from tests.cli.running import Up
from tests.cli.test_start_up import RUN, without_configuration

URL = "http://127.0.0.1:8700"


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=home)


def test_a_command_finds_the_api_of_an_up_that_runs(home: Path, settings: Settings) -> None:
    assert find_door(settings) is None
    with open_door(home, URL, settings) as path:
        assert path == home / FILE
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        found = find_door(settings)
        assert found == Door(URL, read_secret(path))
        assert len(found.secret) > 40
    assert find_door(settings) is None
    assert not (home / FILE).exists()


def test_each_start_has_a_secret_of_its_own(home: Path, settings: Settings) -> None:
    with open_door(home, URL, settings) as path:
        first = read_secret(path or home)
    with open_door(home, URL, settings) as path:
        assert read_secret(path or home) != first


def test_a_server_that_is_not_on_loopback_has_no_door(home: Path, settings: Settings) -> None:
    with open_door(home, None, settings) as path:
        assert path is None
        assert find_door(settings) is None


@pytest.mark.parametrize(
    "other",
    [
        {"database_url": "postgresql://elsewhere/db"},
        {"schema_name": "other"},
        {"development": None},
        {"callback_hosts": "sink.internal"},
        {"retention_days": 7},
        {"dag_worker_queue": "mine"},
        {"handlers": "mine"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_a_command_with_other_settings_answers_for_itself(
    home: Path, settings: Settings, other: dict[str, object]
) -> None:
    with open_door(home, URL, settings):
        assert find_door(settings.model_copy(update=other)) is None


def test_handlers_of_up_alone_do_no_harm(home: Path, settings: Settings) -> None:
    with open_door(home, URL, settings.model_copy(update={"handlers": "mine"})):
        assert find_door(settings) is not None


@pytest.mark.parametrize("spoil", ["mode", "link", "text", "lock"])
def test_what_somebody_else_may_have_written_is_not_used(home: Path, settings: Settings, spoil: str) -> None:
    with open_door(home, URL, settings) as path:
        assert path is not None
        if spoil == "mode":
            path.chmod(0o644)
        elif spoil == "link":
            path.rename(home / "elsewhere")
            path.symlink_to(home / "elsewhere")
        elif spoil == "text":
            path.write_text("{}")
        else:  # as one that was killed leaves it
            text = path.read_text()
            path.unlink()
            path.write_text(text)
            path.chmod(0o600)
        assert find_door(settings) is None


@pytest.fixture
def secret() -> str:
    return new_local_secret()


@pytest.fixture
def api(migrated_database: str, secret: str) -> Iterator[ServedHere]:
    with served(migrated_database, local_secret=secret) as made:
        yield made


def ask_who(api: ServedHere, secret: str, **headers: str) -> httpx.Response:
    given = {"Authorization": f"Bearer {secret}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return api.anonymous(headers=given).get("/api/v1/me")


def test_the_secret_opens_everything_in_any_name(api: ServedHere, secret: str) -> None:
    me = ask_who(api, secret, **local_headers("north", "Zoë")).json()
    assert (me["namespace"], me["name"]) == ("north", "Zoë")
    assert set(me["scopes"]) == set(Scope)


def test_another_secret_opens_nothing(api: ServedHere) -> None:
    refused = ask_who(api, new_local_secret(), **local_headers("default", "ada"))
    assert (refused.status_code, refused.json()["code"]) == (401, "key_refused")


@pytest.mark.parametrize(("header", "value"), [(NAME_HEADER, ""), (NAME_HEADER, "a%0Ab"), (NAMESPACE_HEADER, "n" * 65)])
def test_names_are_checked(api: ServedHere, secret: str, header: str, value: str) -> None:
    refused = ask_who(api, secret, **(local_headers("default", "ada") | {header: value}))
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_header")


def test_a_server_without_a_secret_knows_no_local_callers(migrated_database: str, secret: str) -> None:
    with served(migrated_database) as api:
        assert ask_who(api, secret, **local_headers("default", "ada")).status_code == 401


def test_commands_go_through_the_door_while_up_runs(home: Path, migrated_database: str) -> None:
    up = Up(home, RMHDAG_DATABASE_URL=migrated_database)
    try:
        environment = up.environment
        made = start_cli(home, "keys", "create", "ci", "--scope", "worker", "--as", "Zoë", "--json", **environment)
        assert made.returncode == 0, made.stderr
        trail = json.loads(start_cli(home, "audit", "--action", "key.create", "--json", **environment).stdout)
        assert trail["entries"][0]["actor"] == "Zoë"
        past_a_proxy = start_cli(
            home, "jobs", **environment, HTTP_PROXY="http://127.0.0.1:9", ALL_PROXY="http://[::1]:9"
        )
        assert past_a_proxy.returncode == 0, past_a_proxy.stderr
        done = subprocess.run(
            [sys.executable, "-c", RUN, "jobs", "--namespace", "north"],
            capture_output=True,
            text=True,
            cwd=home,
            env=plain_environment(home) | environment,
        )
        modules = without_configuration(set(done.stderr.splitlines()[-1].split()))
        assert {"rmhdag.client", "httpx"} <= modules
        assert {"fastapi", "psycopg", "rmhdag.store.connection", "rmhdag.api"} & modules == set()
        os.kill(up.process.pid, signal.SIGKILL)
        up.process.wait()
        assert (home / "data" / FILE).exists()
        assert start_cli(home, "jobs", "--json", **environment).returncode == 0
    finally:
        up.end()
