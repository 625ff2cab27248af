"""The protocol of Azure Data Factory: start a run, find a run again, see how it stands.

Only what is asked and what the answers mean. A run that was started and not written down is found by its parameters:
the second holder of a call looks for it before it starts another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import orjson

from rmhdag.models.service_calls import ServiceAction
from rmhdag.models.service_settings import PipelineSettings
from rmhdag.orchestrator.callbacks.exchange import Answer, Question
from rmhdag.store.service_calls import ClaimedCall

API_VERSION = "2018-06-01"
FORM = "application/x-www-form-urlencoded"
SUCCEEDED = "Succeeded"
FAILED = frozenset({"Failed", "Cancelled"})
UNDER_WAY = frozenset({"Queued", "InProgress", "Canceling"})
# Clocks differ, and a run is listed by the time of its last change.
MARGIN = timedelta(hours=1)
MOST_PAGES = 20
# A token is renewed before it ends: the call that it is for takes a while.
TOKEN_SPARE_SECONDS = 60.0

Ask = Callable[[str, Question], Awaitable[Answer]]


class CallFailed(Exception):
    """The service did not do it; another try may help."""

    def __init__(self, answer: Answer, message: str | None = None) -> None:
        super().__init__(message or answer.error or "no answer")
        self.answer = answer


class Token(NamedTuple):
    value: str
    lives_seconds: float


class PipelineRun(NamedTuple):
    run_id: str
    status: str
    message: str


class Factory:
    """One factory, as one call uses it."""

    def __init__(self, call: ClaimedCall, settings: PipelineSettings, ask: Ask) -> None:
        self._call = call
        self._settings = settings
        self._ask = ask
        self._pipeline = settings.pipeline
        if call.action == ServiceAction.WITHDRAWAL and settings.withdrawal_pipeline is not None:
            self._pipeline = settings.withdrawal_pipeline

    @property
    def _base(self) -> str:
        parts = (
            ("subscriptions", self._settings.subscription_id),
            ("resourceGroups", self._settings.resource_group),
            ("providers/Microsoft.DataFactory/factories", self._settings.factory),
        )
        return self._call.url.rstrip("/") + "".join(f"/{kind}/{quote(name, safe='')}" for kind, name in parts)

    def run_url(self, run_id: str) -> str:
        return f"{self._base}/pipelineruns/{quote(run_id, safe='')}"

    async def start_run(self) -> str:
        url = f"{self._base}/pipelines/{quote(self._pipeline, safe='')}/createRun"
        answer = await self._object(url, "POST", self._call.body["parameters"])
        return _text(answer, "runId")

    async def find_run(self) -> PipelineRun | None:
        """A run for this call that has not failed."""
        release_id = self._call.body["parameters"]["release_id"]
        query: dict[str, Any] = {
            "lastUpdatedAfter": (self._call.created_at - MARGIN).isoformat(),
            "lastUpdatedBefore": (self._call.claimed_at + MARGIN).isoformat(),
            "filters": [{"operand": "PipelineName", "operator": "Equals", "values": [self._pipeline]}],
        }
        for _ in range(MOST_PAGES):
            page = await self._object(f"{self._base}/queryPipelineRuns", "POST", query)
            for run in page.get("value") or []:
                parameters = run.get("parameters") or {}
                if parameters.get("release_id") == release_id and run.get("status") not in FAILED:
                    return _run(run)
            if not page.get("continuationToken"):
                return None
            query["continuationToken"] = page["continuationToken"]
        raise CallFailed(Answer(None), f"the factory lists more than {MOST_PAGES} pages of runs")

    async def see_run(self, run_id: str) -> PipelineRun:
        return _run(await self._object(self.run_url(run_id), "GET"))

    def public_url(self, run_id: str) -> str:
        """Where the copy is; if nobody has said that, the run that made it."""
        template = self._settings.public_url
        if template is None:
            return self.run_url(run_id)
        names = {"asset_id": self._call.asset_id, "revision": str(self._call.revision)}
        names["release_id"] = str(self._call.body["parameters"]["release_id"])
        for name, value in names.items():
            template = template.replace("{" + name + "}", value)
        return template

    async def _object(self, url: str, method: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        text = b"" if body is None else orjson.dumps(body)
        answer = await self._ask(f"{url}?api-version={API_VERSION}", Question(method, text, wants_content=True))
        return read_object(answer)


async def fetch_token(ask: Ask, settings: PipelineSettings, secret: str) -> Token:
    """By the client-credentials flow of OAuth 2."""
    form = {
        "grant_type": "client_credentials",
        "client_id": settings.client_id or "",
        "client_secret": secret,
        "scope": settings.token_scope,
    }
    question = Question("POST", urlencode(form).encode(), FORM, wants_content=True)
    answer = read_object(await ask(settings.tokens_from, question))
    lives = answer.get("expires_in")
    lives_seconds = float(lives) if isinstance(lives, int | float) else 0.0
    return Token(_text(answer, "access_token"), max(0.0, lives_seconds - TOKEN_SPARE_SECONDS))


def read_object(answer: Answer) -> dict[str, Any]:
    """The JSON object of a successful answer, or CallFailed. Azure says what is wrong in `error`."""
    try:
        content = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        content = None
    if answer.status is None or not 200 <= answer.status < 300:
        reason = content.get("error") if isinstance(content, dict) else None
        why = reason.get("message") if isinstance(reason, dict) else None
        raise CallFailed(answer, f"{answer.error}: {why}" if isinstance(why, str) else None)
    if not isinstance(content, dict):
        raise CallFailed(answer, f"answer {answer.status} is not a JSON object")
    return content


def _run(record: Mapping[str, Any]) -> PipelineRun:
    message = record.get("message")
    return PipelineRun(_text(record, "runId"), _text(record, "status"), message if isinstance(message, str) else "")


def _text(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= (8_192 if name == "access_token" else 128):
        raise CallFailed(Answer(None), f"the answer has no usable {name}")
    return value
