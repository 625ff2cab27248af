"""What commands ask of the platform, whether it is a database beside them or a server far away.

Commands get a Platform from `connected` and do not know which one it is: both give the same models, and both end badly
only by `CommandFailed`.
"""

from __future__ import annotations

import getpass
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from rmhdag.assets.revisions import OTHER_REFS, SUPERSEDE
from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import say
from rmhdag.cli.settings import Settings, load_settings
from rmhdag.models.plain_text import DECEIVING_IN_LINE
from rmhdag.models.stored_values import Unfolding, ValuesTooLarge

if TYPE_CHECKING:
    from rmhdag.cli.workflow_files import CheckedFile
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
    from rmhdag.models.api.processes import OrchestratorSummary, WorkerSummary
    from rmhdag.models.api.queues import DeadLetterSummary, QueueStatus, Requeued
    from rmhdag.models.api.quotas import QuotaChanges, QuotaList
    from rmhdag.models.api.retention import Pruned, PrunePreview
    from rmhdag.models.api.timeline import TimelineEvent
    from rmhdag.models.api.workflows import Registration, WorkflowDetail, WorkflowSummary

ALL_HEX = frozenset("0123456789abcdef")
SHORTEST_START = 8

# What to do, in the words of the command line.
NOT_FINISHED = "Wait for its end, cancel it, or try one node now with --node NODE."
NOTHING_TO_RERUN = "--everything or --from NODE runs it again all the same."
CALLBACK_REFUSED = "RMHDAG_CALLBACK_HOSTS names hosts that are allowed although they are not public."
NOT_ROTATED = "Revoke the one that is no longer used, or wait for the end of its overlap."
WORKFLOW_RETIRED = "`rmhdag workflows restore` brings it back; a newer version can be registered."
# Of conflicts between orders, in which the API names fields of a body.
ASSET_REMEDIES = {
    SUPERSEDE: "Wait for its end, or order it with --supersede, which cancels it.",
    OTHER_REFS: "Order it with another --ref, or choose a workflow that makes the same.",
}


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
    after: str | None = None
    limit: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetQuery:
    """`after` is what the page before gave as the next."""

    platform_id: str | None = None
    kind: str | None = None
    processing_status: str | None = None
    refs: Mapping[str, str] = field(default_factory=dict)
    deleted_too: bool = False
    after: str | None = None
    limit: int = 20


class WorkflowToRun(NamedTuple):
    """A definition that is registered, or is to be."""

    workflow_id: str
    version: int
    definition: dict[str, Any]


class PlatformLost(Exception):
    """It does not answer just now, and may soon; `error` says why."""

    def __init__(self, what: str, error: Exception) -> None:
        super().__init__(what)
        self.error = error


class NotRequeued(Exception):
    """The letter stays open, and this says why."""


