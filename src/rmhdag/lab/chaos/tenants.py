"""One tenant attacks, another one works: a real platform, and whether the second notices the first.

The victim's small jobs and calls are measured while nothing else happens, and again while the attacker does everything
that a tenant can do, all at once (`attacks.py`). What happens to the platform's processes is told as well.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.lab.bench.measures import percentile
from rmhdag.lab.bench.process import spawn
from rmhdag.lab.bench.rig import DISK
from rmhdag.lab.chaos.fleet import Fleet
from rmhdag.lab.chaos.growth import process_figures
from rmhdag.lab.chaos.workflows import QUEUE
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys, migration
from rmhdag.store.connection import connect

SCHEMA = "dagapp"
DATABASE = "tenants"
VICTIM = "beta-submit"
# The victim's jobs may take so many times longer than the slowest of a hundred took without the attack.
MOST_TIMES = 3.0
# What the API may take, whatever is thrown at it.
MOST_API_MB = 400
# A job or call that is not over by then counts as that long.
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.02
PAUSE_SECONDS = 0.05
IDLE_SHARE = 0.2
MOST_IDLE_SECONDS = 60.0
START_SECONDS = 60.0
PEOPLE = 10
SMALL = f"workflow_id: small\nname: Small\nnodes: {{a: {{handler: echo, queue: {QUEUE}}}}}\n"
WORKER_LEASE_SECONDS = 10.0


@dataclass
class Measured:
    """Seconds of jobs and of single calls, and how these were answered."""

    jobs: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    def figures(self) -> dict[str, Any]:
        figures: dict[str, Any] = {"jobs": len(self.jobs), "calls": len(self.calls), "answers": dict(self.answers)}
        for name, seconds in (("job", self.jobs), ("call", self.calls)):
            if seconds:
                figures[f"{name}_ms_p50"] = round(1_000 * percentile(seconds, 0.5), 1)
                figures[f"{name}_ms_p99"] = round(1_000 * percentile(seconds, 0.99), 1)
        return figures


def run_tenants(minutes: float, say: Callable[[str], None]) -> dict[str, Any]:
    """The report; `ok` is false if a limit was broken."""
    folder = Path(tempfile.mkdtemp(prefix="rmhdag-tenants-", dir=DISK if DISK.is_dir() else None))
    folder.chmod(0o711)  # the database server may run as another user
    try:
        with ExitStack() as stack:
            report = _Drill(minutes, folder, stack, say).run()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if report["ok"]:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        shutil.rmtree(folder / "pg", ignore_errors=True)
        report["evidence"] = str(folder)
        (folder / "report.json").write_text(json.dumps(report, indent=2), encoding="utf-8")
    return report


class _Drill:
    def __init__(self, minutes: float, folder: Path, stack: ExitStack, say: Callable[[str], None]) -> None:
        self._seconds = minutes * 60
        self._folder = folder
        self._stack = stack
        self._say = say
        self._memory: dict[str, int] = {}

    def run(self) -> dict[str, Any]:
        postgres = self._stack.enter_context(EmbeddedPostgres(self._folder / "pg"))
        dsn = postgres.create_database(DATABASE)
        migration.apply(dsn, SCHEMA)
        fleet = Fleet(dsn, SCHEMA, self._folder, QUEUE, WORKER_LEASE_SECONDS, (2, 2))
        self._stack.callback(fleet.kill)
        fleet.start()
        processes = {member.name: member.process for member in fleet.members}
        url, processes["api"] = self._start_api(dsn)
        with connect(dsn, "chaos:setup", autocommit=True) as conn:
            conn.execute("SELECT set_config('search_path', %s, false)", [SCHEMA])
            people = [
                api_keys.create_key(conn, f"alpha-{n}", [Scope.ADMIN], created_by="chaos", namespace="alpha").key
                for n in range(PEOPLE)
            ]
            worker = api_keys.create_key(conn, "alpha-w", [Scope.WORKER], created_by="chaos", namespace="alpha").key
            scopes = [Scope.READ, Scope.SUBMIT, Scope.OPERATE]
            victim = api_keys.create_key(conn, VICTIM, scopes, created_by="chaos", namespace="beta").key
        with httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {victim}"}, timeout=PATIENCE_SECONDS, trust_env=False
        ) as client:
            self._prepare(client)
            idle_seconds = min(MOST_IDLE_SECONDS, IDLE_SHARE * self._seconds)
            self._say(f"beta alone, for {idle_seconds:.0f} s")
            idle = self._work(client, idle_seconds, processes)
            self._say(f"alpha attacks, for {self._seconds - idle_seconds:.0f} s")
            instructions = {"url": url, "keys": people, "worker_key": worker, "victim": VICTIM}
            answers = self._folder / "answers.json"
            attacker = spawn(
                "attack",
                {**instructions, "answers": str(answers)},
                self._folder / "attacker.log",
                "rmhdag.lab.chaos.attacks",
            )
            self._stack.callback(attacker.kill)
            attacked = self._work(client, self._seconds - idle_seconds, processes)
        attacker.send_signal(signal.SIGTERM)
        try:
            attacker.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            attacker.kill()
        attacks = json.loads(answers.read_text(encoding="utf-8")) if answers.exists() else {}
        ended = [name for name, process in processes.items() if process is not None and process.poll() is not None]
        return self._report(idle, attacked, attacks, ended)

    def _start_api(self, dsn: str) -> tuple[str, subprocess.Popen[bytes]]:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        instructions = {"dsn": dsn, "schema_name": SCHEMA, "port": port, "queues": [QUEUE], "development": True}
        process = spawn("api", instructions, self._folder / "api.log")
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return f"http://127.0.0.1:{port}", process

    def _prepare(self, client: httpx.Client) -> None:
        """Until the server answers and a worker has run a job."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                headers = {"Content-Type": "application/yaml"}
                if client.post("/api/v1/workflows", content=SMALL, headers=headers).status_code in (200, 201):
                    break
            except httpx.TransportError:
                pass
            if time.monotonic() > deadline:
                raise TimeoutError(f"the platform does not come up; look into {self._folder}")
            time.sleep(0.1)
        for _ in range(5):
            _run_job(client, Measured())

    def _work(
        self, client: httpx.Client, seconds: float, processes: dict[str, subprocess.Popen[bytes] | None]
    ) -> Measured:
        """One small job after the other."""
        over = threading.Event()
        watch = threading.Thread(target=self._watch, args=(over, processes), daemon=True)
        watch.start()
        measured = Measured()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            _run_job(client, measured)
            time.sleep(PAUSE_SECONDS)
        over.set()
        watch.join()
        return measured

    def _watch(self, over: threading.Event, processes: dict[str, subprocess.Popen[bytes] | None]) -> None:
        while not over.wait(1.0):
            for name, process in processes.items():
                if process is not None:
                    size = process_figures(name, process.pid).get(f"rss/{name}", 0)
                    self._memory[name] = max(self._memory.get(name, 0), round(size / 1024 / 1024))

    def _report(
        self, idle: Measured, attacked: Measured, attacks: dict[str, dict[str, int]], ended: list[str]
    ) -> dict[str, Any]:
        before, during = idle.figures(), attacked.figures()
        broken = [f"{name} ended during the drill" for name in ended]
        broken += [f"beta was answered {code} {times} times" for code, times in _failures(attacked.answers)]
        for attack, answers in attacks.items():
            broken += [f"{attack}: alpha was answered {code} {times} times" for code, times in _failures(answers)]
        if not attacks:
            broken.append("the attacker did not say what it was answered")
        limit = MOST_TIMES * before.get("job_ms_p99", 0.0)
        if during.get("job_ms_p99", PATIENCE_SECONDS * 1_000) > limit:
            broken.append(f"beta's jobs took {during.get('job_ms_p99')} ms (p99), more than {limit:.0f} ms")
        if self._memory.get("api", 0) > MOST_API_MB:
            broken.append(f"the API took {self._memory['api']} MB, more than {MOST_API_MB} MB")
        return {
            "ok": not broken,
            "drill": "tenants",
            "seed": 0,
            "minutes": round(self._seconds / 60, 2),
            "idle": before,
            "attacked": during,
            "attacks": attacks,
            "most_memory_mb": dict(sorted(self._memory.items())),
            "violations": [],
            "unexpected": broken,
        }


