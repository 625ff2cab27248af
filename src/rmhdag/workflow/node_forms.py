"""Properties of each type of node beyond its model: which parts contain templates, and the names in its output.

Only types with such properties are listed. Rules between several parts of a node are in `node_rules`.
"""

from __future__ import annotations

from typing import NamedTuple

from rmhdag.models.states import NodeType


class NodeForm(NamedTuple):
    """`plain` are the parts that the definition copies as written; `templates` those, besides `params`, that are
    rendered when the node begins. `takes_secrets`: secret inputs may be in `params`. `outputs` are the names in its
    output, if they are always the same."""

    plain: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    takes_secrets: bool = False
    outputs: tuple[str, ...] = ()


FORMS = {
    NodeType.TASK: NodeForm(takes_secrets=True),
    NodeType.CONDITIONAL: NodeForm(outputs=("condition_result", "taken")),
    NodeType.FAN_OUT: NodeForm(
        plain=("source", "child_node", "max_parallel", "item_key"), outputs=("dynamic_nodes", "total")
    ),
    NodeType.FAN_IN: NodeForm(plain=("aggregation", "field", "tolerate")),
    NodeType.APPROVAL: NodeForm(
        plain=("message", "params", "approvers", "timeout_seconds", "on_reject"),
        templates=("message",),
        outputs=("decision", "decided_by", "reason"),
    ),
    NodeType.WORKFLOW: NodeForm(plain=("workflow", "params", "timeout_seconds"), takes_secrets=True),
}
NOTHING = NodeForm()


def form_of(node_type: NodeType | None) -> NodeForm:
    return NOTHING if node_type is None else FORMS.get(node_type, NOTHING)
