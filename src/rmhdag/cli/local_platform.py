"""The platform as a database beside the command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rmhdag.api.views import assets as asset_views
from rmhdag.api.views import processes
from rmhdag.api.views.approvals import read_approvals
from rmhdag.api.views.jobs import page_of_jobs
from rmhdag.api.views.logs import task_ids_of
from rmhdag.api.views.nodes import read_node
from rmhdag.api.views.overviews import read_overview
from rmhdag.api.views.pictures import JobOrder, read_definition
from rmhdag.api.views.quotas import read_quotas_of
from rmhdag.assets.identity import InvalidReferences, Platforms, read_platforms
from rmhdag.assets.revisions import AssetConflict
from rmhdag.cli.callback_settings import callback_rules
from rmhdag.cli.database import Conn, migrated, open_connection
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.local_access import LocalAccess
from rmhdag.cli.parameters import refuse_inputs
from rmhdag.cli.platform import (
    ASSET_REMEDIES,
    CALLBACK_REFUSED,
    NOT_FINISHED,
    NOTHING_TO_RERUN,
    WORKFLOW_RETIRED,
    AssetQuery,
    FailedChild,
    JobQuery,
    NotRequeued,
    Platform,
    Watch,
    WorkflowToRun,
    no_asset,
    no_callback,
    no_cursor,
    no_node,
    no_workflow,
    not_in_catalogue,
    who,
)
from rmhdag.cli.schema_version import require_version
from rmhdag.cli.server import explained, opened
from rmhdag.cli.settings import Settings
from rmhdag.cli.workflow_files import CheckedFile
from rmhdag.engine.rerun import RerunError
from rmhdag.models.api.approvals import WaitingApproval
from rmhdag.models.api.assets import (
    AssetSummary,
    AssetView,
    OrderAccepted,
    RevisionSummary,
    RevisionView,
    WorkOrderBody,
)
from rmhdag.models.api.callbacks import CallbackView
from rmhdag.models.api.catalogue import CatalogueRemoval
from rmhdag.models.api.jobs import CommandAnswerBody, JobSubmission, JobSummary, RerunAnswer, RerunRequest
from rmhdag.models.api.nodes import Decision, LogChunk, NodeView
from rmhdag.models.api.overviews import JobOverview
from rmhdag.models.api.processes import OrchestratorSummary, WorkerSummary
from rmhdag.models.api.queues import DeadLetterSummary, QueueStatus, Requeued
from rmhdag.models.api.quotas import QuotaChanges, QuotaList
from rmhdag.models.api.retention import Pruned, PrunePreview
from rmhdag.models.api.timeline import TimelineEvent, read_event
from rmhdag.models.api.workflows import Registration, WorkflowDetail, WorkflowSummary
from rmhdag.models.callbacks import CallbackStatus
from rmhdag.models.leases import PayloadMissingError
from rmhdag.models.stored_values import NOT_STORED
from rmhdag.orchestrator import asset_commands, commands, requests, reruns
from rmhdag.orchestrator import dead_letters as chances
from rmhdag.orchestrator.callbacks.destinations import CallbackRefused
from rmhdag.orchestrator.fitness import UnfitWorkflowError
from rmhdag.orchestrator.registrations import stored_form
from rmhdag.orchestrator.submissions import (
    OtherSubmissionError,
    RetiredWorkflowError,
    Submission,
    Submitted,
    UnknownWorkflowError,
    submit_many,
)
from rmhdag.store import callbacks, catalogue_removals, dead_letters, payloads, quotas, views, workflows
from rmhdag.store import processes as process_rows
from rmhdag.store.asset_states import RevisionKey
from rmhdag.store.assets import AssetFilters
from rmhdag.store.job_lists import Cursor, JobFilters
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow.problems import did_you_mean

NAMESPACE = "default"
LOG_TASKS = 500
PRUNE_SECONDS = 2.0


@contextmanager
def local_platform(settings: Settings, namespace: str | None, name: str | None) -> Iterator[LocalPlatform]:
    """An embedded server that is not running is started for the command, as `rmhdag db` does it."""
    with opened(settings) as (dsn, shown), explained(settings), migrated(settings, shown):
        platform = LocalPlatform(dsn, settings, namespace or NAMESPACE, who(name))
        try:
            require_version(platform.conn, settings, shown)
            yield platform
        finally:
            platform.conn.close()


class LocalPlatform(LocalAccess, Platform):
    """`conn` is in autocommit mode."""

    def __init__(self, dsn: str, settings: Settings, namespace: str, name: str) -> None:
        self.dsn = dsn
        self.settings = settings
        self._namespace = namespace
        self._name = name
        self.conn: Conn = open_connection(dsn, settings)

    @property
    def namespace(self) -> str:
        return self._namespace

    def reconnect(self) -> None:
        self.conn.close()
        self.conn = open_connection(self.dsn, self.settings)

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def job_ids(self, start: str) -> list[str]:
        return views.find_jobs(self.conn, self._namespace, start)

    def jobs(self, query: JobQuery) -> tuple[list[JobSummary], str | None]:
        # One more than is shown tells whether there is a next page.
        filters = JobFilters(
            statuses=query.statuses,
            workflow_id=query.workflow_id,
            submitted_by=query.submitted_by,
            correlation_id=query.correlation_id,
            since=query.since,
            before=None if query.after is None else read_cursor(query.after),
            limit=query.limit + 1,
        )
        found = page_of_jobs(self.conn, self._namespace, filters)
        shown = found[: query.limit]
        last = shown[-1] if len(found) > query.limit else None
        return shown, None if last is None else f"{last.created_at.isoformat()}/{last.job_id}"

    def job_row(self, job_id: str) -> dict[str, Any]:
        found = views.job(self.conn, self._namespace, job_id)
        if found is None:
            raise CommandFailed(f"job {job_id} is gone", code=ExitCode.NOT_FOUND)
        return found

    def overview(self, job_id: str, *, reasons: bool = False, order: JobOrder | None = None) -> JobOverview:
        alive = self.settings.orphan_seconds
        row = self.job_row(job_id)
        return read_overview(self.conn, row, alive_seconds=alive, with_reasons=reasons, order=order)

    @contextmanager
    def watching(self, job_id: str) -> Iterator[Watch]:
        from rmhdag.cli.local_watch import LocalWatch

        watch = LocalWatch(self, job_id)
        try:
            yield watch
        finally:
            watch.close()

    def node(self, job_id: str, node_id: str) -> NodeView:
        job = self.job_row(job_id)
        found = read_node(self.conn, job, node_id, self.settings.orphan_seconds)
        if found is None:
            raise no_node(job_id, node_id, did_you_mean(node_id, read_definition(self.conn, job).nodes))
        return found

    def stored_value(self, job_id: str, sha256: str) -> Any:
        try:
            return payloads.read_json(self.conn, self._namespace, sha256)
        except PayloadMissingError:
            return NOT_STORED

    def failed_children(self, job_id: str, node_id: str, limit: int) -> list[FailedChild]:
        return [FailedChild(*child) for child in views.failed_children(self.conn, job_id, node_id, limit)]

    def events(self, job_id: str) -> Iterator[TimelineEvent]:
        last = 0
        while page := views.timeline(self.conn, job_id, after=last, limit=1000):
            yield from map(read_event, page)
            last = page[-1]["seq"]

    def log_chunks(self, job_id: str, node_id: str | None, since: datetime | None) -> Iterator[LogChunk]:
        if node_id is not None:
            if views.node(self.conn, job_id, node_id) is None:
                raise no_node(job_id, node_id, f"`rmhdag job {job_id}` lists its nodes.")
            tasks = task_ids_of(self.conn, job_id, node_id)
            for start in range(0, len(tasks), LOG_TASKS):
                yield from map(log_chunk, views.logs(self.conn, tasks[start : start + LOG_TASKS]))
            return
        after = None if since is None else views.LogPlace(since, "", 0, 0)
        while page := views.logs_of_job(self.conn, job_id, after):
            yield from map(log_chunk, page)
            last = page[-1]
            after = views.LogPlace(last.created_at, last.task_id, last.lease_epoch, last.chunk_index)

    def submit(self, wanted: JobSubmission) -> str:
        given = wanted.model_dump(exclude={"submitted_by"}) | {"submitted_by": wanted.submitted_by or self._name}
        [answer] = submit_many(
            self.conn,
            [Submission(**given)],
            namespace=self._namespace,
            callback_rules=callback_rules(self.settings),
            source_app="cli",
        )
        if isinstance(answer, Submitted):
            return answer.job_id
        if isinstance(answer, InvalidInputs):
            raise refuse_inputs(answer, wanted.workflow_id)
        if isinstance(answer, CallbackRefused):
            raise CommandFailed(
                f"--callback-url: {answer}",
                remedy=CALLBACK_REFUSED,
                code=ExitCode.INVALID,
            )
        if isinstance(answer, UnfitWorkflowError):
            raise CommandFailed(str(answer), remedy=answer.remedy, code=ExitCode.INVALID)
        if isinstance(answer, RetiredWorkflowError):
            raise retired(answer)
        known = isinstance(answer, OtherSubmissionError)
        raise CommandFailed(str(answer), code=ExitCode.CONFLICT if known else ExitCode.NOT_FOUND)

    def cancel(self, job_id: str, reason: str | None) -> CommandAnswerBody:
        answer = commands.cancel_job(self.conn, job_id, issued_by=self._name, reason=reason, namespace=self._namespace)
        return body_of(job_id, answer)

    def retry_node(self, job_id: str, node_id: str) -> CommandAnswerBody:
        answer = commands.retry_node(self.conn, job_id, node_id, issued_by=self._name, namespace=self._namespace)
        return body_of(job_id, answer)

    def decide(self, job_id: str, node_id: str, decision: Decision) -> CommandAnswerBody:
        answer = commands.decide(
            self.conn,
            job_id,
            node_id,
            approved=decision.decision == "approve",
            issued_by=self._name,
            reason=decision.reason,
            namespace=self._namespace,
        )
        return body_of(job_id, answer)

    def approvals(self, *, limit: int) -> list[WaitingApproval]:
        return read_approvals(self.conn, self._namespace, limit=limit)

    def rerun(self, job_id: str, wanted: RerunRequest) -> RerunAnswer:
        try:
            planned = reruns.plan_rerun_of(
                self.conn,
                job_id,
                namespace=self._namespace,
                changed_params=wanted.input_params,
                from_nodes=wanted.from_nodes,
                everything=wanted.everything,
            )
            made = None
            if not wanted.dry_run:
                made = reruns.rerun_job(
                    self.conn, planned, issued_by=self._name, idempotency_key=wanted.idempotency_key
                )
        except InvalidInputs as error:
            raise refuse_inputs(error, self.job_row(job_id)["workflow_id"]) from None
        except reruns.JobNotFinishedError as error:
            raise CommandFailed(str(error), remedy=NOT_FINISHED, code=ExitCode.CONFLICT) from None
        except reruns.NothingToRerunError as error:
            raise CommandFailed(str(error), remedy=NOTHING_TO_RERUN, code=ExitCode.CONFLICT) from None
        except AssetConflict as error:
            raise conflict(error) from None
        except OtherSubmissionError as error:
            raise CommandFailed(str(error), code=ExitCode.CONFLICT) from None
        except (RerunError, reruns.UnknownJobError) as error:
            raise CommandFailed(str(error), code=ExitCode.NOT_FOUND) from None
        order, scope = JobOrder(planned.definition), planned.scope
        return RerunAnswer(
            job_id=None if made is None else made.job_id,
            rerun_of=job_id,
            dry_run=wanted.dry_run,
            input_params=planned.shown_params,
            again=order.sort_names(scope.again),
            reused=order.sort_names(scope.reused),
            keeps_children=order.sort_names(scope.keeps_children),
        )

    # -- assets --------------------------------------------------------------------------------------------------------

    def order(self, wanted: WorkOrderBody) -> OrderAccepted:
        given = wanted.model_dump() | {"submitted_by": wanted.submitted_by or self._name, "client_id": self._name}
        try:
            ordered = requests.order(
                self.conn,
                requests.WorkOrder(**given),
                namespace=self._namespace,
                platforms=Platforms(read_platforms(self.settings.platforms)),
                callback_rules=callback_rules(self.settings),
                source_app="cli",
            )
        except InvalidInputs as error:
            raise refuse_inputs(error, wanted.workflow_id) from None
        except UnfitWorkflowError as error:
            raise CommandFailed(str(error), remedy=error.remedy, code=ExitCode.INVALID) from None
        except CallbackRefused as error:
            raise CommandFailed(str(error), remedy=CALLBACK_REFUSED, code=ExitCode.INVALID) from None
        except (InvalidReferences, requests.PlatformMissingError, requests.NoAssetError) as error:
            raise CommandFailed(str(error), code=ExitCode.INVALID) from None
        except RetiredWorkflowError as error:
            raise retired(error) from None
        except UnknownWorkflowError as error:
            raise CommandFailed(str(error), code=ExitCode.NOT_FOUND) from None
        except requests.OtherRequestError as error:
            raise CommandFailed(str(error), code=ExitCode.CONFLICT) from None
        except AssetConflict as error:
            raise conflict(error) from None
        return asset_views.accepted(ordered.request)

    def assets(self, query: AssetQuery) -> tuple[list[AssetSummary], str | None]:
        filters = AssetFilters(
            platform_id=query.platform_id,
            kind=query.kind,
            processing_status=query.processing_status,
            refs=query.refs or None,
            deleted_too=query.deleted_too,
            before=None if query.after is None else read_cursor(query.after),
            limit=query.limit + 1,
        )
        found = asset_views.page_of_assets(self.conn, self._namespace, filters)
        shown = found[: query.limit]
        last = shown[-1] if len(found) > query.limit else None
        return shown, None if last is None else f"{last.created_at.isoformat()}/{last.asset_id}"

    def asset(self, asset_id: str) -> AssetView:
        found = asset_views.read_asset(self.conn, self._namespace, asset_id)
        if found is None:
            raise no_asset(asset_id)
        return found

    def revisions(self, asset_id: str, limit: int) -> list[RevisionSummary]:
        return asset_views.page_of_revisions(self.conn, self._namespace, asset_id, before=None, limit=limit)

    def rollback(self, asset_id: str, revision: int) -> RevisionView:
        try:
            number = asset_commands.roll_back(self.conn, self._namespace, asset_id, revision, issued_by=self._name)
        except asset_commands.UnknownAssetError:
            raise no_asset(asset_id) from None
        except AssetConflict as error:
            raise conflict(error) from None
        made = asset_views.read_revision(self.conn, RevisionKey(self._namespace, asset_id, number))
        assert made is not None
        return made

    def remove_from_catalogue(
        self, collection_id: str, item_id: str | None, reason: str | None, *, dry_run: bool
    ) -> CatalogueRemoval:
        try:
            done = catalogue_removals.remove_from_catalogue(
                self.conn, self._namespace, collection_id, item_id, actor=self._name, reason=reason, dry_run=dry_run
            )
        except catalogue_removals.NotInCatalogue:
            raise not_in_catalogue(collection_id, item_id) from None
        except catalogue_removals.ShownByAsset as error:
            remedy = f"Delete that asset, or roll it back with `rmhdag rollback {error.asset_id} REVISION`."
            raise CommandFailed(str(error), remedy=remedy, code=ExitCode.CONFLICT) from None
        return CatalogueRemoval(collection_id=collection_id, dry_run=dry_run, **done._asdict())

    def delete_asset(self, asset_id: str) -> AssetView:
        try:
            asset_commands.delete_asset(self.conn, self._namespace, asset_id, issued_by=self._name)
        except asset_commands.UnknownAssetError:
            raise no_asset(asset_id) from None
        except AssetConflict as error:
            raise conflict(error) from None
        return self.asset(asset_id)

    # -- workflows -----------------------------------------------------------------------------------------------------

    def workflows(self, *, retired_too: bool = False) -> list[WorkflowSummary]:
        lines = views.workflows(self.conn, self._namespace, retired_too=retired_too)
        return [WorkflowSummary(**line._asdict()) for line in lines]

    def workflow(self, workflow_id: str, version: int | None) -> WorkflowDetail | None:
        found = views.workflow(self.conn, self._namespace, workflow_id, version)
        return None if found is None else WorkflowDetail(**found)

    def check(self, names: Sequence[str]) -> list[CheckedFile]:
        from rmhdag.cli.registration import check_files

        return check_files(self.conn, self.settings, names, self._namespace)

    def register(self, names: Sequence[str]) -> list[Registration]:
        from rmhdag.cli.registration import register_files

        return register_files(self.conn, self.settings, names, namespace=self._namespace, registered_by=self._name)

    def register_shipped(self) -> list[Registration]:
        from rmhdag.cli.registration import register_shipped

        return register_shipped(self.conn, self.settings, namespace=self._namespace, registered_by=self._name)

    def check_file(self, name: str) -> WorkflowToRun:
        from rmhdag.cli.registration import check_one_file

        definition = check_one_file(self.conn, self.settings, name, namespace=self._namespace)
        return WorkflowToRun(definition.workflow_id, definition.version, stored_form(definition).definition)

    def retire_workflow(self, workflow_id: str) -> WorkflowSummary:
        workflows.retire_workflow(self.conn, self._namespace, workflow_id, self._name)
        return self._newest_version(workflow_id)

    def restore_workflow(self, workflow_id: str) -> WorkflowSummary:
        workflows.restore_workflow(self.conn, self._namespace, workflow_id, self._name)
        return self._newest_version(workflow_id)

    def _newest_version(self, workflow_id: str) -> WorkflowSummary:
        lines = views.workflow_versions(self.conn, self._namespace, workflow_id, limit=1)
        if not lines:
            raise no_workflow(workflow_id)
        return WorkflowSummary(**lines[0]._asdict())

    # -- who is there, and what waits ----------------------------------------------------------------------------------

    def queues(self) -> list[QueueStatus]:
        named = [name for name in (self.settings.dag_worker_queue, self.settings.worker_queue) if name]
        return processes.queues(self.conn, self._namespace, named, self.settings.orphan_seconds).queues

    def quotas(self) -> QuotaList:
        return read_quotas_of(self.conn, self._namespace, self.settings.quota_defaults())

    def change_quotas(self, namespace: str, changes: QuotaChanges) -> QuotaList:
        quotas.set_quotas(self.conn, namespace, changes.quotas, self._name)
        return read_quotas_of(self.conn, namespace, self.settings.quota_defaults())

    def workers(self) -> list[WorkerSummary]:
        return processes.workers(self.conn, self.settings.orphan_seconds).workers

    def orchestrators(self) -> list[OrchestratorSummary]:
        return processes.orchestrators(self.conn, self.settings.orphan_seconds).orchestrators

    def drain_worker(self, worker_id: str) -> bool:
        namespace, actor = self._namespace, self._name
        return process_rows.drain_worker(self.conn, worker_id, namespace=namespace, actor=actor)

    def drain_orchestrator(self, owner_id: str) -> bool:
        namespace, actor = self._namespace, self._name
        return process_rows.drain_orchestrator(self.conn, owner_id, namespace=namespace, actor=actor)

    def dead_letters(self, *, settled_too: bool = False, limit: int) -> list[DeadLetterSummary]:
        found = dead_letters.dead_letters(self.conn, self._namespace, settled_too=settled_too, limit=limit)
        return [DeadLetterSummary(**line._asdict()) for line in found]

    def find_dead_letters(self, start: str) -> list[DeadLetterSummary]:
        found = dead_letters.find_dead_letters(self.conn, self._namespace, start)
        return [DeadLetterSummary(**line._asdict()) for line in found]

    def requeue(self, letter: DeadLetterSummary) -> Requeued:
        line = dead_letters.DeadLetterLine(**letter.model_dump())
        try:
            done = chances.requeue(self.conn, self._namespace, line, issued_by=self._name)
        except chances.NotRequeuedError as error:
            raise NotRequeued(str(error)) from None
        except reruns.UnknownJobError:
            raise NotRequeued("its job is no longer there") from None
        return Requeued(dead_letter_id=letter.dead_letter_id, job_id=done.job_id, is_new_job=done.is_new)

    def discard(self, letter: DeadLetterSummary) -> bool:
        return dead_letters.settle_dead_letter(
            self.conn, self._namespace, letter.dead_letter_id, self._name, "discarded"
        )

    def callbacks(self, *, status: str | None, job_id: str | None, limit: int) -> list[CallbackView]:
        wanted = None if status is None else CallbackStatus(status)
        found = callbacks.list_callbacks(self.conn, self._namespace, status=wanted, job_id=job_id, limit=limit)
        return [CallbackView(**line._asdict()) for line in found]

    def redeliver(self, callback_ids: Sequence[str]) -> None:
        with self.conn.transaction():
            for callback_id in callback_ids:
                if not callbacks.redeliver(self.conn, self._namespace, callback_id, self._name):
                    raise no_callback(callback_id)

    def preview_retention(self) -> PrunePreview:
        from rmhdag.api.views.retention import read_preview

        return read_preview(self.conn, self.settings.retention())

    def prune(self) -> Pruned:
        from rmhdag.api.views.retention import prune

        return prune(self.conn, self.settings.schema_name, self.settings.retention(), PRUNE_SECONDS)


def read_cursor(text: str) -> Cursor:
    moment, sign, job_id = text.partition("/")
    try:
        created_at = datetime.fromisoformat(moment)
        if not sign or created_at.tzinfo is None:
            raise ValueError
    except ValueError:
        raise no_cursor(text) from None
    return Cursor(created_at, job_id)


def conflict(error: AssetConflict) -> CommandFailed:
    return CommandFailed(str(error), remedy=ASSET_REMEDIES.get(error.remedy, error.remedy), code=ExitCode.CONFLICT)


def retired(error: RetiredWorkflowError) -> CommandFailed:
    return CommandFailed(str(error), remedy=WORKFLOW_RETIRED, code=ExitCode.CONFLICT)


def log_chunk(line: views.LogChunk) -> LogChunk:
    return LogChunk.model_validate(line._asdict())


def body_of(job_id: str, answer: commands.CommandAnswer) -> CommandAnswerBody:
    return CommandAnswerBody(job_id=job_id, command_id=answer.command_id, outcome=answer.outcome, reason=answer.reason)
