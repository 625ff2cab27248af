"""Workflows with large values in every place where a value may stand; sizes follow from x, so the results are known."""

from __future__ import annotations

from typing import Any

from rmhdag.lab.chaos.workflows import Kind, small_kinds, workflow
from rmhdag.models.states import JobStatus
from rmhdag.workflow.definition import WorkflowDefinition

# Above 64 KB a value is stored apart: just below, just above, and far above.
OUTPUT_CHARACTERS = (65_000, 65_500, 65_536, 66_000, 300_000, 2_500_000)
MEMBERS = 20_000
USES = 8
WIDTH = 20
FILE_BYTES = 12
_TEXT = {"text": {"type": "string", "required": True}}
_CANCELLED = frozenset({JobStatus.CANCELLED})


def _measure(*values: str, **more: Any) -> dict[str, Any]:
    return {"handler": "chaos.measure", "params": {"values": list(values)}, **more}


def _size_of(node: str) -> dict[str, Any]:
    return {"size": f"{{{{ nodes.{node}.output.size }}}}"}


def _input() -> WorkflowDefinition:
    nodes = {"first": _measure("{{ inputs.text }}", next="second"), "second": _measure("{{ inputs.text }}")}
    return workflow("chaos_large_input", nodes, _size_of("second"), _TEXT)


def input_characters(x: int) -> int:
    """0.5 to 3 MB."""
    return 500_000 + 2_500 * x


def _output() -> WorkflowDefinition:
    nodes = {
        "make": {"handler": "chaos.make", "params": {"characters": "{{ inputs.characters }}"}, "next": "take"},
        "take": _measure("{{ nodes.make.output }}"),
    }
    return workflow("chaos_large_output", nodes, _size_of("take"), {"characters": {"type": "integer"}})


def output_characters(x: int) -> int:
    return OUTPUT_CHARACTERS[x % len(OUTPUT_CHARACTERS)]


def _list() -> WorkflowDefinition:
    """One list, referred to many times by one task and by many tasks."""
    takers = {f"take{number}": _measure("{{ inputs['members'] }}", depends_on=["begin"]) for number in range(USES)}
    nodes = {
        "begin": _measure("{{ inputs['members'] }}"),
        **takers,
        "all": _measure(*["{{ inputs['members'] }}"] * USES, depends_on=list(takers)),
    }
    return workflow("chaos_large_list", nodes, _size_of("all"), {"members": {"type": "array"}})


def _fan_out() -> WorkflowDefinition:
    nodes = {
        "split": {
            "type": "fan_out",
            "source": list(range(WIDTH)),
            "task": _measure("{{ inputs.text }}", "{{ item }}"),
            "next": "join",
        },
        "join": {"type": "fan_in", "aggregation": "sum", "field": "size"},
    }
    return workflow("chaos_large_fan_out", nodes, {"total": "{{ nodes.join.output.total }}"}, _TEXT)


def fan_out_characters(x: int) -> int:
    return 50_000 + 200 * x


def _collected() -> WorkflowDefinition:
    """Outputs of children, each of which is stored apart, and all of them in one list."""
    nodes = {
        "split": {
            "type": "fan_out",
            "source": list(range(WIDTH)),
            "task": {"handler": "chaos.make", "params": {"characters": 70_000}},
            "next": "join",
        },
        "join": {"type": "fan_in", "aggregation": "collect", "next": "take"},
        "take": _measure("{{ nodes.join.output.results }}"),
    }
    return workflow("chaos_large_collected", nodes, _size_of("take"))


def _parent(workflow_id: str, uses: int) -> WorkflowDefinition:
    run = {
        "type": "workflow",
        "workflow": "chaos_child",
        "params": {"x": "{{ inputs.x }}", "texts": ["{{ inputs.text }}"] * uses},
    }
    return workflow(workflow_id, {"run": run}, _size_of("run"), _TEXT)


def _child() -> WorkflowDefinition:
    nodes = {"only": _measure("{{ inputs.texts }}")}
    return workflow("chaos_child", nodes, _size_of("only"), {"texts": {"type": "array"}})


def _files(workflow_id: str, media_type: str) -> WorkflowDefinition:
    """Outputs with the keys of a reference, alone and as children of a fan-in."""
    describe = {"handler": "chaos.describe_file", "params": {"media_type": media_type, "size_bytes": FILE_BYTES}}
    nodes = {
        "one": {**describe, "next": "split"},
        "split": {"type": "fan_out", "source": list(range(5)), "task": describe, "next": "join"},
        "join": {"type": "fan_in", "aggregation": "merge"},
    }
    outputs = {"one": "{{ nodes.one.output.size_bytes }}", "many": "{{ nodes.join.output.result.size_bytes }}"}
    return workflow(workflow_id, nodes, outputs)


def _text(characters: int) -> dict[str, Any]:
    return {"text": "x" * characters}


def large_kinds() -> dict[str, Kind]:
    files = {"one": FILE_BYTES, "many": FILE_BYTES}
    edges = [
        Kind(
            _input(),
            2,
            result=lambda x: {"size": input_characters(x)},
            inputs=lambda x: _text(input_characters(x)),
            burst=4,
        ),
        Kind(
            _output(),
            2,
            result=lambda x: {"size": output_characters(x)},
            inputs=lambda x: {"characters": output_characters(x)},
        ),
        Kind(
            _list(),
            1,
            result=lambda x: {"size": USES * MEMBERS},
            inputs=lambda x: {"members": list(range(x, x + MEMBERS))},
        ),
        Kind(
            _fan_out(),
            1,
            result=lambda x: {"total": WIDTH * (fan_out_characters(x) + 1)},
            inputs=lambda x: _text(fan_out_characters(x)),
        ),
        Kind(_collected(), 1, result=lambda x: {"size": WIDTH}),
        Kind(
            _parent("chaos_parent", 1),
            1,
            result=lambda x: {"size": 1},
            inputs=lambda x: _text(fan_out_characters(x)),
        ),
        # 9 MB for a child: more than it may be given, so the parent fails and says why.
        Kind(
            _parent("chaos_parent_too_large", 3),
            1,
            status=JobStatus.FAILED,
            inputs=lambda x: _text(3_000_000),
            also=frozenset({JobStatus.COMPLETED}),
        ),
        Kind(_child(), 0, also=_CANCELLED),
        Kind(_files("chaos_files", "image/tiff"), 1, result=lambda x: files),
        Kind(_files("chaos_json_files", "application/json"), 1, result=lambda x: files),
    ]
    return {kind.definition.workflow_id: kind for kind in edges}


def all_kinds() -> dict[str, Kind]:
    return {**small_kinds(), **large_kinds()}
