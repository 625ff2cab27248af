"""The page about handlers is true: its example can be declared, runs, and is as strict as the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from rmhdag.handlers import HandlerContext, load_handlers
from rmhdag.handlers.running import run_plain
from rmhdag.workflow import HandlerEntry
from rmhdag.workflow.handler_schema import find_param_faults
from tests.handlers.test_running import Paper

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "architecture" / "handlers.md").read_text(encoding="utf-8")


def test_the_example_is_a_handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    (example,) = (text for text in examples if "my.measure" in text)
    (tmp_path / "handler_of_the_page.py").write_text(example, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    spec = load_handlers(["handler_of_the_page"]).find("my.measure")
    sys.modules.pop("handler_of_the_page")
    assert spec is not None
    params = {"container_name": "a", "blob_name": "b"}
    assert run_plain(spec, HandlerContext(Paper(), params)).output == b'{"size_mb":12.5}'
    assert "no such parameter" in str(run_plain(spec, HandlerContext(Paper(), params | {"c": 1})).error_message)
    entry = HandlerEntry.from_manifest(spec.manifest())
    assert [fault.code for fault in find_param_faults(entry.name, entry.params_schema, {"blob_nmae": "a"})] == [
        "unknown-parameter",
        "missing-parameter",
        "missing-parameter",
    ]
