"""Files of the original system's form run on a platform as they are: explicit start and end, its queues and names."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rmhdag.embedded import EmbeddedPostgres
from tests.cli.conftest import RunCli
from tests.cli.running import Up
from tests.workflow.corpus import FOLDER

# The file, what is submitted, and the outputs of the nodes at the end.
RUNS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("original_fixed_backoff", {"message": "Hi"}, {"hello": {"message": "Hi"}}),
    (
        "original_data_pipeline",
        {"message": "Hi"},
        {"second": {"echoed_params": {"handed_on": "Hi", "label": "unlabelled", "given": "Hi"}}},
    ),
    (
        "original_checkpoints",
        {"message": "Hi"},
        {"steps_of_echo": {"echoed_params": {"message": "Hi", "steps": 3, "step_delay": 0.01}}},
    ),
    ("original_outputs", {}, {"route": "light", "slept": 0, "chunk": "first"}),
]


@pytest.fixture(scope="module")
def up(postgres: EmbeddedPostgres) -> Iterator[Up]:
    home = Path(tempfile.mkdtemp(prefix="rmhdag-home-"))
    home.chmod(0o755)
    (home / "flows").mkdir()
    for name in [*(name for name, _, _ in RUNS), "original_fan_out", "original_retry"]:
        shutil.copy(FOLDER / "valid" / f"{name}.yaml", home / "flows")
    dsn = postgres.create_database("original_files")
    queues = {"DAG_WORKER_QUEUE": "dag-worker-tasks", "WORKER_QUEUE": "functionapp-tasks"}
    running = Up(home, "--workflows", "flows", RMHDAG_DATABASE_URL=dsn, **queues)
    yield running
    assert running.end() == 0
    postgres.drop_database("original_files")
    shutil.rmtree(home)


@pytest.fixture
def home(up: Up) -> Path:
    return up.home


def run(call_cli: RunCli, up: Up, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
    arguments = ["submit", f"flows/{name}.yaml", "--params", "-", "--wait", "--json"]
    done = call_cli(*arguments, stdin=json.dumps(inputs), **up.environment)
    assert done.returncode == 0, done.stdout + done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.mark.parametrize(("name", "inputs", "result"), RUNS, ids=[name for name, _, _ in RUNS])
def test_a_file_runs_as_it_is(
    call_cli: RunCli, up: Up, name: str, inputs: dict[str, Any], result: dict[str, Any]
) -> None:
    assert run(call_cli, up, name, inputs)["result_data"] == result


def test_a_fan_out_gives_each_item_to_a_task_of_its_own(call_cli: RunCli, up: Up) -> None:
    told = run(call_cli, up, "original_fan_out", {"item_list": ["alpha", "beta"]})
    assert [one["echoed_params"] for one in told["result_data"]["aggregate"]["results"]] == [
        {"item_value": "alpha", "item_index": 0},
        {"item_value": "beta", "item_index": 1},
    ]


def test_a_task_without_a_queue_goes_to_that_of_the_setting(call_cli: RunCli, up: Up) -> None:
    told = run(call_cli, up, "original_retry", {"failure_rate": 0})
    output = told["result_data"]["chance"]
    assert output["echoed_params"] == {"failure_rate": 0, "message": "perhaps"}
    assert (output["retry_count"], output["handler"]) == (0, "flaky_echo")
