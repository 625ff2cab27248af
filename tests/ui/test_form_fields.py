"""The form: durations, reference systems, times and tables, and how many tasks a job would have; then a self-test."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from rmhdag.workflow import load
from tests.api.registering import register
from tests.api.running import Running
from tests.ui.browsing import HOSTILE, Visitor
from tests.ui.conftest import Arrive

FIELDS = """\
workflow_id: many_fields
name: Many fields
inputs:
  keep_seconds: {type: integer, default: 60, maximum: 86400}
  target_crs: {type: string, default: "EPSG:4326"}
  cloud_percent: {type: number, default: 10}
  date_range: {type: array, maxItems: 2, items: {type: string, format: date}, default: ["2026-01-01", "2026-02-01"]}
  tiles: {type: array, default: [], items: {type: object, properties: {id: {type: string}, weight: {type: number}}}}
  names: {type: array, default: []}
  token: {type: string, secret: true}
defaults: {queue: light}
nodes:
  first: {handler: echo, params: {crs: "{{ inputs.target_crs }}", seconds: "{{ inputs.keep_seconds }}"}, next: split}
  split:
    type: fan_out
    source: "{{ inputs.tiles }}"
    task: {handler: echo, params: {tile: "{{ item }}"}}
    next: gather
  gather: {type: fan_in, next: END}
"""
HELLO = """\
workflow_id: hello_world
name: Hello
inputs: {name: {type: string, default: world}}
nodes:
  greet: {handler: hello_world, queue: light, params: {name: "{{ inputs.name }}"}, next: END}
"""
PATH = "/submit/many_fields"


@pytest.fixture(scope="module", autouse=True)
def workflow(up: Running) -> None:
    register(up.api.dsn, load(FIELDS, queues={"light", "heavy"}).definition)


def test_fields_take_what_people_write(up: Running, visitor: Visitor) -> None:
    page = visitor.go(PATH)
    expect(page.get_by_text("The server would accept this")).to_be_visible()
    # What is left empty is the default, and what only shows how to write says so.
    expect(page.locator("[data-field=target_crs]")).to_contain_text("WGS 84, degrees")
    expect(page.get_by_label("names")).to_have_attribute("placeholder", re.compile("one per line"))
    page.get_by_label("keep_seconds").fill("1h 30m")
    expect(page.locator("[data-field=keep_seconds]")).to_contain_text("= 5400 s")
    page.get_by_label("target_crs").fill("EPSG:32632")
    expect(page.locator("[data-field=target_crs]")).to_contain_text("WGS 84, UTM zone 32N")
    expect(page.locator("[data-field=cloud_percent]")).to_contain_text("%")
    page.get_by_label("date_range, to").fill("2026-03-01")
    expect(page.get_by_label("token")).to_have_attribute("type", "password")
    page.get_by_label("tiles").fill(f'id\tweight\n007\t1.5\n"{HOSTILE.replace(chr(34), chr(34) * 2)}"\t2')
    expect(page.locator(".table-preview")).to_contain_text("2 rows, 2 columns")
    expect(page.locator(".table-preview")).to_contain_text("<b>bold</b>")
    expect(page.locator(".facts").first).to_contain_text("Tasks3")
    assert page.locator("main b, main img").count() == 0
    assert visitor.serious_findings() == []
    page.get_by_label("keep_seconds").blur()
    expect(page.locator("[data-field=keep_seconds]")).to_contain_text("= 1h 30m")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/ui/jobs/*")
    params = up.get(f"jobs/{page.url.rsplit('/', 1)[1]}")["input_params"]
    assert params["keep_seconds"] == 5400
    assert params["target_crs"] == "EPSG:32632"
    assert params["date_range"] == ["2026-01-01", "2026-03-01"]
    assert params["tiles"] == [{"id": "007", "weight": 1.5}, {"id": HOSTILE, "weight": 2}]


def test_what_cannot_be_read_is_judged_by_the_server(visitor: Visitor) -> None:
    page = visitor.go(PATH)
    page.get_by_label("keep_seconds").fill("soon")
    expect(page.locator("[data-field=keep_seconds] .field-problem")).to_contain_text("whole number")
    page.get_by_label("tiles").fill("one line")
    expect(page.locator("[data-field=tiles] .field-problem").first).to_contain_text("neither a table")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()


def test_many_tasks_are_asked_about(visitor: Visitor) -> None:
    page = visitor.go(PATH)
    page.get_by_label("tiles").fill(json.dumps([{"id": str(number)} for number in range(1_500)]))
    expect(page.locator(".facts").first).to_contain_text("1,501")
    page.get_by_role("button", name="Submit").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Start 1,501 tasks?")
    assert visitor.serious_findings() == []
    dialog.get_by_role("button", name="Keep as it is").click()
    assert page.url.endswith(PATH)


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
def test_the_fields_are_accessible_and_fit(arrive: Arrive, theme: str, width: int) -> None:
    visitor = arrive(theme=theme, width=width)
    page = visitor.go(PATH)
    page.get_by_label("tiles").fill("id,weight\na,1")
    expect(page.locator(".table-preview")).to_be_visible()
    assert visitor.serious_findings() == []
    assert page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_a_self_test_sends_a_job_through_the_platform(up: Running, arrive: Arrive, visitor: Visitor) -> None:
    stranger = arrive(namespace="nobodys")
    stranger.expected = {503, 404}
    page = stranger.go("/health")
    page.get_by_role("button", name="Run a self-test").click()
    expect(page.get_by_text("is not registered here")).to_be_visible()
    register(up.api.dsn, load(HELLO, queues={"light", "heavy"}).definition)
    visitor.expected = {503}
    page = visitor.go("/health")
    page.get_by_role("button", name="Run a self-test").click()
    expect(page.get_by_text("The platform works: a job went through all of it.")).to_be_visible()
    expect(page.locator(".self-test .num")).to_have_text([re.compile(r"\d")] * 5)
    assert visitor.serious_findings() == []
    page.get_by_role("link", name="Open the job").click()
    expect(page.locator(".job-head [data-status=completed]")).to_be_visible()
