"""The page of the client is true: its snippets are run one after another, as a reader would."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rmhdag.cli.shipped_workflows import HEAVY, LIGHT, in_queues, shipped_folder
from rmhdag.workflow import load
from tests.api.registering import register
from tests.api.running import Running

PAGE = Path(__file__).parents[2] / "docs" / "python-client.md"


def test_the_snippets_run(up: Running, admin_key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("hello_world", "fan_out_test"):
        text = (shipped_folder() / f"{name}.yaml").read_text(encoding="utf-8")
        register(up.api.dsn, load(in_queues(text, {LIGHT: "light", HEAVY: "light"})).definition)
    monkeypatch.setenv("RMHDAG_URL", up.api.url)
    monkeypatch.setenv("RMHDAG_KEY", admin_key)
    page = PAGE.read_text(encoding="utf-8")
    snippets = list(re.finditer(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert len(snippets) > 5
    names: dict[str, Any] = {"__name__": "snippet"}
    for snippet in snippets:
        # With its place in the page, for tracebacks.
        lines = "\n" * page.count("\n", 0, snippet.start(1))
        exec(compile(lines + snippet[1], str(PAGE), "exec"), names)
