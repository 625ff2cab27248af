"""Unpublishing: revisions that are withdrawn, and the files that are deleted with them."""

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

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
    Number,
    Sha256,
    Stamped,
    Timestamp,
)
from rmhdag.models.records import BlobPath, Zone
from rmhdag.models.table import Check, Index, Row, Table


class UnpublishingStatus(StrEnum):
    """`dry_run`: a preview that a workflow asked for. `pending`: files are still to be deleted."""

    DRY_RUN = "dry_run"
    PENDING = "pending"
    COMPLETED = "completed"
    PARTIAL = "partial"


class DeletionStatus(StrEnum):
    """`deleting`: somebody deletes it now, or died while doing so. `kept`: somebody needs the file after all."""

    PENDING = "pending"
    DELETING = "deleting"
    DELETED = "deleted"
    KEPT = "kept"
    DEAD = "dead"


class Unpublishing(Row):
    """One revision that was unpublished. `artifacts` counts its files, tables and items and names the first of them."""

    table: ClassVar[Table] = Table(
        name="dag_unpublishings",
        key=("unpublishing_id",),
        indexes=(Index("asset", ("namespace", "asset_id", "created_at", "unpublishing_id")),),
        checks=(Check("ended_has_end", "(status = 'pending') = (completed_at IS NULL)"),),
    )

    unpublishing_id: Id
    namespace: Namespace = "default"
    asset_id: AssetKey
    revision: Attempt
    status: UnpublishingStatus = UnpublishingStatus.PENDING
    forced: Flag = False
    issued_by: Name
    reason: Message | None = None
    created_at: Stamped
    completed_at: Timestamp | None = None
    artifacts: LargeJsonObject = Field(default_factory=dict)


class FileDeletion(Row):
    """A file to delete: one row per place (`file_id` is `rmhdag.models.ids.file_id_of`), claimed under a lease.

    Publishing a file at this place keeps it, unless its deletion has already begun.
    """

    table: ClassVar[Table] = Table(
        name="dag_file_deletions",
        key=("file_id",),
        indexes=(
            Index("due", ("next_attempt_at", "file_id"), where="status IN ('pending', 'deleting')"),
            Index("unpublishing", ("unpublishing_id", "file_id")),
            Index("settled", ("settled_at",), where="settled_at IS NOT NULL"),
        ),
        checks=(
            Check("settled_has_end", "(status IN ('pending', 'deleting')) = (settled_at IS NULL)"),
            Check("counts_not_negative", "attempts >= 0 AND lease_epoch >= 0"),
        ),
    )

    file_id: Sha256
    namespace: Namespace = "default"
    zone: Zone
    container: Name
    path: BlobPath
    unpublishing_id: Id
    status: DeletionStatus = DeletionStatus.PENDING
    attempts: Count = 0
    lease_epoch: Number = 0
    created_at: Stamped
    next_attempt_at: Stamped
    settled_at: Timestamp | None = None
    last_error: Message | None = None
