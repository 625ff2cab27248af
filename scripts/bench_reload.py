"""Saves handlers and workflow files beside a running `rmhdag up --reload`, and waits until it says that they count."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HANDLERS = """\
from rmhdag.handlers import HandlerContext, handler

ANSWER = 0


@handler("mine.answer", queue="light-tasks")
def answer(ctx: HandlerContext) -> dict:
    return {"answer": ANSWER}
"""
FLOW = "workflow_id: ask\nname: Ask 0\nnodes:\n  one: {handler: mine.answer}\n"
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.01


class Project:
    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "mine.py").write_text(HANDLERS)
        (home / "flow.yaml").write_text(FLOW)
        self.messages = home / "messages"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RMHDAG_")}
        environment |= {"RMHDAG_HOME": str(home / "data"), "RMHDAG_HANDLERS": "mine", "PYTHONPATH": str(home)}
        environment |= {"RMHDAG_API_PORT": "0", "NO_COLOR": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rmhdag.cli", "up", "--reload", "--workflows", "flow.yaml"],
            cwd=home,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=self.messages.open("wb"),
        )
        self.wait_for("rmhdag is up", 0)

    def wait_for(self, text: str, after: int) -> None:
        """`after` is how much had been said before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.messages.read_text()[after:]:
            if time.monotonic() > deadline or self.process.poll() is not None:
                sys.exit(f"it never said {text!r}:\n{self.messages.read_text()}")
            time.sleep(LOOK_SECONDS)

    def save(self, name: str, old: str, new: str, told: str) -> float:
        """Seconds until it says so."""
        path, before = self.home / name, len(self.messages.read_text())
        text = path.read_text().replace(old, new)
        began = time.monotonic()
        path.write_text(text)
        self.wait_for(told, before)
        return time.monotonic() - began

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE_SECONDS)


def main() -> None:
    runs = int(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="rmhdag-reload-") as folder:
        os.chmod(folder, 0o755)
        project = Project(Path(folder))
        handlers, flows = [], []
        try:
            for run in range(runs):
                handlers.append(project.save("mine.py", f"ANSWER = {run}", f"ANSWER = {run + 1}", "reloaded"))
                flows.append(project.save("flow.yaml", f"Ask {run}", f"Ask {run + 1}", "registered ask"))
        finally:
            project.end()
    for name, seconds in (("handlers", handlers), ("workflow file", flows)):
        print(f"{name:<14} median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s")


if __name__ == "__main__":
    main()
