"""A job as its holder sees it: wait, outputs, events, logs, cancel, retry, rerun; for both sides."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar
from uuid import uuid4

import httpx

from rmhdag.client import calls
from rmhdag.client.bodies import checked
from rmhdag.client.errors import Conflict, JobCancelled, JobFailed, NotFound, RmhdagError, Unavailable, WaitTimeout
from rmhdag.client.html import describe_job
from rmhdag.client.listening import LOST_SECONDS, listen
from rmhdag.client.sides import AsyncSide, Iteration, Operation, SyncSide
from rmhdag.client.steps import Item, Items, Pause, Steps, ask, pages
from rmhdag.models.api.children import FanOutChildren
from rmhdag.models.api.data_errors import WarningView
from rmhdag.models.api.jobs import CommandAnswerBody, JobLabels, JobView, LabelChanges, RerunRequest
from rmhdag.models.api.log_lines import LogLines, LogMatches
from rmhdag.models.api.log_reading import LogLine, UnseenChunks, lines_of
from rmhdag.models.api.nodes import Decision, JobGraph, NodeSummary, NodeView
from rmhdag.models.api.overviews import JobOverview
from rmhdag.models.api.progress import JobProgress
from rmhdag.models.api.timeline import StreamedEvent
from rmhdag.models.api.workflows import JobDefinition
from rmhdag.models.states import JOB_TERMINAL, JobStatus
from rmhdag.models.stored_values import NOT_STORED, Unfolding, ValuesTooLarge

# The handle itself, as the side has it.
J = TypeVar("J")
FIRST_LOOK_SECONDS = 0.05
MOST_LOOK_SECONDS = 1.0
FOLLOW_SECONDS = 0.5
ShowProgress = Callable[[JobProgress], None]


class JobOperations(ABC, Generic[J]):
    """`view` is the job as it was last seen; None if it has not been looked at yet."""

    def __init__(self, http: Any, job_id: str) -> None:
        self._http = http
        self.job_id = job_id
        self.view: JobView | None = None
        self._graph: JobGraph | None = None
        # With the values that stand apart, or why they are not here.
        self._outputs: dict[str, Any] | RmhdagError | None = None

    @abstractmethod
    def _handle(self, job_id: str) -> J:
        """Another job, as this side has it."""

    @abstractmethod
    def _itself(self) -> J:
        """This one, by the type that callers know."""

    @property
    def status(self) -> JobStatus | None:
        """As last seen; `refresh()` looks again."""
        return None if self.view is None else self.view.status

    @property
    def has_ended(self) -> bool:
        return self.status in JOB_TERMINAL

    @property
    def outputs(self) -> dict[str, Any]:
        """What the job has made. Raises JobFailed or JobCancelled if it ended otherwise, Conflict if it has not."""
        if self.view is None or not self.has_ended:
            raise Conflict("job_not_finished", f"job {self.job_id} has not ended", "Call wait() first.")
        check_end(self.view)
        if isinstance(self._outputs, RmhdagError):
            raise self._outputs
        return self.view.result_data or {} if self._outputs is None else self._outputs

    @property
    def warnings(self) -> list[WarningView]:
        """What to know about the data, summed by code; as last seen."""
        return [] if self.view is None else self.view.warnings

    @property
    def result(self) -> dict[str, Any]:
        """The same as `outputs`."""
        return self.outputs

    @Operation
    def refresh(self) -> Steps[J]:
        """Look again."""
        yield from self.see((yield from ask(calls.get_job(self.job_id))))
        return self._itself()

    def see(self, view: JobView) -> Steps[None]:
        """This is how it stands: its outputs are fetched, too, where they stand apart."""
        if self._outputs is None and view.result_data is not None:
            try:
                self._outputs = yield from stored_values(self.job_id, view.result_data)
            except ValuesTooLarge as error:
                remedy = "Fetch them one by one: `view.result_data` has their references, `node()` the outputs."
                self._outputs = RmhdagError("outputs_too_large", f"job {self.job_id}: {error}", remedy)
        self.view = view

    @Operation
    def wait(
        self, timeout: float | None = None, *, progress: bool | ShowProgress = False, check: bool = True
    ) -> Steps[J]:
        """Wait until it ends; a server that restarts meanwhile is waited for, too.

        `progress=True` writes a line to stderr, a function gets each `JobProgress`. Raises JobFailed or JobCancelled
        if it ends so, unless `check=False`, and WaitTimeout after `timeout` seconds; the job goes on then.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        show = ProgressLine() if progress is True else progress or None
        seen_at = time.monotonic()
        pause = FIRST_LOOK_SECONDS
        while True:
            try:
                yield from self.see((yield from self._look(show)))
                seen_at = time.monotonic()
            except Unavailable:
                if time.monotonic() - seen_at > LOST_SECONDS:
                    raise
            if self.has_ended:
                break
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                raise WaitTimeout(self.job_id, timeout or 0)
            yield Pause(pause if remaining is None else min(pause, remaining))
            pause = min(pause * 1.5, MOST_LOOK_SECONDS)
        if check and self.view is not None:
            check_end(self.view)
        return self._itself()

    def _look(self, show: ShowProgress | None) -> Steps[JobView]:
        """The job first, so that the last progress is that of its end."""
        view = yield from ask(calls.get_job(self.job_id))
        if show is not None:
            show((yield from ask(calls.get_progress(self.job_id))))
        return view

    @Operation
    def progress(self) -> Steps[JobProgress]:
        """How far it is, and when it may be done."""
        return (yield from ask(calls.get_progress(self.job_id)))

    @Operation
    def overview(self, *, reasons: bool = False, progress: bool = False) -> Steps[JobOverview]:
        """The job with its nodes in the order in which they run, and why they do not."""
        return (yield from ask(calls.get_overview(self.job_id, reasons=reasons, progress=progress)))

    @Operation
    def node(self, node_id: str) -> Steps[NodeView]:
        """One node, or one child of a fan-out: parameters, output, why it does not run.

        Of an output of more than 64 MB the references stay.
        """
        view = yield from ask(calls.get_node(self.job_id, node_id))
        with suppress(ValuesTooLarge):
            view.output = yield from stored_values(self.job_id, view.output)
        return view

    @Iteration
    def nodes(self, /, **filters: Any) -> Items[NodeSummary]:
        """Nodes; `status`, `parent` and `children=True` choose."""
        yield from pages(lambda cursor: calls.list_nodes(self.job_id, cursor, **filters), lambda page: page.nodes)

    @Iteration
    def events(self, after: int = 0) -> Items[StreamedEvent]:
        """Events as they happen, from the first or behind one, until the job has ended; none is missed or told twice,
        also across restarts of the server."""
        yield from listen(calls.stream_job(self.job_id), str(after) if after else None)

    @Iteration
    def logs(self, node_id: str | None = None, *, follow: bool = False) -> Items[LogLine]:
        """What its tasks wrote, or those of one node; `follow` goes on until the job has ended."""
        unseen = UnseenChunks()
        while True:
            self.view = yield from ask(calls.get_job(self.job_id))
            ended, cursor, more = self.has_ended, None, True
            while more:
                page = yield from ask(calls.get_logs(self.job_id, node_id, since=unseen.since, cursor=cursor))
                for chunk in unseen.of(page.chunks):
                    for line in lines_of(chunk):
                        yield Item(line)
                cursor, more = page.next_cursor, page.next_cursor is not None
            if ended or not follow:
                return
            yield Pause(FOLLOW_SECONDS)

    @Operation
    def children(self, node_id: str, *, first: int = 0, keys: bool = False) -> Steps[FanOutChildren]:
        """How each child of a fan-out stands, in columns; `next_first` is the `first` of the next page."""
        return (yield from ask(calls.get_children(self.job_id, node_id, first, keys)))

    @Operation
    def log_lines(self, /, first: int = 0, *, limit: int = 500, **filters: Any) -> Steps[LogLines]:
        """Lines by number, a negative one from the end; `node_id`, `level` and `text` choose."""
        return (yield from ask(calls.get_log_lines(self.job_id, first=first, limit=limit, **filters)))

    @Operation
    def find_in_logs(self, /, text: str, **filters: Any) -> Steps[LogMatches]:
        """Where a text stands in the logs; `node_id` and `level` choose."""
        return (yield from ask(calls.find_in_logs(self.job_id, text, **filters)))

    @Operation
    def definition(self) -> Steps[JobDefinition]:
        """The definition that the job runs, and the newest one if that differs."""
        return (yield from ask(calls.get_definition(self.job_id)))

    @Operation
    def cancel(self, reason: str | None = None) -> Steps[CommandAnswerBody]:
        """Stop it: what waits never starts, what runs is told. Conflict if it has completed or failed."""
        return (yield from ask(calls.cancel(self.job_id, reason)))

    @Operation
    def label(self, put: Mapping[str, str] | None = None, *, remove: Sequence[str] = ()) -> Steps[JobLabels]:
        """Put labels on it, which may replace values, and take off those that are named by their keys."""
        changes = checked(LabelChanges, {"put": dict(put or {}), "remove": list(remove)})
        return (yield from ask(calls.label_job(self.job_id, changes)))

    @Operation
    def retry_node(self, node_id: str) -> Steps[CommandAnswerBody]:
        """In a running job: try a node now that failed or waits for its next attempt."""
        return (yield from ask(calls.retry_node(self.job_id, node_id)))

    @Operation
    def decide(
        self, node_id: str, *, approve: bool, reason: str | None = None, clearance: str | None = None
    ) -> Steps[CommandAnswerBody]:
        """Approve or reject what an approval node waits for. If the job makes a revision that is reviewed, an approval
        needs the `clearance` of that: `public` or `restricted`.
        """
        fields = {"decision": "approve" if approve else "reject", "reason": reason, "clearance": clearance}
        body = checked(Decision, fields)
        return (yield from ask(calls.decide(self.job_id, node_id, body)))

    @Operation
    def retry(self, *, idempotency_key: str | None = None) -> Steps[J]:
        """A new job that runs again what failed or never ran, and reuses the rest."""
        return (yield from self._again(RerunRequest(idempotency_key=idempotency_key or uuid4().hex)))

    @Operation
    def rerun(
        self,
        params: dict[str, Any] | None = None,
        *,
        from_nodes: list[str] | None = None,
        everything: bool = False,
        idempotency_key: str | None = None,
    ) -> Steps[J]:
        """A new job with the same or changed parameters, which reuses what these leave as it was."""
        body = RerunRequest(
            input_params=params or {},
            from_nodes=from_nodes or [],
            everything=everything,
            idempotency_key=idempotency_key or uuid4().hex,
        )
        return (yield from self._again(body))

    def _again(self, body: RerunRequest) -> Steps[J]:
        answer = yield from ask(calls.rerun(self.job_id, body))
        assert answer.job_id is not None, "only a dry run makes no job"
        return self._handle(answer.job_id)

    @Operation
    def graph(self) -> Steps[JobGraph]:
        """Its picture: where the nodes lie and how they stand."""
        self._graph = yield from ask(calls.get_graph(self.job_id))
        return self._graph

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.job_id} {self.status or 'not looked at yet'}>"

    def _repr_html_(self) -> str:
        """For notebooks: how it stood when it was last seen; with its picture after `graph()`."""
        return describe_job(self.job_id, self.view, self._graph)


