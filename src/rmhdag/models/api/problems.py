"""What is wrong with a request, as RFC 9457 has it."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ProblemPlace(BaseModel):
    """One thing that is wrong, and where."""

    pointer: str = Field(description="RFC 6901, into the body; or `/query/limit`, `/path/job_id`, `/header/…`")
    detail: str
    line: int | None = Field(default=None, description="In a text that was sent, from 1")
    column: int | None = None


class QuotaFigures(BaseModel):
    """The quota that refuses a request."""

    name: str
    limit: int
    used: int


class ProblemBody(BaseModel):
    """RFC 9457."""

    type: str = Field(description="`urn:rmhdag:problem:` and the code")
    title: str
    status: int
    code: str = Field(description="A word for programs; it does not change")
    detail: str
    remedy: str | None = None
    errors: list[ProblemPlace] = Field(default_factory=list)
    quota: QuotaFigures | None = Field(default=None, description="With the code `quota_exceeded`")
