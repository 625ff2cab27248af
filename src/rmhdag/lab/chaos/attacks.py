"""What a hostile tenant does, all at once: each attack is a thread of one process, bounded in count, ended by a signal.

Every answer is counted by attack and status, because none of them may be a 5xx.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from rmhdag.lab.bench.process import die_with
from rmhdag.lab.chaos.workflows import QUEUE

YAML = "application/yaml"
MB = 1024 * 1024
SECONDS = 30.0
MOST_LISTENERS = 1_000
MOST_SLOW_BODIES = 45
MOST_UPLOADS = 400
TEXTS = 20_000


def workflow(name: str, nodes: str, inputs: str = "{}") -> str:
    return f"workflow_id: {name}\nname: {name}\ninputs: {inputs}\nnodes: {nodes}\n"


TASK = f"handler: echo, queue: {QUEUE}"
WORKFLOWS = (
    workflow("tiny", f"{{a: {{{TASK}}}}}"),
    workflow("parked", f"{{a: {{{TASK}, next: b}}, b: {{type: approval}}}}"),
    workflow(
        "endless",
        f"{{a: {{handler: chunk_processor, queue: {QUEUE}, timeout_seconds: 86400,"
        " params: {chunk: [1], seconds_per_item: 86000}}}",
    ),
    workflow(
        "wide",
        f'{{a: {{type: fan_out, source: "{{{{ inputs.b }}}}", task: {{{TASK}}}, next: c}},'
        " c: {type: fan_in, source_node: a}}",
        "{b: {type: array}}",
    ),
    workflow(
        "amplified",
        f"{{a: {{{TASK}, params: {{x: [{', '.join(['{{ inputs.b }}'] * 20)}]}}}}}}".replace(
            "{{ inputs.b }}", '"{{ inputs.b }}"'
        ),
        "{b: {type: array}}",
    ),
    workflow(
        "sorting",
        f'{{a: {{{TASK}, params: {{x: "{{{{ [{", ".join(["inputs.b|sort|first"] * 70)}] }}}}"}}}}}}',
        "{b: {type: array}}",
    ),
)
HOSTILE_PATTERN = workflow(
    "pattern",
    f"{{a: {{{TASK}}}}}",
    '{x: {type: string, pattern: "(?:a|b)*a(?:[ab]{100}){50}c", default: "' + "abba" * 10_000 + '"}}',
)
UNKNOWN_NAMES = ", ".join(
    f"n{node}: {{{TASK}, depends_on: [{', '.join(f'missing_{node}_{number}' for number in range(10))}]}}"
    for node in range(50)
)
QUADRATIC = workflow("quadratic", f"{{{UNKNOWN_NAMES}}}")
LONG_ENUM = workflow(
    "long_enum", f"{{a: {{{TASK}}}}}", f"{{x: {{type: integer, enum: [{', '.join(map(str, range(5_000)))}]}}}}"
)


class Attacker:
    """`keys` are of one namespace: ten for people, and one for a worker."""

    def __init__(self, url: str, keys: list[str], worker_key: str, victim: str) -> None:
        self._url = url
        self._keys = keys
        self._worker_key = worker_key
        self._victim = victim
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._answers: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def run(self) -> dict[str, dict[str, int]]:
        """Until `stop`; what was answered to each attack."""
        self._register()
        attacks: list[Callable[[], None]] = [
            self._park,
            self._take_many_keys,
            self._fan_out,
            self._run_for_ever,
            self._send_large_inputs,
            lambda: self._validate("patterns", HOSTILE_PATTERN),
            lambda: self._validate("quadratic_names", QUADRATIC),
            lambda: self._validate("quadratic_enums", LONG_ENUM),
            self._sort,
            self._upload,
            self._listen,
            self._send_slowly,
            *[self._flood] * 6,
            *[self._try_handlers] * 8,
        ]
        threads = [threading.Thread(target=attack, daemon=True) for attack in attacks]
        for thread in threads:
            thread.start()
        self._stopping.wait()
        for thread in threads:
            thread.join(SECONDS)
        with self._lock:
            return {name: dict(counted) for name, counted in sorted(self._answers.items())}

    def stop(self) -> None:
        self._stopping.set()

    # -- calls -----------------------------------------------------------------------------------------------------

    def _client(self, key: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self._url, headers=headers, timeout=SECONDS, trust_env=False)

    def _note(self, attack: str, status: str) -> None:
        with self._lock:
            self._answers[attack][status] += 1

    def _say(
        self, attack: str, client: httpx.Client, method: str, path: str, **arguments: Any
    ) -> httpx.Response | None:
        """Without an answer, the server hung up or took longer than anybody waits."""
        try:
            answer = client.request(method, path, **arguments)
        except httpx.HTTPError as error:
            self._note(attack, type(error).__name__)
            return None
        self._note(attack, str(answer.status_code))
        if answer.status_code == 429:
            self._stopping.wait(min(2.0, float(answer.headers.get("Retry-After", "1"))))
        return answer

    def _rounds(self, pause_seconds: float, most: int | None = None) -> Iterator[int]:
        """At least one: on a slow machine, the end may come before the first call of an attack."""
        for number in count():
            if number and (self._stopping.is_set() or (most is not None and number >= most)):
                return
            yield number
            self._stopping.wait(pause_seconds)

    def _register(self) -> None:
        with self._client(self._keys[0]) as client:
            for text in WORKFLOWS:
                headers = {"Content-Type": YAML}
                self._say("register", client, "POST", "/api/v1/workflows", content=text, headers=headers)

    def _submit(self, attack: str, client: httpx.Client, jobs: list[dict[str, Any]]) -> None:
        self._say(attack, client, "POST", "/api/v1/jobs/batch", json={"jobs": jobs})

    # -- attacks ---------------------------------------------------------------------------------------------------

    def _park(self) -> None:
        with self._client(self._keys[0]) as client:
            for _ in self._rounds(0.1, most=10):
                job = {"workflow_id": "parked", "fairness_key": self._victim, "priority": 10}
                self._submit("parked_jobs", client, [job] * 100)

    def _take_many_keys(self) -> None:
        with self._client(self._keys[1]) as client:
            for turn in self._rounds(0.5, most=100):
                jobs = [{"workflow_id": "tiny", "fairness_key": f"k{turn}-{n}", "priority": 10} for n in range(100)]
                self._submit("own_keys", client, jobs)

    def _fan_out(self) -> None:
        with self._client(self._keys[2]) as client:
            for _ in self._rounds(20.0, most=10):
                job = {"workflow_id": "wide", "priority": 10, "input_params": {"b": list(range(20_000))}}
                self._say("fan_out", client, "POST", "/api/v1/jobs", json=job)

    def _run_for_ever(self) -> None:
        with self._client(self._keys[3]) as client:
            for _ in self._rounds(1.0, most=20):
                self._submit("endless_tasks", client, [{"workflow_id": "endless", "priority": 10}] * 10)

    def _send_large_inputs(self) -> None:
        texts = ["x" * 70] * 100_000
        with self._client(self._keys[4]) as client:
            for _ in self._rounds(5.0, most=20):
                job = {"workflow_id": "amplified", "input_params": {"b": texts}}
                self._say("large_inputs", client, "POST", "/api/v1/jobs", json=job)

    def _validate(self, attack: str, text: str) -> None:
        with self._client(self._keys[5]) as client:
            for _ in self._rounds(0.2):
                headers = {"Content-Type": YAML}
                self._say(attack, client, "POST", "/api/v1/workflows/validate", content=text, headers=headers)

    def _sort(self) -> None:
        texts = [f"{random.random():.12f}" for _ in range(TEXTS)]
        with self._client(self._keys[6]) as client:
            for _ in self._rounds(2.0, most=60):
                job = {"workflow_id": "sorting", "input_params": {"b": texts}}
                self._say("expressions", client, "POST", "/api/v1/jobs", json=job)

    def _upload(self) -> None:
        with self._client(self._worker_key) as client:
            for number in self._rounds(0.05, most=MOST_UPLOADS):
                path = f"/api/v1/payloads/{number:064x}/chunks/0"
                headers = {"Content-Type": "application/octet-stream"}
                self._say("uploads", client, "PUT", path, content=b"x" * MB, headers=headers)

    def _flood(self) -> None:
        with self._client(random.choice(self._keys)) as client:
            for number in self._rounds(0.0):
                path = ("/api/v1/me", "/api/v1/jobs?limit=500", "/api/v1/queues/status")[number % 3]
                self._say("request_flood", client, "GET", path)

    def _try_handlers(self) -> None:
        with self._client(self._keys[7]) as client:
            for _ in self._rounds(0.1):
                body = {"handler": "sleep", "queue": QUEUE, "params": {"seconds": 12}, "timeout_seconds": 15}
                self._say("handler_trials", client, "POST", "/api/v1/test/handler", json=body)

    def _listen(self) -> None:
        """By sockets alone: as many clients would take more of the machine than the server does."""
        held = []
        for number in self._rounds(0.005, most=MOST_LISTENERS):
            with suppress(OSError):
                head = f"GET /api/v1/events/stream HTTP/1.1\r\nAuthorization: Bearer {self._keys[number % 10]}\r\n"
                opened = self._open(head + "Host: attack\r\n\r\n")
                held.append(opened)
                self._note("listeners", opened.recv(64).split(b" ")[1].decode("ascii", "replace"))
        self._stopping.wait()
        for opened in held:
            opened.close()

    def _send_slowly(self) -> None:
        key = self._keys[8]
        head = (
            f"POST /api/v1/jobs HTTP/1.1\r\nHost: attack\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
        )
        held: list[socket.socket] = []
        for _ in self._rounds(1.0):
            while len(held) < MOST_SLOW_BODIES and not self._stopping.is_set():
                with suppress(OSError):
                    held.append(self._open(head))
                    self._note("slow_bodies", "opened")
            for opened in list(held):
                try:
                    opened.send(b" ")
                except OSError:
                    held.remove(opened)
                    opened.close()
        for opened in held:
            opened.close()

    def _open(self, head: str) -> socket.socket:
        address = urlsplit(self._url)
        assert address.hostname is not None
        opened = socket.create_connection((address.hostname, address.port or 80), timeout=SECONDS)
        opened.sendall(head.encode("ascii"))
        return opened


def attack(url: str, keys: list[str], worker_key: str, victim: str, answers: str) -> None:
    """What the process does: until SIGTERM, then it writes down what it was answered."""
    attacker = Attacker(url, keys, worker_key, victim)
    signal.signal(signal.SIGTERM, lambda number, frame: attacker.stop())
    Path(answers).write_text(json.dumps(attacker.run()), encoding="utf-8")


if __name__ == "__main__":
    die_with(int(sys.argv[2]))
    # A real attacker has a machine of its own; this one must not be an attack on the processor. Where Linux schedules
    # by session first, niceness counts only within this process's session, and the session has one of its own.
    os.nice(10)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("10", encoding="ascii")
    attack(**json.load(sys.stdin))
