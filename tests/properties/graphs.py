"""Random workflows and random fates for their tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from rmhdag.workflow.definition import (
    AnyNode,
    Branch,
    ConditionalNode,
    DependsOn,
    FanInNode,
    FanOutNode,
    RetryRule,
    TaskNode,
    TaskSpec,
    Tolerance,
    WorkflowDefinition,
)

MAX_ATTEMPTS = 2
SPEC = TaskSpec(
    handler="echo",
    queue="light",
    retry=RetryRule(max_attempts=MAX_ATTEMPTS, backoff="none", initial_delay_seconds=0, jitter=0),
)


@dataclass(frozen=True)
class Story:
    """A workflow, what its tasks will report, and in which order things happen."""

    definition: WorkflowDefinition
    params: dict[str, Any]
    fates: dict[str, tuple[bool, ...]]  # per node or child: does attempt n succeed? Missing: yes
    choices: tuple[int, ...]  # which of the possible things happens next

    def succeeds(self, node_id: str, attempt: int) -> bool:
        fate = self.fates.get(node_id, ())
        return attempt > len(fate) or fate[attempt - 1]


@st.composite
def stories(draw: st.DrawFn, *, failures: bool = True) -> Story:
    count = draw(st.integers(1, 9))
    names = [f"n{number}" for number in range(count)]
    nodes: dict[str, AnyNode] = {}
    params: dict[str, Any] = {}
    for position, name in enumerate(names):
        later = names[position + 1 :]
        kind = draw(st.sampled_from(["task", "task", "conditional", "fan"] if later else ["task", "fan"]))
        following = tuple(draw(st.lists(st.sampled_from(later), max_size=3, unique=True))) if later else ()
        if kind == "task":
            nodes[name] = TaskNode(task=SPEC, next=following)
        elif kind == "conditional":
            params[name] = draw(st.integers(0, 3))
            branches = [
                Branch(
                    condition=f"== {value}", next=tuple(draw(st.lists(st.sampled_from(later), max_size=2, unique=True)))
                )
                for value in range(draw(st.integers(0, 2)))
            ]
            branches.append(Branch(default=True, next=following))
            nodes[name] = ConditionalNode(subject=f"{{{{ inputs.{name} }}}}", branches=tuple(branches))
        else:
            params[name] = list(range(draw(st.integers(0, 4))))
            limit = draw(st.sampled_from([None, 1, 2]))
            nodes[name] = FanOutNode(
                source=f"{{{{ inputs.{name} }}}}", task=SPEC, max_parallel=limit, next=(f"{name}in", *following)
            )
            tolerate = draw(st.sampled_from([None, Tolerance(count=1)]))
            nodes[f"{name}in"] = FanInNode(source_node=name, tolerate=tolerate, next=following)
    nodes = {name: _with_any_of(draw, name, node, nodes) for name, node in nodes.items()}
    fates: dict[str, tuple[bool, ...]] = {}
    if failures:
        may_fail = [name for name, node in nodes.items() if isinstance(node, TaskNode)]
        may_fail += [
            f"{name}__{index}" for name, node in nodes.items() if isinstance(node, FanOutNode) for index in range(2)
        ]
        for name in draw(st.lists(st.sampled_from(may_fail), max_size=4, unique=True)) if may_fail else []:
            fates[name] = tuple(draw(st.lists(st.booleans(), min_size=1, max_size=MAX_ATTEMPTS)))
    choices = tuple(draw(st.lists(st.integers(0, 10_000), min_size=8, max_size=60)))
    definition = WorkflowDefinition(workflow_id="random", name="Random", nodes=nodes)
    return Story(definition, params, fates, choices)


def _with_any_of(draw: st.DrawFn, name: str, node: AnyNode, nodes: dict[str, AnyNode]) -> AnyNode:
    """Some joins are content with one of their sources."""
    sources = [other for other, before in nodes.items() if name in before.next]
    if isinstance(node, FanInNode) or not sources or not draw(st.booleans()):
        return node
    some = draw(st.lists(st.sampled_from(sources), unique=True))
    return node.model_copy(update={"depends_on": DependsOn(any_of=tuple(some))})
