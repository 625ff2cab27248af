"""Rules about a single node: mutually exclusive forms, handlers, queues, retries, tolerance."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from rmhdag.models.states import NodeType
from rmhdag.workflow.handler_rules import check_handler
from rmhdag.workflow.known_handlers import KnownHandlers
from rmhdag.workflow.problems import did_you_mean, shorten
from rmhdag.workflow.raw_graph import RawGraph
from rmhdag.workflow.report import Report
from rmhdag.workflow.source_map import Path

_QUEUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class NodeRules:
    def __init__(
        self,
        data: dict[str, Any],
        graph: RawGraph,
        handlers: KnownHandlers | None,
        queues: Collection[str] | None,
        report: Report,
        fallback_queue: str | None = None,
    ) -> None:
        defaults = data.get("defaults")
        self.defaults: dict[str, Any] = defaults if isinstance(defaults, dict) else {}
        self.graph = graph
        self.handlers = handlers
        self.queues = queues
        self.report = report
        self.fallback_queue = fallback_queue

    def check(self) -> None:
        self._check_retry(self.defaults, ("defaults",))
        self._check_queue_known(self.defaults.get("queue"), ("defaults", "queue"))
        for name, node in self.graph.nodes.items():
            path: Path = ("nodes", name)
            match self.graph.types[name]:
                case NodeType.CONDITIONAL:
                    self._check_conditional(node, path)
                case NodeType.FAN_OUT:
                    self._exclude(node, path, "task", "child_node")
                    self._require_one(node, path, "a fan_out node", "task", "child_node")
                    self._check_queue_known(node.get("queue"), (*path, "queue"))
                case NodeType.FAN_IN:
                    self._check_fan_in(node, path)
                case NodeType.WORKFLOW:
                    self._exclude(node, path, "workflow_version", "version")
                    self._check_retry(node, path)
                case _:
                    pass
        for node_name, task, path in self._tasks():
            self._check_task(node_name, task, path)

    def _tasks(self) -> Iterator[tuple[str, dict[str, Any], Path]]:
        """All tasks for workers."""
        for name, node in self.graph.nodes.items():
            if self.graph.types[name] is NodeType.TASK:
                yield name, node, ("nodes", name)
            elif self.graph.types[name] is NodeType.FAN_OUT and isinstance(node.get("task"), dict):
                yield name, node["task"], ("nodes", name, "task")

    def _check_task(self, node_name: str, task: dict[str, Any], path: Path) -> None:
        self._check_retry(task, path)
        self._check_queue_known(task.get("queue"), (*path, "queue"))
        handler = task.get("handler")
        if not isinstance(handler, str):
            return
        if self.handlers is not None and not check_handler(self.handlers, handler, task, path, self.report):
            return
        if self.queue_of(node_name, task) is None and not self._uses_own_queue(handler):
            self.report.add_key(
                path,
                "missing-queue",
                f"node `{shorten(node_name)}` has no queue: neither it, nor handler `{shorten(handler)}`, "
                "nor the workflow's defaults name one",
                "Add `queue` to the node, or to `defaults`; the setting DAG_WORKER_QUEUE is the last resort",
            )

    def queue_of(self, node_name: str, task: dict[str, Any]) -> str | None:
        """The queue of a task according to the file; None if its handler has its own."""
        fan_out = self.graph.nodes.get(self.graph.child_of.get(node_name, node_name), {})
        for named in (task.get("queue"), fan_out.get("queue")):
            if named is not None:
                return str(named)
        handler = task.get("handler")
        if isinstance(handler, str) and self._uses_own_queue(handler):
            return None
        default = self.defaults.get("queue")
        return self.fallback_queue if default is None else str(default)

    def _uses_own_queue(self, handler: str) -> bool:
        return self.handlers is not None and self.handlers.queue_of(handler) is not None

    def _check_queue_known(self, queue: Any, path: Path) -> None:
        if self.queues is not None and isinstance(queue, str) and _QUEUE.fullmatch(queue) and queue not in self.queues:
            self.report.add(
                path,
                "unknown-queue",
                f"there is no queue `{shorten(queue)}`",
                did_you_mean(
                    queue, self.queues, f"Start a worker that serves it first: `rmhdag worker --queue {queue}`"
                ),
            )

    def _check_conditional(self, node: dict[str, Any], path: Path) -> None:
        by_field = [field for field in ("condition_field", "branches") if field in node]
        by_condition = [field for field in ("condition", "on_true", "on_false") if field in node]
        if isinstance(node.get("branches"), dict):
            return  # its shape is reported, with the form to use
        if by_field and by_condition:
            self.report.add_key(
                (*path, by_condition[0]),
                "two-forms",
                f"`{by_condition[0]}` cannot be combined with `{by_field[0]}`",
                "Use either `condition_field` and `branches`, or `condition`, `on_true` and `on_false`",
            )
        elif by_field:
            for field in ("condition_field", "branches"):
                self._require_one(node, path, "this conditional node", field)
            if isinstance(node.get("branches"), list):
                self._check_branches(node["branches"], (*path, "branches"))
        elif by_condition:
            for field in ("condition", "on_true", "on_false"):
                self._require_one(node, path, "this conditional node", field)
        else:
            self._require_one(node, path, "this conditional node", "condition_field", "condition")

    def _check_branches(self, branches: list[Any], path: Path) -> None:
        defaults = [
            index for index, branch in enumerate(branches) if isinstance(branch, dict) and branch.get("default") is True
        ]
        for index, branch in enumerate(branches):
            if isinstance(branch, dict):
                self._exclude(branch, (*path, index), "condition", "default")
                self._require_one(branch, (*path, index), "this branch", "condition", "default")
        for index in defaults[1:]:
            self.report.add_key(
                (*path, index, "default"), "second-default", "there is already a default branch", "Keep one"
            )
        if not defaults and branches:
            self.report.add_key(
                path,
                "missing-default",
                "no branch is taken if none of the conditions holds",
                "Add a branch with `default: true`",
            )

    def _check_fan_in(self, node: dict[str, Any], path: Path) -> None:
        aggregation = node.get("aggregation", "collect")
        if "field" in node and aggregation not in ("sum", "concat"):
            self.report.add_key(
                (*path, "field"),
                "useless-field",
                f"`field` has no meaning with `aggregation: {shorten(str(aggregation))}`",
                "Remove it, or use `sum` or `concat`",
            )
        tolerate = node.get("tolerate")
        if isinstance(tolerate, dict):
            self._exclude(tolerate, (*path, "tolerate"), "count", "percent")
            self._require_one(tolerate, (*path, "tolerate"), "`tolerate`", "count", "percent")

    def _check_retry(self, owner: dict[str, Any], path: Path) -> None:
        self._exclude(owner, path, "retry", "retries")
        retry = owner.get("retry")
        if not isinstance(retry, dict):
            return
        initial, longest = retry.get("initial_delay_seconds", 5), retry.get("max_delay_seconds", 300)
        if isinstance(initial, (int, float)) and isinstance(longest, (int, float)) and initial > longest:
            self.report.add_key(
                (*path, "retry"),
                "contradiction",
                f"the first delay of {initial} s is longer than the longest of {longest} s",
                "Raise `max_delay_seconds`",
            )

    def _exclude(self, owner: dict[str, Any], path: Path, first: str, second: str) -> None:
        if first in owner and second in owner:
            later = max(first, second, key=lambda field: self.report.source_map.key_at((*path, field)))
            self.report.add_key(
                (*path, later), "two-forms", f"`{first}` and `{second}` cannot be used together", "Keep one of them"
            )

    def _require_one(self, owner: dict[str, Any], path: Path, what: str, *fields: str) -> None:
        if not any(field in owner for field in fields):
            named = " or ".join(f"`{field}`" for field in fields)
            self.report.add_key(path, "missing-field", f"{what} lacks {named}", f"Add {named}")
