"""The reference in the documents is what the commands say of themselves."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rmhdag.cli.reference import JSON_OBJECTS, reference
from tests.cli.conftest import RunCli

ROOT = Path(__file__).parents[2]
FILE = ROOT / "src" / "rmhdag" / "workflows" / "fan_out_test.yaml"
BAD = ROOT / "tests" / "workflows" / "invalid" / "unknown_field_typo.yaml"
# What `db start` says is tested where a server is started.
COMMANDS = {
    "validate": f"validate {FILE} {BAD} --json",
    "graph": f"graph {FILE} --json",
    "sample-data": "sample-data HERE --kind dem --size 16 --json",
    "simulate": "simulate --seeds 1 --json",
    "simulate --seed": "simulate --seed 0 --json",
    "db migrate": "db migrate --dry-run --json --database-url DATABASE",
    "db status": "db status --json --database-url DATABASE",
    "doctor": "doctor --json --database-url DATABASE",
    "config show": "config show --json",
    "version": "version --json",
}
# Compared in test_runtime_commands.
WITH_ROWS = {"dead-letters list", "dead-letters requeue", "dead-letters discard"}
# Compared in test_keys.
OF_KEYS = {"keys create", "keys list", "keys rotate", "keys revoke"}
WITH_ROWS |= {"callbacks list", "callbacks redeliver", "attention", "search"}
# Compared in test_assets.
WITH_ROWS |= {"assets", "asset", "asset delete", "asset delete --dry-run", "rollback", "submit --platform"}
WITH_ROWS |= {"submit --dry-run --platform"}
# Compared in test_clients.
WITH_ROWS |= {"clients identities", "clients bind", "clients unbind"}
# Compared in test_platforms.
WITH_ROWS |= {"platforms list", "platforms show", "platforms set", "platforms deactivate"}
# Compared in tests/lifecycle/test_interfaces.
WITH_ROWS |= {"asset approve", "asset reject", "asset revoke", "asset clear"}
# Compared in test_operating.
WITH_ROWS |= {"workflows retire", "workflows restore", "prune", "prune --dry-run"}
# Compared in test_storage.
WITH_ROWS |= {"storage ls", "storage ls, without a container", "storage put", "storage get"}
# Compared in test_catalogue.
WITH_ROWS |= {"catalogue remove"}
# Compared in test_outside.
WITH_ROWS |= {"unpublish", "promoted", "promoted promote", "promoted demote", "promoted gallery"}
WITH_ROWS |= {"services", "services set", "services delete", "services calls", "services retry"}
# Compared in test_sample_data and test_demo.
WITH_ROWS |= {"sample-data --to-storage", "demo"}
# Compared in test_runtime_up.
WITH_ROWS |= {"orchestrators drain", "workers drain"}
# Compared in test_runtime_jobs.
ON_A_RUNNING_PLATFORM = {
    *("up", "submit", "submit --dry-run", "submit --wait", "jobs", "job", "job --node", "job --events", "logs"),
    *("label", "label --dry-run", "cancel", "cancel --dry-run", "decide", "retry", "retry --dry-run", "retry --node"),
    *("workflows", "workflows show", "workflows register", "queues", "orchestrators", "workers", "approvals"),
}


def test_the_reference_is_up_to_date() -> None:
    """Made by `python -m rmhdag.cli.reference > docs/cli.md`."""
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference()


@pytest.mark.parametrize("command", COMMANDS)
def test_json_objects_have_the_fields_of_the_reference(command: str, call_cli: RunCli, database: str) -> None:
    done = call_cli(*COMMANDS[command].replace("DATABASE", database).split())
    compare(json.loads(done.stdout), JSON_OBJECTS[command])


def test_every_object_is_compared() -> None:
    assert set(JSON_OBJECTS) - set(COMMANDS) == {"db start"} | WITH_ROWS | OF_KEYS | ON_A_RUNNING_PLATFORM


def compare(found: dict[str, Any], fields: str) -> None:
    """`a, b [c, d [e]]`: the fields a and b; b, or each element of it, has the fields c and d, …"""
    names = []
    for name, inner in split(fields):
        names.append(name)
        value = found[name] if inner else []
        for element in [value] if isinstance(value, dict) else value or ():
            compare(element, inner)
    assert list(found) == names


def split(fields: str) -> list[tuple[str, str]]:
    parts, depth, start = [], 0, 0
    for place, character in enumerate(fields + ","):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            matched = re.fullmatch(r"\s*(\w+)(?: \[(.*)\])?", fields[start:place])
            assert matched is not None
            parts.append((matched[1], matched[2] or ""))
            start = place + 1
    return parts
