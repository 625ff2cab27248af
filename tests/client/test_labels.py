"""Labels through both clients."""

from __future__ import annotations

import asyncio

import pytest

from rmhdag import AsyncClient, Client
from rmhdag.client import InvalidRequest, NotFound
from tests.api.running import Running


def test_labels_are_given_found_and_changed(client: Client) -> None:
    job = client.submit("flaky", fails=False, labels={"campaign": "spring", "team": "gis"})
    (other,) = client.submit_many([{"workflow_id": "flaky", "labels": {"campaign": "autumn"}}])
    assert job.view is not None
    assert job.view.labels == {"campaign": "spring", "team": "gis"}
    assert [line.job_id for line in client.jobs(labels={"campaign": "spring"})] == [job.job_id]
    assert [line.job_id for line in client.jobs(labels="campaign")] == [other.job_id, job.job_id]
    assert [line.labels for line in client.jobs(labels=["campaign=spring", "team"])] == [job.view.labels]
    assert sum(client.count_jobs(labels=["campaign"]).values()) == 2
    answer = job.label({"campaign": "summer"}, remove=["team", "never_there"])
    assert (answer.labels, answer.changed) == ({"campaign": "summer"}, True)
    assert job.label(remove=["team"]).changed is False
    refreshed = job.refresh().view
    assert refreshed is not None
    assert refreshed.labels == {"campaign": "summer"}
    assert job.wait(60).rerun(everything=True).wait(60).view.labels == {"campaign": "summer"}  # type: ignore[union-attr]


def test_awaited_labels(up: Running, admin_key: str) -> None:
    async def talk() -> None:
        async with AsyncClient(up.api.url, admin_key) as client:
            job = await client.submit("flaky", fails=False, labels={"awaited": "yes"})
            assert (await job.label({"awaited": "no"})).labels == {"awaited": "no"}
            assert [line.job_id async for line in client.jobs(labels={"awaited": "no"})] == [job.job_id]
            assert sum((await client.count_jobs(labels={"awaited": "yes"})).values()) == 0

    asyncio.run(talk())


def test_orders_have_labels(client: Client) -> None:
    order = client.submit_request("flaky", {"fails": False}, labels={"ordered": "yes"})
    assert client.request(order.request_id).labels == {"ordered": "yes"}
    assert [line.job_id for line in client.jobs(labels={"ordered": "yes"})] == [order.job_id]


def test_bad_labels_are_refused_before_they_are_sent(client: Client) -> None:
    job = client.submit("flaky", fails=False)
    with pytest.raises(InvalidRequest, match="the key of a label has 1 to 63 characters"):
        client.submit("flaky", labels={"Aoi": "oslo"})
    with pytest.raises(InvalidRequest, match="at most 200 characters"):
        job.label({"aoi": "x" * 201})
    with pytest.raises(InvalidRequest, match="the key of a label"):
        list(client.jobs(labels=["A"]))
    with pytest.raises(NotFound):
        client._handle("0190a0b0c0d07e0f8a0b0c0d0e0f0a0b").label({"aoi": "oslo"})
