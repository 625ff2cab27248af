"""Retention over HTTP: a preview of what would be deleted and why, and what has been deleted."""

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel


class PruneLine(ApiModel):
    table: str
    rows: int
    reason: str
    setting: str = Field(description="The environment variable whose days are in the reason")
    is_complete: bool = Field(description="False if there are more than these")


class KeptJobs(ApiModel):
    """Jobs that are old enough and have to stay."""

    jobs: int
    reason: str
    is_complete: bool


class PrunePreview(ApiModel):
    """Of all namespaces, by the settings of the process that answers."""

    tables: list[PruneLine]
    kept: list[KeptJobs]


class Pruned(ApiModel):
    deleted: dict[str, int] = Field(description="Rows by table")
    has_more: bool = Field(description="There was not enough time for all; call it again")
