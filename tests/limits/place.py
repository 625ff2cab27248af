"""Where limits are tried: an orchestrator and a worker that take turns, and an API if somebody asks for it."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from typing import Any

import httpx
import orjson

from rmhdag.models.scopes import Scope
from rmhdag.store import payloads
from rmhdag.workflow.definition import InputDefinition, WorkflowDefinition
from tests.api.serving import served
from tests.engine.definitions import workflow
from tests.orchestrator.platform import Platform, Seat


class Place:
    def __init__(self, dsn: str) -> None:
        self._open = ExitStack()
        self.platform = Platform(dsn)
        self._open.callback(self.platform.close)
        self._count = 0

    def close(self) -> None:
        self._open.close()

    @cached_property
    def seat(self) -> Seat:
        return self.platform.seat()

    @cached_property
    def client(self) -> httpx.Client:
        api = self._open.enter_context(served(self.platform.dsn))
        return api.client(Scope.SUBMIT, Scope.READ, Scope.OPERATE, Scope.WORKER)

    def run(self, definition: WorkflowDefinition, params: dict[str, Any], output: Any = None) -> dict[str, Any]:
        """The row of a job that has ended. Each workflow is another one, whatever it is called."""
        self._count += 1
        definition = definition.model_copy(update={"workflow_id": f"number{self._count}"})
        job_id = self.platform.submit(definition, params)
        self.platform.finish(self.seat, output)
        return {**self.platform.job(job_id), "job_id": job_id}

    def report_stored(self, output: Any) -> None:
        """As a worker does with an output that is too large for its row."""
        for claimed in self.platform.claim():
            stored = payloads.write_json(self.platform.conn, "default", claimed.job_id, orjson.dumps(output))
            self.platform.succeed(claimed, output=stored.as_json())
        self.seat.work()

    def payload_count(self) -> int:
        return self.platform.count("dag_payloads")


def of_text(**nodes: Any) -> WorkflowDefinition:
    """A workflow with one input, a text."""
    return workflow(**nodes).model_copy(update={"inputs": {"text": InputDefinition(type="string")}})


def text_of(size_bytes: int, *, around: Any = "") -> str:
    """So long that, with what is around it, it takes this much as JSON."""
    return "x" * (size_bytes - len(orjson.dumps(around)))


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value
