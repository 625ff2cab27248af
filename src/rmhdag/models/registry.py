"""What is registered: workflow definitions, handlers, and the processes that are alive."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from rmhdag.models.columns import (
    Attempt,
    Count,
    DefinitionJsonObject,
    Flag,
    Id,
    JsonList,
    JsonObject,
    Label,
    LargeJsonList,
    LargeJsonObject,
    LayoutJsonObject,
    Message,
    Name,
    Namespace,
    Priority,
    Sha256,
    Stamped,
    Timestamp,
)
from rmhdag.models.table import Check, Index, Row, Table

# A heartbeat must find room on its own page, so that it touches no index.
BEATING = {"fillfactor": "30", "autovacuum_vacuum_threshold": "100", "autovacuum_vacuum_scale_factor": "0"}


class Workflow(Row):
    """A definition. A version has one content; in development mode a new content supersedes the older one, which stays
    for the jobs that were created with it.
    """

    table: ClassVar[Table] = Table(
        name="dag_workflows",
        key=("namespace", "workflow_id", "version", "hash"),
        indexes=(
            Index("current", ("namespace", "workflow_id", "version"), unique=True, where="superseded_at IS NULL"),
        ),
        checks=(Check("version_positive", "version >= 1"),),
    )

    namespace: Namespace = "default"
    workflow_id: Name
    version: Attempt
    hash: Sha256
    registered_by: Name
    registered_at: Stamped
    superseded_at: Timestamp | None = None
    # A retired workflow takes no new jobs; those under way go on.
    retired_at: Timestamp | None = None
    retired_by: Name | None = None
    definition: DefinitionJsonObject
    layout: LayoutJsonObject = Field(default_factory=dict)


class Handler(Row):
    """A handler that workers with the database offer: all namespaces have it.

    `serves_namespace` is set in rows of older versions, which kept here what one namespace's workers offer.
    """

    table: ClassVar[Table] = Table(
        name="dag_handlers", key=("handler",), indexes=(Index("queue", ("queue", "handler")),)
    )

    handler: Name
    queue: Name | None = None
    serves_namespace: Name | None = None
    version: Label
    description: Message = ""
    aliases: JsonList = Field(default_factory=list)
    params_schema: LargeJsonObject = Field(default_factory=dict)
    output_schema: LargeJsonObject = Field(default_factory=dict)
    registered_at: Stamped
    updated_at: Stamped


class NamespaceHandler(Row):
    """A handler that workers of one namespace offer, over HTTP. Names of other namespaces are not in its way; a name
    that all namespaces have means the same for all.
    """

    table: ClassVar[Table] = Table(
        name="dag_namespace_handlers",
        key=("namespace", "handler"),
        indexes=(Index("changed", ("namespace", "updated_at")),),
    )

    namespace: Namespace = "default"
    handler: Name
    queue: Name | None = None
    version: Label
    description: Message = ""
    aliases: JsonList = Field(default_factory=list)
    params_schema: LargeJsonObject = Field(default_factory=dict)
    output_schema: LargeJsonObject = Field(default_factory=dict)
    registered_at: Stamped
    updated_at: Stamped


class Orchestrator(Row):
    """One row per orchestrator process; its heartbeat speaks for all jobs it owns."""

    table: ClassVar[Table] = Table(name="dag_orchestrators", key=("owner_id",), storage=BEATING)

    owner_id: Id
    host: Label
    process_id: Count
    version: Label
    stopping: Flag = False
    started_at: Stamped
    heartbeat_at: Stamped
    # Set by a request to hand over its jobs and end; the orchestrator learns of it with its next heartbeat.
    drain_requested_at: Timestamp | None = None
    stats: JsonObject = Field(default_factory=dict)


class Worker(Row):
    """One row per start of a worker; the id is never used again."""

    table: ClassVar[Table] = Table(
        name="dag_workers",
        key=("worker_id",),
        checks=(Check("slots_positive", "slots >= 1"),),
        storage=BEATING,
    )

    worker_id: Id
    # The key that registered it over HTTP, and whose tasks it gets; null for those that have the database.
    registered_by: Label | None = None
    serves_namespace: Name | None = None
    host: Label
    process_id: Count
    version: Label
    slots: Attempt
    draining: Flag = False
    started_at: Stamped
    heartbeat_at: Stamped
    # Set by a request to finish and end; the worker learns of it with its next heartbeat.
    drain_requested_at: Timestamp | None = None
    queues: JsonList = Field(default_factory=list)
    # Names and aliases of what it can run; null for one that did not say, which is offered every task of its queues.
    handlers: LargeJsonList | None = None
    stats: JsonObject = Field(default_factory=dict)


class KeyKind(StrEnum):
    """A key is sent with each call; a login is the token of a link, good for one use; a session is a browser's."""

    KEY = "key"
    LOGIN = "login"
    SESSION = "session"


class ApiKey(Row):
    """Who may call. Only the hash of the secret is kept; what was made from another row names it: a rotated key the old
    one, a session its login.
    """

    table: ClassVar[Table] = Table(
        name="dag_api_keys",
        key=("key_id",),
        indexes=(
            Index("secret", ("secret_hash",), unique=True),
            Index("list", ("namespace", "key_id")),
            Index("origin", ("rotated_from",), where="rotated_from IS NOT NULL"),
        ),
        storage={"fillfactor": "70"},
    )

    key_id: Id
    namespace: Namespace = "default"
    name: Name
    secret_hash: Sha256
    kind: KeyKind = KeyKind.KEY
    scopes: JsonList = Field(default_factory=list)
    # Of the jobs that it submits; null: what its namespace allows.
    max_priority: Priority | None = None
    rotated_from: Id | None = None
    created_by: Name
    created_at: Stamped
    expires_at: Timestamp | None = None
    revoked_at: Timestamp | None = None
    revoked_by: Name | None = None
    last_used_at: Timestamp | None = None


class SchemaMeta(Row):
    """The single row that says what the database is, and how old code may be to work with it."""

    table: ClassVar[Table] = Table(
        name="dag_schema_meta",
        key=("meta_id",),
        checks=(
            Check("single_row", "meta_id = 1"),
            Check("versions_ordered", "oldest_code_version BETWEEN 1 AND schema_version"),
        ),
    )

    meta_id: Attempt = 1
    schema_version: Attempt
    oldest_code_version: Attempt
    migrated_by: Label
    migrated_at: Stamped
