"""`rmhdag up --reload`: edited handlers get a new worker, edited workflow files are registered again.

Whatever is wrong with an edit is shown, and what ran before goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from rmhdag.cli.database import open_connection
from rmhdag.cli.doors import inside
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import paint, say
from rmhdag.cli.registering import register_files
from rmhdag.cli.settings import Settings
from rmhdag.cli.supervisor import TAIL_LINES, Supervised, Supervisor
from rmhdag.cli.tables import plural
from rmhdag.cli.watched_files import WatchedFiles, flow_files, handler_files
from rmhdag.handlers.registry import split_modules
from rmhdag.store.processes import registered_process_ids

if TYPE_CHECKING:
    from rmhdag.workflow import HandlerEntry

LOOK_SECONDS = 0.25
# While a new worker starts: those who wait for it sit before the screen.
JUDGE_SECONDS = 0.1
# A worker that has not loaded its handlers by then never will.
READY_SECONDS = 60.0


class Reloader:
    """`look` is to be called again after each pause."""

    def __init__(
        self, watcher: Supervisor, settings: Settings, dsn: str, workflows: Sequence[str], patience_seconds: float
    ) -> None:
        modules = split_modules(settings.handlers)
        self._watcher = watcher
        self._settings = settings
        self._dsn = dsn
        self._patience_seconds = patience_seconds
        self._code = WatchedFiles(lambda: handler_files(modules))
        self._flows = WatchedFiles(lambda: flow_files(workflows))
        self._candidate: Supervised | None = None
        self._log_size = 0
        self._started_at = 0.0
        self._unregistered: dict[Path, None] = {}
        self._refused: dict[Path, None] = {}

    def describe(self) -> str:
        return f"{plural(len(self._code), 'handler file')} and {plural(len(self._flows), 'workflow file')}"

    @property
    def pause_seconds(self) -> float:
        return LOOK_SECONDS if self._candidate is None else JUDGE_SECONDS

    def register_first(self, handlers: Sequence[HandlerEntry]) -> list[str]:
        """All workflow files, before there is a worker; `known` are the handlers that it will have."""
        return [
            name for name, _ in self._register(self._flows.paths(), handlers, "it is registered once it is correct")
        ]

    def look(self) -> None:
        code = self._code.changes()
        if code:
            self._load(code)
        self._unregistered |= dict.fromkeys(self._flows.changes())
        if self._candidate is not None:
            # What workflows name may come with the new handlers.
            self._judge(self._candidate)
        elif self._unregistered:
            # With the handlers that the running worker has, not with those that are being edited.
            for name, path in self._register(list(self._unregistered), (), "the registered version stays"):
                say(f"{paint('registered', '32', sys.stderr)} {name} from {path.name}")
            self._unregistered.clear()

    # -- handlers ----------------------------------------------------------------------------------------------

    def _load(self, paths: list[Path]) -> None:
        """By a new worker beside the old one, which is replaced only when the new one has loaded everything."""
        names = ", ".join(path.name for path in paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
        problems = [problem for path in paths if (problem := syntax_problem(path))]
        if problems:
            warn("\n".join([*problems, f"  {names} cannot be loaded; the previous handlers stay active"]))
            return
        if self._watcher.processes["worker"].is_drained:
            warn(f"{names} changed but is not loaded: the worker was drained")
            return
        if self._candidate is not None:
            self._watcher.give_up(self._candidate)
        log = self._watcher.processes["worker"].log
        self._log_size = log.stat().st_size if log is not None and log.exists() else 0
        self._started_at = time.monotonic()
        self._candidate = self._watcher.start_successor("worker")
        say(f"{names} changed: starting a worker with the new code")

    def _judge(self, candidate: Supervised) -> None:
        process = candidate.process
        is_late = time.monotonic() - self._started_at > READY_SECONDS
        if process is None or process.poll() is not None or is_late:
            why = f"was not ready within {READY_SECONDS:g} s" if is_late else "cannot load the handlers"
            self._watcher.give_up(candidate)
            self._candidate = None
            warn(f"the new worker {why}; the previous handlers stay active\n{self._last_words(candidate)}")
        elif self._is_registered(process.pid):
            self._candidate = None
            self._watcher.replace(candidate, self._patience_seconds)
            say(f"{paint('reloaded', '32', sys.stderr)}: new tasks run the new code (worker {process.pid})")
            self._unregistered |= self._refused

    def _is_registered(self, process_id: int) -> bool:
        """It says so in the database when it has loaded its handlers."""
        # A database that is just being restarted is asked again at the next look.
        with suppress(psycopg.Error), open_connection(self._dsn, self._settings) as conn:
            return process_id in registered_process_ids(conn)
        return False

    def _last_words(self, candidate: Supervised) -> str:
        if candidate.log is None:
            return ""
        with candidate.log.open("rb") as log:
            log.seek(self._log_size)
            lines = log.read().decode("utf-8", "replace").splitlines()
        errors = [number for number, line in enumerate(lines) if line.startswith("error:")]
        return "\n".join(f"  {line}" for line in (lines[errors[-1] :] if errors else lines)[-TAIL_LINES:])

    # -- workflows ---------------------------------------------------------------------------------------------

    def _register(
        self, paths: list[Path], handlers: Sequence[HandlerEntry], consequence: str
    ) -> list[tuple[str, Path]]:
        """What was registered (`ask v1`), and from which file. A problem in one file must not hold up the others."""
        registered = []
        for path in paths:
            self._refused.pop(path, None)
            if not path.exists():
                say(f"{path} is gone; its workflow stays registered")
                continue
            try:
                with inside(self._dsn, self._settings, "the database", own=handlers) as platform:
                    workflows = register_files(platform, [str(path)])
            except (CommandFailed, psycopg.Error) as error:
                self._refused[path] = None
                remedy = error.remedy if isinstance(error, CommandFailed) else ""
                text = str(error) if str(path) in str(error) else f"{path.name}: {error}"
                warn(f"{text}; {consequence}{f' ({remedy})' if remedy else ''}")
                continue
            registered += [(f"{workflow.workflow_id} v{workflow.version}", path) for workflow in workflows]
        return registered


def syntax_problem(path: Path) -> str | None:
    """As Python shows it, without starting anything."""
    try:
        compile(path.read_bytes(), str(path), "exec")
    except SyntaxError as error:
        place = f"{path}:{error.lineno}:{error.offset}"
        line = (error.text or "").rstrip("\n")
        caret = " " * max(0, (error.offset or 1) - 1) + "^"
        return f"{place}: {error.msg}\n    {line}\n    {caret}"
    except ValueError as error:
        return f"{path}: {error}"
    except OSError:
        return None  # it is gone, or will be seen at the next look
    return None


def warn(text: str) -> None:
    say(f"{paint('warning:', '33', sys.stderr)} {text}")
