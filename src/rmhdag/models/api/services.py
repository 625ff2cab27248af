"""External services and the calls to them, as they are asked for and shown."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.api.jobs import RequestBody
from rmhdag.models.columns import JsonObject, Url
from rmhdag.models.service_calls import CallStatus, ServiceAction, ServiceKind


class ServiceRequest(RequestBody):
    """A service that is notified of approved public content."""

    kind: ServiceKind
    url: Url | None = Field(
        default=None, description="Where calls go; for `adf` that of Azure's management API, which is the default"
    )
    settings: JsonObject = Field(default_factory=dict, description="By kind, see docs/external-services.md")
    secret: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = Field(
        default=None,
        description="Signs messages (`whsec_…`, generated if not given), or the token or client secret for `adf`. "
        "Without it, that of an existing service stays",
    )
    enabled: bool = Field(default=True, strict=True)


class ServiceView(ApiModel):
    """A service without its secret."""

    name: str
    kind: ServiceKind
    url: str
    settings: dict[str, Any]
    enabled: bool
    has_secret: bool
    failures: int = Field(description="Failed tries since the last that succeeded")
    created_by: str
    created_at: datetime
    updated_at: datetime


class ServicePutAnswer(ServiceView):
    is_new: bool
    new_secret: str | None = Field(description="If one was generated: the only time that it is shown")


class ServiceList(ApiModel):
    services: list[ServiceView]


class ServiceDeleted(ApiModel):
    name: str
    calls_not_delivered: int = Field(description="Calls that were still to be made, and are not made any more")


class ServiceCallView(ApiModel):
    call_id: str
    service: str
    asset_id: str
    revision: int
    action: ServiceAction
    status: CallStatus
    attempts: int = Field(description="Tries; looks at a run that is under way are not counted")
    run_id: str | None = Field(description="The pipeline run that was started for it")
    requested_by: str
    created_at: datetime
    next_attempt_at: datetime | None
    last_attempt_at: datetime | None
    settled_at: datetime | None
    last_status: int | None = Field(description="The HTTP status of the last answer, if that was a refusal")
    last_error: str | None


class ServiceCallPage(ApiModel):
    calls: list[ServiceCallView] = Field(description="Newest first")
    next_cursor: str | None
