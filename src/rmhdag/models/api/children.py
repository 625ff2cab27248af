"""The children of a fan-out in columns: ten thousand of them fit a page that is watched while they run."""

from datetime import datetime

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.states import NodeStatus

MOST_CHILDREN = 20_000


class FanOutChildren(ApiModel):
    """Each column has an entry per child, in the order of their indexes from `first` on."""

    job_id: str
    node_id: str
    total: int = Field(description="All children of the fan-out; 0 until it is known")
    first: int = Field(description="The index of the first child in this answer")
    next_first: int | None = Field(default=None, description="`first` of the next page; null on the last")
    origin_at: datetime | None = Field(description="When the job started; `started_ms` counts from here")
    legend: list[NodeStatus] = Field(description="What the digits of `statuses` mean, by their position")
    statuses: str = Field(description="A digit per child; those that are not born yet are pending")
    attempts: list[int]
    started_ms: list[int | None] = Field(description="Milliseconds from `origin_at`; null if it has not started")
    duration_ms: list[int | None] = Field(description="Null if it has not ended, or never ran")
    keys: list[str | None] | None = Field(default=None, description="The key of each child's item, if asked for")
    places: list[list[float] | None] | None = Field(
        default=None,
        description="Where each child lies, if asked for and if any of them says so: `[west, south, east, north]` "
        "from `bbox` in its parameters (or in their `item` or `tile`), or `[first, count]` of the tiles of `scheme`",
    )
