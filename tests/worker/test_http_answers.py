"""What a worker makes of answers that no healthy API gives: of a limit, of a proxy, of a server that is going away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rmhdag.models.leases import BeatAnswer
from rmhdag.worker.http_transport import PROBLEM, HttpPulse
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.transport import KeyRefused, Refused, Unreachable
from tests.client.answering import Prepared, answering, problem
from tests.worker.conftest import Desk, WorkerProcess, reached

PAGE = Prepared(502, b"<html>Bad Gateway</html>", {"Content-Type": "text/html"})


def by_api(status: int, **headers: str) -> Prepared:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return replace(problem(status), headers={"Content-Type": PROBLEM, **named})


def beat(answer: Prepared) -> BeatAnswer:
    with answering(answer) as server:
        pulse = HttpPulse(WorkerSettings(queues=("q",), api_url=server.url, api_key="key"))
        try:
            return pulse.beat("w", {}, draining=False)
        finally:
            pulse.disconnect()


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        (by_api(429, Retry_After="7"), 7),
        (by_api(503, Retry_After="2.5"), 2.5),
        (by_api(503, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"), 0),
        (by_api(503, Retry_After="-3"), 0),
        (by_api(503, Retry_After="soon"), 0),
        (by_api(500), 0),
        (by_api(408), 0),
        (PAGE, 0),
        (Prepared(404, b"no such host here", {"Content-Type": "text/plain", "Retry-After": "1"}), 1),
        (Prepared(None), 0),
    ],
)
def test_what_may_pass_is_tried_again_when_it_was_asked_for(answer: Prepared, seconds: float) -> None:
    with pytest.raises(Unreachable) as raised:
        beat(answer)
    assert raised.value.retry_seconds == seconds


def test_what_does_not_pass_is_not_tried_again() -> None:
    for status in (401, 403):
        with pytest.raises(KeyRefused, match="refuses the key: told some_code"):
            beat(by_api(status))
    with pytest.raises(Refused, match="told some_code"):
        beat(by_api(422))
    assert beat(by_api(404)) is BeatAnswer.GONE, "it was declared dead"


def test_a_worker_gets_past_limits_proxies_and_lost_answers(desk: Desk, tmp_path: Path) -> None:
    """From its first word on: registering, claiming, reporting."""
    bad = [by_api(429, Retry_After="0.2"), PAGE, Prepared(None), by_api(503, Retry_After="0.2")]
    with reached(desk, "http") as where, answering(*bad, forward_to=where["api_url"]) as front:
        worker = WorkerProcess(desk, tmp_path / "scratch", **{**where, "api_url": front.url})
        try:
            worker.wait_until_ready()
            for _ in range(2):
                front.answers += bad
                task_id = desk.add("echo", {"n": 1})
                assert desk.result(task_id).status == "completed"
                assert [kind for kind, _ in desk.inbox(task_id)].count("task_reported") == 1
            assert len(front.requests) > 3 * len(bad)
            assert worker.end() == 0
        finally:
            worker.close()
