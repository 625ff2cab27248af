"""Keys as they are asked for and shown."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.columns import HIGHEST_PRIORITY
from rmhdag.models.registry import KeyKind
from rmhdag.models.scopes import Scope

MOST_DAYS = 3650
MOST_OVERLAP_HOURS = 30 * 24
OVERLAP_HOURS = 24.0

KeyName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._@:+-]{0,63}$")]
MaxPriority = Annotated[int, Field(strict=True, ge=0, le=HIGHEST_PRIORITY)]
Days = Annotated[float, Field(strict=True, gt=0, le=MOST_DAYS, allow_inf_nan=False)]


class KeyRequest(ApiModel):
    """A key to create; it belongs to the caller's namespace."""

    model_config = ConfigDict(extra="forbid")

    name: KeyName = Field(description="Name of the key's owner; recorded in `submitted_by` and similar fields")
    scopes: list[Scope] = Field(min_length=1, max_length=len(Scope))
    expires_days: Days | None = Field(
        default=None,
        description="Without it the key lives until it is revoked; if a token or a browser's session makes it, 90 days",
    )
    max_priority: MaxPriority | None = Field(
        default=None, description="Highest priority of jobs that it submits; without it, what the namespace allows"
    )


class RotationRequest(ApiModel):
    """How long the old key lives on, and how long the new one."""

    model_config = ConfigDict(extra="forbid")

    overlap_hours: float = Field(default=OVERLAP_HOURS, strict=True, ge=0, le=MOST_OVERLAP_HOURS, allow_inf_nan=False)
    expires_days: Days | None = Field(default=None, description="Without it, as long as the old key was meant to live")


class KeyView(ApiModel):
    """A key without its secret, which cannot be shown again."""

    key_id: str
    namespace: str
    name: str
    kind: KeyKind = Field(description="`session` is a browser that was let in by a link")
    state: Literal["live", "expired", "revoked"]
    scopes: list[Scope]
    max_priority: int | None = Field(
        default=None, description="Highest priority of jobs that it submits; null: what the namespace allows"
    )
    rotated_from: str | None
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None = Field(default=None, description="Null if unused, or if an older version did not record it")
    last_used_at: datetime | None = Field(description="To the minute")


class KeyMade(KeyView):
    """The only time that the key is shown."""

    key: str


class KeyPage(ApiModel):
    keys: list[KeyView]
    next_cursor: str | None


class Me(ApiModel):
    """Whose key it is, and what it is worth."""

    name: str
    namespace: str
    scopes: list[Scope]
    key_id: str | None
    max_priority: int | None = Field(default=None, description="Of the key; the namespace may have a lower one")
