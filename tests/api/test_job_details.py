"""A job looked at closely: children in columns, lines of logs by number, the definition it runs, the last runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from rmhdag.models.ids import task_id_of
from rmhdag.models.scopes import Scope
from rmhdag.models.tasks import TaskLog
from rmhdag.views.log_lines import levels_of
from tests.api.serving import Served
from tests.engine.definitions import fan, task, workflow
from tests.orchestrator.platform import Platform
from tests.store.rows import insert_rows

MOST_BYTES = 300_000


def write_log(platform: Platform, job_id: str, node_id: str, at: datetime, *texts: str) -> None:
    task_id = task_id_of(job_id, node_id, 1)
    rows = [
        TaskLog(
            task_id=task_id,
            lease_epoch=1,
            chunk_index=index,
            created_at=at + timedelta(seconds=index),
            job_id=job_id,
            node_id=node_id,
            line_count=text.count("\n") + (not text.endswith("\n")),
            content=text,
        )
        for index, text in enumerate(texts)
    ]
    insert_rows(platform.conn, "dagapp", rows)


def numbered(answer: httpx.Response) -> list[tuple[int, str]]:
    pieces = answer.json()["pieces"]
    return [pair for piece in pieces for pair in zip(piece["numbers"], piece["lines"], strict=True)]


def test_ten_thousand_children_fit_into_one_small_answer(api: Served, platform: Platform) -> None:
    client = api.client(Scope.READ)
    job_id = platform.submit(fan(), {"items": [f"tile-{number:05}" for number in range(10_000)]})
    seat = platform.seat()
    seat.work()
    claimed = platform.claim(3)
    platform.succeed(claimed[0])
    platform.fail(claimed[1])
    seat.work()
    answer = client.get(f"/api/v1/jobs/{job_id}/nodes/split/children")
    body = answer.json()
    assert len(answer.content) < MOST_BYTES
    assert body["total"] == len(body["statuses"]) == len(body["attempts"]) == 10_000
    by_index = {claim.node_id: int(claim.node_id.rpartition("__")[2]) for claim in claimed}
    statuses = [body["legend"][int(body["statuses"][by_index[claim.node_id]])] for claim in claimed[:2]]
    assert statuses == ["completed", "failed"]
    assert body["keys"] is None
    page = client.get(f"/api/v1/jobs/{job_id}/nodes/split/children", params={"first": 9_990, "limit": 5, "keys": True})
    assert (page.json()["next_first"], len(page.json()["keys"])) == (9_995, 5)
    other = client.get(f"/api/v1/jobs/{job_id}/nodes/join/children")
    assert (other.status_code, other.json()["code"]) == (422, "not_a_fan_out")


def test_lines_are_found_by_number_level_and_text(api: Served, platform: Platform) -> None:
    client = api.client(Scope.READ)
    job_id = platform.submit(workflow(first=task("second"), second=task()))
    platform.seat().work()
    now = datetime.now(UTC) - timedelta(hours=1)
    failure = (
        "12:00:01.000 ERROR cannot open\nTraceback (most recent call last):\n  File x\nValueError: no <b>band</b>\n"
    )
    write_log(platform, job_id, "first", now, "12:00:00.000 INFO begin\nplain\u2028text\n", failure)
    write_log(platform, job_id, "second", now + timedelta(seconds=0.5), *["line\n" * 1000] * 3, "the end")

    def lines(**params: str | int) -> httpx.Response:
        return client.get(f"/api/v1/jobs/{job_id}/logs/lines", params=params)

    whole = lines(limit=5)
    assert whole.json()["total"] == 2 + 4 + 3000 + 1
    assert numbered(whole)[:3] == [(0, "12:00:00.000 INFO begin"), (1, "plain\u2028text"), (2, "line")]
    assert numbered(lines(first=-1)) == [(3006, "the end")]
    middle = lines(first=2004, limit=3)
    assert [number for number, _ in numbered(middle)] == [2004, 2005, 2006]
    errors = lines(level="error")
    assert (errors.json()["total"], errors.json()["pieces"][0]["levels"]) == (4, "eeee")
    assert numbered(errors)[-1] == (1005, "ValueError: no <b>band</b>")
    own = lines(node_id="first", first=-2)
    assert [line for _, line in numbered(own)] == ["  File x", "ValueError: no <b>band</b>"]
    found = client.get(f"/api/v1/jobs/{job_id}/logs/matches", params={"text": "BAND"}).json()
    assert (found["total"], found["places"], found["is_complete"]) == (1, [1005], True)
    among = client.get(f"/api/v1/jobs/{job_id}/logs/matches", params={"text": "band", "level": "error"}).json()
    assert among["places"] == [3]
    write_log(platform, job_id, "late", now + timedelta(minutes=1), "later\n")
    assert lines(first=-1).json()["total"] == 3008
    assert lines(node_id="nobody").status_code == 404


@pytest.mark.parametrize(
    ("lines", "letters"),
    [
        (["DEBUG a", "  goes on", "12:00:00 WARNING b", "c"], "ddwi"),
        (["x" * 80 + " ERROR"], "i"),
        (["osgeo.RuntimeError: no such file", "  at 3"], "ee"),
    ],
)
def test_the_level_of_a_line(lines: list[str], letters: str) -> None:
    assert levels_of(lines) == letters


def test_a_job_shows_the_definition_that_it_runs_and_the_newest(api: Served, platform: Platform) -> None:
    client = api.client(Scope.READ)
    first = workflow(one=task())
    job_id = platform.submit(first)
    same = client.get(f"/api/v1/jobs/{job_id}/definition").json()
    assert (same["version"], same["newest_version"], same["newest_definition"]) == (1, 1, None)
    platform.register(workflow(one=task("two"), two=task()).model_copy(update={"version": 2}))
    changed = client.get(f"/api/v1/jobs/{job_id}/definition").json()
    assert set(changed["definition"]["nodes"]) & {"one", "two"} == {"one"}
    assert (changed["newest_version"], "two" in changed["newest_definition"]["nodes"]) == (2, True)


def test_the_last_runs_of_workflows(api: Served, platform: Platform) -> None:
    definition = workflow(one=task())
    jobs = [platform.submit(definition) for _ in range(3)]
    params: dict[str, Any] = {"workflow_id": [definition.workflow_id, "unheard-of"], "last": 2}
    runs = api.client(Scope.READ).get("/api/v1/metrics/runs", params=params).json()["runs"]
    assert [run["job_id"] for run in runs[definition.workflow_id]] == jobs[1:]
    assert runs["unheard-of"] == []
