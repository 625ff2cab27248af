"""Callbacks and their endpoints as they are shown and asked for."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.callbacks import CallbackStatus
from rmhdag.models.columns import Label, Url, varchar
from rmhdag.models.plain_text import refuse_deceiving

MOST_OVERLAP_HOURS = 30 * 24
OVERLAP_HOURS = 24.0

GivenSecret = Annotated[str, varchar(200, min_length=1)]


class CallbackView(ApiModel):
    """One message and what became of it. The query of its URL is not shown: receivers keep keys in there."""

    callback_id: str = Field(description="The `webhook-id` of every try")
    job_id: str
    request_id: str | None = Field(description="The order that it is about, by the platform's id")
    status: CallbackStatus
    endpoint_url: str
    attempts: int = Field(description="Tries since it was written, or since it was redelivered")
    created_at: datetime
    next_attempt_at: datetime | None
    last_attempt_at: datetime | None
    settled_at: datetime | None
    last_status: int | None = Field(description="The HTTP status of the last answer, if there was one")
    last_error: str | None
    redelivered_by: str | None
    redelivered_at: datetime | None
    body: dict[str, Any] = Field(
        description="For a subscriber of OGC API – Processes, the results or the status of the job are sent instead"
    )


class CallbackPage(ApiModel):
    callbacks: list[CallbackView] = Field(description="Newest first")
    next_cursor: str | None


class EndpointView(ApiModel):
    """Where callbacks go; secrets are shown only when they are made."""

    endpoint_id: str
    url: str = Field(description="Without query: callbacks to it with any query are signed with its secret")
    created_by: str
    created_at: datetime
    updated_at: datetime
    rotated_at: datetime | None
    previous_expires_at: datetime | None = Field(description="Until then the secret before this one signs too")
    disabled_at: datetime | None
    disabled_reason: str | None


class EndpointPage(ApiModel):
    endpoints: list[EndpointView]
    next_cursor: str | None


class EndpointMade(EndpointView):
    """The only time that the secret is shown."""

    secret: str = Field(description="As Standard Webhooks writes it: `whsec_…`")


class _Request(ApiModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class EndpointRequest(_Request):
    url: Url
    secret: GivenSecret | None = Field(default=None, description="Generated if not given")


class SecretRotation(_Request):
    secret: GivenSecret | None = Field(default=None, description="Generated if not given")
    overlap_hours: float = Field(
        default=OVERLAP_HOURS,
        ge=0,
        le=MOST_OVERLAP_HOURS,
        allow_inf_nan=False,
        description="How long the secret before it signs too",
    )


class EndpointDisabling(_Request):
    reason: Annotated[Label, AfterValidator(refuse_deceiving)] = "disabled by an administrator"


class EndpointEnabling(_Request):
    redeliver: bool = Field(default=False, description="Send what was laid aside meanwhile")


class EndpointEnabled(EndpointView):
    redelivered: int = Field(description="Callbacks that were laid aside and are sent now")
