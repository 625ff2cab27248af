"""Workflows over HTTP: what is registered, what is wrong with a file, what became of a registration."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field


class WorkflowSummary(BaseModel):
    """One version of a workflow, without its definition."""

    workflow_id: str
    version: int
    hash: str = Field(description="Of what the workflow means, not of how it is written")
    name: str
    description: str | None
    registered_by: str
    registered_at: datetime
    retired_at: datetime | None = Field(default=None, description="Since when it takes no new jobs; null if it does")
    retired_by: str | None = None


class WorkflowPage(BaseModel):
    workflows: list[WorkflowSummary]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one")


class VersionPage(BaseModel):
    versions: list[WorkflowSummary]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one")


class WorkflowDetail(WorkflowSummary):
    definition: dict[str, Any] = Field(description="As the engine runs it: shorthands folded, defaults written out")
    layout: dict[str, Any] = Field(description="Where its graph is drawn")


class WorkflowProblem(BaseModel):
    """One thing that is wrong with a workflow."""

    pointer: str = Field(description="RFC 6901, into the workflow")
    line: int | None = Field(description="From 1; null if the workflow was sent as JSON")
    column: int | None
    code: str
    message: str
    remedy: str


class WorkflowCheck(BaseModel):
    """What is wrong with a workflow; nothing was stored."""

    valid: bool
    workflow_id: str | None
    version: int | None
    node_count: int | None
    problems: list[WorkflowProblem]


class Registration(BaseModel):
    workflow_id: str
    version: int
    hash: str
    node_count: int
    is_new: bool = Field(description="False if this very content was registered already")
