"""`rmhdag clients`: quotas of the gateway's clients, set and shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.reference import JSON_OBJECTS
from tests.cli.conftest import RunCli
from tests.cli.test_reference import compare


@pytest.fixture
def cli(call_cli: RunCli, migrated_database: str) -> Any:
    def call(*arguments: str) -> Any:
        return call_cli("clients", *arguments, RMHDAG_DATABASE_URL=migrated_database)

    return call


def test_quotas_are_set_shown_listed_and_reset(cli: Any) -> None:
    assert "no client has quotas" in cli("list").stderr
    changed = cli("set", "acme", "open_orders=5", "requests_per_second=50", "--json")
    assert changed.returncode == 0, changed.stderr
    quotas = {line["name"]: line for line in json.loads(changed.stdout)["quotas"]}
    assert (quotas["open_orders"]["limit"], quotas["open_orders"]["is_own"]) == (5, True)
    assert quotas["orders_per_day"]["is_own"] is False
    assert "open_orders=5" in cli("list").stdout
    assert cli("set", "acme", "open_orders=default", "--disable").returncode == 0
    shown = json.loads(cli("show", "acme", "--json").stdout)
    assert shown["active"] is False
    assert not next(line for line in shown["quotas"] if line["name"] == "open_orders")["is_own"]
    assert cli("set", "acme").returncode == ExitCode.USAGE
    wrong = cli("set", "acme", "nothing=1")
    assert wrong.returncode == ExitCode.USAGE
    assert "there is no quota 'nothing'" in wrong.stderr


ISSUER = "https://login.example.org/v2.0"


def test_tokens_are_bound_to_a_client_listed_and_refused_again(cli: Any) -> None:
    assert "rmhdag clients bind acme" in cli("identities", "acme").stderr
    application = ("--issuer", ISSUER, "--application", "5d6f", "--scope", "b2b")
    bound = cli("bind", "acme", *application, "--expires", "30")
    assert bound.returncode == 0, bound.stderr
    assert "application 5d6f" in bound.stderr
    identity_id = bound.stdout.strip()
    taken = cli("bind", "bolt", *application)
    assert taken.returncode == ExitCode.CONFLICT
    assert "bound to a client already" in taken.stderr
    listed = json.loads(cli("identities", "acme", "--json").stdout)
    compare(listed, JSON_OBJECTS["clients identities"])
    [line] = listed["identities"]
    assert (line["identity_id"], line["scopes"], line["last_used_at"]) == (identity_id, ["b2b"], None)
    assert line["expires_at"] is not None
    assert "5d6f" in cli("identities", "acme").stdout
    assert cli("unbind", "bolt", identity_id).returncode == ExitCode.NOT_FOUND
    assert "refuses tokens of application 5d6f" in cli("unbind", "acme", identity_id).stderr
    assert json.loads(cli("identities", "acme", "--json").stdout)["identities"] == []
    again = json.loads(cli("bind", "acme", *application, "--json").stdout)
    compare(again, JSON_OBJECTS["clients bind"])
    compare(json.loads(cli("unbind", "acme", again["identity_id"], "--json").stdout), JSON_OBJECTS["clients unbind"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--issuer", ISSUER, "--scope", "b2b"), "name --application or --subject"),
        (("--issuer", ISSUER, "--scope", "b2b", "--application", "a", "--subject", "b"), "--application or --subject"),
        (("--issuer", ISSUER, "--scope", "admin", "--subject", "b"), "tokens of partners have"),
        (("--issuer", "nobody", "--scope", "b2b", "--subject", "b"), "issuer"),
    ],
)
def test_what_cannot_be_bound(cli: Any, arguments: tuple[str, ...], words: str) -> None:
    refused = cli("bind", "acme", *arguments)
    assert refused.returncode == ExitCode.USAGE
    assert words in refused.stderr
