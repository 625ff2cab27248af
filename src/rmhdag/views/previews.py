"""What a submission or an order would do, read without writing anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rmhdag.assets.identity import AssetReferences, Platforms
from rmhdag.assets.reviews import ReviewConflict, check_previous_version
from rmhdag.assets.revisions import AssetConflict, Join, decide_submission, params_digest_of
from rmhdag.models.api.previews import JobPreview, OrderPreview, PreviewProblem, PreviewWarning
from rmhdag.models.assets import AssetKind, PlatformReview
from rmhdag.models.refusals import Refusal
from rmhdag.services.callbacks.destinations import Rules, check_callback_url
from rmhdag.services.requests import (
    Ordered,
    WorkOrder,
    check_references,
    check_subscriber,
    find_target,
    refuse_references,
    state_of,
)
from rmhdag.services.requests import find_repeat as find_repeated_order
from rmhdag.services.submissions import (
    CheckNeeded,
    ChecksNeeded,
    Completion,
    OtherSubmissionError,
    Submission,
    Submitted,
    find_definition,
    find_repeat,
    shown_inputs,
)
from rmhdag.store import assets
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.connection import Conn
from rmhdag.views.estimates import estimate_of
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.preflight import examine
from rmhdag.workflow.task_counts import count_tasks

T = TypeVar("T")
P = TypeVar("P", bound=JobPreview)
CHECKS_SKIPPED = PreviewWarning(
    code="CHECKS_SKIPPED",
    message="this API has no storage (RMHDAG_STORAGE), so it could not be checked whether the files exist",
)


@contextmanager
def read_only(conn: Conn) -> Iterator[None]:
    """The database refuses whatever would be written."""
    with conn.transaction():
        conn.execute("SET TRANSACTION READ ONLY")
        yield


@dataclass(slots=True)
class _Findings:
    problems: list[PreviewProblem] = field(default_factory=list)
    warnings: list[PreviewWarning] = field(default_factory=list)

    def attempt(self, action: Callable[[], T]) -> T | None:
        """None if it is refused; the refusal becomes problems."""
        try:
            return action()
        except Refusal as refusal:
            self.add(refusal)
            return None

    def add(self, refusal: Refusal) -> None:
        about: dict[str, Any] = {"refusal": refusal.code, "remedy": refusal.remedy}
        if not refusal.places:
            self.problems.append(PreviewProblem(pointer="", detail=refusal.message, **about))
        for place in refusal.places:
            self.problems.append(PreviewProblem(**place._asdict(), **about))

    @property
    def facts(self) -> dict[str, Any]:
        return {"valid": not self.problems, "problems": self.problems, "warnings": self.warnings}


@dataclass(frozen=True, slots=True)
class Previews:
    """`looks_at_files`: whether the checks of workflows do; `input_bytes`: what they have seen."""

    namespace: str
    rules: Rules
    complete: Completion
    looks_at_files: bool
    input_bytes: Callable[[], int | None]

    def of_job(self, conn: Conn, submission: Submission) -> JobPreview:
        preview, job = self._of_job(conn, submission)
        return preview if preview.repeats_job_id else self._estimated(conn, preview, job)

    def of_order(self, conn: Conn, work: WorkOrder, platforms: Platforms) -> OrderPreview:
        preview, job = self._of_order(conn, work, platforms)
        return preview if preview.outcome in ("repeat", "join") else self._estimated(conn, preview, job)

    def _estimated(self, conn: Conn, preview: P, job: _PreviewedJob | None) -> P:
        """In a transaction of its own, because it needs one snapshot."""
        if job is None or job.definition is None:
            return preview
        input_bytes = None if job.params is None else self.input_bytes()
        estimate = estimate_of(conn, self.namespace, job.workflow_id, tasks=job.tasks, input_bytes=input_bytes)
        return preview.model_copy(update={"estimate": estimate})

    def _of_job(self, conn: Conn, submission: Submission) -> tuple[JobPreview, _PreviewedJob]:
        with read_only(conn):
            findings = _Findings()
            earlier = find_repeat(conn, self.namespace, submission)
            if isinstance(earlier, OtherSubmissionError):
                findings.add(earlier)
            job = self._job(conn, submission, findings)
            repeats = earlier.job_id if isinstance(earlier, Submitted) else None
            return JobPreview(**job.facts, **findings.facts, repeats_job_id=repeats), job

    def _of_order(self, conn: Conn, work: WorkOrder, platforms: Platforms) -> tuple[OrderPreview, _PreviewedJob | None]:
        with read_only(conn):
            findings = _Findings()
            earlier = findings.attempt(lambda: find_repeated_order(conn, self.namespace, work))
            if earlier is not None:
                return _repeated(earlier), None
            submission = Submission(
                workflow_id=work.workflow_id,
                input_params=work.input_params,
                submitted_by=work.submitted_by,
                callback_url=work.callback_url,
            )
            if work.subscriber is not None:
                rules = self.rules.for_namespace(self.namespace)
                findings.attempt(lambda: check_subscriber(work, rules))
            job = self._job(conn, submission, findings)
            asset: dict[str, Any] = {}
            if job.definition is not None:
                asset = self._asset(conn, work, platforms, job, findings)
            asset.setdefault("outcome", "invalid" if findings.problems else "create")
            return OrderPreview(**job.facts, **findings.facts, **asset, platform_id=work.platform_id), job

    def _job(self, conn: Conn, submission: Submission, findings: _Findings) -> _PreviewedJob:
        if submission.callback_url is not None:
            url, rules = submission.callback_url, self.rules.for_namespace(self.namespace)
            findings.attempt(lambda: check_callback_url(url, rules))
        workflow = (submission.workflow_id, submission.version)
        definition = findings.attempt(lambda: find_definition(conn, self.namespace, *workflow))
        if definition is None:
            return _PreviewedJob(submission.workflow_id)
        try:
            params = findings.attempt(lambda: self.complete(definition, submission.input_params))
        except CheckNeeded as check:
            raise ChecksNeeded([check]) from None
        if params is None:
            return _PreviewedJob(submission.workflow_id, definition)
        if not self.looks_at_files and examine(definition, params).questions:
            findings.warnings.append(CHECKS_SKIPPED)
        tasks = count_tasks(definition, params)
        return _PreviewedJob(submission.workflow_id, definition, shown_inputs(definition, params), tasks)

    def _asset(
        self, conn: Conn, work: WorkOrder, platforms: Platforms, job: _PreviewedJob, findings: _Findings
    ) -> dict[str, Any]:
        assert job.definition is not None
        produces = job.definition.produces
        if produces is None:
            findings.attempt(lambda: refuse_references(work))
            return {}
        kind = AssetKind(produces)
        references = findings.attempt(lambda: check_references(work, platforms, kind))
        if references is None:
            return {}
        return self._revision(conn, work, references, kind, job, findings)

    def _revision(
        self,
        conn: Conn,
        work: WorkOrder,
        references: AssetReferences,
        kind: AssetKind,
        job: _PreviewedJob,
        findings: _Findings,
    ) -> dict[str, Any]:
        target = find_target(conn, self.namespace, references)
        facts: dict[str, Any] = {
            "asset_id": target.asset_id,
            "version_label": target.version_label,
            "waits_for_review": references.platform.review is not PlatformReview.NONE
            or (job.definition is not None and job.definition.asks_for_review),
        }
        stored = assets.read_asset_state(conn, self.namespace, target.asset_id)
        if stored is None:
            return {**facts, **_built_on(work, target.asset_id, None, findings), "revision": 1}
        facts |= {"asset_exists": True, "current_revision": stored.current_revision}
        if stored.current_revision is not None:
            key = RevisionKey(self.namespace, target.asset_id, stored.current_revision)
            facts["current_version"] = assets.version_label_of(conn, key)
        if job.params is None:
            return facts
        digest = params_digest_of(job.workflow_id, job.params, target.version_label)
        try:
            step = decide_submission(state_of(stored, work), kind, digest, supersede=work.supersede)
        except AssetConflict as conflict:
            findings.add(conflict)
            return {**facts, "outcome": "conflict"}
        if findings.problems:
            return facts
        if isinstance(step, Join):
            return {**facts, "outcome": "join", "revision": step.revision, "job_id": step.job_id}
        facts |= _built_on(work, target.asset_id, facts.get("current_version"), findings)
        return {**facts, "revision": step.revision, "supersedes_job_id": step.supersedes}


def _built_on(work: WorkOrder, asset_id: str, served: str | None, findings: _Findings) -> dict[str, Any]:
    """An order that builds on another version than the served one would be a conflict."""
    try:
        check_previous_version(asset_id, work.previous_version, served)
    except ReviewConflict as conflict:
        findings.add(conflict)
        return {"outcome": "conflict"}
    return {}


@dataclass(frozen=True, slots=True)
class _PreviewedJob:
    """`params` are those that people may see: the digest of a revision is made of these."""

    workflow_id: str
    definition: WorkflowDefinition | None = None
    params: dict[str, Any] | None = None
    tasks: int | None = None

    @property
    def facts(self) -> dict[str, Any]:
        version = None if self.definition is None else self.definition.version
        return {"workflow_id": self.workflow_id, "workflow_version": version, "input_params": self.params}


def _repeated(earlier: Ordered) -> OrderPreview:
    request = earlier.request
    return OrderPreview(
        valid=True,
        outcome="repeat",
        workflow_id=request.workflow_id,
        request_id=request.client_request_id,
        platform_id=request.platform_id,
        asset_id=request.asset_id,
        asset_exists=request.asset_id is not None,
        revision=request.revision,
        job_id=request.job_id,
        repeats_job_id=request.job_id,
    )
