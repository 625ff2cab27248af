"""The platform as a server that is reached over HTTP, by a key."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import urlsplit

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.parameters import refuse
from rmhdag.cli.plain_http import warn_of_plain_http
from rmhdag.cli.platform import (
    ASSET_REMEDIES,
    CALLBACK_REFUSED,
    NOT_FINISHED,
    NOT_ROTATED,
    NOTHING_TO_RERUN,
    WORKFLOW_RETIRED,
    AssetQuery,
    FailedChild,
    JobQuery,
    NotRequeued,
    Platform,
    PlatformLost,
    Watch,
    WorkflowToRun,
    no_asset,
    no_callback,
    no_cursor,
    no_key,
    no_node,
    no_workflow,
    not_in_catalogue,
)
from rmhdag.cli.settings import Settings
from rmhdag.cli.workflow_files import (
    STDIN,
    CheckedFile,
    CheckedHead,
    EveryName,
    find_files,
    read_source,
    refuse_problems,
)
from rmhdag.client import (
    AuthenticationError,
    Client,
    Conflict,
    InvalidRequest,
    NotFound,
    RmhdagError,
    Unavailable,
    calls,
)
from rmhdag.models.api.approvals import WaitingApproval
from rmhdag.models.api.assets import (
    AssetSummary,
    AssetView,
    OrderAccepted,
    RevisionSummary,
    RevisionView,
    WorkOrderBody,
)
from rmhdag.models.api.audit import AuditView
from rmhdag.models.api.callbacks import CallbackView
from rmhdag.models.api.catalogue import CatalogueRemoval
from rmhdag.models.api.jobs import CommandAnswerBody, JobSubmission, JobSummary, RerunAnswer, RerunRequest
from rmhdag.models.api.keys import KeyMade, KeyRequest, KeyView, RotationRequest
from rmhdag.models.api.nodes import Decision, LogChunk, NodeView
from rmhdag.models.api.overviews import JobOverview
from rmhdag.models.api.processes import DrainAnswer, OrchestratorSummary, WorkerSummary
from rmhdag.models.api.queues import DeadLetterSummary, QueueStatus, Requeued
from rmhdag.models.api.quotas import QuotaChanges, QuotaList
from rmhdag.models.api.retention import Pruned, PrunePreview
from rmhdag.models.api.timeline import TimelineEvent
from rmhdag.models.api.workflows import Registration, WorkflowDetail, WorkflowSummary
from rmhdag.models.jobs import CommandOutcome
from rmhdag.models.stored_values import NOT_STORED
from rmhdag.workflow import definition_json
from rmhdag.workflow.checker import Surroundings, find_problems
from rmhdag.workflow.loader import make_definition
from rmhdag.workflow.problems import Problem

MOST_FOUND = 3
ID_CHARACTERS = 32
# What the server says of HTTP calls, in the words of the command line.
REMEDIES = {
    "job_not_finished": NOT_FINISHED,
    "nothing_to_rerun": NOTHING_TO_RERUN,
    "callback_url_refused": CALLBACK_REFUSED,
    "not_rotated": NOT_ROTATED,
    "workflow_retired": WORKFLOW_RETIRED,
}
CODES = {"no_queues": ExitCode.INVALID}

T = TypeVar("T")


@contextmanager
def remote_platform(settings: Settings, namespace: str | None, name: str | None) -> Iterator[RemotePlatform]:
    assert settings.url is not None
    key = None if settings.key is None else settings.key.get_secret_value()
    if key is not None:
        warn_of_plain_http(settings.url)
    with explained(settings), Client(settings.url, key) as client:
        yield RemotePlatform(client, settings, namespace, name)


@contextmanager
def explained(settings: Settings) -> Iterator[None]:
    """Refusals as sentences with exit codes."""
    try:
        yield
    except RmhdagError as error:
        where = server_name(settings)
        code = CODES.get(error.code, ExitCode(error.exit_code))
        remedy = REMEDIES.get(error.code, ASSET_REMEDIES.get(error.remedy or "", error.remedy or ""))
        detail = error.detail
        if isinstance(error, AuthenticationError) and error.status == 401:
            remedy = "Set RMHDAG_KEY to a key of this server; `rmhdag keys create` beside its database makes one."
        if isinstance(error, Unavailable):
            detail, remedy = f"{where}: {detail}", remedy or "Check that it runs and that RMHDAG_URL names it."
        if "/api/v1" in remedy:
            remedy = ""
        lines = [f"  {place.pointer or 'the whole'}: {place.detail}" for place in error.errors]
        shown = lines if len(lines) > 1 else []
        raise CommandFailed("\n".join([detail, *shown]), remedy=remedy, code=code) from error


def server_name(settings: Settings) -> str:
    """Without a password, should there be one."""
    parts = urlsplit(settings.url or "")
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


class RemotePlatform(Platform):
    """Everything is in the namespace of the key, and in the name of its holder."""

    def __init__(self, client: Client, settings: Settings, namespace: str | None, name: str | None) -> None:
        self.settings = settings
        self._client = client
        self._call = client.call
        self._name = name
        if namespace is None:
            return
        own = client.me().namespace
        if own != namespace:
            raise CommandFailed(
                f"this key is for namespace {own}, not for {namespace}",
                remedy="Use a key of that namespace, and leave --namespace out.",
                code=ExitCode.AUTHENTICATION,
            )

    @property
    def namespace(self) -> str:
        return self._client.me().namespace

    def _refuse_name(self) -> None:
        if self._name is not None:
            raise CommandFailed(
                "a server knows you by your key: --as works beside the database, and for submit with the scope admin",
                code=ExitCode.USAGE,
            )

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def job_ids(self, start: str) -> list[str]:
        if len(start) == ID_CHARACTERS:
            try:
                return [self._call(calls.get_job(start)).job_id]
            except NotFound:
                return []
        fitting = (job.job_id for job in self._client.jobs(text=start) if job.job_id.startswith(start))
        return list(islice(fitting, MOST_FOUND))

    def jobs(self, query: JobQuery) -> tuple[list[JobSummary], str | None]:
        asked: dict[str, Any] = {
            "status": list(query.statuses),
            "workflow_id": query.workflow_id,
            "submitted_by": query.submitted_by,
            "correlation_id": query.correlation_id,
            "since": query.since,
        }
        return self._pages(query, partial(calls.list_jobs, **asked), lambda page: page.jobs)

    def _pages(
        self, query: JobQuery | AssetQuery, call: Callable[[str | None, int], Any], things: Callable[[Any], list[T]]
    ) -> tuple[list[T], str | None]:
        """As many as are wanted, in as many calls as that takes; and where the next page begins."""
        found: list[T] = []
        cursor = query.after
        while True:
            try:
                page = self._call(call(cursor, min(query.limit - len(found), calls.PAGE)))
            except InvalidRequest as error:
                if error.code == "invalid_cursor":
                    raise no_cursor(query.after or "") from None
                raise
            found += things(page)
            cursor = page.next_cursor
            if cursor is None or len(found) >= query.limit:
                return found, cursor

    def overview(self, job_id: str, *, reasons: bool = False) -> JobOverview:
        return self._call(calls.get_overview(job_id, reasons=reasons))

    @contextmanager
    def watching(self, job_id: str) -> Iterator[Watch]:
        yield RemoteWatch(self, job_id)

    def node(self, job_id: str, node_id: str) -> NodeView:
        try:
            return self._call(calls.get_node(job_id, node_id))
        except NotFound as error:
            raise no_node(job_id, node_id, error.remedy or "") from None

    def stored_value(self, job_id: str, sha256: str) -> Any:
        try:
            return self._call(calls.get_stored_value(job_id, sha256)).root
        except NotFound:
            return NOT_STORED

    def failed_children(self, job_id: str, node_id: str, limit: int) -> list[FailedChild]:
        page = self._call(calls.list_nodes(job_id, limit=limit, parent=node_id, status="failed"))
        return [FailedChild(node.node_id, node.fan_out_item_key, node.error_message) for node in page.nodes]

    def events(self, job_id: str) -> Iterator[TimelineEvent]:
        after: int | None = 0
        while after is not None:
            page = self._call(calls.get_timeline(job_id, after))
            yield from page.events
            after = page.next_after

    def log_chunks(self, job_id: str, node_id: str | None, since: datetime | None) -> Iterator[LogChunk]:
        cursor, more = None, True
        while more:
            try:
                page = self._call(calls.get_logs(job_id, node_id, since=since, cursor=cursor))
            except NotFound:
                raise no_node(job_id, node_id or "", f"`rmhdag job {job_id}` lists its nodes.") from None
            yield from page.chunks
            cursor, more = page.next_cursor, page.next_cursor is not None

    def submit(self, wanted: JobSubmission) -> str:
        made = wanted.model_copy(update={"submitted_by": self._name} if self._name else {})
        return self._client.submit(
            made.workflow_id, made.input_params, **made.model_dump(exclude={"workflow_id", "input_params"})
        ).job_id

    def cancel(self, job_id: str, reason: str | None) -> CommandAnswerBody:
        return self._command(job_id, calls.cancel(job_id, reason))

    def retry_node(self, job_id: str, node_id: str) -> CommandAnswerBody:
        return self._command(job_id, calls.retry_node(job_id, node_id))

    def decide(self, job_id: str, node_id: str, decision: Decision) -> CommandAnswerBody:
        return self._command(job_id, calls.decide(job_id, node_id, decision))

    def approvals(self, *, limit: int) -> list[WaitingApproval]:
        return list(islice(self._client.approvals(), limit))

    def _command(self, job_id: str, call: calls.Call[CommandAnswerBody]) -> CommandAnswerBody:
        self._refuse_name()
        try:
            return self._call(call)
        except Conflict as error:
            if error.code != "refused":
                raise
            return CommandAnswerBody(job_id=job_id, command_id="", outcome=CommandOutcome.REFUSED, reason=error.detail)

    def rerun(self, job_id: str, wanted: RerunRequest) -> RerunAnswer:
        self._refuse_name()
        try:
            return self._call(calls.rerun(job_id, wanted))
        except InvalidRequest as error:
            if error.code != "invalid_parameters":
                raise
            wrong = [(place.pointer.removeprefix("/input_params"), place.detail) for place in error.errors]
            raise refuse(wrong, self._call(calls.get_job(job_id)).workflow_id) from None

    # -- assets --------------------------------------------------------------------------------------------------------

    def order(self, wanted: WorkOrderBody) -> OrderAccepted:
        made = wanted.model_copy(update={"submitted_by": self._name} if self._name else {})
        given = made.model_dump(exclude={"workflow_id", "input_params"})
        try:
            return self._client.submit_request(made.workflow_id, made.input_params, **given)
        except InvalidRequest as error:
            if error.code != "invalid_parameters":
                raise
            wrong = [(place.pointer.removeprefix("/input_params"), place.detail) for place in error.errors]
            raise refuse(wrong, made.workflow_id) from None

    def assets(self, query: AssetQuery) -> tuple[list[AssetSummary], str | None]:
        asked: dict[str, Any] = {
            "platform_id": query.platform_id,
            "kind": query.kind,
            "processing_status": query.processing_status,
            "ref": [f"{name}={value}" for name, value in query.refs.items()],
            "deleted_too": query.deleted_too,
        }
        return self._pages(query, partial(calls.list_assets, **asked), lambda page: page.assets)

    def asset(self, asset_id: str) -> AssetView:
        try:
            return self._client.asset(asset_id)
        except NotFound:
            raise no_asset(asset_id) from None

    def revisions(self, asset_id: str, limit: int) -> list[RevisionSummary]:
        return list(islice(self._client.revisions(asset_id), limit))

    def rollback(self, asset_id: str, revision: int) -> RevisionView:
        self._refuse_name()
        try:
            return self._client.rollback(asset_id, revision)
        except NotFound:
            raise no_asset(asset_id) from None

    def remove_from_catalogue(
        self, collection_id: str, item_id: str | None, reason: str | None, *, dry_run: bool
    ) -> CatalogueRemoval:
        self._refuse_name()
        try:
            if item_id is None:
                return self._client.remove_items(collection_id, reason=reason, dry_run=dry_run)
            return self._client.remove_item(collection_id, item_id, reason=reason, dry_run=dry_run)
        except NotFound:
            raise not_in_catalogue(collection_id, item_id) from None

    def delete_asset(self, asset_id: str) -> AssetView:
        self._refuse_name()
        try:
            return self._client.delete_asset(asset_id)
        except NotFound:
            raise no_asset(asset_id) from None

    # -- workflows -----------------------------------------------------------------------------------------------------

    def workflows(self, *, retired_too: bool = False) -> list[WorkflowSummary]:
        return list(self._client.workflows(retired_too=retired_too))

    def workflow(self, workflow_id: str, version: int | None) -> WorkflowDetail | None:
        try:
            return self._client.workflow(workflow_id, version)
        except (NotFound, InvalidRequest):
            return None

    def check(self, names: Sequence[str]) -> list[CheckedFile]:
        files = []
        for name in find_files(names):
            file, source = "<stdin>" if name == STDIN else name, read_source(name)
            told = self._client.validate(source)
            problems = [
                Problem(file, one.line or 0, one.column or 0, one.code, one.message, one.remedy, one.pointer)
                for one in told.problems
            ]
            head = CheckedHead(str(told.workflow_id), told.version or 1, told.node_count or 0) if told.valid else None
            files.append(CheckedFile(file, source, None, problems, head))
        return files

    def register(self, names: Sequence[str]) -> list[Registration]:
        self._refuse_name()
        files = self.check(names)
        refuse_problems([(problem, file.source) for file in files for problem in file.problems])
        return [self._client.register(file.source) for file in files]

    def register_shipped(self) -> list[Registration]:
        raise CommandFailed(
            "--shipped works with the database: its queues are named by the settings beside it",
            remedy="Run it where the orchestrators' settings are, without --url and RMHDAG_URL.",
            code=ExitCode.USAGE,
        )

    def check_file(self, name: str) -> WorkflowToRun:
        files = self.check([name])
        refuse_problems([(problem, file.source) for file in files for problem in file.problems])
        if len(files) != 1:
            raise CommandFailed(f"{name} holds {len(files)} workflows; name one", code=ExitCode.USAGE)
        source = files[0].source
        # The server has found nothing wrong with it; its own surroundings are not known here and not needed.
        checked, _ = find_problems(source, Surroundings(None, None, EveryName()), file=name)
        assert checked is not None
        definition = make_definition(checked).definition
        return WorkflowToRun(definition.workflow_id, definition.version, definition_json(definition))

    def retire_workflow(self, workflow_id: str) -> WorkflowSummary:
        return self._change_workflow(self._client.retire_workflow, workflow_id)

    def restore_workflow(self, workflow_id: str) -> WorkflowSummary:
        return self._change_workflow(self._client.restore_workflow, workflow_id)

    def _change_workflow(self, change: Callable[[str], WorkflowSummary], workflow_id: str) -> WorkflowSummary:
        self._refuse_name()
        try:
            return change(workflow_id)
        except (NotFound, InvalidRequest):
            raise no_workflow(workflow_id) from None

    # -- who is there, and what waits ----------------------------------------------------------------------------------

    def queues(self) -> list[QueueStatus]:
        return self._client.queues()

    def quotas(self) -> QuotaList:
        return self._client.quotas()

    def change_quotas(self, namespace: str, changes: QuotaChanges) -> QuotaList:
        return self._client.change_quotas(namespace, changes.quotas)

    def workers(self) -> list[WorkerSummary]:
        return self._client.workers()

    def orchestrators(self) -> list[OrchestratorSummary]:
        return self._client.orchestrators()

    def drain_worker(self, worker_id: str) -> bool:
        return self._drain(calls.drain_worker(worker_id))

    def drain_orchestrator(self, owner_id: str) -> bool:
        return self._drain(calls.drain_orchestrator(owner_id))

    def _drain(self, call: calls.Call[DrainAnswer]) -> bool:
        self._refuse_name()
        try:
            return self._call(call).draining
        except NotFound:
            return False

    def dead_letters(self, *, settled_too: bool = False, limit: int) -> list[DeadLetterSummary]:
        return list(islice(self._client.dead_letters(settled_too=settled_too), limit))

    def find_dead_letters(self, start: str) -> list[DeadLetterSummary]:
        fitting = [one for one in self._client.dead_letters(settled_too=True) if one.dead_letter_id.startswith(start)]
        return [one for one in fitting if one.dead_letter_id == start] or fitting[:2]

    def requeue(self, letter: DeadLetterSummary) -> Requeued:
        self._refuse_name()
        try:
            return self._client.requeue(letter.dead_letter_id)
        except Conflict as error:
            raise NotRequeued(error.detail) from None

    def discard(self, letter: DeadLetterSummary) -> bool:
        self._refuse_name()
        if letter.settled_as is not None:
            return False
        try:
            self._client.discard(letter.dead_letter_id)
        except Conflict:
            return False
        return True

    def callbacks(self, *, status: str | None, job_id: str | None, limit: int) -> list[CallbackView]:
        return list(islice(self._client.callbacks(status=status, job_id=job_id), limit))

    def redeliver(self, callback_ids: Sequence[str]) -> None:
        self._refuse_name()
        for callback_id in callback_ids:
            try:
                self._call(calls.get_callback(callback_id))
            except NotFound:
                raise no_callback(callback_id) from None
        for callback_id in callback_ids:
            self._client.redeliver(callback_id)

    def preview_retention(self) -> PrunePreview:
        return self._client.preview_retention()

    def prune(self) -> Pruned:
        return self._client.prune()

    # -- keys ----------------------------------------------------------------------------------------------------------

    def keys(self, *, dead_too: bool) -> list[KeyView]:
        return list(self._client.keys(dead_too=dead_too))

    def create_key(self, wanted: KeyRequest) -> KeyMade:
        self._refuse_name()
        return self._call(calls.create_key(wanted))

    def rotate_key(self, key_id: str, wanted: RotationRequest) -> KeyMade:
        self._refuse_name()
        try:
            return self._call(calls.rotate_key(key_id, wanted))
        except (NotFound, InvalidRequest):
            raise no_key(key_id) from None

    def revoke_key(self, key_id: str) -> KeyView:
        try:
            return self._call(calls.revoke_key(key_id))
        except (NotFound, InvalidRequest):
            raise no_key(key_id) from None

    def audit(self, *, action: str | None, subject: str | None, limit: int) -> list[AuditView]:
        return list(islice(self._client.audit(action=action, subject=subject), limit))


class RemoteWatch(Watch):
    pace_seconds = 0.5

    def __init__(self, platform: RemotePlatform, job_id: str) -> None:
        self._platform = platform
        self._job_id = job_id

    def look(self) -> JobOverview:
        try:
            return self._platform.overview(self._job_id)
        except Unavailable as error:
            raise PlatformLost("the server", error) from error

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)
