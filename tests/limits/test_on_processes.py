"""The limits of what handlers give back, on real processes: a job just below and a job just above each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.limits import LIMITS
from rmhdag.workflow.definition import (
    FanInNode,
    FanOutNode,
    RetryRule,
    TaskNode,
    TaskSpec,
    Tolerance,
    WorkflowDefinition,
    WorkflowNode,
)
from tests.conftest import Servers
from tests.faults.processes import Cluster

TABLE = {limit.what: limit.value for limits in LIMITS.values() for limit in limits}
ONCE = RetryRule(max_attempts=1)
# Values of 64 MB pass through five processes, on a machine that may be busy.
PATIENCE_SECONDS = 240.0
pytestmark = pytest.mark.timeout(600)


class Jobs:
    """One orchestrator and one worker for all tests of this page."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._count = 0
        cluster.orchestrator()
        cluster.worker("--handlers", "tests.limits.large_handlers")

    def run(self, **nodes: Any) -> tuple[str, str]:
        """How a job of these nodes ends, and its error."""
        job_id = self.submit(**nodes)
        (status,) = self.cluster.wait_for_end(job_id, seconds=PATIENCE_SECONDS)
        return status, str(self.cluster.one("SELECT error_message FROM dag_jobs WHERE job_id = %s", job_id))

    def submit(self, **nodes: Any) -> str:
        self._count += 1
        definition = WorkflowDefinition(workflow_id=f"w{self._count}", name="Large", nodes=nodes)
        return self.cluster.submit(definition)


