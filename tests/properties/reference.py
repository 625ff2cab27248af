"""The engine once more, slow and obvious: after every event look at every node again.

No counters, no edges kept, no aggregate: who may start is asked anew from the statuses of its predecessors.
"""

from __future__ import annotations

from rmhdag.workflow.definition import ConditionalNode, FanInNode, FanOutNode, TaskNode
from tests.properties.graphs import MAX_ATTEMPTS, Story

SETTLED = ("completed", "failed", "skipped", "cancelled")


class Reference:
    def __init__(self, story: Story) -> None:
        self.story = story
        self.nodes = story.definition.nodes
        self.status = dict.fromkeys(self.nodes, "pending")
        self.attempt: dict[str, int] = {}
        self.ending: str | None = None
        self.job = "running"
        self.rescan()

    # -- events ------------------------------------------------------------------------------------------------------

    def report(self, node_id: str, attempt: int, success: bool) -> None:
        if self.status.get(node_id) != "dispatched" or self.attempt[node_id] != attempt:
            return
        if success:
            self.status[node_id] = "completed"
        elif attempt < MAX_ATTEMPTS and self.ending is None:
            self.status[node_id] = "ready"
            self.attempt[node_id] = attempt + 1
        else:
            self.status[node_id] = "failed"
            if "__" not in node_id:
                self.end("failed")
        self.rescan()

    def withdraw(self, node_id: str) -> None:
        self.status[node_id] = "cancelled"
        self.rescan()

    def cancel(self) -> None:
        if self.job == "running" and self.ending is None:
            self.end("cancelled")
            self.rescan()

    def reduced(self, node_id: str) -> None:
        self.status[node_id] = "completed"
        self.rescan()

    # -- rules ---------------------------------------------------------------------------------------------------------

    def end(self, how: str) -> None:
        if self.ending is None:
            self.ending = how
            for node_id, status in self.status.items():
                if status == "pending" and how == "failed":
                    self.status[node_id] = "skipped"
                elif status in ("pending", "ready"):
                    self.status[node_id] = "cancelled"

    def rescan(self) -> None:
        changed = True
        while changed:
            changed = self.send_children()
            for node_id in self.nodes:
                changed = self.look_at(node_id) or changed
        if self.job == "running" and all(status in SETTLED for status in self.status.values()):
            self.job = self.ending or "completed"

    def look_at(self, node_id: str) -> bool:
        node, status = self.nodes[node_id], self.status[node_id]
        if isinstance(node, FanOutNode) and status == "running":
            return self.close_fan_out(node_id)
        if status != "pending" or self.ending is not None:
            return False
        all_of, any_of = self.edges_into(node_id)
        if (all_of and all(edge == "dead" for edge in all_of)) or (any_of and all(edge == "dead" for edge in any_of)):
            self.status[node_id] = "skipped"
            return True
        if "waiting" in all_of or (any_of and "live" not in any_of):
            return False
        self.begin(node_id)
        return True

    def edges_into(self, target: str) -> tuple[list[str], list[str]]:
        all_of: list[str] = []
        any_of: list[str] = []
        node = self.nodes[target]
        for source, before in self.nodes.items():
            branches = before.branches if isinstance(before, ConditionalNode) else ()
            leads_here = target in before.next or any(target in branch.next for branch in branches)
            if not leads_here:
                continue
            state = {"completed": "live", "skipped": "dead"}.get(self.status[source], "waiting")
            if state == "live" and isinstance(before, ConditionalNode):
                state = "live" if target in self.taken(source, before) else "dead"
            (any_of if source in node.depends_on.any_of else all_of).append(state)
        return all_of, any_of

    def taken(self, node_id: str, node: ConditionalNode) -> tuple[str, ...]:
        for branch in node.branches:
            if branch.condition is None or branch.condition == f"== {self.story.params[node_id]}":
                return branch.next
        raise AssertionError("there is always a default")

    def begin(self, node_id: str) -> None:
        node = self.nodes[node_id]
        if isinstance(node, TaskNode):
            self.status[node_id] = "dispatched"
            self.attempt[node_id] = 1
        elif isinstance(node, ConditionalNode):
            self.status[node_id] = "completed"
        elif isinstance(node, FanOutNode):
            self.status[node_id] = "running"
            for index in range(len(self.story.params[node_id])):
                self.status[f"{node_id}__{index}"] = "ready"
                self.attempt[f"{node_id}__{index}"] = 1
        elif isinstance(node, FanInNode):
            failed = [child for child in self.children(node.source_node) if self.status[child] == "failed"]
            if len(failed) > (node.tolerate.count or 0 if node.tolerate else 0):
                self.status[node_id] = "failed"
                self.end("failed")
            else:
                self.status[node_id] = "ready" if self.children(node.source_node) else "completed"

    def children(self, fan_out_id: str) -> list[str]:
        return [node_id for node_id in self.status if node_id.startswith(f"{fan_out_id}__")]

    def close_fan_out(self, node_id: str) -> bool:
        if not all(self.status[child] in SETTLED for child in self.children(node_id)):
            return False
        self.status[node_id] = "completed" if self.ending is None else "cancelled"
        return True

    def send_children(self) -> bool:
        """Send what is ready: static nodes whose retry is due, and children, lowest index first, retries before."""
        sent = False
        if self.ending is not None:
            return False
        for node_id, node in self.nodes.items():
            if isinstance(node, TaskNode) and self.status[node_id] == "ready":
                self.status[node_id] = "dispatched"
                sent = True
            if isinstance(node, FanOutNode):
                ready = [child for child in self.children(node_id) if self.status[child] == "ready"]
                ready.sort(key=lambda child: (-self.attempt[child], int(child.rpartition("__")[2])))
                for child in ready:
                    out = [other for other in self.children(node_id) if self.status[other] == "dispatched"]
                    if node.max_parallel is None or len(out) < node.max_parallel:
                        self.status[child] = "dispatched"
                        sent = True
        return sent
