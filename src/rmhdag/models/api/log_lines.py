"""Logs by the number of a line: for readers that jump, search and show only some levels."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel

MOST_LINES = 2_000
MOST_MATCHES = 10_000


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogPiece(ApiModel):
    """Lines that one attempt wrote, without the lines that the filters leave out."""

    node_id: str
    task_id: str
    lease_epoch: int
    created_at: datetime
    truncated: bool = Field(description="The rest was cut behind the last of these lines: 1 MB is kept per attempt")
    numbers: list[int] = Field(description="Of each line among all lines, from 0")
    levels: str = Field(description="The first letter of each line's level: d, i, w or e")
    lines: list[str]


class LogLines(ApiModel):
    """Numbers of lines are stable in a job that has ended. In one that runs, chunks may still arrive in between."""

    job_id: str
    node_id: str | None = None
    total: int = Field(description="Lines that the filters leave, from the first to the last")
    first: int = Field(description="The place of the first line of this answer among them, from 0")
    is_complete: bool = Field(default=True, description="False if the filters were applied to a part only")
    pieces: list[LogPiece] = Field(description="May hold fewer lines than asked for: about 1 MB at most")


class LogMatches(ApiModel):
    job_id: str
    node_id: str | None = None
    text: str
    total: int
    is_complete: bool = Field(description="False if there are more: only the first ones are counted")
    places: list[int] = Field(description="Of the matching lines among those that the levels leave; at most 10,000")
