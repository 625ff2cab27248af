"""Services outside that are notified of approvals and withdrawals, and the calls that do it."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from rmhdag.models.assets import AssetKey
from rmhdag.models.columns import (
    Attempt,
    Count,
    Flag,
    Id,
    JsonObject,
    Label,
    Message,
    Name,
    Namespace,
    Number,
    SmallJsonObject,
    Stamped,
    Timestamp,
    Url,
    varchar,
)
from rmhdag.models.table import Check, Index, Row, Table

# A bearer token of Azure may have some 2,000 characters before it is encrypted.
SealedToken = Annotated[str, varchar(8192, min_length=1)]


class ServiceKind(StrEnum):
    """`webhook` and `ddh` get a signed message; `adf` is a pipeline of Azure Data Factory, started and watched."""

    DDH = "ddh"
    ADF = "adf"
    WEBHOOK = "webhook"


class ServiceAction(StrEnum):
    APPROVAL = "approval"
    WITHDRAWAL = "withdrawal"


class CallStatus(StrEnum):
    """A cancelled call was overtaken: what it would have announced was withdrawn."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"
    CANCELLED = "cancelled"


class ExternalService(Row):
    """A service that is notified of approved public content. People name it; the id stays with its calls.

    `failures` counts the tries since the last one that succeeded.
    """

    table: ClassVar[Table] = Table(
        name="dag_external_services",
        key=("service_id",),
        indexes=(
            Index("list", ("namespace", "service_id")),
            Index("name", ("namespace", "name"), unique=True),
        ),
        checks=(Check("failures_not_negative", "failures >= 0"),),
    )

    service_id: Id
    namespace: Namespace = "default"
    name: Name
    kind: ServiceKind
    url: Url
    enabled: Flag = True
    failures: Count = 0
    created_by: Name
    created_at: Stamped
    updated_at: Stamped
    settings: JsonObject = Field(default_factory=dict)
    secret: SealedToken | None = None


class ServiceCall(Row):
    """One announcement to one service, written in the transaction of what it announces.

    A claim increments `lease_epoch` and moves `next_attempt_at` to the end of its lease. `run_id` is the pipeline run
    that was started for it; while that is under way, the call stays pending and is looked at again later.
    """

    table: ClassVar[Table] = Table(
        name="dag_service_calls",
        key=("call_id",),
        indexes=(
            Index("subject", ("namespace", "service_id", "asset_id", "revision", "action"), unique=True),
            Index("revision", ("namespace", "asset_id", "revision")),
            Index("due", ("next_attempt_at", "call_id"), where="status = 'pending'"),
            Index("list", ("namespace", "service_id", "call_id")),
        ),
        checks=(
            Check("settled_has_end", "(status = 'pending') = (settled_at IS NULL)"),
            Check("counts_not_negative", "attempts >= 0 AND lease_epoch >= 0"),
        ),
    )

    call_id: Id
    namespace: Namespace = "default"
    service_id: Id
    asset_id: AssetKey
    revision: Attempt
    action: ServiceAction
    status: CallStatus = CallStatus.PENDING
    attempts: Count = 0
    lease_epoch: Number = 0
    run_id: Label | None = None
    requested_by: Name
    created_at: Stamped
    next_attempt_at: Stamped
    last_attempt_at: Timestamp | None = None
    settled_at: Timestamp | None = None
    last_status: Count | None = None
    last_error: Message | None = None
    body: SmallJsonObject
