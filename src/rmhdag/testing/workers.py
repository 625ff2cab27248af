"""The workers of a virtual platform: they claim each task at once, take its virtual time, and report it."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from rmhdag.engine import inputs
from rmhdag.engine.effects import TaskQueued
from rmhdag.handlers import HandlerContext, HandlerSpec, Registry
from rmhdag.models.events import ErrorKind
from rmhdag.models.namespaces import DEFAULT
from rmhdag.models.records import decode_records
from rmhdag.storage import Storage, StorageSettings, open_storage
from rmhdag.testing.bench import spec_of
from rmhdag.testing.clock import VirtualClock
from rmhdag.testing.fakes import Step, Turns
from rmhdag.testing.jobs import Attempt
from rmhdag.testing.recording import Executed, Recording, execute

if TYPE_CHECKING:
    from rmhdag.testing.platform import RunningJob

WORKER_ID = "virtual-worker"
# Time until a dead worker is noticed.
LEASE_SECONDS = 10.0
REAL = Turns((Step(),))


@dataclass(slots=True)
class Task:
    """A queued or running task. `attempt` is set while it runs."""

    job: RunningJob
    queued: TaskQueued
    params: dict[str, Any]
    lease_epoch: int = 0
    is_gone: bool = False
    attempt: Attempt | None = None

    @property
    def about(self) -> tuple[str, int, str]:
        return self.queued.node_id, self.queued.attempt, self.queued.task_id


class VirtualWorkers:
    """One worker per task, so that only the workflow limits parallelism."""

    def __init__(self, clock: VirtualClock, registry: Registry, fakes: Mapping[str, Turns], folder: Path | None):
        self._clock = clock
        self._registry = registry
        self._declared = {name: spec for spec in registry for name in (spec.name, *spec.aliases)}
        self._fakes = fakes
        self._given_folder = folder
        self._runs: Counter[tuple[str, str]] = Counter()

    def claim(self, task: Task) -> None:
        if task.is_gone:
            return
        step = self._next_step(task)
        if not step.is_claimed:
            return
        job, queued = task.job, task.queued
        task.lease_epoch += 1
        task.attempt = Attempt(queued.node_id, queued.handler, queued.attempt, task.params, job.seconds())
        job.seen.attempts.append(task.attempt)
        job.apply(inputs.TaskStarted(*task.about, task.lease_epoch, WORKER_ID))
        if step.is_lost:
            act = partial(self._lose, task)
        elif step.seconds > queued.timeout_seconds:
            act = partial(self._time_out, task)
        else:
            act = partial(self._run, task, step)
        self._while_leased(task, min(step.seconds, queued.timeout_seconds), act)

    def withdraw(self, task: Task) -> None:
        """Remove the task from the queue; a running one stops at once."""
        task.is_gone = True
        self._end_attempt(task, "withdrawn")

    def _next_step(self, task: Task) -> Step:
        turns = self._fakes.get(task.queued.handler, REAL)
        place = (task.job.seen.job_id, task.queued.node_id)
        step = turns.steps[min(self._runs[place], len(turns.steps) - 1)]
        self._runs[place] += 1
        return step

    def _while_leased(self, task: Task, seconds: float, act: partial[None]) -> None:
        """Run the action after this time, unless another worker has the task by then."""
        lease_epoch = task.lease_epoch
        self._clock.at(self._clock.after(seconds), act, lambda: task.is_gone or task.lease_epoch != lease_epoch)

    def _run(self, task: Task, step: Step) -> None:
        """The handler is called at the end of its virtual time: a task that is withdrawn before has no effect."""
        job, queued = task.job, task.queued
        recording = Recording(lost_after_checkpoint=step.lost_after_checkpoint)
        resume = job.seen.nodes[queued.node_id].checkpoint
        ctx: HandlerContext[Any] = HandlerContext(
            recording,
            task.params,
            task_id=queued.task_id,
            job_id=job.seen.job_id,
            node_id=queued.node_id,
            attempt=queued.attempt,
            lease_epoch=task.lease_epoch,
            timeout_seconds=queued.timeout_seconds,
            resume=resume,
            scratch=self._folder / "scratch" / f"{queued.task_id}.{task.lease_epoch}",
            open_storage=lambda: self._storage,
        )
        executed = execute(self._spec_of(queued.handler, step), ctx)
        if ctx.used_scratch is not None:
            shutil.rmtree(ctx.used_scratch, ignore_errors=True)
        attempt = task.attempt
        assert attempt is not None
        attempt.logs, attempt.progress = recording.logs, recording.progress_calls
        attempt.checkpoints, attempt.resumed_from = recording.checkpoints, resume
        for phase, data in recording.checkpoints:
            job.apply(inputs.TaskCheckpointed(*task.about, task.lease_epoch, phase, data))
        delay_seconds = executed.outcome.delay_seconds
        if recording.is_lost:
            self._lose(task)
        elif delay_seconds is not None:
            self._end_attempt(task, "later")
            job.apply(inputs.TaskSnoozed(*task.about, task.lease_epoch, delay_seconds))
            self._while_leased(task, delay_seconds, partial(self.claim, task))
        else:
            self._report_outcome(task, executed)

    def _lose(self, task: Task) -> None:
        self._end_attempt(task, "lost")
        lost = inputs.TaskLost(*task.about, task.lease_epoch, WORKER_ID, True)
        self._while_leased(task, LEASE_SECONDS, partial(task.job.apply, lost))

    def _time_out(self, task: Task) -> None:
        message = f"it ran longer than its {task.queued.timeout_seconds} s and was stopped"
        self._report(task, "timeout", inputs.Output(), ErrorKind.TIMEOUT, message)

    def _report_outcome(self, task: Task, executed: Executed) -> None:
        outcome = executed.outcome
        warnings = () if outcome.warnings is None else orjson.loads(outcome.warnings)
        if outcome.error_kind is not None:
            error = None if outcome.error is None else orjson.loads(outcome.error)
            self._report(
                task,
                "failed",
                inputs.Output(),
                outcome.error_kind,
                outcome.error_message,
                error=error,
                warnings=warnings,
            )
            return
        output = inputs.Output(None if outcome.output is None else orjson.loads(outcome.output))
        records = () if outcome.records is None else decode_records(orjson.loads(outcome.records))
        task.job.seen.nodes[task.queued.node_id].output = output.value
        self._report(task, "completed", output, records=records, warnings=warnings)

    def _report(
        self,
        task: Task,
        ending: str,
        output: inputs.Output,
        error_kind: ErrorKind | None = None,
        error_message: str | None = None,
        records: tuple[Any, ...] = (),
        error: dict[str, Any] | None = None,
        warnings: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        task.is_gone = True
        self._end_attempt(task, ending, output.value, error_kind, error_message)
        task.job.apply(
            inputs.TaskReported(
                *task.about,
                task.lease_epoch,
                error_kind is None,
                output if error_kind is None else None,
                error_message,
                error_kind,
                WORKER_ID,
                records=records,
                error=error,
                warnings=warnings,
            )
        )

    def _end_attempt(
        self,
        task: Task,
        ending: str,
        output: Any = None,
        error_kind: ErrorKind | None = None,
        error_message: str | None = None,
    ) -> None:
        attempt, task.attempt = task.attempt, None
        if attempt is not None:
            attempt.ended_at, attempt.outcome, attempt.output = task.job.seconds(), ending, output
            attempt.error_kind, attempt.error_message = error_kind, error_message

    def _spec_of(self, name: str, step: Step) -> HandlerSpec:
        if step.function is not None:
            return spec_of(name, step.function, self._declared.get(name))
        spec = self._registry.find(name)
        assert spec is not None, name
        return spec

    @cached_property
    def _folder(self) -> Path:
        if self._given_folder is not None:
            return self._given_folder
        folder = tempfile.mkdtemp(prefix="rmhdag-test-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    @cached_property
    def _storage(self) -> Storage:
        return open_storage(StorageSettings(root=str(self._folder / "storage")), DEFAULT)
