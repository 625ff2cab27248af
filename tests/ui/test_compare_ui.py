"""The script that compares web interfaces measures ours; the others would have to be installed from outside."""

import json
import subprocess
import sys


def test_our_page_is_measured() -> None:
    command = [sys.executable, "scripts/compare_ui.py", "--only-rmhdag", "--rounds", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    figures = json.loads(done.stdout)["rmhdag"]
    assert 20 < figures["kilobytes"] < 300
    assert 0 < figures["first_paint_ms"] <= figures["usable_ms"]
