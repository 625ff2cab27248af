"""An orchestrator or worker as a process of its own: how it is started, and what it does (`python -m` this module).

What it is told comes over stdin, so that no password stands in a list of processes.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from rmhdag.machine.python import python_command
from rmhdag.observability.logs import configure_logs

PR_SET_PDEATHSIG = 1


def spawn(
    role: str, instructions: dict[str, Any], log: Path, module: str = "rmhdag.lab.bench.process"
) -> subprocess.Popen[bytes]:
    """Start one. It dies with the *thread* that calls this: call it from one that lives as long as it should."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            python_command(module, role, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            # Ctrl-C in a terminal is for the benchmark itself, which then stops its processes.
            start_new_session=True,
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(instructions).encode())
    process.stdin.close()
    return process


def die_with(parent: int) -> None:
    """At the start of a process that `spawn` has made."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"process {parent}, which started this one, is gone")


def main(role: str, parent: int) -> None:
    die_with(parent)
    # As in every process that the command starts (cli/main.py).
    gc.set_threshold(200_000, 20, 20)
    configure_logs()
    instructions: dict[str, Any] = json.load(sys.stdin)
    match role:
        case "orchestrator":
            run_orchestrator(**instructions)
        case "worker":
            run_worker(**instructions)
        case "api":
            from rmhdag.lab.bench.http import serve

            serve(**instructions)
        case "gateway":
            from rmhdag.lab.bench.gateway import serve_gateway

            serve_gateway(**instructions)
        case "bare_owner":
            from rmhdag.lab.bench.bare_hop import answer_reports

            answer_reports(**instructions)
        case _:
            sys.exit(f"there is no role {role!r}")


def run_orchestrator(
    dsn: str,
    schema: str,
    notify: bool = True,
    callbacks: dict[str, Any] | None = None,
    storage: str | None = None,
    **settings: Any,
) -> None:
    from rmhdag.orchestrator.context import OrchestratorSettings
    from rmhdag.orchestrator.process import Orchestrator
    from rmhdag.services.callbacks.destinations import Rules
    from rmhdag.services.callbacks.settings import CallbackSettings
    from rmhdag.storage.settings import StorageSettings

    if callbacks is not None:
        callbacks["rules"] = Rules(frozenset(callbacks["rules"]["hosts"]))
        callbacks["schedule_seconds"] = tuple(callbacks["schedule_seconds"])
        settings["callbacks"] = CallbackSettings(**callbacks)
    settings["storage"] = StorageSettings(storage)
    orchestrator = Orchestrator(dsn, schema, OrchestratorSettings(**settings), {}, notify=notify)
    signal.signal(signal.SIGTERM, lambda number, frame: orchestrator.stop())
    orchestrator.run()


def run_worker(scratch_root: str | None = None, storage: str | None = None, **settings: Any) -> None:
    from rmhdag.storage.settings import StorageSettings
    from rmhdag.worker.settings import WorkerSettings
    from rmhdag.worker.worker import Worker

    settings["queues"] = tuple(settings["queues"])
    settings["handler_modules"] = tuple(settings.get("handler_modules", ()))
    folder = Path(scratch_root) if scratch_root else None
    Worker(WorkerSettings(scratch_root=folder, storage=StorageSettings(storage), **settings)).run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
