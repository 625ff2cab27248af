"""Labels of jobs: lists and counts by them read little, however many jobs have them, and no job's row is touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from rmhdag.models.labels import LabelFilter
from rmhdag.models.limits import LABELS_OF_A_JOB
from rmhdag.services.labels import TooManyLabelsError, change_labels
from rmhdag.services.reruns import UnknownJobError
from rmhdag.store.connection import Conn, connect, enter_schema
from rmhdag.store.job_labels import labels_of
from rmhdag.views.job_lists import Cursor, JobFilters, compose, count_jobs, list_jobs
from tests.store.test_job_lists import BEGIN, MANY, fill, found, pages

# Nearly all jobs are of team gis; a campaign of old jobs and nothing since; a handful; and one that is everywhere.
LABEL = """
INSERT INTO dag_job_labels (job_id, key, value, created_at)
  SELECT job_id, 'team', CASE WHEN job_id LIKE '%2' THEN 'raster' ELSE 'gis' END, created_at FROM dag_jobs
  UNION ALL SELECT job_id, 'aoi', 'oslo', created_at FROM dag_jobs WHERE job_id < lpad(to_hex({count} / 10), 32, '0')
  UNION ALL SELECT job_id, 'rare', 'yes', created_at FROM dag_jobs WHERE job_id < lpad(to_hex(10), 32, '0')
  UNION ALL SELECT job_id, 'number', job_id, created_at FROM dag_jobs;
INSERT INTO dag_job_labels (job_id, key, namespace, value, created_at)
  SELECT job_id, 'elsewhere', 'another', 'x', created_at FROM dag_jobs LIMIT 1;
