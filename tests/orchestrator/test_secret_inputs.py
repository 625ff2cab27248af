"""Secret inputs from the submission to the queue: only a reference is anywhere, and the value is with nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.models.references import is_secret
from rmhdag.models.scopes import Scope
from rmhdag.orchestrator.context import OrchestratorSettings
from rmhdag.services.reruns import plan_rerun_of, rerun_job
from rmhdag.store import payloads, secret_inputs
from rmhdag.store.vault import SecretUnreadable, Vault, use_for_inputs
from rmhdag.workflow import InvalidInputs
from rmhdag.workflow.loader import load
from tests.api.serving import served
from tests.orchestrator.platform import Platform

SECRET = "correct horse battery"
TEXT = """
workflow_id: download
inputs:
  url: {type: string, default: "https://a"}
  token: {type: string, required: true, secret: true}
defaults: {queue: light}
nodes:
  first: {handler: echo, params: {url: "{{ inputs.url }}"}, next: fetch}
  fetch: {handler: echo, params: {all: "{{ inputs }}", token: "{{ inputs.token }}"}}
"""
DEFINITION = load(TEXT).definition


@pytest.fixture
def key() -> Iterator[str]:
    use_for_inputs(Vault("a key of sixteen or more"))
    yield "a key of sixteen or more"
    use_for_inputs(Vault(None))


def text_of_all_tables(platform: Platform) -> dict[str, str]:
    tables = platform.conn.execute(
        "SELECT c.relname FROM pg_class AS c WHERE c.relnamespace = 'dagapp'::regnamespace AND c.relkind IN ('r', 'p')"
    ).fetchall()
    found = {}
    for (table,) in tables:
        rows = platform.conn.execute(f"SELECT t::text FROM {table} AS t".encode()).fetchall()
        found[table] = "\n".join(row[0] for row in rows)
    content = platform.conn.execute("SELECT data FROM dag_payloads").fetchall()
    found["payloads as text"] = "\n".join(bytes(row[0]).decode() for row in content)
    return found


def opened(platform: Platform, reference: Any) -> str:
    assert is_secret(reference)
    text = payloads.read_text(platform.conn, "default", reference["rmhdag:payload"]["sha256"])
    return secret_inputs.open_secret("default", text)


def run_to_fetch(platform: Platform, job_id: str) -> Any:
    """The parameters of the task that is given the secret."""
    seat = platform.seats[0] if platform.seats else platform.seat()
    seat.work()
    platform.succeed(*platform.claim())
    seat.work()
    [claimed] = platform.claim()
    assert claimed.job_id == job_id
    params = claimed.params
    platform.succeed(claimed)
    seat.work()
    return params


def test_no_row_of_a_job_holds_the_value(platform: Platform, key: str) -> None:
    job_id = platform.submit(DEFINITION, {"token": SECRET}, idempotency_key="k")
    params = run_to_fetch(platform, job_id)
    assert opened(platform, params["token"]) == SECRET
    assert opened(platform, params["all"]["token"]) == SECRET
    assert platform.job(job_id)["status"] == "completed"
    for table, text in text_of_all_tables(platform).items():
        assert SECRET not in text, table


def test_without_a_key_only_its_payload_holds_it(platform: Platform) -> None:
    job_id = platform.submit(DEFINITION, {"token": SECRET})
    run_to_fetch(platform, job_id)
    found = [table for table, text in text_of_all_tables(platform).items() if SECRET in text]
    assert found == ["payloads as text"]


def test_another_key_does_not_open_it(platform: Platform, key: str) -> None:
    job_id = platform.submit(DEFINITION, {"token": SECRET})
    params = run_to_fetch(platform, job_id)
    use_for_inputs(Vault("another key of sixteen"))
    with pytest.raises(SecretUnreadable):
        opened(platform, params["token"])


def test_a_rerun_uses_it_again_or_takes_a_new_one(platform: Platform) -> None:
    first = platform.submit(DEFINITION, {"token": SECRET})
    run_to_fetch(platform, first)
    planned = plan_rerun_of(platform.conn, first, everything=True)
    assert planned.shown_params == {"url": "https://a", "token": "***"}
    again = rerun_job(platform.conn, planned, issued_by="ann").job_id
    assert opened(platform, run_to_fetch(platform, again)["token"]) == SECRET
    planned = plan_rerun_of(platform.conn, first, changed_params={"token": "another secret"})
    assert planned.scope.again == ("fetch",)
    assert planned.shown_params["token"] == "***"
    changed = rerun_job(platform.conn, planned, issued_by="ann").job_id
    platform.seats[0].work()
    [claimed] = platform.claim()
    assert claimed.job_id == changed
    assert opened(platform, claimed.params["token"]) == "another secret"


def test_its_payload_is_needed_by_its_job_alone(platform: Platform) -> None:
    job_id = platform.submit(DEFINITION, {"token": SECRET}, idempotency_key="once")
    assert platform.submit(DEFINITION, {"token": SECRET}, idempotency_key="once") == job_id
    holders = platform.conn.execute("SELECT holder FROM dag_payload_uses").fetchall()
    assert holders == [(job_id,)]


@pytest.mark.parametrize(("value", "fits"), [("12345", False), ("***", False), ("123456", True)])
def test_a_value_that_is_too_short_is_refused(platform: Platform, value: str, fits: bool) -> None:
    if fits:
        platform.submit(DEFINITION, {"token": value})
        return
    with pytest.raises(InvalidInputs, match="at least 6 characters") as refused:
        platform.submit(DEFINITION, {"token": value})
    assert value not in str(refused.value)


def test_the_api_shows_stars(platform: Platform) -> None:
    platform.register(DEFINITION)
    with served(platform.dsn) as api:
        client = api.client(Scope.SUBMIT, Scope.READ, Scope.OPERATE)
        body = {"workflow_id": "download", "input_params": {"token": SECRET}}
        made = client.post("/api/v1/jobs", json=body)
        assert made.status_code == 201, made.text
        job_id = made.json()["job_id"]
        params = run_to_fetch(platform, job_id)
        job = client.get(f"/api/v1/jobs/{job_id}")
        assert job.json()["input_params"] == {"url": "https://a", "token": "***"}
        node = client.get(f"/api/v1/jobs/{job_id}/nodes/fetch").json()
        assert node["input_params"]["token"] == "***"
        assert node["input_params"]["all"]["token"] == "***"
        digest = params["token"]["rmhdag:payload"]["sha256"]
        assert client.get(f"/api/v1/jobs/{job_id}/payloads/{digest}").status_code == 404
        rerun = client.post(f"/api/v1/jobs/{job_id}/rerun", json={"everything": True, "dry_run": True})
        assert rerun.json()["input_params"]["token"] == "***"
        timeline = client.get(f"/api/v1/jobs/{job_id}/timeline").text
        assert "***" in timeline
        for text in (made.text, job.text, rerun.text, timeline):
            assert SECRET not in text
            assert digest not in text


def test_templates_read_the_variables_that_the_settings_name(platform: Platform) -> None:
    text = 'workflow_id: w\nnodes: {a: {handler: echo, queue: light, params: {region: "{{ env.REGION }}"}}}'
    definition = load(text, env_names={"REGION"}).definition
    seat = platform.seat(OrchestratorSettings(template_env={"REGION": "north"}))
    platform.submit(definition)
    seat.work()
    [claimed] = platform.claim()
    assert claimed.params == {"region": "north"}


def test_a_variable_that_is_not_set_fails_the_node_and_is_named(platform: Platform) -> None:
    text = 'workflow_id: w\nnodes: {a: {handler: echo, queue: light, params: {region: "{{ env.REGION }}"}}}'
    job_id = platform.submit(load(text, env_names={"REGION"}).definition)
    platform.seat().work()
    job = platform.job(job_id)
    assert job["status"] == "failed"
    assert "REGION" in job["error_message"]


def test_a_child_job_is_given_the_reference(platform: Platform) -> None:
    parent = """
workflow_id: outer
inputs: {token: {type: string, required: true, secret: true}}
nodes: {run: {type: workflow, workflow: download, params: {token: "{{ inputs.token }}"}}}
"""
    platform.register(DEFINITION)
    job_id = platform.submit(load(parent).definition, {"token": SECRET})
    seat = platform.seat()
    seat.work()
    platform.succeed(*platform.claim())
    seat.work()
    [claimed] = platform.claim()
    assert claimed.job_id != job_id
    assert opened(platform, claimed.params["token"]) == SECRET
    holders = {row[0] for row in platform.conn.execute("SELECT holder FROM dag_payload_uses").fetchall()}
    assert holders == {job_id, claimed.job_id}
