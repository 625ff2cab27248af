"""Services that are set up, approvals and withdrawals, and what becomes of the calls."""

from __future__ import annotations

from typing import Any

from rmhdag.models.service_calls import ServiceKind
from rmhdag.orchestrator.duties.service_calls import Announcer, run_once
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.outside import ServicePut, ServiceWish, announce_approval, announce_withdrawal, put_service
from rmhdag.store.batch_rows import RevisionKey
from tests.orchestrator.outside.factory_server import FactoryServer
from tests.orchestrator.platform import Platform
from tests.orchestrator.test_publishing import rows

FACTORY = {"subscription_id": "sub-1", "resource_group": "maps", "factory": "fact", "poll_seconds": 0.05}


class Killed(BaseException):
    """Nothing catches it."""


def die() -> None:
    raise Killed


def put(platform: Platform, rules: CallbackSettings, name: str, kind: str, /, **more: Any) -> ServicePut:
    given: dict[str, Any] = {"url": None, "settings": {}, "secret": None, "enabled": True} | more
    wish = ServiceWish(name, ServiceKind(kind), **given)
    return put_service(platform.conn, "default", wish, rules.rules, rules.vault(), by="ann")


def put_factory(platform: Platform, settings: CallbackSettings, factory: FactoryServer, **more: Any) -> None:
    put(platform, settings, "adf", "adf", url=factory.url, settings={**FACTORY, **more}, secret=factory.token)


def approve(platform: Platform, key: RevisionKey, clearance: str = "public") -> list[str]:
    with platform.conn.transaction():
        return announce_approval(platform.conn, key, clearance)


def withdraw(platform: Platform, key: RevisionKey) -> list[str]:
    with platform.conn.transaction():
        return announce_withdrawal(platform.conn, key, requested_by="ann")


def calls(platform: Platform) -> list[tuple[Any, ...]]:
    return rows(platform, "SELECT action::text, status::text, attempts FROM dag_service_calls ORDER BY call_id")


def work(platform: Platform, announcer: Announcer, most: int = 20) -> None:
    """Until no call is pending; pauses are not waited for."""
    for _ in range(most):
        platform.conn.execute("UPDATE dag_service_calls SET next_attempt_at = '2000-01-01' WHERE status = 'pending'")
        if not run_once(platform.conn, announcer):
            return


def promoted(platform: Platform) -> list[tuple[Any, ...]]:
    return rows(platform, "SELECT revision, target, url FROM dag_promoted")