ANALYZE dag_job_labels
"""


def by(*labels: str) -> list[LabelFilter]:
    return [
        LabelFilter(key, value if equals else None) for key, equals, value in (one.partition("=") for one in labels)
    ]


@pytest.fixture
def labelled(conn: Conn) -> Conn:
    conn.execute("SET search_path TO dagapp")
    fill(conn, 900)
    conn.execute(LABEL.format(count=900).encode())
    return conn


def test_jobs_are_found_by_labels(labelled: Conn) -> None:
    assert found(labelled, labels=by("rare=yes")) == found(labelled, labels=by("rare")) == list(range(9, 0, -1))
    assert found(labelled, labels=by("rare=no")) == found(labelled, labels=by("unknown")) == []
    assert found(labelled, labels=by("rare=yes", "aoi=oslo"), limit=3) == [9, 8, 7]
    assert found(labelled, labels=by("rare=yes", f"number={7:032x}")) == [7]
    assert found(labelled, labels=by("aoi"), statuses=["running"]) == [1]
    assert found(labelled, labels=by("aoi=oslo"), text="rare_one", limit=2) == [29, 28]
    assert found(labelled, labels=by("aoi=oslo"), since=BEGIN + timedelta(seconds=44)) == [89, 88]
    assert found(labelled, labels=by("aoi=oslo"), until=BEGIN + timedelta(seconds=1)) == [1]


def test_labels_belong_to_a_namespace(labelled: Conn) -> None:
    assert found(labelled, "another", labels=by("elsewhere")) == []
    assert found(labelled, labels=by("elsewhere")) == []
    assert found(labelled, "another", labels=by("team=gis")) == []


def test_lines_show_their_labels(labelled: Conn) -> None:
    assert [line.labels for line in list_jobs(labelled, "default", JobFilters(labels=by("rare"), limit=1))] == [
        {"team": "gis", "aoi": "oslo", "rare": "yes", "number": f"{9:032x}"}
    ]


def test_pages_of_a_label_meet_every_job_once(labelled: Conn) -> None:
    seen: list[str] = []
    before = None
    while page := list_jobs(labelled, "default", JobFilters(before=before, labels=by("aoi=oslo"), limit=33)):
        seen += [line.job_id for line in page]
        before = Cursor(page[-1].created_at, page[-1].job_id)
    assert seen == [f"{n:032x}" for n in range(89, 0, -1)]


@pytest.mark.parametrize("more", [{}, {"text": "rare"}, {"since": BEGIN + timedelta(seconds=20)}])
@pytest.mark.parametrize("labels", [by("aoi=oslo"), by("team"), by("team=gis", "aoi"), by("nothing")])
def test_counts_agree_with_the_list(labelled: Conn, labels: list[LabelFilter], more: dict[str, Any]) -> None:
    filters = JobFilters(labels=labels, limit=1_000, **more)
    lines = list_jobs(labelled, "default", filters)
    counts = count_jobs(labelled, "default", filters).counts
    assert {status: count for status, count in counts.items() if count} == Counter(line.status for line in lines)


@pytest.fixture
def crowded(migrated_database: str) -> Iterator[Conn]:
    with connect(migrated_database, "test", autocommit=True, statement_timeout_seconds=60) as conn:
        enter_schema(conn, "dagapp")
        fill(conn, MANY)
        conn.execute(LABEL.format(count=MANY).encode())
        conn.execute("VACUUM dag_jobs, dag_job_labels")
        yield conn


SHAPES: list[dict[str, Any]] = [
    *({"labels": by(label)} for label in ("team=gis", "team", "aoi=oslo", "aoi", "rare=yes", "rare", "unknown", "a=b")),
    {"labels": by("team=gis", "aoi=oslo")},
    {"labels": by("team", "rare")},
    {"labels": by("team=gis", "aoi"), "before": Cursor(BEGIN + timedelta(hours=1), "f")},
    {"labels": by("team=gis"), "before": Cursor(BEGIN + timedelta(hours=10), "f")},
    {"labels": by("team=gis"), "statuses": ["failed"]},
    {"labels": by("team=gis"), "statuses": ["pending", "running"]},
    {"labels": by("aoi=oslo"), "since": BEGIN + timedelta(hours=20)},
    {"labels": by("team"), "until": BEGIN + timedelta(hours=1)},
    {"labels": by("team=gis"), "workflow_id": "w3"},
    {"labels": by("team=gis"), "text": "rare"},
]


@pytest.mark.timeout(180)
def test_a_list_reads_little_more_than_it_shows(crowded: Conn) -> None:
    """A page that touched every job of a frequent label would read more than 10,000 pages here."""
    troubles = []
    for shape in SHAPES:
        touched = pages(crowded, *compose(crowded, "default", JobFilters(**shape)))
        if touched > 5_000:
            troubles.append(f"{shape} touches {touched} pages")
    assert not troubles, "\n".join(troubles)


@pytest.fixture
def one_job(conn: Conn) -> Conn:
    conn.execute("SET search_path TO dagapp")
    fill(conn, 1)
    return conn


JOB = f"{1:032x}"


def change(conn: Conn, put: Mapping[str, str], *remove: str) -> dict[str, str]:
    return change_labels(conn, JOB, put=put, remove=remove, issued_by="ada").labels


def test_a_change_leaves_the_row_of_the_job_alone(one_job: Conn) -> None:
    """Its owner writes that: a change of labels must neither wait for the owner nor make it write another version."""
    place = b"SELECT ctid, xmin FROM dag_jobs"
    before = one_job.execute(place).fetchone()
    assert change(one_job, {"aoi": "oslo", "team": "gis"}) == {"aoi": "oslo", "team": "gis"}
    assert change(one_job, {"aoi": "bergen"}, "team", "never_there") == {"aoi": "bergen"}
    assert one_job.execute(place).fetchone() == before
    query = b"SELECT key, value, created_at FROM dag_job_labels"
    assert one_job.execute(query).fetchall() == [("aoi", "bergen", BEGIN)]


def test_a_change_is_recorded_and_a_repetition_is_not(one_job: Conn) -> None:
    change(one_job, {"aoi": "oslo", "team": "gis"})
    change(one_job, {"aoi": "oslo", "team": "gis"})
    change(one_job, {"aoi": "bergen"}, "team", "never_there")
    change(one_job, {}, "never_there")
    query = b"SELECT actor, action, subject, before, after FROM dag_audit WHERE action = 'job.label' ORDER BY seq"
    assert one_job.execute(query).fetchall() == [
        ("ada", "job.label", f"job {JOB}", {}, {"aoi": "oslo", "team": "gis"}),
        ("ada", "job.label", f"job {JOB}", {"aoi": "oslo", "team": "gis"}, {"aoi": "bergen"}),
    ]


def test_no_job_has_more_labels_than_it_may(one_job: Conn) -> None:
    many = {f"k{number}": "v" for number in range(LABELS_OF_A_JOB)}
    change(one_job, many)
    with pytest.raises(TooManyLabelsError):
        change(one_job, {"one_more": "v"})
    assert change(one_job, {"one_more": "v"}, "k0").keys() == {"one_more", *many} - {"k0"}


def test_another_namespace_does_not_label_it(one_job: Conn) -> None:
    with pytest.raises(UnknownJobError):
        change_labels(one_job, JOB, put={"aoi": "oslo"}, remove=(), issued_by="eve", namespace="another")
    assert labels_of(one_job, "default", JOB) == labels_of(one_job, "another", JOB) == {}


def test_two_at_once_do_not_exceed_the_limit(migrated_database: str) -> None:
    """Each alone would fit; whoever comes second is refused."""

    def attempt(caller: int) -> int:
        with connect(migrated_database, "test", autocommit=True) as conn:
            enter_schema(conn, "dagapp")
            kept = 0
            for number in range(LABELS_OF_A_JOB):
                try:
                    change(conn, {f"k{caller}.{number}": "v"})
                    kept += 1
                except TooManyLabelsError:
                    break
            return kept

    with connect(migrated_database, "test", autocommit=True) as conn:
        enter_schema(conn, "dagapp")
        fill(conn, 1)
        with ThreadPoolExecutor(2) as callers:
            kept = list(callers.map(attempt, range(2)))
        assert sum(kept) == len(labels_of(conn, "default", JOB)) == LABELS_OF_A_JOB
