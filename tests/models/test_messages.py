"""What travels and what handlers return: strict about values, forgiving about fields of a newer writer."""

from typing import Any

import pytest
from pydantic import ValidationError

from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.messages import SCHEMA_VERSION, JobQueueMessage, TaskMessage
from rmhdag.models.records import BlobRecord, StacItemRecord

TASK = {"task_id": "t1", "job_id": "j1", "node_id": "n1", "handler": "echo"}
SUBMISSION = {
    "message_id": "m1",
    "workflow_id": "hello_world",
    "submitted_by": "ddh",
    "submitted_at": "2026-02-12T10:00:00+00:00",
}
SHA = "0" * 64
ASSET = "a" * 32


def test_a_task_message_has_the_fields_of_the_contract() -> None:
    message = TaskMessage.model_validate(TASK | {"checkpoint": {"phase": "half", "data": [1]}})
    assert set(message.as_json()) == {
        "schema_version", "task_id", "job_id", "node_id", "handler", "params", "timeout_seconds", "retry_count",
        "checkpoint", "trace_parent", "priority",
    }  # fmt: skip
    assert TaskMessage.model_validate(message.as_json()) == message


def test_a_submission_has_the_fields_of_the_contract() -> None:
    message = JobQueueMessage.model_validate(SUBMISSION)
    assert set(message.as_json()) == {
        "schema_version", "message_id", "workflow_id", "namespace", "input_params", "correlation_id", "submitted_by",
        "callback_url", "idempotency_key", "priority", "submitted_at",
    }  # fmt: skip
    assert JobQueueMessage.model_validate_json(message.model_dump_json()) == message


@pytest.mark.parametrize(("model", "given"), [(TaskMessage, TASK), (JobQueueMessage, SUBMISSION)])
def test_unknown_fields_are_ignored_but_an_unknown_version_is_named(
    model: type[TaskMessage], given: dict[str, Any]
) -> None:
    assert model.model_validate(given | {"invented_later": 1}) == model.model_validate(given)
    with pytest.raises(ValidationError, match=f"schema_version 99, this code reads up to {SCHEMA_VERSION}"):
        model.model_validate(given | {"schema_version": 99})


@pytest.mark.parametrize(
    ("model", "given", "change"),
    [
        (TaskMessage, TASK, {"timeout_seconds": 0}),
        (TaskMessage, TASK, {"timeout_seconds": "60"}),
        (TaskMessage, TASK, {"priority": 11}),
        (TaskMessage, TASK, {"retry_count": -1}),
        (TaskMessage, TASK, {"params": {"x": float("nan")}}),
        (TaskMessage, TASK, {"params": [1]}),
        (TaskMessage, TASK, {"task_id": ""}),
        (TaskMessage, TASK, {"handler": "a\0b"}),
        (JobQueueMessage, SUBMISSION, {"submitted_by": None}),
        (JobQueueMessage, SUBMISSION, {"submitted_at": "2026-02-12T10:00:00"}),
        (JobQueueMessage, SUBMISSION, {"idempotency_key": "x" * 129}),
        (JobQueueMessage, SUBMISSION, {"callback_url": "x" * 513}),
        (JobQueueMessage, SUBMISSION, {"input_params": {"a": "\ud800"}}),
    ],
)
def test_bad_values_are_refused(model: type[TaskMessage], given: dict[str, Any], change: dict[str, Any]) -> None:
    model.model_validate(given)
    with pytest.raises(ValidationError) as caught:
        model.model_validate(given | change)
    assert caught.value.errors()[0]["loc"][0] == next(iter(change))


RECORDS: list[dict[str, Any]] = [
    {
        "type": "blob",
        "zone": "silver",
        "container": "c",
        "path": "a/b.tif",
        "size_bytes": 1,
        "sha256": SHA,
        "role": "data",
    },
    {"type": "stac_item", "collection_id": "c", "item": {"id": "i", "collection": "c"}},
    {"type": "stac_collection", "collection": {"id": "c"}},
    {"type": "lineage", "source_asset_id": ASSET, "source_revision": 2},
    {"type": "lineage", "source_url": "https://example.org/x.parquet"},
    {"type": "promotion", "asset_id": ASSET, "revision": 1, "target": "external", "url": "https://example.org/x"},
    {"type": "approval_request", "asset_id": ASSET, "revision": 1, "content_hash": SHA, "requested_by": "job"},
]


def test_records_are_typed_by_their_kind_and_come_back_as_they_went() -> None:
    result = HandlerResult.model_validate({"output": {"n": 1}, "records": RECORDS})
    assert isinstance(result.records[0], BlobRecord)
    assert isinstance(result.records[1], StacItemRecord)
    assert HandlerResult.model_validate_json(result.model_dump_json()) == result


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"success": False}, "without an error_message"),
        ({"success": False, "error_message": "x", "records": RECORDS[:1]}, "publishes nothing"),
        ({"error_message": "x"}, "success with an error_message"),
        ({"success": 1}, "valid boolean"),
        ({"output": {"x": float("inf")}}, "'/x'"),
        ({"metrics": {"x": "\0"}}, "'/x'"),
        ({"status": "done"}, "Extra inputs"),
        ({"records": [{"type": "sql"}]}, "'blob', 'table_claim', 'table', 'stac_item', 'stac_collection'"),
        ({"records": [RECORDS[0] | {"sha256": "x"}]}, "sha256"),
        ({"records": [RECORDS[0] | {"size_bytes": -1}]}, "size_bytes"),
        ({"records": [RECORDS[0] | {"zone": "lead"}]}, "'bronze', 'silver' or 'gold'"),
        ({"records": [RECORDS[1] | {"item": {"id": "i", "collection": "other"}}]}, "make them equal"),
        ({"records": [RECORDS[1] | {"item": {}}]}, "item/id is missing"),
        ({"records": [RECORDS[2] | {"collection": {"id": 3}}]}, "collection/id is missing"),
        ({"records": [RECORDS[3] | {"source_url": "https://example.org"}]}, "names one source"),
        ({"records": [{"type": "lineage", "source_asset_id": ASSET}]}, "give both"),
        ({"records": [RECORDS[5] | {"revision": 0}]}, "revision"),
    ],
)
def test_results_that_contradict_themselves_or_the_contract_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        HandlerResult.model_validate(change)
    assert message in str(caught.value)
