"""docs/reviewers.md: what it tells reviewers to type does what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.documentation.fences import Fence, fences_of
from tests.documentation.terminal import open_terminal

NAME = "docs/reviewers.md"
PAGE = (Path(__file__).resolve().parents[2] / NAME).read_text(encoding="utf-8")
(WORKFLOW,) = fences_of(NAME, "yaml")
(SCRIPT,) = fences_of(NAME, "python")
ASSET = "2ef7c1623e1299b6954195f0abb5618d"


def printed_after(fence: Fence) -> str | None:
    """What the page shows below a block."""
    following = [block for block in fences_of(NAME) if block.line > fence.line]
    return following[0].text if following and following[0].language == "text" else None


@pytest.mark.timeout(300)
def test_the_commands_do_what_the_page_says() -> None:
    begin, look, *decisions = fences_of(NAME, "sh")
    with open_terminal() as terminal:
        (terminal.folder / "land_cover.yaml").write_text(WORKFLOW.text, encoding="utf-8")
        terminal.run(begin)
        assert (printed_after(begin) or "nothing is printed") in terminal.messages
        listed, shown = terminal.run(look)
        assert f"rmhdag asset approve {ASSET} --revision 1" in listed
        assert "revision 1 is pending_review" in shown
        for fence in decisions:
            messages = []
            for command in fence.commands():
                answer = terminal.type(command, fence.place)
                messages.append(terminal.messages + answer)
            expected = printed_after(fence)
            assert expected is not None
            assert any(expected in message for message in messages), f"{fence.place}: {messages}"
        assert "review.revoke" in messages[-1]

        terminal.type(f"rmhdag submit land_cover tile=t37 {' '.join(begin.commands()[-1].split()[4:])}")
        facts = json.loads(terminal.type("cat data/api.json"))
        terminal.environment["RMHDAG_URL"] = facts["url"]
        key = terminal.type("RMHDAG_URL= rmhdag keys create rita --scope read --scope reviewer").strip()
        terminal.environment["RMHDAG_KEY"] = key
        assert "'dataset_id': '0038272'" in terminal.run_python(SCRIPT)
        asset = json.loads(terminal.type(f"rmhdag asset {ASSET} --json"))
    assert (asset["current_revision"], asset["classification"]) == (3, "public")
    assert asset["current"]["decided_by"] == "rita"
