"""Live streams: what listeners get, in which order, and what they get when they come back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmhdag.models.scopes import Scope
from rmhdag.store import streams
from rmhdag.store.connection import Conn
from rmhdag.store.streams import Place
from tests.api.listening import (
    Listening,
    add_events,
    add_job,
    all_events,
    end_job,
    open_connection,
)
from tests.api.serving import Served
from tests.api.test_foundation import problem
from tests.store.waiting import wait_until

ALL = "/api/v1/events/stream"


@pytest.fixture
def conn(api: Served) -> Iterator[Conn]:
    with open_connection(api.dsn) as opened:
        yield opened


def test_a_job_is_followed_from_its_first_event_to_its_end(api: Served, conn: Conn) -> None:
    add_job(conn, "j1")
    add_events(conn, "j1", 1, 2, kind="node_ready", dependencies_met=["a"])
    with Listening(api.client(Scope.READ), "/api/v1/jobs/j1/stream") as listening:
        assert listening.reader.retry == 2000
        listening.wait_for(2)
        add_events(conn, "j1", 3, 2)
        listening.wait_for(4)
        end_job(conn, "j1", 5)
        heard = listening.wait_for_end()
    assert [(one.id, one.event) for one in heard] == [
        *((str(seq), "message") for seq in range(1, 6)),
        ("5", "end"),
    ]
    first = heard[0].data
    assert (first["job_id"], first["event_id"], first["event_type"]) == ("j1", 1, "node_ready")
    assert (first["status"], first["node_id"], first["data"]) == ("info", "n", {"dependencies_met": ["a"]})
    assert heard[-1].data == {"job_id": "j1", "status": "completed"}


def test_a_job_is_followed_from_where_somebody_was(api: Served, conn: Conn) -> None:
    add_job(conn, "j1")
    add_events(conn, "j1", 1, 2_500)
    end_job(conn, "j1", 2_501)
    client = api.client(Scope.READ)
    for path, last_id, first in [
        ("", None, 1),
        ("?after=2000", None, 2_001),
        ("?after=7", "2400", 2_401),
        ("", "2501", 2_502),
        ("", "9999", 2_502),
    ]:
        with Listening(client, f"/api/v1/jobs/j1/stream{path}", last_id=last_id) as listening:
            heard = listening.wait_for_end()
        assert [seq for _, seq in listening.reader.names] == list(range(first, 2_502))
        assert heard[-1].event == "end"


def test_all_jobs_of_a_namespace_are_followed_from_now_on(api: Served, conn: Conn) -> None:
    add_events(conn, "old", 1, 3)
    with (
        Listening(api.client(Scope.READ), ALL) as here,
        Listening(api.client(Scope.READ, namespace="north"), ALL) as north,
    ):
        add_events(conn, "j1", 1, 2)
        add_events(conn, "j2", 1, 1, namespace="north")
        add_events(conn, "j3", 1, 1)
        here.wait_for(3)
        north.wait_for(1)
    assert here.reader.names == [("j1", 1), ("j1", 2), ("j3", 1)]
    assert north.reader.names == [("j2", 1)]


def test_only_some_types_of_events_may_be_asked_for(api: Served, conn: Conn) -> None:
    with Listening(api.client(Scope.READ), f"{ALL}?event_types=job_failed&event_types=job_completed") as listening:
        add_events(conn, "j1", 1, 5)
        add_events(conn, "j1", 6, 1, kind="job_completed")
        listening.wait_for(1)
    assert listening.reader.names == [("j1", 6)]


def test_all_jobs_are_followed_since_a_moment(api: Served, conn: Conn) -> None:
    add_events(conn, "yesterday", 1, 3, at="now() - interval '1 hour'")
    add_events(conn, "recent", 1, 3, at="now() - interval '1 minute'")
    row = conn.execute("SELECT to_char(now() - interval '10 minutes', 'YYYY-MM-DD\"T\"HH24:MI:SSOF')").fetchone()
    assert row is not None
    with Listening(api.client(Scope.READ), f"{ALL}?since={row[0].replace('+', '%2B')}:00") as listening:
        add_events(conn, "new", 1, 1)
        listening.wait_for(4)
    assert listening.reader.names == [("recent", 1), ("recent", 2), ("recent", 3), ("new", 1)]


def test_a_transaction_that_commits_late_is_neither_missed_nor_overtaken(api: Served, conn: Conn) -> None:
    """The older transaction commits after the newer: by its number alone, its rows would already have been passed."""
    with open_connection(api.dsn) as late, Listening(api.client(Scope.READ), ALL) as listening:
        add_events(conn, "before", 1)
        listening.wait_for(1)
        late.execute("BEGIN")
        add_events(late, "late", 1, 2)
        add_events(conn, "early", 1, 2)
        # The reader has seen the newer transaction and keeps it back.
        seen = streams.read_all(conn, Place(0), streams.Wanted((), ("default",)))
        assert [row.job_id for row in seen.rows] == ["before"]
        late.execute("COMMIT")
        add_events(conn, "after", 1)
        listening.wait_for(6)
    assert listening.reader.names == [("before", 1), ("late", 1), ("late", 2), ("early", 1), ("early", 2), ("after", 1)]
    assert listening.reader.names == all_events(conn)


def test_a_job_does_not_wait_for_transactions_of_others(api: Served, conn: Conn) -> None:
    add_job(conn, "j1")
    with open_connection(api.dsn) as late, Listening(api.client(Scope.READ), "/api/v1/jobs/j1/stream") as listening:
        late.execute("BEGIN")
        add_events(late, "other", 1)
        add_events(conn, "j1", 1, 3)
        listening.wait_for(3)
        end_job(conn, "j1", 4)
        heard = listening.wait_for_end()
        late.execute("ROLLBACK")
    assert [one.id for one in heard] == ["1", "2", "3", "4", "4"]


def test_whoever_comes_back_continues_across_days(api: Served, conn: Conn) -> None:
    """Rows of three partitions, and of days that have none; transactions in another order than days."""
    client = api.client(Scope.READ)
    with Listening(client, ALL) as first:
        add_events(conn, "j1", 1, 3, at="now() + interval '1 day'")
        add_events(conn, "j2", 1, 3)
        first.wait_for(6)
    add_events(conn, "j3", 1, 3, at="now() + interval '2 days'")
    add_events(conn, "j1", 4, 3, at="now() - interval '40 days'")
    with Listening(client, ALL, last_id=first.reader.events[3].id) as second:
        add_events(conn, "j4", 1, 1)
        second.wait_for(9)
    assert first.reader.names + second.reader.names[2:] == all_events(conn)
    assert second.reader.names[:2] == [("j2", 2), ("j2", 3)]


def test_who_was_cut_off_before_the_first_event_has_a_place_to_come_back_to(api: Served, conn: Conn) -> None:
    client = api.client(Scope.READ)
    with Listening(client, ALL) as first:
        pass
    add_events(conn, "j1", 1, 3)
    with Listening(client, ALL, last_id=first.reader.last_id) as second:
        second.wait_for(3)
    assert second.reader.names == all_events(conn)


def test_a_backlog_of_many_pages_is_read_in_order(api: Served, conn: Conn) -> None:
    start = str(streams.now(conn))
    for number in range(35):
        add_events(conn, f"j{number % 7}", 1 + number * 100, 100)
    with Listening(api.client(Scope.READ), f"{ALL}?after={start}") as listening:
        listening.wait_for(3_500)
    assert listening.reader.names == all_events(conn)


@pytest.mark.parametrize(
    ("path", "header", "pointer"),
    [
        (ALL, "x", "/header/Last-Event-ID"),
        (ALL, "1.2", "/header/Last-Event-ID"),
        (ALL, "9" * 18 + ".1.j1", "/header/Last-Event-ID"),
        (f"{ALL}?after=1.1.a%20b", None, "/query/after"),
        (f"{ALL}?after={'9' * 150}.1.j", None, "/query/after"),
        ("/api/v1/jobs/j1/stream", "-1", "/header/Last-Event-ID"),
        ("/api/v1/jobs/j1/stream", "²", "/header/Last-Event-ID"),
        ("/api/v1/jobs/j1/stream", "9" * 19, "/header/Last-Event-ID"),
        ("/api/v1/jobs/j1/stream", "9" * 190, "/header/Last-Event-ID"),
    ],
)
def test_a_place_that_is_none_is_refused(api: Served, conn: Conn, path: str, header: str | None, pointer: str) -> None:
    add_job(conn, "j1")
    headers = [] if header is None else [(b"Last-Event-ID", header.encode("latin-1"))]
    body = problem(api.client(Scope.READ).get(path, headers=headers), 400, "unknown_place")
    assert [place["pointer"] for place in body["errors"]] == [pointer]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday",
        "since=1",
        "since=2026-01-01T00:00:00",
        "event_types=job_exploded",
        "after=1.1.%00",
        "before=1",
    ],
)
def test_what_cannot_be_understood_is_refused(api: Served, query: str) -> None:
    problem(api.client(Scope.READ).get(f"{ALL}?{query}"), 422, "invalid_request")


@pytest.mark.parametrize(
    ("moment", "heard"),
    [("0001-01-01T00:00:00Z", [("j0", 1), ("j1", 1)]), ("9999-12-31T23:59:59Z", [("j1", 1)])],
)
def test_any_moment_may_be_asked_for(api: Served, conn: Conn, moment: str, heard: list[tuple[str, int]]) -> None:
    add_events(conn, "j0", 1)
    with Listening(api.client(Scope.READ), f"{ALL}?since={moment}") as listening:
        add_events(conn, "j1", 1)
        listening.wait_for(len(heard))
    assert listening.reader.names == heard


@pytest.mark.parametrize("job_id", ["nothing", "theirs", "x" * 64])
def test_jobs_that_are_not_there_or_not_ours_answer_alike(api: Served, conn: Conn, job_id: str) -> None:
    add_job(conn, "theirs", namespace="north")
    body = problem(api.client(Scope.READ).get(f"/api/v1/jobs/{job_id}/stream"), 404, "not_found")
    assert body["detail"] == "there is no job with this id"


def test_streams_need_a_key_that_may_read(api: Served, conn: Conn) -> None:
    add_job(conn, "j1")
    for path in (ALL, "/api/v1/jobs/j1/stream"):
        problem(api.anonymous().get(path), 401, "no_key")
        problem(api.client(Scope.SUBMIT).get(path), 403, "scope_missing")


def test_the_newest_rows_are_read_by_their_index(conn: Conn) -> None:
    """Also before anybody has counted them, and though the statement sees all partitions."""
    add_events(conn, "j1", 1, 20_000)
    start = streams.now(conn)
    add_events(conn, "j2", 1, 10)
    with conn.transaction():
        conn.execute(streams.SQL["horizon"])
        given = {"jobs": [], "namespaces": ["default"], "event_types": None, "limit": 1_000, "horizon": 2**62}
        lines = conn.execute(b"EXPLAIN " + streams.SQL["read_all"], {**start._asdict(), **given}).fetchall()
    text = "\n".join(line for (line,) in lines)
    assert "Seq Scan" not in text, text
    assert "Bitmap" not in text, text
    assert "Incremental Sort" in text, text


def test_nobody_reads_while_nobody_listens(api: Served, conn: Conn) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = ANY(%s)"

    def connections() -> int:
        row = conn.execute(query, [["rmhdag:streams", "rmhdag:doorbell:dagapp"]]).fetchone()
        assert row is not None
        return int(row[0])

    assert connections() == 0
    with Listening(api.client(Scope.READ), ALL):
        wait_until(lambda: connections() == 2)
    wait_until(lambda: connections() == 0)
    with Listening(api.client(Scope.READ), ALL) as again:
        add_events(conn, "j1", 1)
        again.wait_for(1)
