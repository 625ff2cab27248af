"""All tables of the schema, and the version that they make up."""

from __future__ import annotations

from rmhdag.models.assets import (
    ApiRequest,
    Approval,
    AssetRevision,
    BlobAsset,
    DatasetRef,
    ExternalService,
    GeospatialAsset,
    PromotedDataset,
)
from rmhdag.models.audit import AuditRecord
from rmhdag.models.callbacks import Callback, CallbackEndpoint
from rmhdag.models.catalogue import CatalogueEntry, RevisionItem
from rmhdag.models.history import JobEvent, OrchestratorEvent
from rmhdag.models.jobs import Job, JobCommand, NodeState, PrunedJob, WaitingApproval
from rmhdag.models.queues import DeadLetter, InboxRow, OutboxRow, QueueMessage
from rmhdag.models.quotas import NamespaceRow
from rmhdag.models.registry import ApiKey, Handler, NamespaceHandler, Orchestrator, SchemaMeta, Worker, Workflow
from rmhdag.models.rollups import FailureRollup, JobRollup, NodeRollup, RollupMark, ThroughputRollup
from rmhdag.models.table import Row
from rmhdag.models.tasks import Checkpoint, Payload, PayloadUse, TaskLog, TaskResult

# Grows with every change of a table. Code of a version below OLDEST_CODE_VERSION would damage such a database.
SCHEMA_VERSION = 10
OLDEST_CODE_VERSION = 10

ROWS: tuple[type[Row], ...] = (
    SchemaMeta,
    Workflow,
    Handler,
    NamespaceHandler,
    Orchestrator,
    Worker,
    ApiKey,
    NamespaceRow,
    Job,
    PrunedJob,
    NodeState,
    WaitingApproval,
    JobCommand,
    TaskResult,
    Checkpoint,
    Payload,
    PayloadUse,
    QueueMessage,
    InboxRow,
    OutboxRow,
    DeadLetter,
    Callback,
    CallbackEndpoint,
    JobEvent,
    TaskLog,
    OrchestratorEvent,
    RollupMark,
    JobRollup,
    NodeRollup,
    FailureRollup,
    ThroughputRollup,
    GeospatialAsset,
    AssetRevision,
    ApiRequest,
    BlobAsset,
    DatasetRef,
    Approval,
    ExternalService,
    PromotedDataset,
    CatalogueEntry,
    RevisionItem,
    AuditRecord,
)
