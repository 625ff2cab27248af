"""The secret inputs of running tasks, so that no log, message or result shows them.

Texts for people are masked. Data is never changed silently: an output or a checkpoint that contains a secret is
refused, and the message says where the secret is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from rmhdag.models.events import ErrorKind
from rmhdag.models.json_values import json_pointer
from rmhdag.models.leases import CheckpointToSave, LogChunk, TaskProgress
from rmhdag.models.limits import SECRET_CHARACTERS
from rmhdag.models.references import HIDDEN
from rmhdag.models.states import TaskStatus
from rmhdag.observability.secrets import hidden_forms
from rmhdag.worker.reports import Finished


class TaskSecrets:
    """Secret values by task. Nearly always empty: callers check that first."""

    def __init__(self) -> None:
        self._values: dict[str, set[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keep(self, task_id: str, value: str) -> None:
        """Also the single lines of a secret: logs are stored line by line."""
        lines = (line for line in value.splitlines() if len(line) >= SECRET_CHARACTERS)
        self._values.setdefault(task_id, set()).update((value, *lines))

    def forms(self, task_id: str) -> tuple[str, ...]:
        """How they may appear in texts, for the process that runs the task: it masks before it cuts."""
        return hidden_forms(self._values.get(task_id, ()))

    def forget(self, task_id: str) -> None:
        self._values.pop(task_id, None)

    def clear(self) -> None:
        self._values.clear()

    def masked(self, task_id: str, text: str) -> str:
        for value in sorted(self._values.get(task_id, ()), key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return text

    def masked_log(self, chunk: LogChunk) -> LogChunk:
        if chunk.task_id not in self._values:
            return chunk
        return chunk._replace(content=self.masked(chunk.task_id, chunk.content))

    def masked_progress(self, progress: TaskProgress) -> TaskProgress:
        if progress.message is None or progress.task_id not in self._values:
            return progress
        return progress._replace(message=self.masked(progress.task_id, progress.message))

    def fault_of(self, checkpoint: CheckpointToSave) -> str | None:
        """Why the checkpoint cannot be saved; None if it can."""
        if self.masked(checkpoint.task_id, checkpoint.phase) != checkpoint.phase:
            return "the checkpoint's phase holds the value of a secret input"
        place = self._find(checkpoint.task_id, checkpoint.data)
        return None if place is None else f"the checkpoint's data holds the value of a secret input at {place}"

    def checked(self, finished: Finished) -> Finished:
        """The result as it may be reported."""
        task_id = finished.task.task_id
        if task_id not in self._values:
            return finished
        if finished.error_message is not None:
            finished = finished._replace(error_message=self.masked(task_id, finished.error_message))
        finished = finished._replace(
            error=self._masked_json(task_id, finished.error), warnings=self._masked_json(task_id, finished.warnings)
        )
        metrics = None if finished.metrics is None else orjson.dumps(finished.metrics)
        for what, text in (("output", finished.output), ("list of records", finished.records), ("metrics", metrics)):
            place = self._find(task_id, text)
            if place is not None:
                return Finished(
                    finished.task,
                    TaskStatus.FAILED,
                    ErrorKind.NON_RETRYABLE,
                    f"the handler's {what} would show the value of a secret input at {place}; leave it out",
                    finished.began_ns,
                    finished.duration_ms,
                )
        return finished

    def _masked_json(self, task_id: str, text: bytes | None) -> bytes | None:
        """Errors and warnings, with their details: texts for people."""
        if text is None or self._find(task_id, text) is None:
            return text

        def masked(value: Any) -> Any:
            if isinstance(value, str):
                return self.masked(task_id, value)
            if isinstance(value, dict):
                return {self.masked(task_id, key): masked(member) for key, member in value.items()}
            return [masked(member) for member in value] if isinstance(value, list) else value

        return orjson.dumps(masked(orjson.loads(text)))

    def _find(self, task_id: str, text: bytes | None) -> str | None:
        """The JSON pointer of the first value or key that contains a secret; None if there is none."""
        values = self._values.get(task_id)
        if not values or text is None:
            return None
        if not any(orjson.dumps(value)[1:-1] in text for value in values):
            return None
        place = next(_places(orjson.loads(text), values, ()), None)
        return None if place is None else json_pointer(*place) or "/"


def _places(value: Any, secrets: set[str], path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """A key that contains a secret is reported as the object around it."""
    if isinstance(value, str):
        if any(secret in value for secret in secrets):
            yield path
    elif isinstance(value, dict):
        for key, member in value.items():
            if any(secret in key for secret in secrets):
                yield path
            yield from _places(member, secrets, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _places(member, secrets, (*path, index))
