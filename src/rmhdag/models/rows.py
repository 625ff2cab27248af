"""All tables of the schema, and the version that they make up."""

from __future__ import annotations

from rmhdag.models.assets import (
    ApiRequest,
    Approval,
    AssetRevision,
    BlobAsset,
    DatasetRef,
    GeospatialAsset,
    PlatformRow,
    PromotedDataset,
)
from rmhdag.models.audit import AuditRecord
from rmhdag.models.callbacks import Callback, CallbackEndpoint
from rmhdag.models.catalogue import CatalogueEntry, RevisionItem
from rmhdag.models.clients import ClientIdentity, GatewayClient
from rmhdag.models.data_tables import DataTable, TablePlace
from rmhdag.models.history import JobEvent, OrchestratorEvent
from rmhdag.models.jobs import Job, JobCommand, JobLabel, NodeState, PrunedJob, WaitingApproval
from rmhdag.models.promoted import PromotedEntry
from rmhdag.models.queues import DeadLetter, InboxRow, OutboxRow, QueueMessage
from rmhdag.models.quotas import NamespaceRow
from rmhdag.models.registry import ApiKey, Handler, NamespaceHandler, Orchestrator, SchemaMeta, Worker, Workflow
from rmhdag.models.rollups import FailureRollup, JobRollup, NodeRollup, RollupMark, ThroughputRollup
from rmhdag.models.service_calls import ExternalService, ServiceCall
from rmhdag.models.table import Row
from rmhdag.models.tasks import Checkpoint, Payload, PayloadUse, TaskLog, TaskResult
from rmhdag.models.unpublishing import FileDeletion, Unpublishing

# Grows with every change of a table. Code of a version below OLDEST_CODE_VERSION would damage such a database: before
# version 13 it tells clients ids of orders that they do not know, at addresses that are meant for other messages.
SCHEMA_VERSION = 15
OLDEST_CODE_VERSION = 13

ROWS: tuple[type[Row], ...] = (
    SchemaMeta,
    Workflow,
    Handler,
    NamespaceHandler,
    Orchestrator,
    Worker,
    ApiKey,
    GatewayClient,
    ClientIdentity,
    NamespaceRow,
    Job,
    JobLabel,
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
    PlatformRow,
    GeospatialAsset,
    AssetRevision,
    ApiRequest,
    BlobAsset,
    DataTable,
    TablePlace,
    DatasetRef,
    Approval,
    ExternalService,
    ServiceCall,
    PromotedDataset,
    PromotedEntry,
    Unpublishing,
    FileDeletion,
    CatalogueEntry,
    RevisionItem,
    AuditRecord,
)
