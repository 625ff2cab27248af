"""A pipeline runs once for each revision, is watched to its end, and is taken back after it, whoever dies."""

from __future__ import annotations

from typing import Any

import pytest

from rmhdag.orchestrator.duties.service_calls import Announcer, run_once
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.dead_letters import requeue
from rmhdag.services.unpublishing import unpublish
from rmhdag.store import crash_points
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.dead_letters import dead_letters
from rmhdag.store.unpublishing import Unpublish
from tests.orchestrator.outside.calling import (
    FACTORY,
    Killed,
    approve,
    calls,
    die,
    promoted,
    put,
    put_factory,
    withdraw,
    work,
)
from tests.orchestrator.outside.factory_server import FactoryServer
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_publishing import rows


def test_a_pipeline_is_started_once_watched_and_its_end_written_down(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    stands = iter(["Queued", "InProgress", "Canceling", "Succeeded"])
    factory.status_of = lambda run: next(stands)
    put_factory(platform, settings, factory, public_url="https://data.example.org/{asset_id}/v{revision}")
    approve(platform, key)
    work(platform, announcer)
    assert factory.started == [
        {
            "release_id": f"{key.asset_id}-1",
            "asset_id": key.asset_id,
            "stac_item_id": "i",
            "stac_collection_id": "c",
            "data_type": "raster",
            "table_names": [],
            "blob_path": "cogs/a.tif",
        }
    ]
    assert factory.runs[0]["pipelineName"] == "export_to_public"
    assert len(factory.paths("/pipelineruns/run-1")) == 4
    assert factory.paths("/queryPipelineRuns") == [], "the first holder has nothing to look for"
    assert rows(platform, "SELECT status::text, run_id, attempts FROM dag_service_calls") == [("delivered", "run-1", 1)]
    assert promoted(platform) == [(1, "adf", f"https://data.example.org/{key.asset_id}/v1")]


def test_a_run_that_nobody_wrote_down_is_found_and_not_started_again(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    """The orchestrator dies between createRun and the commit that records the run."""
    factory.page_size = 2
    for number in range(5):
        parameters = {"release_id": f"other-{number}"}
        factory.runs.append({"runId": f"old-{number}", "pipelineName": "export_to_public", "parameters": parameters})
    put_factory(platform, settings, factory)
    approve(platform, key)
    crash_points.arm("settle_calls.before_commit", die)
    with pytest.raises(Killed):
        run_once(platform.conn, announcer)
    assert len(factory.paths("/createRun")) == 1
    work(platform, Announcer(settings))
    assert len(factory.paths("/createRun")) == 1
    assert len(factory.paths("/queryPipelineRuns")) == 3, "page after page"
    assert rows(platform, "SELECT status::text, run_id FROM dag_service_calls") == [("delivered", "run-6")]
    [(_, target, url)] = promoted(platform)
    assert (target, url.endswith("/pipelineruns/run-6")) == ("adf", True)


def test_long_lists_of_runs_are_read(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    for number in range(100):
        parameters = {"release_id": f"other-{number}", "blob_path": "x" * 4_000}
        factory.runs.append({"runId": f"old-{number}", "pipelineName": "export_to_public", "parameters": parameters})
    put_factory(platform, settings, factory)
    approve(platform, key)
    crash_points.arm("settle_calls.before_commit", die)
    with pytest.raises(Killed):
        run_once(platform.conn, announcer)
    work(platform, announcer)
    assert rows(platform, "SELECT status::text, run_id FROM dag_service_calls") == [("delivered", "run-101")]


def test_a_create_whose_answer_was_lost_is_looked_for(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    lost: list[str] = []

    def lose_first_answer(asked: Any) -> tuple[int, Any] | None:
        if "/createRun" in asked.path and not lost:
            lost.append(asked.path)
            factory._respond(asked)
            return 502, {}
        return None

    factory.before = lose_first_answer
    put_factory(platform, settings, factory)
    approve(platform, key)
    work(platform, announcer)
    assert len(factory.runs) == 1
    assert calls(platform) == [("approval", "delivered", 2)]


def test_if_runs_cannot_be_listed_none_is_started(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    factory.before = lambda asked: (503, {}) if "/queryPipelineRuns" in asked.path else None
    put_factory(platform, settings, factory)
    approve(platform, key)
    crash_points.arm("settle_calls.before_commit", die)
    with pytest.raises(Killed):
        run_once(platform.conn, announcer)
    work(platform, announcer)
    assert len(factory.runs) == 1
    assert calls(platform) == [("approval", "dead", 3)]


@pytest.mark.parametrize("end", ["Failed", "Cancelled"])
def test_a_run_that_failed_is_started_again_and_given_up_at_last(
    platform: Platform,
    key: RevisionKey,
    settings: CallbackSettings,
    factory: FactoryServer,
    announcer: Announcer,
    end: str,
) -> None:
    factory.status_of = lambda run: end
    put_factory(platform, settings, factory)
    approve(platform, key)
    work(platform, announcer)
    assert (len(factory.runs), calls(platform)) == (3, [("approval", "dead", 3)])
    [(error,)] = rows(platform, "SELECT last_error FROM dag_service_calls")
    assert error == f"pipeline run run-3 is {end}: copied nothing"
    assert promoted(platform) == []
    factory.status_of = lambda run: "Succeeded" if run["runId"] == "run-4" else end
    [letter] = dead_letters(platform.conn, "default")
    requeue(platform.conn, "default", letter, issued_by="ann")
    work(platform, announcer)
    assert rows(platform, "SELECT status::text, run_id FROM dag_service_calls") == [("delivered", "run-4")]


def test_the_end_of_a_run_and_its_promotion_are_one_commit(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    put_factory(platform, settings, factory)
    approve(platform, key)
    run_once(platform.conn, announcer)
    platform.conn.execute("UPDATE dag_service_calls SET next_attempt_at = '2000-01-01'")
    crash_points.arm("settle_calls.before_commit", die)
    with pytest.raises(Killed):
        run_once(platform.conn, announcer)
    assert (calls(platform), promoted(platform)) == ([("approval", "pending", 0)], [])
    platform.conn.execute("UPDATE dag_service_calls SET next_attempt_at = '2000-01-01'")
    crash_points.arm("settle_calls.after_commit", die)
    with pytest.raises(Killed):
        run_once(platform.conn, announcer)
    assert (calls(platform), len(promoted(platform))) == ([("approval", "delivered", 1)], 1)


def test_tokens_come_from_client_credentials_and_are_kept(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    auth = {
        "auth": "client_credentials",
        "client_id": "me",
        "token_url": f"{factory.url}/tenant/oauth2/v2.0/token",
    }
    given = {**FACTORY, **auth}
    put(platform, settings, "adf", "adf", url=factory.url, settings=given, secret="client-secret")
    approve(platform, key)
    work(platform, announcer)
    assert calls(platform) == [("approval", "delivered", 1)]
    assert factory.tokens_issued == 1
    assert factory.asked[0].body["scope"] == "https://management.azure.com/.default"
    assert all("client-secret" not in asked.path for asked in factory.asked)


def test_a_token_that_is_refused_is_fetched_anew(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    auth = {"auth": "client_credentials", "client_id": "me", "token_url": f"{factory.url}/t/oauth2/v2.0/token"}
    put(platform, settings, "adf", "adf", url=factory.url, settings={**FACTORY, **auth}, secret="client-secret")
    approve(platform, key)
    run_once(platform.conn, announcer)
    factory.token = "another"
    work(platform, announcer)
    assert (calls(platform), factory.tokens_issued) == ([("approval", "delivered", 2)], 2)


def test_what_azure_says_is_kept_without_secrets(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    put(platform, settings, "adf", "adf", url=factory.url, settings=FACTORY, secret="wrong-token")
    approve(platform, key)
    work(platform, announcer)
    [(status, error)] = rows(platform, "SELECT last_status, last_error FROM dag_service_calls")
    assert (status, error) == (401, "answer 401: the endpoint refused it: Authentication failed.")
    stored = rows(
        platform, "SELECT to_jsonb(s)::text || to_jsonb(d)::text FROM dag_service_calls s, dag_dead_letters d"
    )
    assert "wrong-token" not in str(stored)


def test_a_copy_is_taken_back_after_the_run_that_made_it(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    """The withdrawal comes while the copy is under way: it waits for the end of the run."""
    stands = {"export_to_public": "InProgress", "take_back": "Succeeded"}
    factory.status_of = lambda run: stands[run["pipelineName"]]
    put_factory(platform, settings, factory, withdrawal_pipeline="take_back")
    approve(platform, key)
    run_once(platform.conn, announcer)
    wanted = Unpublish("default", key.asset_id, None, "ann", True)
    assert "will be notified of the withdrawal" in unpublish(platform.conn, wanted).notices[0]
    work(platform, announcer, most=3)
    assert [run["pipelineName"] for run in factory.runs] == ["export_to_public"]
    stands["export_to_public"] = "Succeeded"
    platform.conn.execute("UPDATE dag_service_calls SET next_attempt_at = '2000-01-01' WHERE action = 'approval'")
    run_once(platform.conn, announcer)
    assert len(promoted(platform)) == 1
    work(platform, announcer)
    assert [run["pipelineName"] for run in factory.runs] == ["export_to_public", "take_back"]
    assert (promoted(platform), calls(platform)) == ([], [("approval", "delivered", 1), ("withdrawal", "delivered", 1)])


def test_without_a_pipeline_for_it_a_copy_stays_and_that_is_said(
    platform: Platform, key: RevisionKey, settings: CallbackSettings, factory: FactoryServer, announcer: Announcer
) -> None:
    put_factory(platform, settings, factory)
    approve(platform, key)
    work(platform, announcer)
    [notice] = withdraw(platform, key)
    assert "has no withdrawal_pipeline" in notice
    assert calls(platform) == [("approval", "delivered", 1)]
