"""Random workflows: every kind of node in random shapes, written as the definitions that the loader would make."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

from rmhdag.engine.plan import Plan
from rmhdag.workflow.definition import WorkflowDefinition

QUEUES = ("light", "heavy")
RECURSIVE = "recursive"


def random_workflow(rng: Random, workflow_id: str) -> Plan:
    """With chunks so small that expanding and cancelling take several inputs."""
    definition = WorkflowDefinition.model_validate(_Shape(rng).build(workflow_id))
    return Plan(definition, expansion_chunk=rng.choice((2, 7, 1_000)), cancel_chunk=rng.choice((3, 10, 5_000)))


@cache
def child_plans() -> dict[str, Plan]:
    """The workflows that `workflow` nodes run: small ones, one with a child of its own, and one that runs itself."""
    retry = {"max_attempts": 2, "backoff": "none", "initial_delay_seconds": 1}
    spec = {"handler": "work", "queue": "light", "timeout_seconds": 5, "retry": retry}
    items = {"type": "fan_out", "source": "{{ inputs['items'] }}", "task": spec, "max_parallel": 2}
    again = {"type": "workflow", "workflow": RECURSIVE, "params": {"items": []}}
    shapes: dict[str, dict[str, Any]] = {
        "pair": {"first": {"task": spec, "next": ["second"]}, "second": {"task": spec}},
        "many": {"split": items, "join": {"type": "fan_in", "source_node": "split", "aggregation": "collect"}},
        "outer": {"inner": {"type": "workflow", "workflow": "pair", "params": {}, "timeout_seconds": 30}},
        RECURSIVE: {"again": again},
    }
    plans = {}
    for workflow_id, nodes in shapes.items():
        for node in nodes.values():
            node.setdefault("type", "task")
        definition = {"workflow_id": workflow_id, "name": workflow_id, "nodes": nodes}
        plans[workflow_id] = Plan(WorkflowDefinition.model_validate(definition), expansion_chunk=2, cancel_chunk=2)
    return plans


class _Shape:
    """One definition being drawn, node by node; a node depends only on nodes before it."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.nodes: dict[str, dict[str, Any]] = {}
        self.certain: list[str] = []  # nodes with an output that complete in every job that completes
        self.tasks: list[str] = []

    def build(self, workflow_id: str) -> dict[str, Any]:
        rng = self.rng
        if rng.random() < 0.3:
            self.nodes["START"] = {"type": "start"}
        for number in range(rng.randint(1, 8)):
            makers = (self._task, self._conditional, self._fan_out, self._approval, self._workflow)
            make = rng.choices(makers, (10, 3, 4, 1, 2))[0]
            make(f"n{number}")
        if rng.random() < 0.2:
            sinks = [node_id for node_id in self.nodes if self.nodes[node_id]["type"] != "conditional"]
            self.nodes["END"] = {"type": "end", "depends_on": {"all_of": rng.sample(sinks, min(2, len(sinks)))}}
        definition: dict[str, Any] = {"workflow_id": workflow_id, "name": workflow_id, "nodes": self.nodes}
        if self.certain and rng.random() < 0.3:
            definition["outputs"] = {"last": f"{{{{ nodes.{self.certain[-1]}.output }}}}"}
        return definition

    def _add(self, node_id: str, node: dict[str, Any], *, has_output: bool = True) -> None:
        """Join the node to some of those before it."""
        rng = self.rng
        earlier = [name for name in self.nodes if name != node.get("source_node")]
        count = min(len(earlier), rng.choice((0, 1, 1, 1, 2, 3)))
        chosen = rng.sample(earlier, count)
        groups: dict[str, list[str]] = {"all_of": [], "any_of": []}
        is_certain = True
        group = "any_of" if count > 1 and rng.random() < 0.35 else "all_of"
        for source in chosen:
            before = self.nodes[source]
            if before["type"] == "conditional" and rng.random() < 0.9:
                branch = rng.choice(before["branches"])
                branch["next"] = [*branch["next"], node_id]
                is_certain = False
                if group == "any_of":
                    groups[group].append(source)
            elif rng.random() < 0.5 or group == "any_of":
                groups[group].append(source)
            else:
                before["next"] = [*before.get("next", []), node_id]
            is_certain = is_certain and (source in self.certain or before["type"] in ("start", "fan_out"))
        node["depends_on"] = groups
        self.nodes[node_id] = node
        if is_certain and group == "all_of" and has_output:
            self.certain.append(node_id)

    def _task_spec(self, params: dict[str, Any]) -> dict[str, Any]:
        rng = self.rng
        spec: dict[str, Any] = {
            "handler": "work",
            "queue": rng.choice(QUEUES),
            "params": params,
            "timeout_seconds": rng.choice((2, 5, 10)),
            "retry": {
                "max_attempts": rng.choice((1, 2, 3, 4)),
                "backoff": rng.choice(("none", "linear", "exponential")),
                "initial_delay_seconds": rng.choice((0, 0.5, 2)),
                "max_delay_seconds": 8,
                "jitter": 0.5,
            },
        }
        if rng.random() < 0.15:
            spec["start_timeout_seconds"] = rng.choice((3, 10))
        return spec

    def _params(self) -> dict[str, Any]:
        """What earlier tasks made, so that it shows in the queue row whose output was seen."""
        sources = self.rng.sample(self.tasks, min(len(self.tasks), self.rng.choice((0, 1, 2))))
        params = {name: f"{{{{ nodes.{name}.output.by | default('none') }}}}" for name in sources}
        if sources and self.rng.random() < 0.2:
            params["status"] = f"{{{{ nodes.{sources[0]}.status }}}}"
        return params

    def _task(self, node_id: str) -> None:
        self._add(node_id, {"type": "task", "task": self._task_spec(self._params())})
        self.tasks.append(node_id)

    def _conditional(self, node_id: str) -> None:
        rng = self.rng
        if self.certain and rng.random() < 0.3:
            flag = f"nodes.{rng.choice(self.certain)}.output.flag | default(false)"
            branches = [{"condition": flag, "next": []}, {"default": True, "next": []}]
            node = {"type": "conditional", "branches": branches}
        else:
            limits = sorted(rng.sample(range(100), rng.choice((1, 2))))
            branches = [{"condition": f"< {limit}", "next": []} for limit in limits]
            node = {
                "type": "conditional",
                "subject": "inputs.k",
                "branches": [*branches, {"default": True, "next": []}],
            }
        self._add(node_id, node, has_output=False)

    def _fan_out(self, node_id: str) -> None:
        rng = self.rng
        certain_tasks = [name for name in self.certain if name in self.tasks]
        kind = rng.choice(("input", "input", "literal", "task"))
        source: Any = "{{ inputs['items'] }}"
        if kind == "literal":
            source = [{"key": f"k{index}", "n": index} for index in range(rng.choice((0, 1, 2, 9)))]
        elif kind == "task" and certain_tasks:
            source = f"{{{{ nodes.{rng.choice(certain_tasks)}.output['items'] }}}}"
        params = {"n": "{{ item.n }}", "index": "{{ index }}", "total": "{{ fan_out.total }}"}
        if rng.random() < 0.1:
            params["odd"] = "{{ item.odd }}"  # some items lack it: those children are born failed
        node = {"type": "fan_out", "source": source, "task": self._task_spec(params)}
        if rng.random() < 0.4:
            node["max_parallel"] = rng.choice((1, 2, 5))
        self._add(node_id, node, has_output=False)
        if rng.random() < 0.85:
            self._fan_in(f"{node_id}_in", node_id)

    def _fan_in(self, node_id: str, fan_out_id: str) -> None:
        rng = self.rng
        mode = rng.choice(("collect", "concat", "sum", "first", "last", "merge"))
        node: dict[str, Any] = {"type": "fan_in", "source_node": fan_out_id, "aggregation": mode}
        if mode in ("sum", "concat") and rng.random() < 0.7:
            node["field"] = {"sum": "n", "concat": "items"}[mode] if rng.random() < 0.95 else "nothing"
        if rng.random() < 0.6:
            node["tolerate"] = rng.choice(({"count": 1}, {"count": 5}, {"percent": 30}, {"percent": 100}))
        self._add(node_id, node)

    def _approval(self, node_id: str) -> None:
        node: dict[str, Any] = {"type": "approval", "on_reject": self.rng.choice(("fail", "continue"))}
        if self.rng.random() < 0.4:
            node["timeout_seconds"] = 15
        self._add(node_id, node)

    def _workflow(self, node_id: str) -> None:
        rng = self.rng
        child = rng.choices(("pair", "many", "outer", RECURSIVE), (5, 4, 3, 1))[0]
        node: dict[str, Any] = {
            "type": "workflow",
            "workflow": child,
            "params": {"items": [{"n": index} for index in range(rng.choice((0, 2, 5)))]},
            "retry": {"max_attempts": rng.choice((1, 2)), "backoff": "none", "initial_delay_seconds": 1},
        }
        if rng.random() < 0.4:
            node["timeout_seconds"] = 20
        self._add(node_id, node)
