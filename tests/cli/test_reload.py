"""`rmhdag up --reload`: edits take effect, mistakes are shown, and what runs goes on as it began."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import plain_environment, start_cli
from tests.cli.running import Up
from tests.store.waiting import wait_until

HANDLERS = """\
import time
from pathlib import Path
from rmhdag.handlers import HandlerContext, handler

ANSWER = 1


@handler("mine.answer", queue="light-tasks")
def answer(ctx: HandlerContext) -> dict:
    return {"answer": ANSWER}


@handler("mine.wait", queue="light-tasks")
def wait(ctx: HandlerContext) -> dict:
    Path("started").touch()
    while not Path("go").exists():
        time.sleep(0.05)
    return {"answer": ANSWER}
"""
ANSWER = "workflow_id: ask\nname: Ask\nnodes:\n  one: {handler: mine.answer}\n"
WAIT = """\
workflow_id: slow
name: Slow
nodes:
  first: {handler: mine.wait, next: last}
  last: {handler: echo, queue: light-tasks, params: {version: 1}}
outputs: {answer: "{{ nodes.first.output.answer }}", version: "{{ nodes.last.output.echoed_params.version }}"}
"""


BROKEN = "workflow_id: broken\nname: Broken\nnodes:\n  one: {handler: mine.anwser}\n"


class Project:
    """A folder with handlers and workflows, and `up --reload` on it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "mine.py").write_text(HANDLERS)
        (home / "flows").mkdir()
        (home / "flows" / "nap.yaml").write_text(
            "workflow_id: nap\nname: Nap\nnodes:\n"
            "  one: {handler: sleep, queue: light-tasks, params: {seconds: 0}, retries: 0}\n"
        )
        (home / "flows" / "broken.yaml").write_text(BROKEN)
        self.up = Up(home, "--reload", "--workflows", "flows", RMHDAG_HANDLERS="mine", PYTHONPATH=str(home))
        self._read = 0

    def wait_for(self, text: str) -> str:
        """What was said since the last time, once this is in it."""
        wait_until(lambda: text in self.up.told()[self._read :], 60)
        told = self.up.told()
        said, self._read = told[self._read :], len(told)
        return said

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.home / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def result(self, workflow: str) -> dict[str, Any]:
        done = start_cli(self.home, "submit", workflow, "--wait", "--json")
        assert done.returncode == 0, done.stderr + done.stdout
        result: dict[str, Any] = json.loads(done.stdout)["result_data"]
        return result


@pytest.fixture
def project(home: Path) -> Iterator[Project]:
    project = Project(home)
    yield project
    (home / "go").touch()
    assert project.up.end(signal.SIGTERM, 60) == 0


@pytest.mark.timeout(300)
def test_edits_take_effect_and_mistakes_do_not(project: Project) -> None:
    assert "watching" in project.up.told()
    # One file with a problem does not keep the others from being registered, and counts once it is corrected.
    assert "broken.yaml:4:" in project.up.told()
    assert "broken.yaml: nothing was registered; it is registered once it is correct" in project.up.told()
    assert project.result("nap") == {"one": {"slept_seconds": 0}}
    project.edit("flows/broken.yaml", "anwser", "answer")
    project.wait_for("registered broken v1 from broken.yaml")
    assert project.result("broken") == {"one": {"answer": 1}}
    (project.home / "flows" / "ask.yaml").write_text(ANSWER)
    project.wait_for("registered ask v1 from ask.yaml")
    assert project.result("ask") == {"one": {"answer": 1}}

    project.edit("mine.py", "ANSWER = 1", "ANSWER = 2")
    project.wait_for("reloaded: new tasks run the new code")
    assert project.result("ask") == {"one": {"answer": 2}}

    project.edit("mine.py", "ANSWER = 2", "ANSWER = = 3")
    said = project.wait_for("the previous handlers stay active")
    assert "mine.py:5:" in said
    assert "ANSWER = = 3" in said
    # Light handlers share a process, which the worker starts only now: it cannot load the code, and others step in.
    assert project.result("nap") == {"one": {"slept_seconds": 0}}
    assert project.result("ask") == {"one": {"answer": 2}}
    project.edit("mine.py", "ANSWER = = 3", "import no_such_library")
    said = project.wait_for("the previous handlers stay active")
    assert "the new worker cannot load the handlers" in said
    assert "no_such_library" in said
    assert project.result("ask") == {"one": {"answer": 2}}

    project.edit("flows/ask.yaml", "mine.answer", "mine.anser")
    said = project.wait_for("the registered version stays")
    assert "ask.yaml:4:" in said
    assert "Did you mean `mine.answer`?" in said
    assert project.result("ask") == {"one": {"answer": 2}}
    # The handler that the workflow wants comes with the next version of the code.
    project.edit("mine.py", "import no_such_library", "ANSWER = 4")
    project.edit("mine.py", '"mine.answer"', '"mine.anser"')
    project.wait_for("registered ask v1 from ask.yaml")
    assert project.result("ask") == {"one": {"answer": 4}}


@pytest.mark.timeout(300)
def test_what_runs_goes_on_as_it_began(project: Project) -> None:
    (project.home / "flows" / "slow.yaml").write_text(WAIT)
    project.wait_for("registered slow v1")
    running = subprocess.Popen(
        [sys.executable, "-m", "rmhdag.cli", "submit", "slow", "--wait", "--json"],
        cwd=project.home,
        env=plain_environment(project.home),
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until((project.home / "started").exists, 60)
    project.edit("mine.py", "ANSWER = 1", "ANSWER = 2")
    project.edit("flows/slow.yaml", "version: 1}}", "version: 2}}")
    project.wait_for("registered slow v1")
    (project.home / "go").touch()
    told, _ = running.communicate(timeout=60)
    assert json.loads(told)["result_data"] == {"answer": 1, "version": 1}, "its task ended where it began"
    assert project.result("slow") == {"answer": 2, "version": 2}
