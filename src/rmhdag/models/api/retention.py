"""Retention over HTTP: what would be deleted now and why, and what was."""

from __future__ import annotations

from pydantic import BaseModel, Field


class PruneLine(BaseModel):
    table: str
    rows: int
    reason: str
    setting: str = Field(description="The environment variable whose days are in the reason")
    is_complete: bool = Field(description="False if there are more than these")


class KeptJobs(BaseModel):
    """Jobs that are old enough and have to stay."""

    jobs: int
    reason: str
    is_complete: bool


class PrunePreview(BaseModel):
    """Of all namespaces, by the settings of the process that answers."""

    tables: list[PruneLine]
    kept: list[KeptJobs]


class Pruned(BaseModel):
    deleted: dict[str, int] = Field(description="Rows by table")
    has_more: bool = Field(description="There was not enough time for all; call it again")
