"""The list of jobs: filters in the address, live rows that do not move, actions with a preview, and by keyboard."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from playwright.sync_api import expect

from tests.api.running import Running
from tests.ui.browsing import HOSTILE, Visitor


def rows(visitor: Visitor, job_id: str = "") -> str:
    return f'tr[data-key="{job_id}"]' if job_id else "tbody tr[data-row]"


def test_filters_are_in_the_address_and_the_back_button_undoes_them(up: Running, visitor: Visitor) -> None:
    done, failed = up.submit("flaky", fails=False), up.submit("flaky")
    up.end_of(done)
    up.end_of(failed)
    page = visitor.go("/jobs")
    page.locator(rows(visitor, done)).wait_for()
    page.get_by_role("button", name="failed").click()
    expect(page.locator(rows(visitor, done))).to_have_count(0)
    expect(page.locator(rows(visitor, failed))).to_contain_text("no luck today")
    assert "q=status%3Afailed" in page.url
    page.get_by_label("Filter the jobs").fill("status:failed colour:red")
    page.keyboard.press("Enter")
    expect(page.locator(".field-problem")).to_contain_text("“colour:” is not known here")
    page.go_back()
    page.go_back()
    page.locator(rows(visitor, done)).wait_for()
    page.get_by_label("Filter the jobs").fill("status:cancelled workflow:nobodys")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Clear the filter").click()
    page.locator(rows(visitor, done)).wait_for()
    assert visitor.serious_findings() == []


def test_new_jobs_wait_and_known_rows_change_in_place(up: Running, visitor: Visitor) -> None:
    job_id = up.submit("slow", seconds=600)
    up.wait_for_node(job_id, "nap", "running")
    page = visitor.go("/jobs?q=workflow:slow")
    expect(page.locator(rows(visitor, job_id))).to_contain_text("running")
    expect(page.locator("[data-live=live]")).to_be_visible()
    other = up.submit("slow", seconds=600)
    page.get_by_role("button", name="1 new").click()
    page.locator(rows(visitor, other)).wait_for()
    for one in (job_id, other):
        assert up.post(f"jobs/{one}/cancel").status_code in (200, 202)
    # By the stream alone: nothing was reloaded.
    expect(page.locator(rows(visitor, job_id))).to_contain_text("cancelled")
    assert up.end_of(job_id)["status"] == "cancelled"


def test_jobs_are_cancelled_and_retried_by_keyboard_with_a_preview(up: Running, visitor: Visitor) -> None:
    job_id = up.submit("patient")
    up.wait_for_node(job_id, "broken", "ready")
    page = visitor.go("/jobs?q=workflow:patient")
    page.locator(rows(visitor, job_id)).wait_for()
    visitor.press("j", "x")
    expect(page.get_by_role("toolbar")).to_contain_text("1 job selected")
    visitor.press("c")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("1 job will be cancelled")
    assert visitor.serious_findings() == []
    dialog.get_by_label("Reason").fill("not needed")
    dialog.get_by_role("button", name="Cancel 1 job").click()
    expect(page.locator(rows(visitor, job_id))).to_contain_text("cancelled")
    assert up.end_of(job_id)["status"] == "cancelled"
    visitor.press("x")
    expect(page.get_by_role("toolbar")).to_contain_text("1 job selected")
    visitor.press("r")
    expect(dialog).to_contain_text("1 node will run again")
    dialog.get_by_role("button", name="Retry 1 job").click()
    rerun = up.wait(lambda: up.get("jobs", rerun_of=job_id)["jobs"] or None)[0]
    assert rerun["workflow_id"] == "patient"
    up.post(f"jobs/{rerun['job_id']}/cancel")


def test_a_row_opens_below_itself_and_shows_the_failing_node(up: Running, visitor: Visitor) -> None:
    job_id = up.submit("flaky")
    up.end_of(job_id)
    page = visitor.go(f"/jobs?q={job_id}")
    page.locator(rows(visitor, job_id)).wait_for()
    visitor.press("j", "e")
    expect(page.locator(".row-detail")).to_contain_text("broken failed: RuntimeError: no luck today")
    visitor.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Expand the row")


def test_nothing_in_a_job_is_markup_and_exports_hold_it_as_it_is(up: Running, visitor: Visitor, tmp_path: Path) -> None:
    answer = up.post("jobs", {"workflow_id": "flaky", "correlation_id": "=cmd|x", "input_params": {"fails": True}})
    job_id = answer.json()["job_id"]
    up.end_of(job_id)
    up.cluster.conn.execute(
        "UPDATE dag_jobs SET error_message = %s, submitted_by = %s WHERE job_id = %s", [HOSTILE, HOSTILE[:60], job_id]
    )
    page = visitor.go(f"/jobs?q={job_id}")
    expect(page.locator(rows(visitor, job_id))).to_contain_text(HOSTILE)
    assert page.title() == "Jobs · rmhdag"
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").first.click()
    download.value.save_as(tmp_path / "jobs.csv")
    line = next(csv.DictReader(io.StringIO((tmp_path / "jobs.csv").read_text())))
    assert (line["error_message"], line["correlation_id"]) == (HOSTILE, "'=cmd|x")
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON").click()
    download.value.save_as(tmp_path / "jobs.json")
    assert json.loads((tmp_path / "jobs.json").read_text())[0]["error_message"] == HOSTILE
    up.cluster.conn.execute("UPDATE dag_jobs SET submitted_by = 'ada' WHERE job_id = %s", [job_id])


def test_any_id_is_found_from_anywhere(up: Running, visitor: Visitor) -> None:
    job_id = up.submit("release")
    up.wait_for_node(job_id, "ask", "running")
    page = visitor.go("/")
    visitor.press("/")
    page.get_by_role("combobox").fill(f"{job_id}/as")
    expect(page.get_by_role("option")).to_contain_text(["ask"])
    page.get_by_role("combobox").fill(job_id[:20])
    expect(page.get_by_role("option").first).to_contain_text(job_id)
    assert visitor.serious_findings() == []
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/ui/jobs/{job_id}")
    up.post(f"jobs/{job_id}/cancel")


def test_jobs_get_labels_and_are_found_by_them(up: Running, visitor: Visitor) -> None:
    """From the form of a workflow to the list: given, found, changed for several at once, and never markup."""
    page = visitor.go("/submit/flaky")
    page.get_by_label("One per line, as key=value").fill("Aoi=oslo")
    expect(page.locator(".field-problem")).to_contain_text("A key has 1 to 63 lower-case letters")
    page.get_by_label("One per line, as key=value").fill(f"aoi=oslo\nnote={HOSTILE}")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/ui/jobs/*")
    given = page.url.rpartition("/")[2]
    expect(page.locator(".job-head .label")).to_have_text(["aoi=oslo", f"note={HOSTILE}"])
    assert up.get(f"jobs/{given}")["labels"] == {"aoi": "oslo", "note": HOSTILE}
    plain = up.submit("flaky")
    page.locator(".job-head .label", has_text="aoi=oslo").click()
    page.locator(rows(visitor, given)).wait_for()
    assert "q=label%3Aaoi%3Doslo" in page.url
    expect(page.locator(rows(visitor, plain))).to_have_count(0)
    expect(page.locator(rows(visitor, given))).to_contain_text(HOSTILE)
    page.get_by_label("Filter the jobs").fill("tag:aoi=nowhere")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No job matches “tag:aoi=nowhere”")).to_be_visible()
    page = visitor.go("/jobs?q=workflow:flaky")
    for job_id in (given, plain):
        page.locator(f"{rows(visitor, job_id)} input[type=checkbox]").check()
    visitor.press("t")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("status")).to_have_text("0 jobs change; 2 stay as they are.")
    dialog.get_by_label("Labels, one per line").fill("aoi=oslo")
    expect(dialog.get_by_role("status")).to_have_text("1 job changes; 1 stays as it is.")
    dialog.get_by_label("Labels, one per line").fill("aoi=oslo\nnote-\nteam=gis")
    expect(dialog.get_by_role("status")).to_have_text("2 jobs change.")
    assert visitor.serious_findings() == []
    dialog.get_by_role("button", name="Label 2 jobs").click()
    for job_id in (given, plain):
        expect(page.locator(f"{rows(visitor, job_id)} .label")).to_have_text(["aoi=oslo", "team=gis"])
        assert up.get(f"jobs/{job_id}")["labels"] == {"aoi": "oslo", "team": "gis"}