class Watch(ABC):
    """One job, looked at again and again."""

    pace_seconds: float

    @abstractmethod
    def look(self) -> JobOverview:
        """Raises PlatformLost."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """So long, or until something may have happened."""


class Platform(ABC):
    """Everything is in one namespace, and done in one name."""

    settings: Settings

    @property
    @abstractmethod
    def namespace(self) -> str: ...

    # -- jobs ----------------------------------------------------------------------------------------------------------

    def find_job(self, text: str) -> str:
        """The full id of the job that is meant."""
        start = text.strip().lower().replace("-", "")
        if len(start) >= SHORTEST_START and ALL_HEX.issuperset(start):
            found = self.job_ids(start)
            if len(found) == 1:
                return found[0]
            if found:
                raise CommandFailed(
                    f"several jobs begin with {start}: {', '.join(found)}",
                    remedy="Give more of the id.",
                    code=ExitCode.CONFLICT,
                )
        raise CommandFailed(
            f"there is no job {text!r}",
            remedy="`rmhdag jobs` lists them; the first 8 characters of an id are enough if no other begins so.",
            code=ExitCode.NOT_FOUND,
        )

    @abstractmethod
    def job_ids(self, start: str) -> list[str]:
        """Those that begin so; three at most."""

    @abstractmethod
    def jobs(self, query: JobQuery) -> tuple[list[JobSummary], str | None]:
        """A page, newest first, and what to ask the next one with."""

    @abstractmethod
    def overview(self, job_id: str, *, reasons: bool = False) -> JobOverview: ...

    @abstractmethod
    def watching(self, job_id: str) -> AbstractContextManager[Watch]: ...

    @abstractmethod
    def node(self, job_id: str, node_id: str) -> NodeView: ...

    def whole(self, job_id: str, value: Any) -> Any:
        """With the values that stand apart; should they be too large, with their references."""
        unfolding = Unfolding().steps(value)
        found = None
        try:
            while True:
                found = self.stored_value(job_id, unfolding.send(found))
        except StopIteration as end:
            return end.value
        except ValuesTooLarge as error:
            say(f"{error}: shown are their references")
            return value

    @abstractmethod
    def stored_value(self, job_id: str, sha256: str) -> Any:
        """What a reference in a job stands for, or NOT_STORED."""

    @abstractmethod
    def failed_children(self, job_id: str, node_id: str, limit: int) -> list[FailedChild]:
        """The first failed children of a fan-out, with their items and messages."""

    @abstractmethod
    def events(self, job_id: str) -> Iterator[TimelineEvent]: ...

    @abstractmethod
    def log_chunks(self, job_id: str, node_id: str | None, since: datetime | None) -> Iterator[LogChunk]: ...

    @abstractmethod
    def submit(self, wanted: JobSubmission) -> str:
        """The id of the new job, or of the one that the idempotency key knows."""

    @abstractmethod
    def cancel(self, job_id: str, reason: str | None) -> CommandAnswerBody: ...

    @abstractmethod
    def retry_node(self, job_id: str, node_id: str) -> CommandAnswerBody: ...

    @abstractmethod
    def decide(self, job_id: str, node_id: str, decision: Decision) -> CommandAnswerBody: ...

    @abstractmethod
    def approvals(self, *, limit: int) -> list[WaitingApproval]:
        """What waits for a decision, longest first."""

    @abstractmethod
    def rerun(self, job_id: str, wanted: RerunRequest) -> RerunAnswer: ...

    # -- assets --------------------------------------------------------------------------------------------------------

    @abstractmethod
    def order(self, wanted: WorkOrderBody) -> OrderAccepted: ...

    @abstractmethod
    def assets(self, query: AssetQuery) -> tuple[list[AssetSummary], str | None]:
        """A page, newest first, and what to ask the next one with."""

    @abstractmethod
    def asset(self, asset_id: str) -> AssetView: ...

    @abstractmethod
    def revisions(self, asset_id: str, limit: int) -> list[RevisionSummary]:
        """Newest first."""

    @abstractmethod
    def rollback(self, asset_id: str, revision: int) -> RevisionView: ...

    @abstractmethod
    def remove_from_catalogue(
        self, collection_id: str, item_id: str | None, reason: str | None, *, dry_run: bool
    ) -> CatalogueRemoval: ...

    @abstractmethod
    def delete_asset(self, asset_id: str) -> AssetView: ...

    # -- workflows -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def workflows(self, *, retired_too: bool = False) -> list[WorkflowSummary]: ...

    @abstractmethod
    def workflow(self, workflow_id: str, version: int | None) -> WorkflowDetail | None: ...

    @abstractmethod
    def check(self, names: Sequence[str]) -> list[CheckedFile]:
        """What is wrong with files and folders, with the handlers and queues that the platform has now."""

    @abstractmethod
    def register(self, names: Sequence[str]) -> list[Registration]:
        """Files and folders, all or none: problems are shown, and end the command."""

    @abstractmethod
    def register_shipped(self) -> list[Registration]:
        """The workflows that come with rmhdag, in the queues of the settings."""

    @abstractmethod
    def check_file(self, name: str) -> WorkflowToRun:
        """A file as `register` would store it, with the same refusals. Nothing is stored."""

    @abstractmethod
    def retire_workflow(self, workflow_id: str) -> WorkflowSummary: ...

    @abstractmethod
    def restore_workflow(self, workflow_id: str) -> WorkflowSummary: ...

    # -- who is there, and what waits ----------------------------------------------------------------------------------

    def orchestrators_alive(self) -> int:
        return sum(one.alive and not one.stopping for one in self.orchestrators())

    @abstractmethod
    def queues(self) -> list[QueueStatus]: ...

    @abstractmethod
    def quotas(self) -> QuotaList: ...

    @abstractmethod
    def change_quotas(self, namespace: str, changes: QuotaChanges) -> QuotaList: ...

    @abstractmethod
    def workers(self) -> list[WorkerSummary]: ...

    @abstractmethod
    def orchestrators(self) -> list[OrchestratorSummary]: ...

    @abstractmethod
    def drain_worker(self, worker_id: str) -> bool:
        """False if it is not there any more."""

    @abstractmethod
    def drain_orchestrator(self, owner_id: str) -> bool:
        """False if it is not there any more."""

    @abstractmethod
    def dead_letters(self, *, settled_too: bool = False, limit: int) -> list[DeadLetterSummary]:
        """Oldest first."""

    @abstractmethod
    def find_dead_letters(self, start: str) -> list[DeadLetterSummary]:
        """The one of this id; up to two whose ids begin so, if none is called so."""

    @abstractmethod
    def requeue(self, letter: DeadLetterSummary) -> Requeued:
        """Raises NotRequeued."""

    @abstractmethod
    def discard(self, letter: DeadLetterSummary) -> bool:
        """False if it was settled before."""

    @abstractmethod
    def callbacks(self, *, status: str | None, job_id: str | None, limit: int) -> list[CallbackView]:
        """Newest first."""

    @abstractmethod
    def redeliver(self, callback_ids: Sequence[str]) -> None:
        """All or, if one of them does not exist, none."""

    @abstractmethod
    def preview_retention(self) -> PrunePreview: ...

    @abstractmethod
    def prune(self) -> Pruned:
        """For a few seconds."""

    # -- keys ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def keys(self, *, dead_too: bool) -> list[KeyView]: ...

    @abstractmethod
    def create_key(self, wanted: KeyRequest) -> KeyMade: ...

    @abstractmethod
    def rotate_key(self, key_id: str, wanted: RotationRequest) -> KeyMade: ...

    @abstractmethod
    def revoke_key(self, key_id: str) -> KeyView: ...

    @abstractmethod
    def audit(self, *, action: str | None, subject: str | None, limit: int) -> list[AuditView]:
        """Newest first."""


@contextmanager
def connected(
    url: str | None = None,
    database_url: str | None = None,
    schema: str | None = None,
    *,
    namespace: str | None = None,
    name: str | None = None,
) -> Iterator[Platform]:
    """The server, if one is named, else the database. What is named on the command line counts before the rest.

    `name` is in whose name things are done, if it is not the caller's own.
    """
    if url is not None and (database_url is not None or schema is not None):
        raise CommandFailed(
            "--url names a server, --database-url and --schema a database: give one of the two", code=ExitCode.USAGE
        )
    loaded = load_settings({"url": url, "database_url": database_url, "schema_name": schema})
    settings = loaded.settings
    if settings.url is not None and database_url is None:
        from rmhdag.cli.remote_platform import remote_platform

        if "key" in loaded.withheld:
            raise CommandFailed(
                loaded.withheld["key"],
                remedy="Name the server by RMHDAG_URL or --url, or the file by RMHDAG_CONFIG, if you trust it.",
                code=ExitCode.AUTHENTICATION,
            )
        with remote_platform(settings, namespace, name) as far:
            yield far
    else:
        from rmhdag.cli.local_platform import local_platform

        with local_platform(settings, namespace, name) as near:
            yield near


def who(given: str | None) -> str:
    """In whose name: the given one, or the user's."""
    if given is not None:
        if not 0 < len(given) <= 64 or DECEIVING_IN_LINE.search(given):
            raise CommandFailed("a name has 1 to 64 characters, all of them visible", code=ExitCode.USAGE)
        return given
    try:
        return getpass.getuser()[:64]
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def no_node(job_id: str, node_id: str, remedy: str) -> CommandFailed:
    return CommandFailed(f"job {job_id} has no node {node_id!r}", remedy=remedy, code=ExitCode.NOT_FOUND)


