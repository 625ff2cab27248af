"""Pictures of the web interface for the documentation, from the running product with sample data.

`scripts/screenshots [FOLDER]` starts a platform of its own, processes sample rasters, lets a few jobs fail, and saves
each screen in light; `--all` also the other panes, in dark and at 360 pixels, for those who judge the looks.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from PIL import Image
from playwright.sync_api import BrowserContext, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = "/usr/bin/chromium"
OPTIONS = (
    "--no-sandbox --disable-background-networking --disable-component-update --disable-sync --no-first-run".split()
)
BROKEN = """\
workflow_id: mosaic_survey
name: Mosaic of a survey
inputs: {tile: {type: integer, default: 1}}
defaults: {queue: light-tasks, retry: {max_attempts: 1}}
nodes:
  fetch: {handler: echo, params: {tile: "{{ inputs.tile }}"}, next: warp}
  warp:
    handler: fail
    params: {message: "tile {{ inputs.tile }} has no coordinate system; assign one and upload it again"}
    next: END
"""
SLOW = """\
workflow_id: terrain_tiles
name: Terrain by tiles
inputs: {tiles: {type: array, default: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]}}
defaults: {queue: light-tasks}
nodes:
  split:
    type: fan_out
    source: "{{ inputs.tiles }}"
    max_parallel: 4
    task: {handler: sleep, params: {seconds: 20}}
    next: gather
  gather: {type: fan_in, next: ask}
  ask: {type: approval, message: "Release the terrain?", next: END}
