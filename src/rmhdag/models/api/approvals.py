"""What waits for a person, over HTTP."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel
from rmhdag.models.scopes import Scope


class ApprovalKind(StrEnum):
    """What is decided about. More kinds may come: skip those that you do not know."""

    JOB_NODE = "job_node"
    REVISION = "revision"


class WaitingApproval(ApiModel):
    kind: ApprovalKind = Field(
        description="`job_node`: an approval node of a job that waits. `revision`: content that waits for a reviewer"
    )
    job_id: str | None = Field(description="Null for a revision that no job has made")
    node_id: str | None = Field(description="Null for a revision")
    workflow_id: str | None
    submitted_by: str
    asset_id: str | None = Field(default=None, description="Of a revision, or of a job that makes one")
    revision: int | None = None
    content_hash: str | None = Field(default=None, description="Of a revision: name it in the decision")
    platform_id: str | None = None
    platform_refs: dict[str, str] | None = None
    message: str | None = Field(description="What the workflow asks; at most 2,000 characters of it")
    approvers: list[str] = Field(description="Approvers that the workflow names; empty if it names none")
    waiting_since: datetime
    deadline_at: datetime | None = Field(description="When the node fails without a decision; null for no limit")
    decide_path: str = Field(
        description='For a node: POST {"decision": "approve"} or {"decision": "reject"} to this path; for a revision, '
        'POST {"content_hash": …, "clearance": "public"}'
    )
    command: str = Field(description="The same on the command line")
    needs_scopes: list[Scope] = Field(description="To decide takes a key with one of these, or with `admin`")
    not_by: list[str] = Field(
        description="They ordered it, and the platform asks for four eyes: they may reject it, but not approve it"
    )
    may_decide: bool = Field(
        default=False,
        description="The caller's key has such a scope, the workflow names nobody else as approver, and the caller is "
        "not in `not_by`",
    )


class ApprovalPage(ApiModel):
    approvals: list[WaitingApproval]
    next_cursor: str | None = Field(description="Give it as `cursor` for the next page; null on the last one")