@pytest.fixture(scope="module")
def jobs(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    server = servers.running("wheel18")
    folder = tmp_path_factory.mktemp("limits")
    name = f"limits_{folder.name}".replace("-", "_").lower()
    cluster = Cluster(_database(servers, server, name), folder)
    yield Jobs(cluster)
    cluster.close()
    server.drop_database(name)


def _database(servers: Servers, server: EmbeddedPostgres, name: str) -> str:
    return server.create_database(name, template=servers.migrated_template(server))


def spec(handler: str, **params: Any) -> TaskSpec:
    return TaskSpec(handler=handler, queue="light", params=params, retry=ONCE, timeout_seconds=300)


def only(handler: str, **params: Any) -> dict[str, Any]:
    return {"only": TaskNode(task=spec(handler, **params))}


@pytest.mark.parametrize(
    ("what", "handler", "refusal"),
    [
        ("an output", "limits.output", "larger than 67108864 bytes"),
        ("the depth of an output", "limits.deep", "nested too deeply"),
        ("the records of a result", "limits.records", "more than the 16777216 that one result may publish"),
        ("records of a result", "limits.many_records", "Tuple should have at most 100"),
        ("the data of a checkpoint", "limits.checkpoint", "larger than 61440 bytes"),
        ("metrics of a result", "limits.metrics", "larger than 65536 bytes"),
    ],
)
def test_what_a_handler_gives(jobs: Jobs, what: str, handler: str, refusal: str) -> None:
    below = jobs.run(**only(handler, size=TABLE[what]))
    above, error = jobs.run(**only(handler, size=TABLE[what] + 1))
    assert (below, above) == (("completed", "None"), "failed")
    assert refusal in error


def test_stored_values_in_the_parameters_of_a_task(jobs: Jobs) -> None:
    """Two outputs of 32 MB each reach the handler that asks for both; a byte more does not."""
    half = TABLE["the stored values in a task's parameters, together"] // 2
    ends = []
    for more in (0, 1):
        both = {"left": "{{ nodes.left.output }}", "right": "{{ nodes.right.output }}"}
        ends.append(
            jobs.run(
                left=TaskNode(task=spec("limits.output", size=half), next=("both",)),
                right=TaskNode(task=spec("limits.output", size=half + more), next=("both",)),
                both=TaskNode(task=spec("limits.take", **both)),
            )
        )
    assert ends[0] == ("completed", "None")
    assert ends[1][0] == "failed"
    assert "the stored values are larger than 64 MB together" in ends[1][1]


def test_the_log_of_a_task(jobs: Jobs) -> None:
    size = TABLE["the log of a task"]
    kept = []
    for more in (0, 1):
        job_id = jobs.submit(**only("limits.log", size=size + more))
        assert jobs.cluster.wait_for_end(job_id, seconds=PATIENCE_SECONDS) == ["completed"]
        chunks = "FROM dag_task_logs WHERE job_id = %s"
        kept.append(jobs.cluster.one(f"SELECT sum(octet_length(content)) {chunks}", job_id))
    assert kept == [size, size]
    assert jobs.cluster.one(f"SELECT bool_or(truncated) {chunks}", job_id)


def fan_of(count: int, handler: str, **params: Any) -> dict[str, Any]:
    return {
        "split": FanOutNode(source=tuple(range(count)), task=spec(handler, **params), next=("join",)),
        "join": FanInNode(source_node="split", aggregation="collect"),
    }


@pytest.mark.parametrize("more", [0, 1])
def test_the_output_of_a_fan_in(jobs: Jobs, more: int) -> None:
    """Outputs that still fit into their rows, a thousand of them; the first makes the sum up to the size."""
    whole = TABLE["the output of a fan-in"] + more
    count, each = 1_033, 65_000
    # As it is kept: {"results":[...],"count":1033}
    around = len('{"results":[],"count":1033}') + (count - 1) * len(",")
    first = whole - around - (count - 1) * each
    size = f"{{{{ {first} if item == 0 else {each} }}}}"
    assert 0 < first <= TABLE["an output in its row"]
    status, error = jobs.run(**fan_of(count, "limits.output", size=size))
    if more:
        assert status == "failed"
        assert "64 MB" in error
    else:
        assert (status, error) == ("completed", "None")


def test_the_failures_that_a_fan_in_names(jobs: Jobs) -> None:
    named = TABLE["failures that a fan-in names"]
    for count in (named, named + 1):
        nodes = fan_of(count, "limits.fail")
        nodes["join"] = FanInNode(source_node="split", aggregation="collect", tolerate=Tolerance(percent=100))
        job_id = jobs.submit(**nodes)
        assert jobs.cluster.wait_for_end(job_id, seconds=PATIENCE_SECONDS) == ["completed"]
        output = jobs.cluster.one("SELECT result_data -> 'join' FROM dag_jobs WHERE job_id = %s", job_id)
        assert len(output["failures"]) == named
        failed = (
            "SELECT count(*) FROM dag_node_states WHERE job_id = %s AND parent_node_id = 'split' AND status = 'failed'"
        )
        assert jobs.cluster.one(failed, job_id) == count


def test_the_depth_of_child_jobs(jobs: Jobs) -> None:
    """Each workflow is the parent of the one that was registered before it."""
    ends = {}
    for level in range(TABLE["child jobs in child jobs"] + 2):
        nodes: dict[str, Any] = {"sub": WorkflowNode(workflow=f"level{level - 1}")} if level else only("limits.take")
        job_id = jobs.cluster.submit(WorkflowDefinition(workflow_id=f"level{level}", name="Level", nodes=nodes))
        (ends[level],) = jobs.cluster.wait_for_end(job_id, seconds=PATIENCE_SECONDS)
    assert ends == {level: "completed" if level <= TABLE["child jobs in child jobs"] else "failed" for level in ends}


@pytest.mark.large
def test_the_items_of_a_fan_out(jobs: Jobs) -> None:
    """Just above, the node fails. Just below, all children are there; to run them takes minutes more."""
    most = TABLE["items of a fan-out"]
    split = FanOutNode(source="{{ nodes.made.output['items'] }}", task=spec("limits.take", n="{{ item }}"))
    status, error = jobs.run(made=TaskNode(task=spec("limits.items", size=most + 1), next=("split",)), split=split)
    assert status == "failed"
    assert "500,000" in error
    job_id = jobs.submit(made=TaskNode(task=spec("limits.items", size=most), next=("split",)), split=split)
    children = "SELECT count(*) FROM dag_node_states WHERE job_id = %s AND parent_node_id IS NOT NULL"
    jobs.cluster.wait_for(lambda: jobs.cluster.one(children, job_id) == most, "all children", seconds=PATIENCE_SECONDS)
