"""Callbacks: notifications about the end of a job, and the endpoints that receive them."""

from enum import StrEnum
from typing import ClassVar

from rmhdag.models.columns import (
    Count,
    Id,
    Label,
    Message,
    Name,
    Namespace,
    Number,
    OptionalName,
    SealedText,
    SmallJsonObject,
    Stamped,
    Timestamp,
    Url,
)
from rmhdag.models.table import Check, Index, Row, Table


class CallbackStatus(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"
    DISABLED = "disabled"


class Callback(Row):
    """One message to one submitter, written in the transaction that ends its job, or in which its revision is decided
    about. Each try carries `callback_id`.

    A claim increments `lease_epoch` and moves `next_attempt_at` to the end of its lease: if its holder dies, the claim
    simply expires. `endpoint_url` is `url` without its query.
    """

    table: ClassVar[Table] = Table(
        name="dag_callbacks",
        key=("callback_id",),
        indexes=(
            # One notification per job, request and occasion, even if an ending is written twice.
            Index("job", ("job_id", "request_id", "occasion"), unique=True),
            Index("due", ("next_attempt_at", "callback_id"), where="status = 'pending'"),
            Index("turns", ("namespace", "next_attempt_at", "callback_id"), where="status = 'pending'"),
            Index("list", ("namespace", "callback_id")),
            Index("status", ("namespace", "status", "callback_id"), where="status <> 'delivered'"),
            Index("endpoint", ("namespace", "endpoint_url", "callback_id")),
        ),
        checks=(
            Check("settled_has_end", "(status = 'pending') = (settled_at IS NULL)"),
            Check("attempts_not_negative", "attempts >= 0 AND lease_epoch >= 0"),
        ),
        storage={"fillfactor": "70", "autovacuum_vacuum_scale_factor": "0.02"},
    )

    callback_id: Id
    namespace: Namespace = "default"
    job_id: Id
    request_id: OptionalName = ""  # '' for a job without an order
    # '' for the end of the job, `running` for its start, else how the review of its revision was decided
    occasion: OptionalName = ""
    form: OptionalName = ""  # `ogc`: what is sent are the documents of OGC API – Processes, made of the order
    status: CallbackStatus = CallbackStatus.PENDING
    attempts: Count = 0
    lease_epoch: Number = 0
    url: Url
    endpoint_url: Url
    host: Url
    created_at: Stamped
    next_attempt_at: Stamped
    last_attempt_at: Timestamp | None = None
    settled_at: Timestamp | None = None
    last_status: Count | None = None
    last_error: Message | None = None
    redelivered_by: Name | None = None
    redelivered_at: Timestamp | None = None
    body: SmallJsonObject


class CallbackEndpoint(Row):
    """Where callbacks go, and the secrets that sign them; after a rotation both sign until the older one expires."""

    table: ClassVar[Table] = Table(
        name="dag_callback_endpoints",
        key=("endpoint_id",),
        indexes=(
            Index("url", ("namespace", "url"), unique=True),
            Index("list", ("namespace", "endpoint_id")),
        ),
        checks=(
            Check("previous_whole", "(previous_secret IS NULL) = (previous_expires_at IS NULL)"),
            Check("disabled_has_reason", "(disabled_at IS NULL) = (disabled_reason IS NULL)"),
        ),
    )

    endpoint_id: Id
    namespace: Namespace = "default"
    url: Url
    created_by: Name
    created_at: Stamped
    updated_at: Stamped
    rotated_at: Timestamp | None = None
    previous_expires_at: Timestamp | None = None
    disabled_at: Timestamp | None = None
    disabled_reason: Label | None = None
    secret: SealedText
    previous_secret: SealedText | None = None
