"""The catalogue's outbox: the newest version of each STAC collection and item, and whether it is published."""

from enum import StrEnum
from typing import Annotated, ClassVar

from rmhdag.models.assets import AssetKey
from rmhdag.models.columns import (
    Attempt,
    Count,
    Flag,
    Id,
    LargeJsonObject,
    Message,
    Name,
    Namespace,
    NodeName,
    Number,
    Stamped,
    Timestamp,
    varchar,
)
from rmhdag.models.table import Check, Index, Row, Table

ItemId = Annotated[str, varchar(255)]


class CatalogueKind(StrEnum):
    """Where STAC items are published: as files in blob storage, or in pgSTAC beside our own tables."""

    STATIC = "static"
    PGSTAC = "pgstac"


class EntryStatus(StrEnum):
    PENDING = "pending"
    PUBLISHED = "published"
    DEAD = "dead"


class CatalogueEntry(Row):
    """One collection (`item_id` is '') or item as it is to be. A removed one has no body.

    Each change takes the next `version` under the row's lock, so the order of versions is that of commits. A claim
    mints `lease_epoch` and moves `next_attempt_at` to the end of its lease. Each namespace has a catalogue of its own,
    so two of them may use the same ids.
    """

    table: ClassVar[Table] = Table(
        name="dag_catalogue_entries",
        key=("namespace", "collection_id", "item_id"),
        indexes=(
            Index("due", ("next_attempt_at", "collection_id", "item_id"), where="status = 'pending'"),
            Index("revision", ("namespace", "asset_id", "revision"), where="asset_id IS NOT NULL"),
            Index("job", ("job_id",), where="job_id IS NOT NULL"),
            Index("removed", ("changed_at",), where="removed"),
        ),
        checks=(
            Check("versions_ordered", "version >= 1 AND published_version BETWEEN 0 AND version"),
            Check("published_is_newest", "status <> 'published' OR published_version = version"),
            Check("revision_of_asset", "(revision IS NULL) = (asset_id IS NULL)"),
            Check("counts_not_negative", "attempts >= 0 AND lease_epoch >= 0"),
        ),
        storage={"fillfactor": "70", "autovacuum_vacuum_scale_factor": "0.05"},
    )

    collection_id: Name
    item_id: ItemId = ""
    namespace: Namespace = "default"
    version: Number = 1
    published_version: Number = 0
    status: EntryStatus = EntryStatus.PENDING
    removed: Flag = False
    attempts: Count = 0
    lease_epoch: Number = 0
    job_id: Id | None = None
    node_id: NodeName | None = None
    asset_id: AssetKey | None = None
    revision: Attempt | None = None
    created_at: Stamped
    changed_at: Stamped
    next_attempt_at: Stamped
    published_at: Timestamp | None = None
    last_error: Message | None = None
    body: LargeJsonObject


class RevisionItem(Row):
    """An item that a revision has published. The catalogue shows it while that revision is its asset's current one.

    `size_bytes` is the length of the body as text: statements that copy items are bounded by it.
    """

    table: ClassVar[Table] = Table(
        name="dag_revision_items",
        key=("namespace", "asset_id", "revision", "collection_id", "item_id"),
        indexes=(Index("job", ("job_id",), where="job_id IS NOT NULL"),),
        checks=(Check("revision_positive", "revision >= 1"), Check("size_not_negative", "size_bytes >= 0")),
    )

    namespace: Namespace = "default"
    asset_id: AssetKey
    revision: Attempt
    collection_id: Name
    item_id: ItemId
    size_bytes: Number
    job_id: Id | None = None
    node_id: NodeName | None = None
    created_at: Stamped
    body: LargeJsonObject
