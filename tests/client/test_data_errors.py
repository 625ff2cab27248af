"""Errors with codes and warnings, as the holder of a job sees them in Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmhdag import Client
from rmhdag.client import JobFailed
from rmhdag.models.scopes import Scope
from tests.api.serving import served
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_data_errors import cause, fail, succeed, warning


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


def test_a_job_has_warnings_and_a_failure_its_cause(platform: Platform) -> None:
    seat = platform.seat()
    job_id = platform.submit(workflow(one=task("two"), two=task()))
    seat.work()
    with served(platform.dsn) as api, Client(api.url, api.key(Scope.READ)) as client:
        job = client.job(job_id)
        assert job.warnings == []
        [claimed] = platform.claim()
        succeed(platform, claimed, warning(count=2, message="<b> is empty"))
        seat.work()
        job.refresh()
        assert [one.model_dump() for one in job.warnings] == [warning(count=2, message="<b> is empty")]
        assert "<li>2 × <code>RASTER_EMPTY</code> &lt;b&gt; is empty</li>" in job._repr_html_()
        [claimed] = platform.claim()
        fail(platform, claimed, cause())
        seat.work()
        with pytest.raises(JobFailed) as caught:
            job.wait(10)
        assert caught.value.error is not None
        assert caught.value.error.model_dump() == cause()
        assert caught.value.remedy == cause()["remediation"], "who can correct the data is told how"
        assert job.node("two").error == caught.value.error
