"""The script that compares web interfaces measures ours; the others would have to be installed from outside."""

import json
import subprocess
import sys

from playwright.sync_api import Browser


def test_our_page_is_measured(browser: Browser) -> None:
    """`browser` is what the script needs too."""
    command = [sys.executable, "scripts/compare_ui.py", "--only-rmhdag", "--rounds", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    figures = json.loads(done.stdout)["rmhdag"]
    assert 20 < figures["kilobytes"] < 300
    assert 0 < figures["first_paint_ms"] <= figures["usable_ms"]
