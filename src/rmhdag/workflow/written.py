"""The workflow file as models: the written form, before shorthands are folded.

These models check one field at a time and generate the JSON Schema of the language; rules check combinations of fields
and nodes. People write these texts, so nothing is converted: "3" is not 3.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema
from pydantic.config import JsonDict, JsonValue
from pydantic_core import PydanticKnownError

from rmhdag.models.states import NodeType
from rmhdag.workflow.definition import (
    HandlerName,
    InputDefinition,
    NodeId,
    QueueName,
    RetryRule,
    TimeoutSeconds,
    Tolerance,
    WorkflowId,
)
from rmhdag.workflow.node_names import NODE_NAME

WaitSeconds = Annotated[int, Field(ge=1, le=31_536_000)]
Description = Annotated[str, StringConstraints(max_length=4_000)]
ParameterName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")]
Expression = Annotated[str, StringConstraints(min_length=1)]
PlainText = Annotated[str, StringConstraints(pattern=r"^[^{}]+$", max_length=200)]

_NODE_ID_SCHEMA = {"type": "string", "pattern": NODE_NAME}
_TARGETS_SCHEMA = {
    "anyOf": [_NODE_ID_SCHEMA, {"type": "array", "items": _NODE_ID_SCHEMA, "minItems": 1, "uniqueItems": True}]
}


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _not_one(value: Any) -> Any:
    """A literal `true` would accept 1, as Python does."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raise PydanticKnownError("literal_error", {"expected": "True"})
    return value


def _as_groups(value: Any) -> Any:
    return {"all_of": value} if isinstance(value, (str, list)) else value


Targets = Annotated[list[NodeId], Field(min_length=1), BeforeValidator(_as_list), WithJsonSchema(_TARGETS_SCHEMA)]


class Written(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class WrittenRetry(RetryRule):
    """`fixed` is a synonym for `none`: the same wait each time."""

    model_config = ConfigDict(strict=True, title="Retry")

    backoff: Literal["none", "fixed", "linear", "exponential"] = "exponential"  # type: ignore[assignment]


class WrittenInput(InputDefinition):
    model_config = ConfigDict(strict=True, title="Input")


class WrittenTolerance(Tolerance):
    model_config = ConfigDict(
        strict=True,
        title="Tolerance",
        json_schema_extra={"oneOf": [{"required": ["count"]}, {"required": ["percent"]}]},
    )


class DependencyGroups(Written):
    all_of: Targets | None = Field(default=None, description="Waits for all of these; one of them must be live")
    any_of: Targets | None = Field(default=None, description="Starts with the first of these that is live")


DependsOn = Annotated[
    DependencyGroups,
    BeforeValidator(_as_groups),
    WithJsonSchema(
        {
            "anyOf": [
                *_TARGETS_SCHEMA["anyOf"],
                {
                    "type": "object",
                    "properties": {"all_of": _TARGETS_SCHEMA, "any_of": _TARGETS_SCHEMA},
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            ]
        }
    ),
]

_ONE_RETRY: JsonDict = {"not": {"required": ["retry", "retries"]}}


class WrittenDefaults(Written):
    model_config = ConfigDict(title="Defaults", json_schema_extra=_ONE_RETRY)

    queue: QueueName | None = Field(default=None, description="Queue of tasks that have none, nor does their handler")
    timeout_seconds: TimeoutSeconds | None = Field(default=None, description="Time-out of tasks that name none")
    retry: WrittenRetry | None = None
    retries: Annotated[int, Field(ge=0, le=99)] | None = Field(
        default=None, description="Short for retry: n + 1 attempts"
    )


class WrittenNode(Written):
    description: Description | None = None


class WrittenStart(WrittenNode):
    model_config = ConfigDict(title="Start")

    type: Literal[NodeType.START]
    next: Targets | None = None


class WrittenEnd(WrittenNode):
    model_config = ConfigDict(title="End")

    type: Literal[NodeType.END]
    depends_on: DependsOn | None = None


class WrittenTaskSpec(Written):
    """The task of a fan-out's children."""

    model_config = ConfigDict(title="Child task", json_schema_extra=_ONE_RETRY)

    handler: HandlerName = Field(description="The code that runs")
    queue: QueueName | None = Field(default=None, description="Where workers look for it")
    params: dict[str, Any] | None = Field(default=None, description="Values and templates passed to the handler")
    timeout_seconds: TimeoutSeconds | None = Field(default=None, description="Longest run of one attempt; default 3600")
    start_timeout_seconds: TimeoutSeconds | None = Field(
        default=None, description="Longest wait for a worker; default none"
    )
    retry: WrittenRetry | None = None
    retries: Annotated[int, Field(ge=0, le=99)] | None = Field(
        default=None, description="Short for retry: n + 1 attempts"
    )


class WrittenTask(WrittenNode, WrittenTaskSpec):
    """One task on a worker."""

    model_config = ConfigDict(title="Task", json_schema_extra=_ONE_RETRY)

    type: Literal[NodeType.TASK] | None = Field(default=None, description="Optional: `handler` implies it")
    next: Targets | None = None
    depends_on: DependsOn | None = None


class WrittenBranch(Written):
    model_config = ConfigDict(
        title="Branch", json_schema_extra={"oneOf": [{"required": ["condition"]}, {"required": ["default"]}]}
    )

    condition: Expression | None = Field(default=None, description="Compared with condition_field, for example `< 100`")
    default: Annotated[Literal[True], BeforeValidator(_not_one)] | None = Field(
        default=None, description="Taken if no other branch is"
    )
    name: PlainText | None = Field(default=None, description="A label for people, shown in the graph")
    next: Targets


_BY_CONDITION = ("condition", "on_true", "on_false")


def _each_required(fields: tuple[str, ...]) -> list[JsonValue]:
    return [{"required": [field]} for field in fields]


class WrittenConditional(WrittenNode):
    model_config = ConfigDict(
        title="Conditional",
        json_schema_extra={
            "oneOf": [
                {"required": ["condition_field", "branches"], "not": {"anyOf": _each_required(_BY_CONDITION)}},
                {"required": list(_BY_CONDITION), "not": {"anyOf": _each_required(("condition_field", "branches"))}},
            ]
        },
    )

    type: Literal[NodeType.CONDITIONAL]
    depends_on: DependsOn | None = None
    condition_field: Expression | None = Field(default=None, description="The value that branches compare")
    branches: Annotated[list[WrittenBranch], Field(min_length=1, max_length=100)] | None = None
    condition: Expression | None = Field(default=None, description="One expression that is true or false")
    on_true: Targets | None = None
    on_false: Targets | None = None


class WrittenFanOut(WrittenNode):
    model_config = ConfigDict(
        title="Fan-out", json_schema_extra={"oneOf": [{"required": ["task"]}, {"required": ["child_node"]}]}
    )

    type: Literal[NodeType.FAN_OUT]
    next: Targets | None = None
    depends_on: DependsOn | None = None
    source: Annotated[
        Any,
        WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "array"}]}),
        Field(description="The list to run over: a template, or the list itself"),
    ]
    task: WrittenTaskSpec | None = None
    child_node: NodeId | None = Field(default=None, description="The task node that describes each child")
    queue: QueueName | None = Field(default=None, description="Queue of the children, if their task names none")
    max_parallel: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="Maximum number of children that run at a time; default: no limit"
    )
    item_key: Expression | None = Field(default=None, description="Template that names each child, for people")