"""
# Name of the picture, path, and what must be on the page before it is taken. {job} is the newest job of a raster.
SCREENS = (
    ("dashboard", "/", ".running li"),
    ("jobs", "/jobs", "tbody tr[data-row]"),
    ("job", "/jobs/{job}", "h1"),
    ("failed-job", "/jobs/{failed}", "h1"),
    ("workflows", "/workflows", "h1"),
    ("workflow", "/workflows/raster_processing", "h1"),
    ("submit", "/submit/raster_processing", "h1"),
    ("assets", "/assets", "h1"),
    ("asset", "/assets/{asset}", "h1"),
    ("approvals", "/approvals", "h1"),
    ("tasks", "/tasks", "tbody tr[data-row]"),
    ("handlers", "/tasks?tab=handlers", "tbody tr[data-row]"),
    ("queues", "/queues?queue=light-tasks", "tbody tr[data-row]"),
    ("dead-letters", "/queues?tab=dead-letters", "[role=tabpanel]"),
    ("nodes", "/nodes", ".process"),
    ("health", "/health", ".health-verdict"),
    ("keys", "/settings", "tbody tr[data-row]"),
    ("callbacks", "/settings?tab=callbacks", "[role=tabpanel]"),
    ("platforms", "/settings?tab=platforms", "tbody tr[data-row]"),
    ("about", "/about", ".facts"),
)
# Only with --all: the other panes of these screens.
PANES = (
    ("job-fan-out", "/jobs/{running}?tab=fan-out", ".squares canvas"),
    ("job-timeline", "/jobs/{job}?tab=timeline", ".gantt"),
    ("job-tasks", "/jobs/{job}?tab=tasks", "tbody tr[data-row]"),
    ("job-logs", "/jobs/{job}?tab=logs", ".log-row"),
    ("job-outputs", "/jobs/{job}?tab=outputs", "[role=tabpanel]"),
    ("job-events", "/jobs/{job}?tab=events", ".event"),
    ("job-yaml", "/jobs/{job}?tab=definition", "[role=tabpanel] pre"),
    ("job-two-panes", "/jobs/{job}?beside=logs", "[data-node]"),
    ("running-job", "/jobs/{running}", "[data-node]"),
    ("workflow-inputs", "/workflows/raster_processing?tab=inputs", "[role=tabpanel]"),
    ("workflow-versions", "/workflows/raster_processing?tab=versions", "[role=tabpanel]"),
    ("submit-list", "/submit", "h1"),
    ("submit-yaml", "/submit/raster_processing?as=yaml", "[role=tabpanel]"),
    ("submit-code", "/submit/raster_processing?as=code", "[role=tabpanel]"),
    ("asset-facts", "/assets/{asset}?tab=facts", "[role=tabpanel]"),
    ("asset-revisions", "/assets/{asset}?tab=revisions", "[role=tabpanel]"),
    ("asset-files", "/assets/{asset}?tab=files", "[role=tabpanel]"),
    ("asset-lineage", "/assets/{asset}?tab=lineage", "[role=tabpanel]"),
    ("asset-stac", "/assets/{asset}?tab=stac", "[role=tabpanel]"),
)


@contextmanager
def platform(home: Path) -> Iterator[dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RMHDAG_")}
    environment |= {"RMHDAG_HOME": str(home), "RMHDAG_API_PORT": "0"}
    command = [str(ROOT / ".venv/bin/rmhdag")]
    process = subprocess.Popen([*command, "up", "--json"], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        facts: dict[str, Any] = json.loads(process.stdout.readline())
        for kind in ("dem", "multiband"):
            subprocess.run([*command, "demo", "--kind", kind], env=environment, check=True, stdout=subprocess.DEVNULL)
        yield facts
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)


def seed(url: str, cookie: dict[str, str]) -> dict[str, str]:
    """Jobs in all states; returns what the paths of the screens name."""
    headers = {"Origin": url}
    with httpx.Client(base_url=f"{url}/api/v1", cookies=cookie, headers=headers, timeout=60, trust_env=False) as client:
        for text in (BROKEN, SLOW):
            answer = client.post("/workflows", content=text, headers={"Content-Type": "application/yaml"})
            answer.raise_for_status()
        bodies: list[dict[str, Any]] = [
            {"workflow_id": "hello_world", "input_params": {"name": f"Ada {number}"}} for number in range(9)
        ]
        bodies += [{"workflow_id": "mosaic_survey", "input_params": {"tile": number}} for number in range(3)]
        bodies += [{"workflow_id": "fan_out_test"}, {"workflow_id": "terrain_tiles"}, {"workflow_id": "terrain_tiles"}]
        for body in bodies:
            client.post("/jobs", json=body).raise_for_status()
        while not (failed := client.get("/jobs", params={"status": "failed", "limit": 1}).json()["jobs"]):
            pass
        rasters = client.get("/jobs", params={"workflow_id": "raster_processing", "limit": 1}).json()["jobs"]
        running = client.get("/jobs", params={"workflow_id": "terrain_tiles", "limit": 1}).json()["jobs"]
        assets = client.get("/assets", params={"limit": 1}).json()["assets"]
    jobs = {"job": rasters, "failed": failed, "running": running}
    return {name: found[0]["job_id"] for name, found in jobs.items()} | {"asset": assets[0]["asset_id"]}


def take(
    context: BrowserContext,
    url: str,
    names: dict[str, str],
    folder: Path,
    ending: str,
    *,
    only: list[str],
    with_panes: bool,
) -> None:
    page = context.new_page()
    for name, path, ready in SCREENS + PANES if with_panes else SCREENS:
        if only and name not in only:
            continue
        page.goto(f"{url}/ui{path.format(**names)}")
        page.locator("h1").first.wait_for()
        if page.get_by_text("There is no such page").count():
            print(f"{name}: no such screen", file=sys.stderr)
            continue
        page.locator(ready).first.wait_for()
        # Maps and graphs draw after their data has come.
        page.wait_for_load_state("networkidle" if "map" in name else "load")
        page.wait_for_timeout(2500)
        picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        picture.save(folder / f"ui-{name}{ending}.png", optimize=True)
        print(folder / f"ui-{name}{ending}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs/images")
    parser.add_argument("--all", action="store_true", help="also dark and narrow")
    parser.add_argument("--only", nargs="+", default=[], help="names of screens")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="rmhdag-screenshots-") as folder, platform(Path(folder)) as facts:
        url = str(facts["url"])
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
            first = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
            first.new_page().goto(str(facts["login_url"]))
            cookies = first.cookies()
            names = seed(url, {cookie["name"]: cookie["value"] for cookie in cookies})
            take(first, url, names, options.folder, "", only=options.only, with_panes=options.all)
            for ending, width, scheme in (("-dark", 1280, "dark"), ("-narrow", 360, "light")) if options.all else ():
                other = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
                other.add_cookies(cookies)  # type: ignore[arg-type]
                take(other, url, names, options.folder, ending, only=options.only, with_panes=True)
            browser.close()


if __name__ == "__main__":
    main()
