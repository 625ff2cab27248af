"""Assets, approvals and submissions on the map: what the browser really draws, and what decisions are about."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from rmhdag.models.assets import ApprovalState, AssetKind
from rmhdag.models.catalogue import CatalogueEntry
from rmhdag.models.scopes import Scope
from rmhdag.storage import StorageSettings
from rmhdag.storage.zones import open_storage
from rmhdag.workflow import load
from tests.api.registering import register
from tests.api.running import Running
from tests.api.serving import Served, served
from tests.store.rows import insert_rows
from tests.store.waiting import wait_until
from tests.ui.browsing import HOSTILE, Visitor
from tests.ui.conftest import Arrive
from tests.ui.mapping import BRIGHT, CLIP, DARK, HIGH, LOW, NOW, MapData, colour_at, is_like

NEVER = datetime(2100, 1, 1, tzinfo=UTC)
# The renderer without a graphics card says this of itself; no page can do anything about it.
OF_THE_RENDERER = "GL Driver Message"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("storage")


@pytest.fixture(scope="module")
def server(up: Running, folder: Path) -> Iterator[Served]:
    """The same platform, by an API with storage."""
    register(up.api.dsn, load(CLIP, queues={"light"}).definition)
    with served(up.api.dsn, storage=StorageSettings(str(folder))) as running:
        yield running


@pytest.fixture(scope="module")
def data(up: Running, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> MapData:
    storage = open_storage(StorageSettings(str(folder)), "default")
    return MapData(up.cluster.conn, storage, tmp_path_factory.mktemp("rasters"))


@pytest.fixture
def visit(arrive: Arrive, server: Served) -> Iterator[Arrive]:
    visitors: list[Visitor] = []

    def open_window(*scopes: Scope, **more: object) -> Visitor:
        visitors.append(arrive(*scopes, url=server.url, **more))
        return visitors[-1]

    yield open_window
    for visitor in visitors:
        visitor.problems[:] = [problem for problem in visitor.problems if OF_THE_RENDERER not in problem]


def wait_for_colour(page: Page, x: float, expected: tuple[int, ...]) -> None:
    canvas = page.locator(".map-canvas")
    wait_until(lambda: is_like(colour_at(canvas, x, 0.45), expected) or None, 30)


def test_a_reviewer_approves_a_revision_from_its_picture(visit: Arrive, data: MapData) -> None:
    title = f"heights {HOSTILE}"
    asset_id = data.add_asset(title, 1, approval_state=ApprovalState.PENDING_REVIEW)
    content = data.add_revision(asset_id, 1, ApprovalState.PENDING_REVIEW, left=LOW, right=HIGH)
    visitor = visit(Scope.READ, Scope.REVIEWER)
    page = visitor.go(f"/approvals?at={asset_id}:1")
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    expect(page.get_by_test_id("content-hash")).to_have_attribute("title", content)
    # The pixels of the file, decoded by the browser: low values dark on the left, high ones bright on the right.
    page.locator(".cog[data-state=ready]").wait_for()
    wait_for_colour(page, 0.42, DARK)
    wait_for_colour(page, 0.58, BRIGHT)
    box = page.locator(".map-canvas").bounding_box()
    assert box is not None
    for x, value in ((0.42, "10 m"), (0.58, "20 m")):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + 0.45 * box["height"])
        expect(page.get_by_test_id("cog-value")).to_have_text(value)
    assert visitor.serious_findings() == []
    assert page.locator(".review b, .review img[src=x]").count() == 0

    def approve() -> None:
        """By keyboard alone."""
        page.get_by_role("button", name="Approve").first.focus()
        visitor.press("Enter")
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        dialog.get_by_label("Everybody").focus()
        visitor.press("Space")
        button = dialog.get_by_role("button", name="Approve")
        expect(button).to_be_enabled()
        button.focus()
        visitor.press("Enter")

    # Somebody has replaced the content meanwhile: what was looked at is not what would be approved.
    data.set_content(asset_id, 1, "f" * 64)
    visitor.expected.add(409)
    approve()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("content")
    assert data.review_of(asset_id, 1)[0] == "pending_review"
    visitor.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    # The list was read again by now. What is decided about stays what was looked at, until somebody looks again.
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("was replaced while you looked at it", timeout=40_000)
    expect(page.get_by_test_id("content-hash")).to_have_attribute("title", content)
    notice.get_by_role("button", name="Look at the new content").click()
    expect(page.get_by_test_id("content-hash")).to_have_attribute("title", "f" * 64)
    expect(notice).to_have_count(0)
    data.set_content(asset_id, 1, content)
    visitor.go(f"/approvals?at={asset_id}:1")
    page.locator(".cog[data-state=ready]").wait_for()
    approve()
    expect(page.get_by_text("Revision 1 is approved and public.")).to_be_visible()
    assert data.review_of(asset_id, 1) == ("approved", "public", "ada", 1)


def test_a_revision_is_found_and_approved_by_keyboard_alone(visit: Arrive, data: MapData) -> None:
    title = "heights for the keyboard"
    asset_id = data.add_asset(title, 1, approval_state=ApprovalState.PENDING_REVIEW)
    data.add_revision(asset_id, 1, ApprovalState.PENDING_REVIEW, left=LOW, right=HIGH)
    visitor = visit(Scope.READ, Scope.REVIEWER)
    page = visitor.go("/")
    visitor.press("g", "v")
    expect(page.get_by_role("heading", level=1)).to_have_text("Approvals")
    entry = page.locator(".inbox-entry", has_text=title)
    visitor.tab_to(entry)
    visitor.press("Enter")
    expect(page.get_by_role("heading", name=title)).to_be_visible()
    # The decision is about what is shown.
    page.locator(".cog[data-state=ready]").wait_for()
    visitor.tab_to(page.get_by_role("button", name="Approve").first)
    visitor.press("Enter")
    dialog = page.get_by_role("dialog")
    visitor.tab_to(dialog.get_by_label("Everybody"))
    visitor.press("Space")
    approve = dialog.get_by_role("button", name="Approve")
    expect(approve).to_be_enabled()
    visitor.tab_to(approve)
    visitor.press("Enter")
    expect(page.get_by_text("Revision 1 is approved and public.")).to_be_visible()
    assert data.review_of(asset_id, 1) == ("approved", "public", "ada", 1)


def test_who_ordered_it_leaves_the_approval_to_somebody_else(visit: Arrive, data: MapData, up: Running) -> None:
    up.cluster.conn.execute(
        "INSERT INTO dag_platforms (platform_id, identity_refs, review, created_by)"
        """ VALUES ('four', '["dataset_id"]', 'four_eyes', 'otto')"""
    )
    asset_id = data.add_asset("of four eyes", 1, platform_id="four", approval_state=ApprovalState.PENDING_REVIEW)
    data.add_revision(asset_id, 1, ApprovalState.PENDING_REVIEW, left=LOW, right=HIGH)
    for name, offers in (("ann", 0), ("ada", 1)):
        visitor = visit(Scope.READ, Scope.REVIEWER, name=name)
        for path in (f"/assets/{asset_id}", f"/approvals?at={asset_id}:1"):
            page = visitor.go(path)
            expect(page.get_by_role("button", name="Reject")).to_be_visible()
            expect(page.get_by_text("another reviewer has to approve it")).to_have_count(1 - offers)
            expect(page.get_by_role("button", name="Approve", exact=True)).to_have_count(offers)


def test_two_revisions_are_compared_with_a_slider(visit: Arrive, data: MapData) -> None:
    asset_id = data.add_asset("compared", 2, current_revision=1, approval_state=ApprovalState.PENDING_REVIEW)
    data.add_revision(asset_id, 1, ApprovalState.APPROVED, left=LOW, right=LOW)
    data.add_revision(asset_id, 2, ApprovalState.PENDING_REVIEW, left=HIGH, right=HIGH)
    visitor = visit()
    page = visitor.go(f"/assets/{asset_id}?revision=2&against=1")
    page.locator(".cog[data-state=ready]").wait_for()
    wait_for_colour(page, 0.42, DARK)
    wait_for_colour(page, 0.58, BRIGHT)
    page.get_by_label("Share of the map that shows Revision 1").focus()
    visitor.press("Home")
    wait_for_colour(page, 0.42, BRIGHT)
    page.locator(".asset-bar select").first.select_option("1")
    expect(page.get_by_role("button", name="Revoke")).to_be_visible()
    for tab, text in (("Files", "silver/cogs/"), ("Lineage", "No lineage recorded"), ("STAC items", "c / dem")):
        page.get_by_role("tab", name=tab).click()
        expect(page.get_by_role("tabpanel").get_by_text(text).first).to_be_visible()
    assert visitor.serious_findings() == []


def test_vector_data_without_an_item_are_shown_where_they_lie(visit: Arrive, data: MapData) -> None:
    asset_id = data.add_asset("districts", 1, kind=AssetKind.VECTOR, approval_state=ApprovalState.PENDING_REVIEW)
    data.add_vector(asset_id, [10.0, 59.0, 11.0, 60.0])
    visitor = visit(Scope.READ, Scope.REVIEWER)
    for path in (f"/approvals?at={asset_id}:1", f"/assets/{asset_id}"):
        page = visitor.go(path)
        expect(page.get_by_text("This is where its data lie.")).to_be_visible()
        expect(page.locator(".map-canvas")).to_be_visible()
        expect(page.get_by_text("1 feature", exact=True)).to_be_visible()
        assert visitor.serious_findings() == []
    nowhere = data.add_asset("a table without a place", 1, kind=AssetKind.VECTOR)
    data.add_vector(nowhere, None)
    visitor.go(f"/assets/{nowhere}")
    expect(page.get_by_text("Nothing to show on a map")).to_be_visible()


def test_a_box_is_drawn_checked_and_submitted(visit: Arrive, up: Running) -> None:
    visitor = visit()
    page = visitor.go("/submit/clip_area")
    expect(page.get_by_text("Fill in what is required")).to_be_visible()
    page.get_by_role("button", name="Draw a box").click()
    canvas = page.locator(".map-canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 80)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 140, steps=4)
    page.mouse.up()
    expect(page.get_by_text("The server would accept this")).to_be_visible()
    west, south, east, north = (
        float(page.get_by_label(side).input_value()) for side in "West South East North".split()
    )
    assert west < east
    assert south < north
    # The server's own words for what is wrong, beside the field.
    page.get_by_label("clouds").fill("400")
    expect(page.locator("[data-field=clouds] .field-problem")).to_contain_text("100")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    page.get_by_role("tab", name="YAML").click()
    editor = page.get_by_label("Parameters as YAML")
    expect(editor).to_have_value(f"bbox: [{west}, {south}, {east}, {north}]\nclouds: 400\n")
    editor.fill("bbox: [10, 59, 11, 60]\nclouds: 40\nprofile: zstd\n")
    page.get_by_role("tab", name="As code").click()
    expect(page.get_by_label("Command", exact=True)).to_contain_text("rmhdag submit clip_area")
    page.get_by_role("tab", name="Form").click()
    expect(page.get_by_label("West")).to_have_value("10")
    assert visitor.serious_findings() == []
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url("**/ui/jobs/*")
    job = up.get(f"jobs/{page.url.rpartition('/')[2]}")
    assert job["input_params"] == {"bbox": [10, 59, 11, 60], "clouds": 40, "profile": "zstd"}


def test_assets_are_found_by_place_also_across_the_antimeridian(visit: Arrive, data: MapData) -> None:
    fiji = data.add_asset(f"fiji {HOSTILE}", 1, current_revision=1)
    data.add_place(fiji, [177.0, -19.0, -178.0, -16.0])
    data.add_place(data.add_asset("kenya", 1, current_revision=1), [36.0, -1.0, 38.0, 1.0])
    visitor = visit(Scope.READ)
    page = visitor.go("/assets?bbox=179,-18,-179,-17")
    expect(page.locator(f'tr[data-key="{fiji}"]')).to_contain_text(HOSTILE)
    expect(page.get_by_text("kenya")).to_have_count(0)
    page.get_by_role("button", name="Remove this filter").click()
    expect(page.get_by_role("link", name="kenya")).to_be_visible()
    # Where nobody may decide, nothing is offered.
    page.get_by_role("link", name="kenya").click()
    expect(page.get_by_role("heading", name="kenya")).to_be_visible()
    expect(page.get_by_role("button", name="Unpublish")).to_have_count(0)
    visitor.go("/assets")
    assert visitor.serious_findings() == []
    assert page.locator("tbody b, tbody img[src=x]").count() == 0


def test_jobs_are_filtered_by_a_box_that_is_drawn(visit: Arrive, up: Running) -> None:
    inside, outside = up.submit("flaky", fails=False), up.submit("flaky", fails=False)
    for job_id, bbox in ((inside, [-20.0, -20.0, 20.0, 20.0]), (outside, [160.0, 60.0, 161.0, 61.0])):
        up.end_of(job_id)
        times: dict[str, Any] = {"created_at": NOW, "changed_at": NOW, "next_attempt_at": NEVER}
        entry = CatalogueEntry(collection_id="drawn", item_id=job_id, job_id=job_id, body={"bbox": bbox}, **times)
        insert_rows(up.cluster.conn, "dagapp", [entry])
    visitor = visit()
    page = visitor.go("/jobs?q=workflow:flaky")
    page.locator(f'tr[data-key="{outside}"]').wait_for()
    page.get_by_role("button", name="Area").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Draw a box").click()
    box = dialog.locator(".map-canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.45, box["y"] + box["height"] * 0.4)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.55, box["y"] + box["height"] * 0.6, steps=4)
    page.mouse.up()
    expect(dialog.get_by_label("West")).not_to_have_value("")
    assert visitor.serious_findings() == []
    dialog.get_by_role("button", name="Filter by this area").click()
    expect(page.locator(f'tr[data-key="{outside}"]')).to_have_count(0)
    page.locator(f'tr[data-key="{inside}"]').wait_for()
    assert "area%3A" in page.url
    page.get_by_role("button", name="Remove this filter").last.click()
    page.locator(f'tr[data-key="{outside}"]').wait_for()
    up.cluster.conn.execute("DELETE FROM dag_catalogue_entries WHERE collection_id = 'drawn'")
