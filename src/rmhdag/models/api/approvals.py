"""What waits for a person, over HTTP."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, Field


class ApprovalKind(StrEnum):
    """What is decided about. More kinds may come: skip those that you do not know."""

    JOB_NODE = "job_node"


class WaitingApproval(BaseModel):
    kind: ApprovalKind = Field(description="`job_node`: an approval node of a job that waits for the decision")
    job_id: str
    node_id: str
    workflow_id: str
    submitted_by: str
    message: str | None = Field(description="What the workflow asks; at most 2,000 characters of it")
    approvers: list[str] = Field(description="Whom the workflow names; empty if it names nobody")
    waiting_since: datetime
    deadline_at: datetime | None = Field(description="When the node fails if nobody has decided; null if it waits on")
    decide_path: str = Field(description='POST {"decision": "approve"} or {"decision": "reject"} to this path')
    command: str = Field(description="The same on the command line")


class ApprovalPage(BaseModel):
    approvals: list[WaitingApproval]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one")
