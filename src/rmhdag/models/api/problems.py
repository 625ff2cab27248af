"""What is wrong with a request, as RFC 9457 has it."""

from typing import Self

from pydantic import Field, model_validator

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.error_codes import ERROR_CODES, RETRIED, USER_FIXABLE, ErrorCategory


class ProblemPlace(ApiModel):
    """One thing that is wrong, and where."""

    pointer: str = Field(description="RFC 6901, into the body; or `/query/limit`, `/path/job_id`, `/header/…`")
    detail: str
    line: int | None = Field(default=None, description="In a text that was sent, from 1")
    column: int | None = None
    code: str | None = Field(default=None, description="Of the table of error codes, if it is about data")
    category: ErrorCategory | None = Field(default=None, description="With a code: who can do something about it")
    remediation: str | None = Field(default=None, description="With a code: what to do")
    user_fixable: bool | None = None
    retryable: bool | None = None

    @model_validator(mode="after")
    def _look_up(self) -> Self:
        """A code says the rest."""
        entry = ERROR_CODES.get(self.code or "")
        if entry is not None and self.category is None:
            self.category, self.remediation = entry.category, entry.remediation
            self.user_fixable, self.retryable = entry.category in USER_FIXABLE, entry.category in RETRIED
        return self


class QuotaFigures(ApiModel):
    """The quota that refuses a request."""

    name: str
    limit: int
    used: int


class ProblemBody(ApiModel):
    """RFC 9457."""

    type: str = Field(description="`urn:rmhdag:problem:` and the code")
    title: str
    status: int
    code: str = Field(description="A word for programs; it does not change")
    detail: str
    remedy: str | None = None
    expected: str | None = Field(
        default=None, description="The state that the step needs, where another one refuses it"
    )
    errors: list[ProblemPlace] = Field(default_factory=list)
    quota: QuotaFigures | None = Field(default=None, description="With the code `quota_exceeded`")
