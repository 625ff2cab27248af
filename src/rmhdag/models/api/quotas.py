"""What a namespace may have, what it uses, and how that is changed."""

from datetime import datetime
from typing import Annotated

from pydantic import ConfigDict, Field, field_validator

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.quotas import QUOTAS, refuse_wrong_value


class QuotaView(ApiModel):
    name: str
    what: str = Field(description="What is limited")
    limit: int
    used: int | None = Field(default=None, description="null if it is not counted here, such as a rate")
    is_own: bool = Field(description="Set for this namespace; else the default of the platform")


class QuotaList(ApiModel):
    namespace: str
    counted_at: datetime | None = Field(default=None, description="When the stored bytes were counted last")
    quotas: list[QuotaView]


class QuotaChanges(ApiModel):
    """null gives the default of the platform back."""

    model_config = ConfigDict(extra="forbid")

    quotas: dict[str, Annotated[int, Field(ge=0, le=2**53)] | None] = Field(min_length=1, max_length=50)

    @field_validator("quotas")
    @classmethod
    def check(cls, limits: dict[str, int | None]) -> dict[str, int | None]:
        for name, value in limits.items():
            refuse_wrong_value(name, QUOTAS[name]["least"] if value is None and name in QUOTAS else value or 0)
        return limits
