"""What the duties of one orchestrator share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.quotas import Quotas
from rmhdag.orchestrator.advance import Advance
from rmhdag.orchestrator.trust import SilenceWatch, Trust
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.plans import definition_of
from rmhdag.storage.settings import StorageSettings
from rmhdag.store import jobs, upkeep
from rmhdag.store.connection import Conn
from rmhdag.workflow.definition import WorkflowDefinition


@dataclass
class OrchestratorSettings:
    """Thresholds in seconds; the documents' 30/120/60 s are upper bounds."""

    heartbeat_seconds: float = 2.0
    ttl_seconds: float = 10.0
    margin_seconds: float = 2.0
    poll_seconds: float = 1.0
    # Longer than the server's own limit for a statement: it is the answer to a server, or a line, that is stuck.
    answer_seconds: float = 15.0
    orphan_scan_seconds: float = 1.0
    timer_seconds: float = 0.5
    stall_seconds: float = 300.0
    # A job in which nothing is left that could move.
    stuck_seconds: float = 8 * 86_400.0
    # A job that waits for a worker; None: for as long as it takes.
    worker_wait_seconds: float | None = None
    stuck_dispatch_seconds: float = 30.0
    owed_seconds: float = 5.0
    backpressure_depth: int = 50_000
    backpressure_seconds: float = 5.0
    processed_seconds: float = 5.0
    usage_seconds: float = 60.0
    pruning_seconds: float = 60.0
    retention_days: float = 30.0
    retention_history_days: float = 92.0
    retention_payload_days: float = 1.0
    rollup_seconds: float = 10.0
    late_jobs_seconds: float = 300.0
    cache_bytes: int = 256 * 1024 * 1024
    source_app: str = "orchestrator"
    callbacks: CallbackSettings = field(default_factory=CallbackSettings)
    catalogue: CatalogueKind = CatalogueKind.STATIC
    storage: StorageSettings = field(default_factory=StorageSettings)
    # The data database, and the earlier revisions whose tables stay in it.
    postgis_dsn: str | None = field(default=None, repr=False)
    table_revisions: int = 2
    quotas: Quotas = field(default_factory=Quotas)
    # The variables that templates may read, with their values here.
    template_env: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Context:
    """One orchestrator's identity, its connection for duties, and its memory of the others."""

    conn: Conn
    me: str
    schema: str
    settings: OrchestratorSettings
    advance: Advance
    orchestrators_seen: SilenceWatch
    workers_seen: SilenceWatch
    # Stalls that were reported, by job with the time since which it stalls: once per silence.
    warned: dict[str, Any] = field(default_factory=dict)
    # How far the walk through silent jobs has come, and whom it has met.
    silent_up_to: str = ""
    still_silent: set[str] = field(default_factory=set)
    # More jobs than this are for the others to claim; None while there are no others.
    share: int | None = None
    owned_count: int = 0
    # Where the last bite of submissions ended, if there were more.
    claimed_up_to: str = ""
    # Jobs that seemed to be owed something at the last look.
    owed_before: set[str] = field(default_factory=set)
    # None: nobody doubts it.
    trust: Trust | None = None
    # When the duties got this connection, by this process's monotonic clock.
    connected_at: float = float("-inf")
    # Since when nothing has kept us from watching the others.
    watching_since: float = 0.0

    def undisturbed_seconds(self) -> float:
        """How long the database has been reached without a gap, as far as this process can tell."""
        since = self.connected_at if self.trust is None else max(self.connected_at, self.trust.unbroken_since)
        return self.monotonic() - since

    def skip_gap(self) -> None:
        """Nobody can be called silent for a time in which we could not look."""
        self.orchestrators_seen.skip_gap()
        self.workers_seen.skip_gap()

    def notice_gap(self) -> None:
        """While we could not trust ourselves we could not watch the others either."""
        if self.trust is not None and self.trust.unbroken_since != self.watching_since:
            self.watching_since = self.trust.unbroken_since
            self.skip_gap()

    def after_reconnect(self) -> None:
        """A claim may have gone through although its answer was lost: those jobs are mine, and nobody began them."""
        self.connected_at = self.monotonic()
        self.take_over(self.advance.unknown(jobs.open_jobs_of(self.conn, self.me)))

    def definition_of(self, job_id: str) -> WorkflowDefinition:
        return definition_of(self.conn, *upkeep.definition_key(self.conn, job_id))

    def monotonic(self) -> float:
        return monotonic()

    def take_over(self, job_ids: Sequence[str]) -> None:
        """Jobs that are mine since the last commit: load them, start them or go on with them."""
        if job_ids:
            self.advance.take_over(job_ids)

    def take_over_claimed(self, claimed: Sequence[jobs.ClaimedJob]) -> None:
        self.advance.note_namespaces({job.job_id: job.namespace for job in claimed})
        self.take_over([job.job_id for job in claimed])

    def note_reclaimed(self, job_id: str, from_owner: str, silent_seconds: float) -> None:
        self.advance.note_reclaimed(job_id, from_owner, silent_seconds)
