"""What a handler returns."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rmhdag.models.columns import JsonObject, Message, jsonb
from rmhdag.models.data_warnings import DataWarning
from rmhdag.models.error_codes import CODE_PATTERN, ERROR_CODES, RETRIED, USER_FIXABLE, ErrorCategory
from rmhdag.models.json_values import MAX_BYTES
from rmhdag.models.records import Records

__all__ = ["DataWarning", "HandlerError", "HandlerResult"]

DETAILS_BYTES = 2 * 1024


class HandlerError(BaseModel):
    """Why a task failed, for people and programs. What is not given follows from the code, else from the category.

    A code of `rmhdag.models.error_codes` has its category from there; one of the handler's own needs it named.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    code: Annotated[str, Field(pattern=CODE_PATTERN)]
    category: ErrorCategory
    message: Annotated[Message, Field(min_length=1)]
    remediation: Message | None = None
    user_fixable: Annotated[bool, Field(strict=True)]
    retryable: Annotated[bool, Field(strict=True)]
    details: Annotated[dict[str, Any], jsonb(DETAILS_BYTES)] = Field(default_factory=dict)

    def __init__(self, **fields: Any) -> None:
        """So that type checkers accept that most of it may be left out."""
        super().__init__(**fields)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        code = data.get("code")
        definition = ERROR_CODES.get(code) if isinstance(code, str) else None
        whole = {name: value for name, value in data.items() if value is not None}
        if definition is not None:
            if whole.get("category", definition.category) != definition.category:
                raise ValueError(
                    f"code {code} is of category {definition.category}: another meaning needs another code"
                )
            whole = {"category": definition.category, "remediation": definition.remediation, **whole}
        category = whole.get("category")
        if category is None and isinstance(code, str):
            raise ValueError(
                f"code {code!r} is not in the table of codes: give its category, one of {', '.join(ErrorCategory)}"
            )
        return {"user_fixable": category in USER_FIXABLE, "retryable": category in RETRIED, **whole}


class HandlerResult(BaseModel):
    """`output` may be large: the worker stores an output above the inline limit separately and reports a reference."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    success: Annotated[bool, Field(strict=True)] = True
    output: Annotated[object, jsonb(MAX_BYTES)] = None
    error_message: Message | None = None
    error: HandlerError | None = None
    metrics: JsonObject = Field(default_factory=dict)
    records: Records = ()
    warnings: tuple[DataWarning, ...] = ()
    # Only for a handler that was asked to stop: its result is complete nevertheless.
    complete: Annotated[bool, Field(strict=True)] = False

    @model_validator(mode="after")
    def _check_agreement(self) -> Self:
        if self.success and (self.error_message is not None or self.error is not None):
            raise ValueError("success with an error_message: return success=False, or put the remark into warnings")
        if not self.success and not self.error_message and self.error is None:
            raise ValueError("success=False without an error_message: say what failed and what would help")
        if not self.success and self.records:
            raise ValueError("success=False with records: a failed task publishes nothing")
        return self