def no_key(key_id: str) -> CommandFailed:
    return CommandFailed(
        f"there is no key {key_id!r}", remedy="`rmhdag keys list --all` shows them.", code=ExitCode.NOT_FOUND
    )


def no_workflow(workflow_id: str) -> CommandFailed:
    return CommandFailed(
        f"there is no workflow {workflow_id!r}",
        remedy="`rmhdag workflows list --all` shows them, retired ones too.",
        code=ExitCode.NOT_FOUND,
    )


def no_asset(asset_id: str) -> CommandFailed:
    return CommandFailed(
        f"there is no asset {asset_id!r}", remedy="`rmhdag assets` lists them.", code=ExitCode.NOT_FOUND
    )


def not_in_catalogue(collection_id: str, item_id: str | None) -> CommandFailed:
    what = f"collection {collection_id!r}" if item_id is None else f"item {item_id!r} in {collection_id!r}"
    return CommandFailed(f"the catalogue has no {what}", remedy="Names are case-sensitive.", code=ExitCode.NOT_FOUND)


def no_callback(callback_id: str) -> CommandFailed:
    return CommandFailed(
        f"there is no callback {callback_id}; nothing was sent",
        remedy="`rmhdag callbacks` shows them.",
        code=ExitCode.NOT_FOUND,
    )


def no_cursor(text: str) -> CommandFailed:
    return CommandFailed(f"{text!r} is no cursor", remedy="Give what the page before named.", code=ExitCode.USAGE)
