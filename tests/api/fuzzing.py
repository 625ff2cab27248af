"""Every operation of the OpenAPI document, called with what it allows and with what it forbids, on a real server.

`python -m tests.api.fuzzing --cases 5000` does it at length; `tests/api/test_schema.py` a little of it.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis.engine import events, from_schema

from rmhdag.api.application import build
from rmhdag.api.context import ApiSettings
from rmhdag.assets.identity import Platforms
from rmhdag.cli.shipped_workflows import shipped_folder
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.gateway.openapi import document as gateway_document
from rmhdag.models.scopes import Scope
from rmhdag.services.platforms import seed_platforms
from rmhdag.store.migration import apply
from rmhdag.workflow.loader import load_file
from tests.api.serving import Served, served
from tests.api.slow_bodies import send_slow_bodies
from tests.engine.definitions import task, workflow
from tests.gateway.serving import Served as ServedGateway
from tests.gateway.serving import served_gateway
from tests.orchestrator.assets import place_order, raster_workflow
from tests.orchestrator.platform import Platform

# What nobody outside may see. Some routes are there to show the database to those who look after it.
LEAKS = re.compile(
    r"\bdag_[a-z]+_?[a-z]*\b|Traceback|psycopg|\bSELECT\b.*\bFROM\b|\bINSERT INTO\b|postgres(?:ql)?://"
    r"|File \"|site-packages|/src/rmhdag/|line \d+, in "
)
SHOWS_THE_DATABASE = re.compile(r"/api/v1/bootstrap/|/health$")
# Without orchestrators and workers the platform is not well, and 503 is how this says so.
TELLS_HEALTH = re.compile(r"/health$")
# Nobody waits for the end of a stream; tests/api has tests of their own for these.
ENDLESS = "text/event-stream"
# Whoever lets its key end without an overlap tests nothing from then on.
ENDS_ITS_KEY = frozenset({"/platform/keys/rotate", "/api/v1/me/key/rotate"})

# What bodies name, in the form that every such name may have.
NAMED = ("workflow_id", "platform_id", "request_id")
PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass
class Findings:
    cases: int = 0
    phases: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    leaks: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    @property
    def server_errors(self) -> int:
        """503 says that the database is away, which it never is here."""
        return sum(count for status, count in self.statuses.items() if status >= 500)

    @property
    def is_clean(self) -> bool:
        return not (self.server_errors or self.failures or self.leaks or self.errors)

    def report(self) -> str:
        lines = [
            f"cases: {self.cases} ({', '.join(f'{phase}: {count}' for phase, count in self.phases.items())})",
            f"answers: {', '.join(f'{status}: {count}' for status, count in sorted(self.statuses.items()))}",
            f"answers >= 500: {self.server_errors}",
            f"violations of the schema: {len(self.failures)}",
            f"leaks: {len(self.leaks)}",
            f"errors of the run: {len(self.errors)}",
        ]
        details = [*self.failures.values(), *self.leaks.values(), *self.errors]
        return "\n".join([*lines, *(f"\n--- {text}" for text in details)])


@contextmanager
def populated(dsn: str) -> Iterator[tuple[Served, dict[str, list[str]]]]:
    """A server with a little of everything, and the ids of it by the names of path parameters."""
    platform = Platform(dsn)
    try:
        seat = platform.seat()
        definition = workflow(a=task("b"), b=task())
        done = platform.submit(definition)
        platform.finish(seat, output={"x": 1})
        open_job = platform.submit(definition)
        seat.work()
        platform.register(raster_workflow())
        seed_platforms(platform.conn, Platforms())
        # The examples of the gateway's document order this one: without it none of its orders would be accepted.
        shipped = load_file(shipped_folder() / "raster_processing.yaml").definition
        platform.register(shipped.model_copy(update={"nodes": {"a": task()}, "outputs": {}, "checks": ()}))
        asset = place_order(platform.conn, request_id="r-1").request
        platform.finish(seat)
        place_order(platform.conn, request_id="r-2", input_params={"n": 2})
        platform.finish(seat)
        platform.conn.execute(
            "INSERT INTO dag_dead_letters (dead_letter_id, reason, job_id, node_id, queue, raw)"
            " VALUES ('dl-1', 'lease_lost', %s, 'a', 'light', 'x'), ('dl-2', 'malformed', NULL, NULL, NULL, 'x')",
            [done],
        )
        workflows = platform.conn.execute("SELECT DISTINCT workflow_id FROM dag_workflows").fetchall()
        known = {
            "job_id": [done, open_job],
            "node_id": ["a", "b"],
            "workflow_id": [str(row[0]) for row in workflows],
            "dead_letter_id": ["dl-1", "dl-2"],
            "handler": ["echo", "raster_validate"],
            "request_id": ["r-1", "r-2"],
            "asset_id": [str(asset.asset_id)],
            "platform_id": ["ddh", "arcgis"],
            "processID": [str(row[0]) for row in workflows],
            "jobID": ["r-1", "r-2"],
            "target": ["orchestrator", "worker"],
            "task_id": [
                str(row[0]) for row in platform.conn.execute("SELECT DISTINCT task_id FROM dag_task_results").fetchall()
            ],
        }
        with served(dsn) as api:
            yield api, known
    finally:
        platform.close()


def fuzz(
    api: Served | ServedGateway,
    known: Mapping[str, list[str]],
    *,
    examples: int,
    seed: int,
    every_limit: bool = True,
    operations: str = "",
    document: dict[str, Any] | None = None,
) -> Findings:
    """`examples` per operation and phase; the same seed makes the same calls.

    `document` describes what is called, if that is not the API. With `every_limit` each limit of each parameter is
    tried from both sides: some thirty calls more per operation.
    """
    document = build(ApiSettings(dsn=api.dsn)).openapi() if document is None else deepcopy(document)
    exclude_endless(document)
    document["paths"] = {
        path: methods
        for path, methods in document["paths"].items()
        if re.search(operations, path) and path not in ENDS_ITS_KEY
    }
    drop_loose_links(document)
    # All of them but one, with which every order would be a dry run.
    key = api.key(*(scope for scope in Scope if scope is not Scope.SANDBOX), name="fuzz")
    config = schemathesis.Config.from_dict(
        {
            "base-url": api.url,
            "headers": {"Authorization": f"Bearer {key}"},
            "seed": seed,
            "request-timeout": 30,
            "continue-on-failure": True,
            "generation": {"max-examples": examples, "deterministic": False, "allow-x00": True, "database": "none"},
            "phases": {"coverage": {"enabled": every_limit}, "stateful": {"max-steps": 4}},
            "checks": {
                # 400, 409 and the like are right answers to calls that the schema alone allows.
                "positive_data_acceptance": {"enabled": False},
            },
            "operations": [
                {
                    # Each item is answered by itself, and a wrong one refuses no other.
                    "include-path": "/api/v1/jobs/batch",
                    "checks": {"negative_data_rejection": {"enabled": False}},
                },
                {
                    "include-path-regex": "^/(gateway|platform)/submit/batch$|^/proxy/",
                    "checks": {"negative_data_rejection": {"enabled": False}},
                },
                {"include-path-regex": TELLS_HEALTH.pattern, "checks": {"not_a_server_error": {"enabled": False}}},
            ],
        }
    )
    schema = schemathesis.openapi.from_dict(document, config=config)

    @schema.hook
    def map_path_parameters(context: schemathesis.HookContext, path_parameters: dict[str, Any]) -> dict[str, Any]:
        """Every other call is about something that exists."""
        if not path_parameters:
            return path_parameters
        digest = sum(map(ord, repr(sorted(path_parameters.items(), key=str))))
        if digest % 2:
            return path_parameters
        return {
            name: known[name][digest // 2 % len(known[name])] if known.get(name) else value
            for name, value in path_parameters.items()
        }

    @schema.hook
    def map_body(context: schemathesis.HookContext, body: Any) -> Any:
        """Every other order names a workflow that exists, and every other decision an order: else none is accepted.

        Only a value of the right form is replaced, so that a wrong body stays wrong.
        """
        if not isinstance(body, dict) or sum(map(ord, repr(sorted(body.items(), key=str)))) % 2:
            return body
        named = {
            name: known[name][0] for name in NAMED if isinstance(body.get(name), str) and PLAIN.fullmatch(body[name])
        }
        return {**body, **named}

    @schema.hook
    def filter_case(context: schemathesis.HookContext, case: schemathesis.Case[Any]) -> bool:
        """Whoever revokes the key that it calls with is refused from then on, and tests nothing."""
        return (case.path_parameters or {}).get("key_id") != key.split("_")[1]

    findings = Findings()
    for event in from_schema(schema).execute():
        note(event, findings)
    return findings


def exclude_endless(document: dict[str, Any]) -> None:
    for path, methods in list(document["paths"].items()):
        for method, operation in list(methods.items()):
            if any(ENDLESS in response.get("content", {}) for response in operation["responses"].values()):
                del methods[method]
        if not methods:
            del document["paths"][path]


def drop_loose_links(document: dict[str, Any]) -> None:
    """Those that lead to operations which were left out."""
    operations = [one for methods in document["paths"].values() for one in methods.values()]
    there = {operation["operationId"] for operation in operations}
    for operation in operations:
        for response in operation["responses"].values():
            links = response.get("links", {})
            response["links"] = {name: link for name, link in links.items() if link["operationId"] in there}


def note(event: events.EngineEvent, findings: Findings) -> None:
    if isinstance(event, events.NonFatalError):
        findings.errors.append(f"{event.label}: {event.value!r}"[:2000])
    if not isinstance(event, events.ScenarioFinished):
        return
    recorder = event.recorder
    for case_id, interaction in recorder.interactions.items():
        findings.cases += 1
        findings.phases[event.phase.value] += 1
        response = interaction.response
        if response is None:
            findings.errors.append(f"{recorder.label}: no answer")
            continue
        text = response.content.decode("utf-8", "replace")
        path = str(interaction.request.uri)
        if response.status_code == 503 and TELLS_HEALTH.search(path.partition("?")[0]):
            continue
        findings.statuses[response.status_code] += 1
        sent = f"{path} {interaction.request.body or b''!r}"
        leak = LEAKS.search(text)
        if leak and not SHOWS_THE_DATABASE.search(path.partition("?")[0]) and leak[0] not in sent:
            findings.leaks.setdefault(f"{recorder.label} {leak[0]}", f"{path}: {text[:1000]}")
        if response.status_code >= 500:
            findings.failures.setdefault(f"{recorder.label} {response.status_code}", f"{sent}: {text[:1000]}")
        for check in recorder.checks.get(case_id, []):
            # Who sends many calls without a key is told to wait before anything else.
            is_flood = check.name == "ignored_auth" and response.status_code == 429
            if check.failure_info is not None and not is_flood:
                failure = check.failure_info.failure
                findings.failures.setdefault(
                    f"{recorder.label} {check.name}",
                    f"{recorder.label}: {check.name}: {failure.title}: {failure.message[:1000]}"
                    f"\n{check.failure_info.code_sample[:1500]}\n{response.status_code} {text[:800]}",
                )


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz-api", description=__doc__)
    parser.add_argument("--cases", type=int, default=5_000, help="at least so many calls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--path", default="", metavar="REGEX", help="only operations whose path matches")
    parser.add_argument("--only", choices=("api", "gateway"), help="only one of the two")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--slow", action="store_true", help="bodies that are made to take long; fails above 1 s")
    parser.add_argument("--seconds", type=float, default=600, help="with --slow: stop after so long")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.slow:
        return fuzz_slowly(given)
    total, seed, started = Findings(), given.seed, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rmhdag-fuzz-") as folder, EmbeddedPostgres.temporary() as server:
        Path(folder).chmod(0o755)
        dsn = server.create_database("fuzz")
        apply(dsn)
        with populated(dsn) as (api, known), served_gateway(dsn, api.url) as gateway:
            # Half of the calls for each.
            wanted = [
                (name, called, document)
                for name, called, document in (("api", api, None), ("gateway", gateway, gateway_document()))
                if given.only in (None, name)
            ]
            for number, (name, called, document) in enumerate(wanted, 1):
                while total.cases < given.cases * number / len(wanted):
                    found = fuzz(called, known, examples=25, seed=seed, operations=given.path, document=document)
                    seed += 1
                    total.cases += found.cases
                    total.phases += found.phases
                    total.statuses += found.statuses
                    total.failures |= found.failures
                    total.leaks |= found.leaks
                    total.errors += found.errors
                    print(f"{total.cases} cases ({name}), {time.monotonic() - started:.0f} s", file=sys.stderr)
    if given.json:
        facts = {
            "cases": total.cases,
            "server_errors": total.server_errors,
            "violations": len(total.failures),
            "leaks": len(total.leaks),
            "errors": len(total.errors),
            "seconds": round(time.monotonic() - started, 1),
        }
        print(json.dumps(facts))
    else:
        print(total.report())
    return 0 if total.is_clean else 1


def fuzz_slowly(given: argparse.Namespace) -> int:
    # As a server does that has a process of its own.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    with EmbeddedPostgres.temporary() as server:
        dsn = server.create_database("fuzz")
        apply(dsn)
        with populated(dsn) as (api, known):
            document = build(ApiSettings(dsn=dsn)).openapi()
            found = send_slow_bodies(
                api, known, document, operations=given.path, deadline=time.monotonic() + given.seconds
            )
    print(json.dumps(found.facts()) if given.json else found.report())
    return 0 if found.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