class WrittenFanIn(WrittenNode):
    model_config = ConfigDict(title="Fan-in")

    type: Literal[NodeType.FAN_IN]
    next: Targets | None = None
    depends_on: DependsOn | None = None
    source_node: NodeId | None = Field(default=None, description="The fan-out or its child node")
    aggregation: Literal["collect", "concat", "sum", "first", "last", "merge"] | None = None
    field: PlainText | None = Field(
        default=None, description="The value of each child's output that is summed or joined"
    )
    tolerate: WrittenTolerance | None = None


class WrittenApproval(WrittenNode):
    model_config = ConfigDict(title="Approval")

    type: Literal[NodeType.APPROVAL]
    next: Targets | None = None
    depends_on: DependsOn | None = None
    message: Expression | None = Field(default=None, description="Question for those who decide; may be a template")
    params: dict[str, Any] | None = Field(default=None, description="Values shown to those who decide")
    approvers: list[PlainText] | None = None
    timeout_seconds: WaitSeconds | None = Field(default=None, description="Longest wait for a decision; default none")
    on_reject: Literal["fail", "continue"] | None = None


class WrittenWorkflowNode(WrittenNode):
    model_config = ConfigDict(
        title="Workflow",
        json_schema_extra={"allOf": [_ONE_RETRY, {"not": {"required": ["version", "workflow_version"]}}]},
    )

    type: Literal[NodeType.WORKFLOW]
    next: Targets | None = None
    depends_on: DependsOn | None = None
    workflow: WorkflowId = Field(description="The workflow to run as a child job")
    workflow_version: Annotated[int, Field(ge=1)] | None = Field(default=None, description="Default: the newest")
    version: Annotated[int, Field(ge=1)] | None = Field(default=None, description="The same as workflow_version")
    params: dict[str, Any] | None = Field(default=None, description="Inputs of the child job")
    timeout_seconds: WaitSeconds | None = None
    retry: WrittenRetry | None = None
    retries: Annotated[int, Field(ge=0, le=99)] | None = Field(
        default=None, description="Short for retry: n + 1 attempts"
    )


NODE_MODELS: dict[NodeType, type[WrittenNode]] = {
    NodeType.START: WrittenStart,
    NodeType.END: WrittenEnd,
    NodeType.TASK: WrittenTask,
    NodeType.CONDITIONAL: WrittenConditional,
    NodeType.FAN_OUT: WrittenFanOut,
    NodeType.FAN_IN: WrittenFanIn,
    NodeType.APPROVAL: WrittenApproval,
    NodeType.WORKFLOW: WrittenWorkflowNode,
}


class WrittenWorkflow(Written):
    """A workflow file without its nodes, which are checked one by one."""

    model_config = ConfigDict(
        title="rmhdag workflow", json_schema_extra={"dependentRequired": {"review": ["produces"]}}
    )

    workflow_id: WorkflowId = Field(description="The name that jobs are submitted by")
    name: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, description="A title for people; default the workflow_id"
    )
    version: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = Field(default=None, description="Default 1")
    description: Description | None = None
    produces: Literal["raster", "vector", "dataset"] | None = Field(
        default=None, description="The kind of asset that the workflow creates"
    )
    review: Literal["required"] | None = Field(
        default=None, description="What the workflow creates is served only after an approval; needs `produces`"
    )
    inputs: dict[ParameterName, WrittenInput] | None = None
    outputs: dict[ParameterName, Any] | None = Field(default=None, description="The job's result, by name")
    defaults: WrittenDefaults | None = None
