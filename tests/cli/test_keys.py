"""`rmhdag keys` beside the database."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare
from tests.orchestrator.platform import open_connection


class Keys:
    def __init__(self, call_cli: RunCli, dsn: str) -> None:
        self._call = call_cli
        self.dsn = dsn

    def run(self, *arguments: str) -> Any:
        return self._call("keys", *arguments, RMHDAG_DATABASE_URL=self.dsn)

    def read(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        compare(found, JSON_OBJECTS[f"keys {arguments[0]}"])
        return found

    def holder(self, key: str) -> api_keys.KeyHolder:
        with open_connection(self.dsn) as conn:
            return api_keys.verify_key(conn, key)


@pytest.fixture
def keys(call_cli: RunCli, migrated_database: str) -> Keys:
    return Keys(call_cli, migrated_database)


def test_a_key_is_printed_once(keys: Keys) -> None:
    done = keys.run("create", "ci", "--scope", "read", "--scope", "submit", "--namespace", "north", "--expires", "2")
    key = done.stdout.strip()
    holder = keys.holder(key)
    assert (holder.name, holder.namespace, holder.scopes) == ("ci", "north", frozenset({Scope.READ, Scope.SUBMIT}))
    assert key not in done.stderr
    listed = keys.run("list", "--namespace", "north").stdout
    assert holder.key_id in listed
    assert key not in listed
    assert keys.read("list")["keys"] == []


def test_rotation_and_revocation(keys: Keys) -> None:
    first = keys.read("create", "ci", "--scope", "worker")
    second = keys.read("rotate", first["key_id"], "--overlap", "1")
    assert (second["name"], second["scopes"], second["rotated_from"]) == ("ci", ["worker"], first["key_id"])
    assert keys.holder(first["key"]).name == keys.holder(second["key"]).name == "ci"
    third = keys.run("rotate", second["key_id"])
    assert third.returncode == ExitCode.CONFLICT
    assert "two keys of ci are live" in third.stderr
    assert keys.read("revoke", first["key_id"])["state"] == "revoked"
    with pytest.raises(api_keys.KeyRefused):
        keys.holder(first["key"])
    states = {line["key_id"]: line["state"] for line in keys.read("list", "--all")["keys"]}
    assert states == {first["key_id"]: "revoked", second["key_id"]: "live"}


@pytest.mark.parametrize("command", ["rotate", "revoke"])
def test_an_unknown_key(keys: Keys, command: str) -> None:
    other = keys.read("create", "ci", "--scope", "read", "--namespace", "north")
    for key_id in ("0123456789abcdef", other["key_id"]):
        done = keys.run(command, key_id)
        assert done.returncode == ExitCode.NOT_FOUND
        assert "rmhdag keys list" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("ci",), ("ci", "--scope", "root"), ("", "--scope", "read"), ("a\tb", "--scope", "read")],
)
def test_a_wrong_wish(keys: Keys, arguments: tuple[str, ...]) -> None:
    done = keys.run("create", *arguments)
    assert done.returncode == ExitCode.USAGE
    assert keys.read("list")["keys"] == []
