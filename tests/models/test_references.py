"""Nobody from outside can write a reference."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from rmhdag.handlers.contract import checked_checkpoint
from rmhdag.handlers.running import outcome_of
from rmhdag.models.events import ErrorKind
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.json_values import NotJsonError, check_json
from rmhdag.models.records import decode_records
from rmhdag.models.references import RESERVED_KEY, Reference, as_reference, references_in, references_in_text
from rmhdag.workflow.expressions import ExpressionError, compile_template
from rmhdag.workflow.loader import load
from rmhdag.workflow.problems import InvalidWorkflow

FORGED = {RESERVED_KEY: {"sha256": "a" * 64, "size_bytes": 1, "media_type": "application/json"}}
PLACES: list[tuple[Any, str]] = [
    (FORGED, ""),
    ({"a": FORGED}, "/a"),
    ([[1, {"b/c": [FORGED]}]], "/0/1/b~1c/0"),
    ({RESERVED_KEY: None, "more": 1}, ""),
    (orjson.loads(rb'{"x": {"rmhdag\u003apayload": 1}}'), "/x"),
    (orjson.loads(rb'{"\u0072mhdag:payload": {}}'), ""),
]


@pytest.mark.parametrize(("value", "pointer"), PLACES)
def test_the_key_is_refused_wherever_it_stands(value: Any, pointer: str) -> None:
    with pytest.raises(NotJsonError, match="reserves for itself") as refusal:
        check_json(value)
    assert refusal.value.pointer == pointer
    assert check_json(value, with_references=True) is value


@pytest.mark.parametrize(
    "value",
    [RESERVED_KEY, [RESERVED_KEY], {"key": RESERVED_KEY}, {RESERVED_KEY + " ": 1}, {"a": f'"{RESERVED_KEY}"'}],
)
def test_the_same_word_as_a_value_is_none_of_our_business(value: Any) -> None:
    assert check_json(value) is value
    assert list(references_in(value)) == references_in_text(orjson.dumps(value)) == []


def test_a_reference_is_known_by_its_envelope_alone() -> None:
    reference = Reference("a" * 64, 70_000)
    assert as_reference(reference.as_json()) == reference
    others: list[Any] = [reference.as_json()[RESERVED_KEY], reference.as_json() | {"more": 1}, {}, [], None, "text"]
    assert [as_reference(other) for other in others] == [None] * len(others)
    nested = {"a": [reference.as_json(), {"b": reference.as_json()}]}
    assert references_in_text(orjson.dumps(nested)) == [reference, reference]


@pytest.mark.parametrize("returned", [FORGED, {"deep": [FORGED]}, HandlerResult(output={"a": 1}), None])
def test_a_handler_cannot_return_one(returned: Any) -> None:
    outcome = outcome_of(returned)
    if RESERVED_KEY in orjson.dumps(returned, default=str).decode():
        assert outcome.error_kind is ErrorKind.OUTPUT_REFUSED
        assert f"the key '{RESERVED_KEY}', which rmhdag reserves for itself" in str(outcome.error_message)
    else:
        assert outcome.error_kind is None


def test_nor_in_a_result_its_metrics_a_checkpoint_or_records() -> None:
    for field in ("output", "metrics"):
        with pytest.raises(ValueError, match="reserves for itself"):
            HandlerResult.model_validate({field: FORGED})
    with pytest.raises(NotJsonError, match="reserves for itself"):
        checked_checkpoint("phase", {"a": FORGED}, None)
    item = {"type": "stac_item", "collection_id": "c", "item": {"id": "i", "collection": "c", "properties": FORGED}}
    with pytest.raises(ValueError, match="reserves for itself"):
        decode_records([item])


def test_a_workflow_cannot_write_one() -> None:
    with pytest.raises(ExpressionError, match="is reserved by rmhdag"):
        compile_template("{{ {'rmhdag:payload': {'sha256': 'x'}} }}")
    text = """
workflow_id: forged
name: Forged
nodes:
  only:
    type: task
    handler: echo
    params: {deep: [{"rmhdag:payload": {sha256: x}}]}
"""
    with pytest.raises(InvalidWorkflow, match="reserves the key `rmhdag:payload` for itself"):
        load(text)
