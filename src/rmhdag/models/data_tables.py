"""Tables in the data database (PostGIS): which tables a revision or a job has, and what each public name shows.

Rows of the platform, written in its transactions. The data database follows: an orchestrator's relay gives the tables
their public names, see docs/architecture/data-tables.md.
"""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from rmhdag.models.assets import AssetKey
from rmhdag.models.columns import (
    Attempt,
    Count,
    Id,
    LargeJsonObject,
    Message,
    Name,
    Namespace,
    NodeName,
    Number,
    Sha256,
    Stamped,
    Timestamp,
    varchar,
)
from rmhdag.models.records import TableRole
from rmhdag.models.table import Check, Index, Row, Table

TableName = Annotated[str, varchar(63, min_length=1)]


class TableState(StrEnum):
    """`dropping`: nobody needs it any more, and the relay will drop it."""

    PRESENT = "present"
    DROPPING = "dropping"
    DROPPED = "dropped"


class PlaceStatus(StrEnum):
    """Whether the data database shows what the row says."""

    PENDING = "pending"
    SHOWN = "shown"
    DEAD = "dead"


class DataTable(Row):
    """A table or view of a revision, or of a job without an asset. `table_id` is `rmhdag.models.ids.table_id_of`.

    A rolled-back revision has rows of its own for the same stored table.
    """

    table: ClassVar[Table] = Table(
        name="dag_data_tables",
        key=("table_id",),
        indexes=(
            Index("revision", ("namespace", "asset_id", "revision"), where="asset_id IS NOT NULL"),
            Index("job", ("job_id",), where="job_id IS NOT NULL"),
            Index("stored", ("namespace", "stored_name")),
            Index("dropping", ("next_attempt_at", "table_id"), where="state = 'dropping'"),
            Index("unpublishing", ("unpublishing_id",), where="unpublishing_id IS NOT NULL"),
        ),
        checks=(
            Check("revision_of_asset", "(revision IS NULL) = (asset_id IS NULL)"),
            Check("dropped_has_end", "(state = 'dropped') = (dropped_at IS NOT NULL)"),
        ),
    )

    table_id: Sha256
    namespace: Namespace = "default"
    table_name: TableName
    stored_name: TableName
    role: TableRole = TableRole.PRIMARY
    geometry_type: Name
    feature_count: Number
    asset_id: AssetKey | None = None
    revision: Attempt | None = None
    job_id: Id | None = None
    node_id: NodeName | None = None
    state: TableState = TableState.PRESENT
    unpublishing_id: Id | None = None
    attempts: Count = 0
    created_at: Stamped
    next_attempt_at: Stamped
    dropped_at: Timestamp | None = None
    last_error: Message | None = None
    # For the catalogue: columns, bounds, title, styles.
    details: LargeJsonObject = Field(default_factory=dict)


class TablePlace(Row):
    """What a public name is to show: a table, or none. Each change takes the next version; `owner` is the asset, or the
    job of a table without one: all places of one owner change together.
    """

    table: ClassVar[Table] = Table(
        name="dag_table_places",
        key=("namespace", "table_name"),
        indexes=(
            Index("due", ("next_attempt_at", "namespace", "table_name"), where="status = 'pending'"),
            Index("asset", ("namespace", "asset_id"), where="asset_id IS NOT NULL"),
        ),
        checks=(Check("counts_not_negative", "attempts >= 0 AND lease_epoch >= 0 AND version >= 1"),),
    )

    namespace: Namespace = "default"
    table_name: TableName
    table_id: Sha256 | None = None
    asset_id: AssetKey | None = None
    revision: Attempt | None = None
    owner: Id
    version: Number = 1
    status: PlaceStatus = PlaceStatus.PENDING
    attempts: Count = 0
    lease_epoch: Number = 0
    changed_at: Stamped
    next_attempt_at: Stamped
    last_error: Message | None = None
