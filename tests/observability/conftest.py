from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rmhdag.workflow.definition import RetryRule, TaskNode, TaskSpec, WorkflowDefinition
from tests.faults.conftest import cluster, fault_server, fault_template
from tests.faults.processes import Cluster
from tests.observability.receiver import Receiver

__all__ = ["cluster", "fault_server", "fault_template"]
ROOT = Path(__file__).resolve().parents[2]
HANDLERS = ("--handlers", "tests.observability.span_handlers")
SECRET = "vErY-sEcReT-vAlUe"
StartReceiver = Callable[..., Receiver]


@pytest.fixture
def start_receiver() -> Iterator[StartReceiver]:
    started: list[Receiver] = []

    def start(**given: Any) -> Receiver:
        started.append(Receiver(**given))
        return started[-1]

    yield start
    for receiver in started:
        receiver.close()


def start_worker(cluster: Cluster, **variables: str) -> Any:
    return cluster.worker(*HANDLERS, PYTHONPATH=str(ROOT), **variables)


def workflow(*handlers: str, **params: Any) -> WorkflowDefinition:
    """One task after the other; parameters are nobody's business."""
    nodes = {}
    for number, handler in enumerate(handlers):
        following = (f"n{number + 1}",) if number + 1 < len(handlers) else ()
        spec = TaskSpec(
            handler=handler,
            queue="light",
            params={"password": SECRET, "plain": SECRET, **params},
            retry=RetryRule(max_attempts=1),
        )
        nodes[f"n{number}"] = TaskNode(task=spec, next=following)
    return WorkflowDefinition(workflow_id="traced", name="Traced", nodes=dict(nodes))