def _failures(answers: dict[str, int] | Counter[str]) -> list[tuple[str, int]]:
    return sorted((code, times) for code, times in answers.items() if code.startswith("5"))


def _run_job(client: httpx.Client, measured: Measured) -> None:
    began = time.monotonic()
    status, body = _call(client, measured, "POST", "/api/v1/jobs", json={"workflow_id": "small"})
    job_id = body.get("job_id")
    while status and job_id is not None and time.monotonic() - began < PATIENCE_SECONDS:
        status, body = _call(client, measured, "GET", f"/api/v1/jobs/{job_id}")
        if body.get("status") in ("completed", "failed", "cancelled"):
            break
        time.sleep(LOOK_SECONDS)
    is_done = body.get("status") == "completed"
    measured.jobs.append(time.monotonic() - began if is_done else PATIENCE_SECONDS)


def _call(
    client: httpx.Client, measured: Measured, method: str, path: str, **arguments: Any
) -> tuple[int, dict[str, Any]]:
    """Status and body; 0 if there was no answer."""
    began = time.monotonic()
    try:
        answer = client.request(method, path, **arguments)
    except httpx.HTTPError as error:
        measured.answers[type(error).__name__] += 1
        return 0, {}
    measured.calls.append(time.monotonic() - began)
    measured.answers[str(answer.status_code)] += 1
    body = answer.json() if answer.headers.get("content-type", "").startswith("application/") else {}
    return answer.status_code, body if isinstance(body, dict) else {}
