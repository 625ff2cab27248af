"""The edges of a definition, from every way of writing them."""

from typing import Any

from rmhdag.workflow.checker import Surroundings, find_problems
from rmhdag.workflow.edges import Edge, definition_edges, folded_edges
from rmhdag.workflow.loader import make_definition


def edges(nodes: dict[str, Any]) -> set[Edge]:
    checked, _ = find_problems({"workflow_id": "w", "defaults": {"queue": "q"}, "nodes": nodes}, Surroundings())
    assert checked is not None
    found = definition_edges(make_definition(checked).definition)
    assert found == folded_edges(checked.folded()["nodes"])
    assert len(found) == len(set(found))
    return set(found)


ECHO = {"handler": "echo"}


def test_next_and_all_of_are_the_same_edge() -> None:
    assert edges({"a": {**ECHO, "next": "b"}, "b": {**ECHO, "depends_on": ["a"]}}) == {Edge("a", "b", "all_of")}


def test_a_source_in_any_of_belongs_to_that_group_only() -> None:
    assert edges(
        {"a": {**ECHO, "next": "c"}, "b": ECHO, "c": {**ECHO, "depends_on": {"any_of": ["a"], "all_of": ["b"]}}}
    ) == {Edge("a", "c", "any_of"), Edge("b", "c", "all_of")}


def test_branches_keep_their_index() -> None:
    conditional = {
        "type": "conditional",
        "condition_field": "1",
        "branches": [{"condition": "< 1", "next": ["a", "b"]}, {"default": True, "next": "a"}],
    }
    assert edges({"c": conditional, "a": ECHO, "b": {**ECHO, "depends_on": "c"}}) == {
        Edge("c", "a", "all_of", 0),
        Edge("c", "b", "all_of", 0),
        Edge("c", "a", "all_of", 1),
    }


def test_a_plain_dependency_on_a_conditional_has_no_branch() -> None:
    conditional = {"type": "conditional", "condition": "1 > 2", "on_true": "a", "on_false": "END"}
    assert edges({"c": conditional, "a": ECHO, "b": {**ECHO, "depends_on": {"any_of": "c"}}}) == {
        Edge("c", "a", "all_of", 0),
        Edge("c", "b", "any_of"),
    }


def test_children_of_a_fan_out_have_no_edges_and_the_fan_in_waits_for_its_fan_out() -> None:
    assert edges(
        {
            "split": {"type": "fan_out", "source": [1], "child_node": "work"},
            "work": ECHO,
            "gather": {"type": "fan_in", "source_node": "work", "next": "END"},
            "END": {"type": "end"},
        }
    ) == {Edge("split", "gather", "all_of"), Edge("gather", "END", "all_of")}
