"""`rmhdag clients`: quotas of the gateway's clients, set and shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rmhdag.cli.exit_codes import ExitCode
from tests.cli.conftest import RunCli


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
