"""What commands do with the client beyond its calls: ids by their beginnings, pages, and refusals in the words of the
command line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from rmhdag.assets.revisions import OTHER_REFS, SUPERSEDE
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import say
from rmhdag.cli.patience import Patience
from rmhdag.cli.refusals import missing, missing_key, missing_workflow, no_node, refused_parameters
from rmhdag.cli.settings import Settings
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
from rmhdag.client.call import Call
from rmhdag.models.api.assets import (
    AssetSummary,
    AssetView,
    OrderAccepted,
    RevisionView,
    UnpublishAnswer,
    WorkOrderBody,
)
from rmhdag.models.api.catalogue import CatalogueRemoval
from rmhdag.models.api.jobs import (
    CommandAnswerBody,
    JobLabels,
    JobSubmission,
    JobSummary,
    LabelChanges,
    RerunAnswer,
    RerunRequest,
    SubmissionRequest,
)
from rmhdag.models.api.keys import KeyMade, KeyView, RotationRequest
from rmhdag.models.api.nodes import Decision, LogChunk, NodeView
from rmhdag.models.api.overviews import JobOverview
from rmhdag.models.api.previews import JobPreview, OrderPreview
from rmhdag.models.api.processes import DrainAnswer
from rmhdag.models.api.timeline import TimelineEvent
from rmhdag.models.api.workflows import WorkflowDetail, WorkflowSummary
from rmhdag.models.jobs import CommandOutcome
from rmhdag.models.stored_values import NOT_STORED, Unfolding, ValuesTooLarge

ALL_HEX = frozenset("0123456789abcdef")
SHORTEST_START = 8
MOST_FOUND = 3
ID_CHARACTERS = 32

CALLBACK_REFUSED = "RMHDAG_CALLBACK_HOSTS names hosts that are allowed although they are not public."
WORKFLOW_RETIRED = "`rmhdag workflows restore` brings it back; a newer version can be registered."
# What the API says of HTTP calls, in the words of the command line: by code, or by the remedy itself.
REMEDIES = {
    "job_not_finished": "Wait for its end, cancel it, or try one node now with --node NODE.",
    "nothing_to_rerun": "--everything or --from NODE runs it again all the same.",
    "callback_url_refused": CALLBACK_REFUSED,
    "not_rotated": "Revoke the one that is no longer used, or wait for the end of its overlap.",
    "workflow_retired": WORKFLOW_RETIRED,
    "other_content": "In development mode (RMHDAG_DEVELOPMENT=1) the new content takes its place.",
    "approved_content": "Revoke it first, or give --force, which revokes it; without --no-dry-run nothing changes.",
    "database_unavailable": "Start the database, or wait until it answers, and repeat the command; no job is lost.",
    "system_reserved": "If you are sure, demote it with --confirm-system.",
    "no_queues": "Set DAG_WORKER_QUEUE and WORKER_QUEUE; `rmhdag up` names its own.",
    SUPERSEDE: "Wait for its end, or order it with --supersede, which cancels it.",
    OTHER_REFS: "Order it with another --ref, or choose a workflow that makes the same.",
}

T = TypeVar("T")


class FailedChild(NamedTuple):
    node_id: str
    fan_out_item_key: str | None
    error_message: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """`after` is what the page before gave as the next."""

    statuses: Sequence[str] = ()
    workflow_id: str | None = None
    submitted_by: str | None = None
    correlation_id: str | None = None
    since: datetime | None = None
    labels: Sequence[str] = ()
    after: str | None = None
    limit: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetQuery:
    """`after` is what the page before gave as the next."""

    platform_id: str | None = None
    kind: str | None = None
    processing_status: str | None = None
    approval_state: str | None = None
    refs: Mapping[str, str] = field(default_factory=dict)
    deleted_too: bool = False
    after: str | None = None
    limit: int = 20


class WorkflowToRun(NamedTuple):
    """A definition that is registered, or is to be."""

    workflow_id: str
    version: int
    definition: dict[str, Any]
    is_registered: bool = False


class Operations:
    """`where` is what the client works on, to show; `submitted_by` in whose name jobs are submitted to a server."""

    def __init__(
        self,
        client: Client,
        settings: Settings,
        where: str,
        *,
        is_local: bool = False,
        submitted_by: str | None = None,
    ) -> None:
        self.client = client
        self.patience = client.on_pause = Patience(where)
        self.settings = settings
        self.is_local = is_local
        self._where = where
        self._call = client.call
        self._submitted_by = submitted_by

    @property
    def namespace(self) -> str:
        return self.client.me().namespace

    def require_namespace(self, namespace: str) -> None:
        own = self.namespace
        if own != namespace:
            raise CommandFailed(
                f"this key is for namespace {own}, not for {namespace}",
                remedy="Use a key of that namespace, and leave --namespace out.",
                code=ExitCode.AUTHENTICATION,
            )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Refusals as sentences with exit codes."""
        try:
            yield
        except RmhdagError as error:
            raise self._explain(error) from error

    def _explain(self, error: RmhdagError) -> CommandFailed:
        detail, remedy = error.detail, error.remedy or ""
        remedy = REMEDIES.get(error.code, REMEDIES.get(remedy, remedy))
        if isinstance(error, AuthenticationError) and error.status == 401:
            remedy = "Set RMHDAG_KEY to a key of this server; `rmhdag keys create` on its machine creates one."
        if isinstance(error, Unavailable):
            setting = "RMHDAG_DATABASE_URL" if self.is_local else "RMHDAG_URL"
            detail, remedy = f"{self._where}: {detail}", remedy or f"Check that it runs and that {setting} names it."
        if "/api/v1" in remedy:
            remedy = ""
        lines = [f"  {place.pointer or 'the whole'}: {place.detail}" for place in error.errors]
        places = lines if len(lines) > 1 else []
        return CommandFailed("\n".join([detail, *places]), remedy=remedy, code=ExitCode(error.exit_code))

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def find_job(self, text: str) -> str:
        """The full id of the job that is meant."""
        start = text.strip().lower().replace("-", "")
        if len(start) >= SHORTEST_START and ALL_HEX.issuperset(start):
            job_ids = self._job_ids(start)
            if len(job_ids) == 1:
                return job_ids[0]
            if job_ids:
                raise CommandFailed(
                    f"several jobs begin with {start}: {', '.join(job_ids)}",
                    remedy="Give more of the id.",
                    code=ExitCode.CONFLICT,
                )
        raise CommandFailed(
            f"there is no job {text!r}",
            remedy="`rmhdag jobs` lists them; the first 8 characters of an id are enough if no other begins so.",
            code=ExitCode.NOT_FOUND,
        )

    def _job_ids(self, start: str) -> list[str]:
        """Those that begin so; three at most."""
        if len(start) == ID_CHARACTERS:
            try:
                return [self._call(calls.get_job(start)).job_id]
            except NotFound:
                return []
        fitting = (job.job_id for job in self.client.jobs(text=start) if job.job_id.startswith(start))
        return list(islice(fitting, MOST_FOUND))

    def jobs(self, query: JobQuery) -> tuple[list[JobSummary], str | None]:
        """A page, newest first, and what to ask the next one with."""
        filters: dict[str, Any] = {
            "status": list(query.statuses),
            "workflow_id": query.workflow_id,
            "submitted_by": query.submitted_by,
            "correlation_id": query.correlation_id,
            "since": query.since,
            "label": list(query.labels),
        }
        return self._pages(query, partial(calls.list_jobs, **filters), lambda page: page.jobs)

    def _pages(
        self, query: JobQuery | AssetQuery, call: Callable[[str | None, int], Any], things: Callable[[Any], list[T]]
    ) -> tuple[list[T], str | None]:
        """As many as are wanted, in as many calls as that takes; and where the next page begins."""
        items: list[T] = []
        cursor = query.after
        while True:
            try:
                page = self._call(call(cursor, min(query.limit - len(items), calls.PAGE)))
            except InvalidRequest as error:
                if error.code == "invalid_cursor":
                    raise CommandFailed(
                        f"{query.after!r} is not a cursor",
                        remedy="Give what the page before named.",
                        code=ExitCode.USAGE,
                    ) from None
                raise
            items += things(page)
            cursor = page.next_cursor
            if cursor is None or len(items) >= query.limit:
                return items, cursor

    def overview(self, job_id: str, *, reasons: bool = False) -> JobOverview:
        return self._call(calls.get_overview(job_id, reasons=reasons))

    def node(self, job_id: str, node_id: str) -> NodeView:
        try:
            return self._call(calls.get_node(job_id, node_id))
        except NotFound as error:
            raise no_node(job_id, node_id, error.remedy or "") from None

    def whole(self, job_id: str, value: Any) -> Any:
        """With the values that stand apart; should they be too large, with their references."""
        unfolding = Unfolding().steps(value)
        stored = None
        try:
            while True:
                stored = self._stored_value(job_id, unfolding.send(stored))
        except StopIteration as end:
            return end.value
        except ValuesTooLarge as error:
            say(f"{error}: shown are their references")
            return value

    def _stored_value(self, job_id: str, sha256: str) -> Any:
        try:
            return self._call(calls.get_stored_value(job_id, sha256)).root
        except NotFound:
            return NOT_STORED

    def failed_children(self, job_id: str, node_id: str, limit: int) -> list[FailedChild]:
        """The first failed children of a fan-out, with their items and messages."""
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

    def submit(self, body: JobSubmission) -> str:
        """The id of the new job, or of the one that the idempotency key knows."""
        body = body.model_copy(update={"submitted_by": self._submitted_by})
        with refused_parameters(lambda: body.workflow_id):
            return self.client.submit(
                body.workflow_id, body.input_params, **body.model_dump(exclude={"workflow_id", "input_params"})
            ).job_id

    def label(self, job_id: str, changes: LabelChanges) -> JobLabels:
        return self._call(calls.label_job(job_id, changes))

    def cancel(self, job_id: str, reason: str | None) -> CommandAnswerBody:
        return self._command(job_id, calls.cancel(job_id, reason))

    def retry_node(self, job_id: str, node_id: str) -> CommandAnswerBody:
        return self._command(job_id, calls.retry_node(job_id, node_id))

    def decide(self, job_id: str, node_id: str, decision: Decision) -> CommandAnswerBody:
        return self._command(job_id, calls.decide(job_id, node_id, decision))

    def _command(self, job_id: str, call: Call[CommandAnswerBody]) -> CommandAnswerBody:
        try:
            return self._call(call)
        except Conflict as error:
            if error.code != "refused":
                raise
            return CommandAnswerBody(job_id=job_id, command_id="", outcome=CommandOutcome.REFUSED, reason=error.detail)

    def rerun(self, job_id: str, body: RerunRequest) -> RerunAnswer:
        with refused_parameters(lambda: self._call(calls.get_job(job_id)).workflow_id):
            return self._call(calls.rerun(job_id, body))

    # -- assets --------------------------------------------------------------------------------------------------------

    def order(self, body: WorkOrderBody) -> OrderAccepted:
        body = body.model_copy(update={"submitted_by": self._submitted_by})
        # Subscribers are for clients of the gateway.
        fields = body.model_dump(exclude={"workflow_id", "input_params", "dry_run", "subscriber"})
        with refused_parameters(lambda: body.workflow_id):
            return self.client.submit_request(body.workflow_id, body.input_params, **fields)

    def preview_order(self, body: WorkOrderBody) -> OrderPreview:
        return self._call(calls.preview_request(body.model_copy(update={"submitted_by": self._submitted_by})))

    def preview(self, body: SubmissionRequest) -> JobPreview:
        return self._call(calls.preview(body.model_copy(update={"submitted_by": self._submitted_by})))

    def assets(self, query: AssetQuery) -> tuple[list[AssetSummary], str | None]:
        """A page, newest first, and what to ask the next one with."""
        filters: dict[str, Any] = {
            "platform_id": query.platform_id,
            "kind": query.kind,
            "processing_status": query.processing_status,
            "approval_state": query.approval_state,
            "ref": [f"{name}={value}" for name, value in query.refs.items()],
            "deleted_too": query.deleted_too,
        }
        return self._pages(query, partial(calls.list_assets, **filters), lambda page: page.assets)

    def asset(self, asset_id: str) -> AssetView:
        with missing(f"there is no asset {asset_id!r}", "`rmhdag assets` lists them."):
            return self.client.asset(asset_id)

    def revision(self, asset_id: str, revision: int) -> RevisionView:
        with missing(
            f"there is no revision {revision} of asset {asset_id!r}", f"`rmhdag asset {asset_id}` lists them."
        ):
            return self.client.revision(asset_id, revision)

    def rollback(self, asset_id: str, revision: int) -> RevisionView:
        with missing(f"there is no asset {asset_id!r}", "`rmhdag assets` lists them."):
            return self.client.rollback(asset_id, revision)

    def delete_asset(self, asset_id: str) -> AssetView:
        with missing(f"there is no asset {asset_id!r}", "`rmhdag assets` lists them."):
            return self.client.delete_asset(asset_id)

    def unpublish(
        self, asset_id: str, revision: int | None, *, dry_run: bool, force: bool, reason: str | None
    ) -> UnpublishAnswer:
        which = f"asset {asset_id!r}" if revision is None else f"revision {revision} of asset {asset_id!r}"
        with missing(f"there is no {which}, so there is nothing to unpublish", "`rmhdag assets` lists assets."):
            return self.client.unpublish(asset_id, revision, dry_run=dry_run, force=force, reason=reason)

    def remove_from_catalogue(
        self, collection_id: str, item_id: str | None, reason: str | None, *, dry_run: bool
    ) -> CatalogueRemoval:
        what = f"collection {collection_id!r}" if item_id is None else f"item {item_id!r} in {collection_id!r}"
        try:
            with missing(f"the catalogue has no {what}", "Names are case-sensitive."):
                if item_id is None:
                    return self.client.remove_items(collection_id, reason=reason, dry_run=dry_run)
                return self.client.remove_item(collection_id, item_id, reason=reason, dry_run=dry_run)
        except Conflict as error:
            remedy = "Delete that asset, or roll it back with `rmhdag rollback ASSET REVISION`."
            raise CommandFailed(error.detail, remedy=remedy, code=ExitCode.CONFLICT) from None

    # -- workflows -----------------------------------------------------------------------------------------------------

    def workflow(self, workflow_id: str, version: int | None) -> WorkflowDetail | None:
        try:
            return self.client.workflow(workflow_id, version)
        except (NotFound, InvalidRequest):
            return None

    def retire_workflow(self, workflow_id: str) -> WorkflowSummary:
        with missing_workflow(workflow_id):
            return self.client.retire_workflow(workflow_id)

    def restore_workflow(self, workflow_id: str) -> WorkflowSummary:
        with missing_workflow(workflow_id):
            return self.client.restore_workflow(workflow_id)

    # -- who is there, and what waits ----------------------------------------------------------------------------------

    def orchestrators_alive(self) -> int:
        return sum(orchestrator.alive and not orchestrator.stopping for orchestrator in self.client.orchestrators())

    def drain_worker(self, worker_id: str) -> bool:
        """False if it is not there any more."""
        return self._drain(calls.drain_worker(worker_id))

    def drain_orchestrator(self, owner_id: str) -> bool:
        """False if it is not there any more."""
        return self._drain(calls.drain_orchestrator(owner_id))

    def _drain(self, call: Call[DrainAnswer]) -> bool:
        try:
            return self._call(call).draining
        except NotFound:
            return False

    def redeliver(self, callback_ids: Sequence[str]) -> None:
        """All or, if one of them does not exist, none."""
        for callback_id in callback_ids:
            with missing(f"there is no callback {callback_id}; nothing was sent", "`rmhdag callbacks` shows them."):
                self._call(calls.get_callback(callback_id))
        for callback_id in callback_ids:
            self.client.redeliver(callback_id)

    # -- keys ----------------------------------------------------------------------------------------------------------

    def rotate_key(self, key_id: str, body: RotationRequest) -> KeyMade:
        with missing_key(key_id):
            return self._call(calls.rotate_key(key_id, body))

    def revoke_key(self, key_id: str) -> KeyView:
        with missing_key(key_id):
            return self.client.revoke_key(key_id)
