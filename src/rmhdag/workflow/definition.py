"""The workflow language as models: the content of a checked definition, however it was written in YAML.

Shorthands (`retries`, a left-out `type`, one `next` instead of a list) are folded, so that the engine sees one form.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from rmhdag.models.states import NodeType
from rmhdag.workflow.check_models import MOST_CHECKS, AnyCheck
from rmhdag.workflow.node_names import NODE_NAME

NodeId = Annotated[str, StringConstraints(pattern=NODE_NAME)]
WorkflowId = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
HandlerName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$", max_length=64)]
QueueName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
TimeoutSeconds = Annotated[int, Field(ge=1, le=86_400, strict=True)]


class LanguageModel(BaseModel):
    # Built on first use: a command that needs one model does not build all of them (40 ms of `rmhdag validate`).
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class RetryRule(LanguageModel):
    """`max_attempts` counts all attempts; jitter is a share of the delay, 0.1 = ±10 %."""

    max_attempts: int = Field(default=4, ge=1, le=100, strict=True)
    backoff: Literal["none", "linear", "exponential"] = "exponential"
    initial_delay_seconds: float = Field(default=5.0, ge=0, le=86_400)
    max_delay_seconds: float = Field(default=300.0, ge=0, le=86_400)
    jitter: float = Field(default=0.1, ge=0, le=1)


class InputDefinition(LanguageModel):
    """One parameter of a workflow, in the words of JSON Schema."""

    type: Literal["string", "integer", "number", "boolean", "array", "object"]
    required: bool = False
    secret: bool = False
    default: Any = None
    description: str | None = None
    enum: list[Any] | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusiveMinimum: float | None = None  # noqa: N815 - JSON Schema's own word
    exclusiveMaximum: float | None = None  # noqa: N815
    multipleOf: float | None = Field(default=None, gt=0)  # noqa: N815
    minLength: int | None = Field(default=None, ge=0)  # noqa: N815
    maxLength: int | None = Field(default=None, ge=0)  # noqa: N815
    pattern: str | None = None
    format: str | None = None
    minItems: int | None = Field(default=None, ge=0)  # noqa: N815
    maxItems: int | None = Field(default=None, ge=0)  # noqa: N815
    uniqueItems: bool | None = None  # noqa: N815
    items: dict[str, Any] | None = None
    properties: dict[str, Any] | None = None
    additionalProperties: bool | None = None  # noqa: N815


class DependsOn(LanguageModel):
    all_of: tuple[NodeId, ...] = ()
    any_of: tuple[NodeId, ...] = ()


class Branch(LanguageModel):
    """One way out of a conditional: `condition` is compared with `condition_field`; the default has none."""

    condition: str | None = None
    default: bool = False
    name: str | None = None
    next: tuple[NodeId, ...]


class Tolerance(LanguageModel):
    """How many failed children a fan-in accepts; exactly one of the two is set."""

    count: int | None = Field(default=None, ge=0, strict=True)
    percent: float | None = Field(default=None, ge=0, le=100)


class TaskSpec(LanguageModel):
    """The task for a worker. `queue` is None only if the handler's own queue is used."""

    handler: HandlerName
    queue: QueueName | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    timeout_seconds: TimeoutSeconds = 3600
    start_timeout_seconds: TimeoutSeconds | None = None
    retry: RetryRule = RetryRule()


class Node(LanguageModel):
    """Common to all kinds of nodes; `next` never names an END that the file does not declare (see `ends`)."""

    description: str | None = None
    next: tuple[NodeId, ...] = ()
    ends: bool = False  # `next: END` without an END node in the file
    depends_on: DependsOn = DependsOn()


class StartNode(Node):
    type: Literal[NodeType.START] = NodeType.START


class EndNode(Node):
    type: Literal[NodeType.END] = NodeType.END


class TaskNode(Node):
    """`template_of` names the fan-out whose children this node describes; such a node never runs by itself."""

    type: Literal[NodeType.TASK] = NodeType.TASK
    task: TaskSpec
    template_of: NodeId | None = None


class ConditionalNode(Node):
    """Both written forms become branches; `subject` is the left side of `< 100`, or None for `condition` forms.

    `on_true`/`on_false` are kept as two branches: `condition` = the whole expression, and the default.
    A branch whose `next` was END (undeclared) has an empty `next`.
    """

    type: Literal[NodeType.CONDITIONAL] = NodeType.CONDITIONAL
    subject: str | None = None
    branches: tuple[Branch, ...]


class FanOutNode(Node):
    """Both written forms end up with the child's task in `task`; `child_node` is its name in the second form."""

    type: Literal[NodeType.FAN_OUT] = NodeType.FAN_OUT
    source: str | tuple[Any, ...]
    task: TaskSpec
    child_node: NodeId | None = None
    max_parallel: int | None = Field(default=None, ge=1, le=1_000_000, strict=True)
    item_key: str | None = None  # template giving each child's fan_out_item_key


class FanInNode(Node):
    """`source_node` is always the fan-out, found as CONTRACTS §7 says."""

    type: Literal[NodeType.FAN_IN] = NodeType.FAN_IN
    source_node: NodeId
    aggregation: Literal["collect", "concat", "sum", "first", "last", "merge"] = "collect"
    field: str | None = None
    tolerate: Tolerance | None = None


class ApprovalNode(Node):
    """Waits for a decision. `on_reject: continue` completes with the decision, so that a conditional can use it."""

    type: Literal[NodeType.APPROVAL] = NodeType.APPROVAL
    message: str | None = None
    params: dict[str, Any] = Field(default_factory=dict)
    approvers: tuple[str, ...] = ()
    timeout_seconds: int | None = Field(default=None, ge=1, le=31_536_000, strict=True)
    on_reject: Literal["fail", "continue"] = "fail"


class WorkflowNode(Node):
    """Runs another workflow as a child job; `version` None means the newest when the node starts."""

    type: Literal[NodeType.WORKFLOW] = NodeType.WORKFLOW
    workflow: WorkflowId
    workflow_version: int | None = Field(default=None, ge=1, strict=True)
    params: dict[str, Any] = Field(default_factory=dict)
    timeout_seconds: int | None = Field(default=None, ge=1, le=31_536_000, strict=True)
    retry: RetryRule = RetryRule(max_attempts=1)


AnyNode = Annotated[
    StartNode | EndNode | TaskNode | ConditionalNode | FanOutNode | FanInNode | ApprovalNode | WorkflowNode,
    Field(discriminator="type"),
]


class WorkflowDefinition(LanguageModel):
    """A checked workflow. Created by `rmhdag.workflow.load`; stored as JSON in `dag_workflows.definition`."""

    workflow_id: WorkflowId
    name: str
    version: int = Field(default=1, ge=1, strict=True)
    description: str | None = None
    produces: Literal["raster", "vector", "dataset"] | None = None
    review: Literal["required"] | None = None
    inputs: dict[str, InputDefinition] = Field(default_factory=dict)
    checks: tuple[AnyCheck, ...] = Field(default=(), max_length=MOST_CHECKS)
    outputs: dict[str, Any] | None = None
    nodes: dict[NodeId, AnyNode]

    @property
    def asks_for_review(self) -> bool:
        """Whether revisions that it makes are served only after an approval: it says so, or has an approval node."""
        return self.review is not None or any(node.type is NodeType.APPROVAL for node in self.nodes.values())