class Job(JobOperations["Job"], SyncSide):
    """A job; calls block."""

    _http: httpx.Client

    def _handle(self, job_id: str) -> Job:
        return Job(self._http, job_id)

    def _itself(self) -> Job:
        return self

    def _repr_html_(self) -> str:
        """Looks again, if it can."""
        with suppress(RmhdagError, RuntimeError):  # a closed client is a RuntimeError
            self.refresh()
            self.graph()
        return super()._repr_html_()


class AsyncJob(JobOperations["AsyncJob"], AsyncSide):
    """A job; calls are awaited."""

    _http: httpx.AsyncClient

    def _handle(self, job_id: str) -> AsyncJob:
        return AsyncJob(self._http, job_id)

    def _itself(self) -> AsyncJob:
        return self


def stored_values(job_id: str, value: Any) -> Steps[Any]:
    """The value with what it refers to; what only looks like a reference, or is gone, stays. Raises ValuesTooLarge."""
    unfolding = Unfolding().steps(value)
    stored = None
    while True:
        try:
            digest = unfolding.send(stored)
        except StopIteration as end:
            return end.value
        try:
            stored = (yield from ask(calls.get_stored_value(job_id, digest))).root
        except NotFound:
            stored = NOT_STORED


def check_end(view: JobView) -> None:
    what = view.error_message or "no message"
    if view.status is JobStatus.FAILED:
        remedy = f"`rmhdag logs {view.job_id}` shows what was written; retry() runs what failed again."
        if view.error is not None and view.error.user_fixable and view.error.remediation:
            remedy = view.error.remediation
        raise JobFailed(view.job_id, f"job {view.job_id} failed: {what}", remedy, error=view.error)
    if view.status is JobStatus.CANCELLED:
        raise JobCancelled(view.job_id, f"job {view.job_id} was cancelled: {what}")


class ProgressLine:
    """One line on stderr, written over."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, progress: JobProgress) -> None:
        counts = progress.nodes
        done = counts.completed + counts.failed + counts.skipped + counts.cancelled
        failed = f", {counts.failed} failed" if counts.failed else ""
        text = f"{progress.workflow_id} {progress.job_status.value} {progress.overall_percent:.0f} %"
        text = f"{text} ({done}/{counts.total} nodes{failed})"
        if text != self._last:
            begin, end = ("\r", "\x1b[K") if sys.stderr.isatty() else ("", "\n")
            over = "\n" if begin and progress.job_status in JOB_TERMINAL else ""
            print(f"{begin}{text}{end}{over}", end="", file=sys.stderr, flush=True)
            self._last = text
