"""Requests of one namespace use no more of the processor than its share while others call, and leave them threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from rmhdag.api.problems import Problem
from rmhdag.api.processor_time import Account, Turns, _account, wait_for_share
from rmhdag.api.rate_limits import ALONE_SECONDS, MOST_DEBT_SECONDS, ProcessorBudget
from rmhdag.models.quotas import Quotas
from rmhdag.models.scopes import Scope
from tests.api.serving import ServedHere, served
from tests.api.test_rate_limits import Clock


@pytest.fixture
def api(migrated_database: str) -> Iterator[ServedHere]:
    with served(migrated_database, quotas=Quotas(processor_share=1)) as running:
        yield running


def test_who_has_used_up_its_share_is_refused_while_others_call(api: ServedHere) -> None:
    alpha, beta = (api.client(Scope.ADMIN, namespace=name) for name in ("alpha", "beta"))
    for _ in range(200):
        assert alpha.get("/api/v1/quotas").status_code == 200, "it is alone"
    assert beta.get("/api/v1/me").status_code == 200
    answer = alpha.get("/api/v1/me")
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
    assert answer.json()["quota"]["name"] == "processor_share"
    assert 1 <= int(answer.headers["Retry-After"]) <= MOST_DEBT_SECONDS
    assert beta.get("/api/v1/me").status_code == 200


def test_a_worker_key_has_a_share_of_its_own(api: ServedHere) -> None:
    alpha, worker = api.client(Scope.ADMIN, namespace="alpha"), api.client(Scope.WORKER, namespace="alpha")
    for _ in range(200):
        alpha.get("/api/v1/quotas")
    assert api.client(Scope.READ, namespace="beta").get("/api/v1/me").status_code == 200
    assert alpha.get("/api/v1/me").status_code == 429
    assert worker.get("/api/v1/me").status_code == 403, "it may not ask that, but it is heard"


def test_what_was_used_is_forgiven_with_time_and_never_more_than_some_seconds() -> None:
    clock = Clock()
    budget = ProcessorBudget(clock)
    budget.note_call("alpha")
    budget.charge("alpha", 1_000.0, 0.5)
    assert budget.seconds_to_wait("alpha", "alpha", 0.5) == 0.0
    budget.note_call("beta")
    assert budget.seconds_to_wait("alpha", "alpha", 0.5) == MOST_DEBT_SECONDS
    assert budget.seconds_to_wait("beta", "beta", 0.5) == 0.0
    clock.now = 3.0
    assert budget.seconds_to_wait("alpha", "alpha", 0.5) == MOST_DEBT_SECONDS - 3.0
    clock.now = MOST_DEBT_SECONDS
    assert budget.seconds_to_wait("alpha", "alpha", 0.5) == 0.0
    budget.charge("alpha", 1_000.0, 0.5)
    clock.now += ALONE_SECONDS
    assert budget.seconds_to_wait("alpha", "alpha", 0.5) == 0.0, "nobody else has called for long"


def test_streams_are_charged_to_their_namespace(api: ServedHere) -> None:
    """Opened and closed they cost what a call does; the share is one percent."""
    alpha = api.client(Scope.ADMIN, namespace="alpha")
    for _ in range(60):
        with alpha.stream("GET", "/api/v1/events/stream") as answer:
            assert answer.status_code == 200
            next(answer.iter_bytes())
    assert api.client(Scope.READ, namespace="beta").get("/api/v1/me").status_code == 200
    assert alpha.get("/api/v1/me").status_code == 429


def test_endpoints_are_charged_to_their_namespace(api: ServedHere) -> None:
    """And not only what the event loop does for them: the time of their threads."""
    alpha = api.client(Scope.ADMIN, namespace="alpha")
    charges: list[tuple[str, str]] = []
    charge = ProcessorBudget.charge

    def note(self: ProcessorBudget, name: str, seconds: float, per_second: float) -> None:
        charges.append((threading.current_thread().name, name))
        charge(self, name, seconds, per_second)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProcessorBudget, "charge", note)
        assert alpha.get("/api/v1/workflows").status_code == 200
    in_threads = [name for thread, name in charges if thread.startswith("AnyIO")]
    assert in_threads == ["alpha", "alpha"], "who it is, and what it asked for"


def test_streams_without_processor_time_stand_in_a_line() -> None:
    """The first one looks when there is some again, and not each by itself."""

    async def run() -> None:
        turns, looks, is_poor = Turns(1), 0, True

        def seconds_to_wait() -> float:
            nonlocal looks
            looks += 1
            return 1.0 if is_poor else 0.0

        async def stream() -> None:
            _account.set(Account("alpha", turns, lambda seconds: None, seconds_to_wait))
            await wait_for_share()

        async with turns.line("alpha"):
            waiting = [asyncio.create_task(stream()) for _ in range(10)]
            while looks < 10:
                await asyncio.wait(waiting, timeout=0.01)
            is_poor = False
        await asyncio.wait_for(asyncio.gather(*waiting), 5)
        assert looks == 20, "once before the line, and once at its head"
        assert not turns.has_line("alpha")

    asyncio.run(run())


def test_a_namespace_that_waits_for_its_turn_keeps_nobody_else_waiting() -> None:
    async def run() -> None:
        turns = Turns(2)
        async with turns.turn("alpha"), turns.turn("alpha"):
            waiting = asyncio.ensure_future(enter(turns, "alpha"))
            await asyncio.wait_for(enter(turns, "beta"), 5)
            assert not waiting.done()
        await asyncio.wait_for(waiting, 5)

    asyncio.run(run())


def test_whoever_waits_too_long_is_told_to_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmhdag.api.processor_time.PATIENCE_SECONDS", 0.01)

    async def run() -> None:
        turns = Turns(1)
        async with turns.turn("alpha"):
            with pytest.raises(Problem) as caught:
                await enter(turns, "alpha")
        assert (caught.value.status_code, caught.value.body.code) == (429, "requests_busy")
        await enter(turns, "alpha")

    asyncio.run(run())


async def enter(turns: Turns, namespace: str) -> None:
    async with turns.turn(namespace):
        pass
