"""Every event is told in a sentence, whatever its data looks like."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmhdag.models.api.event_messages import MOST_CHARACTERS, in_words, message
from rmhdag.models.events import EventType

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
WORDS = (
    "workflow_id first_node duration_seconds node_count failed_nodes by reason from to silent_seconds as queue "
    "waits_for worker_id taken result children_created aggregated_count error_kind will_retry retry_count snoozed "
    "next_attempt_at phase children_cancelled version jobs_handed_over job_id waiting window dependencies_met"
).split()


@pytest.mark.parametrize(
    ("event_type", "node_id", "data", "error", "sentence"),
    [
        ("job_created", None, {"workflow_id": "w"}, None, "The job was created from workflow w."),
        ("job_started", None, {"first_node": "a"}, None, "The job started with a."),
        (
            "job_completed",
            None,
            {"duration_seconds": 134.2, "node_count": 100001},
            None,
            "The job completed after 2m 14s with 100,001 nodes.",
        ),
        ("job_failed", None, {"failed_nodes": ["a", "b"]}, "boom", "The job failed because of a, b: boom."),
        (
            "job_reclaimed",
            None,
            {"from": "x" * 24 + "11111111", "to": "y" * 24 + "22222222", "silent_seconds": 11.0},
            None,
            "Orchestrator 22222222 took over from 11111111 after 11.0 s of silence.",
        ),
        ("node_ready", "b", {"dependencies_met": 2}, None, "b is ready: 2 dependencies are met."),
        ("node_dispatched", "b", {"queue": "light"}, None, "b waits for a worker in queue light."),
        ("node_running", "b", {"waits_for": "approval"}, None, "b waits for a decision."),
        ("node_running", "b", {"waits_for": "approval", "message": "Go on?"}, None, "b waits for a decision: Go on?"),
        ("node_completed", "c", {"taken": ["d"], "result": True}, None, "c decided with True for d."),
        ("node_completed", "split", {"children_created": 1000}, None, "All 1,000 children of split are done."),
        ("node_completed", "join", {"aggregated_count": 1}, None, "join gathered 1 result."),
        (
            "node_failed",
            "b",
            {"error_kind": "handler_error", "will_retry": True},
            "boom",
            "b failed (handler error), and will be tried again: boom.",
        ),
        ("node_retrying", "b", {"retry_count": 1, "snoozed": True}, None, "b asked to be called again."),
        (
            "node_retrying",
            "b",
            {"retry_count": 0, "snoozed": True, "reason": "worker_stopping", "next_attempt_at": "2026-01-01T00:00:00"},
            None,
            "b was given back: its worker stopped before it had finished; another worker continues.",
        ),
        (
            "node_skipped",
            "b",
            {"reason": "conditional_branch_not_taken"},
            None,
            "b was skipped: its branch was not taken.",
        ),
        ("from_tomorrow", "b", {}, None, "From tomorrow."),
    ],
)
def test_events_in_words(
    event_type: str, node_id: str | None, data: dict[str, Any], error: str | None, sentence: str
) -> None:
    assert message(event_type, node_id, data, error) == sentence


@given(
    st.sampled_from(list(EventType)),
    st.none() | st.text(max_size=20),
    st.dictionaries(st.sampled_from(WORDS), JSON),
    st.none() | st.text(max_size=500),
)
def test_whatever_the_data_is_there_is_one_line(
    event_type: EventType, node_id: str | None, data: dict[str, Any], error: str | None
) -> None:
    told = message(event_type, node_id, data, error)
    assert told.strip() == told
    assert 3 < len(told) <= MOST_CHARACTERS
    assert "\n" not in told


def test_every_type_of_event_has_its_own_sentence() -> None:
    bare = {event_type: message(event_type, "n", {}) for event_type in EventType}
    assert len(set(bare.values())) == len(EventType)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0, "0 ms"), (0.85, "850 ms"), (12.34, "12.3 s"), (134, "2m 14s"), (11100, "3h 5m")]
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert in_words(seconds) == words
