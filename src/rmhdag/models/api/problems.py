"""What is wrong with a request, as RFC 9457 has it."""

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel


class ProblemPlace(ApiModel):
    """One thing that is wrong, and where."""

    pointer: str = Field(description="RFC 6901, into the body; or `/query/limit`, `/path/job_id`, `/header/…`")
    detail: str
    line: int | None = Field(default=None, description="In a text that was sent, from 1")
    column: int | None = None
    code: str | None = Field(default=None, description="Of the table of error codes, if it is about data")


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
