"""A server on loopback that speaks the protocols of Azure Data Factory and of its token service, and records calls."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

BASE = re.compile(
    r"/subscriptions/(?P<subscription>[^/]+)/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.DataFactory"
    r"/factories/(?P<factory>[^/]+)/(?P<rest>.+)"
)


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: Any


class FactoryServer:
    """`status_of` decides how runs stand; `before` may answer instead, with a status and an object."""

    def __init__(self, token: str = "secret-token") -> None:
        self.token = token
        self.asked: list[Asked] = []
        self.runs: list[dict[str, Any]] = []
        self.status_of: Callable[[dict[str, Any]], str] = lambda run: "Succeeded"
        self.before: Callable[[Asked], tuple[int, Any] | None] = lambda asked: None
        self.tokens_issued = 0
        self.page_size = 100
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer._answer(self)

            def do_POST(self) -> None:
                outer._answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                """Silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self.host}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    @property
    def started(self) -> list[dict[str, Any]]:
        """The parameters of all runs, in the order of their start."""
        return [run["parameters"] for run in self.runs]

    def paths(self, ending: str) -> list[Asked]:
        return [asked for asked in self.asked if urlsplit(asked.path).path.endswith(ending)]

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        raw = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        is_form = request.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded")
        body = {name: values[0] for name, values in parse_qs(raw.decode()).items()} if is_form else None
        if not is_form and raw:
            body = json.loads(raw)
        headers = {name.lower(): value for name, value in request.headers.items()}
        asked = Asked(request.command, request.path, headers, body)
        self.asked.append(asked)
        status, answer = self.before(asked) or self._respond(asked)
        text = json.dumps(answer).encode()
        request.send_response(status)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)

    def _respond(self, asked: Asked) -> tuple[int, Any]:
        path, query = urlsplit(asked.path).path, parse_qs(urlsplit(asked.path).query)
        if path.endswith("/oauth2/v2.0/token"):
            return self._issue_token(asked.body)
        if query.get("api-version") != ["2018-06-01"]:
            return refused(400, "MissingApiVersionParameter", "The api-version query parameter is required.")
        if asked.headers.get("authorization") != f"Bearer {self.token}":
            return refused(401, "AuthenticationFailed", "Authentication failed.")
        place = BASE.fullmatch(path)
        if place is None or (place["subscription"], place["group"], place["factory"]) != ("sub-1", "maps", "fact"):
            return refused(404, "ResourceNotFound", "The resource was not found.")
        rest = [unquote(part) for part in place["rest"].split("/")]
        if asked.method == "POST" and rest[0] == "pipelines" and rest[2:] == ["createRun"]:
            run = {"runId": f"run-{len(self.runs) + 1}", "pipelineName": rest[1], "parameters": asked.body}
            self.runs.append(run)
            return 200, {"runId": run["runId"]}
        if asked.method == "POST" and rest == ["queryPipelineRuns"]:
            return self._find_runs(asked.body)
        if asked.method == "GET" and rest[0] == "pipelineruns":
            for run in self.runs:
                if run["runId"] == rest[1]:
                    return 200, self._shown(run)
            return refused(404, "PipelineRunNotFound", "The pipeline run was not found.")
        return refused(404, "NotFound", "There is no such operation.")

    def _shown(self, run: dict[str, Any]) -> dict[str, Any]:
        return {**run, "status": self.status_of(run), "message": "copied nothing"}

    def _find_runs(self, body: dict[str, Any]) -> tuple[int, Any]:
        assert body["lastUpdatedAfter"] < body["lastUpdatedBefore"]
        [wanted] = body["filters"]
        assert (wanted["operand"], wanted["operator"]) == ("PipelineName", "Equals")
        runs = [self._shown(run) for run in self.runs if run["pipelineName"] in wanted["values"]]
        first = int(body.get("continuationToken") or 0)
        page: dict[str, Any] = {"value": runs[first : first + self.page_size]}
        if first + self.page_size < len(runs):
            page["continuationToken"] = str(first + self.page_size)
        return 200, page

    def _issue_token(self, form: dict[str, str]) -> tuple[int, Any]:
        if form.get("grant_type") != "client_credentials" or form.get("client_secret") != "client-secret":
            return 401, {"error": "invalid_client"}
        self.tokens_issued += 1
        return 200, {"access_token": self.token, "token_type": "Bearer", "expires_in": 3600}


def refused(status: int, code: str, message: str) -> tuple[int, Any]:
    return status, {"error": {"code": code, "message": message}}
