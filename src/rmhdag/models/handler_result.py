"""What a handler returns."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rmhdag.models.columns import JsonObject, Message, jsonb
from rmhdag.models.json_values import MAX_BYTES
from rmhdag.models.records import Records

MOST_WARNINGS = 100


class DataWarning(BaseModel):
    """Something about the data that a person should know although the task succeeded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    code: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
    message: Message
    count: Annotated[int, Field(ge=1, strict=True)] = 1


class HandlerResult(BaseModel):
    """`output` may be large here: the worker stores what exceeds the inline limit apart and reports a reference."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    success: Annotated[bool, Field(strict=True)] = True
    output: Annotated[object, jsonb(MAX_BYTES)] = None
    error_message: Message | None = None
    metrics: JsonObject = Field(default_factory=dict)
    records: Records = ()
    warnings: Annotated[tuple[DataWarning, ...], Field(max_length=MOST_WARNINGS)] = ()
    # Only for a handler that was told to stop: what it returns is the whole result nevertheless.
    complete: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _check_agreement(self) -> HandlerResult:
        if self.success and self.error_message is not None:
            raise ValueError("success with an error_message: return success=False, or put the remark into output")
        if not self.success and not self.error_message:
            raise ValueError("success=False without an error_message: say what failed and what would help")
        if not self.success and self.records:
            raise ValueError("success=False with records: a failed task publishes nothing")
        return self
