"""External services that are notified of approved content, and the calls to them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Administrator, Operator
from rmhdag.api.pages import CursorParameter, read_cursor, write_cursor
from rmhdag.api.routes.jobs import plain
from rmhdag.models.api.services import (
    ServiceCallPage,
    ServiceCallView,
    ServiceDeleted,
    ServiceList,
    ServicePutAnswer,
    ServiceRequest,
    ServiceView,
)
from rmhdag.models.service_calls import CallStatus
from rmhdag.services import outside
from rmhdag.services.outside import ServiceWish
from rmhdag.store import external_services, service_calls
from rmhdag.store.connection import Conn
from rmhdag.store.external_services import StoredService

router = APIRouter(prefix="/api/v1/services", tags=["external services"])

ServiceName = Annotated[
    str, Path(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$", description="The name of a service", examples=["adf"])
]
CallName = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="The id of a call")]


@router.get("")
def list_services(caller: Administrator, api: ApiContext) -> ServiceList:
    """All services of the namespace, by name."""
    with api.connection() as conn:
        lines = external_services.list_services(conn, caller.namespace)
    return ServiceList(services=[ServiceView(**facts(line)) for line in lines])


@router.get("/{name}")
def get_service(name: ServiceName, caller: Administrator, api: ApiContext) -> ServiceView:
    """One service, without its secret."""
    with api.connection() as conn:
        return ServiceView(**facts(find(conn, caller.namespace, name)))


@router.put("/{name}")
def put_service(name: ServiceName, body: ServiceRequest, caller: Administrator, api: ApiContext) -> ServicePutAnswer:
    """Set a service up, or change it. Calls that wait are made as it says from now on."""
    wish = ServiceWish(name, body.kind, body.url, body.settings, body.secret, body.enabled)
    rules = api.settings.callbacks.rules.for_namespace(caller.namespace)
    with api.connection() as conn:
        done = outside.put_service(conn, caller.namespace, wish, rules, api.settings.callbacks.vault(), by=caller.name)
    return ServicePutAnswer(**facts(done.service), is_new=done.is_new, new_secret=done.new_secret)


@router.delete("/{name}")
def delete_service(name: ServiceName, caller: Administrator, api: ApiContext) -> ServiceDeleted:
    """Delete a service and its calls; data that was copied outside stays there."""
    with api.connection() as conn:
        unsettled = outside.delete_service(conn, caller.namespace, name, by=caller.name)
    return ServiceDeleted(name=name, calls_not_delivered=unsettled)


@router.get("/{name}/calls")
def list_calls(
    name: ServiceName,
    caller: Operator,
    api: ApiContext,
    status: Annotated[CallStatus | None, Query()] = None,
    cursor: CursorParameter = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
) -> ServiceCallPage:
    """Calls to a service, newest first."""
    before = read_cursor(cursor, plain)
    with api.connection() as conn:
        service = find(conn, caller.namespace, name)
        lines = service_calls.list_calls(
            conn, caller.namespace, service.service_id, before=before, status=status, limit=limit + 1
        )
    page = lines[:limit]
    return ServiceCallPage(
        calls=page,
        next_cursor=write_cursor(page[-1].call_id) if len(lines) > limit else None,
    )


@router.post("/{name}/calls/{call_id}/retry")
def retry_call(name: ServiceName, call_id: CallName, caller: Operator, api: ApiContext) -> ServiceCallView:
    """Retry a call that was given up, with the schedule from its beginning."""
    with api.connection() as conn:
        service = find(conn, caller.namespace, name)
        outside.retry_call(conn, caller.namespace, service, call_id, by=caller.name)
        [call] = service_calls.list_calls(conn, caller.namespace, service.service_id, call_id=call_id, limit=1)
    return call


def find(conn: Conn, namespace: str, name: str) -> StoredService:
    service = external_services.find_service(conn, namespace, name)
    if service is None:
        raise outside.no_service(name)
    return service


def facts(service: StoredService) -> dict[str, Any]:
    hidden = ("service_id", "namespace", "secret")
    fields = {name: value for name, value in service._asdict().items() if name not in hidden}
    return {**fields, "has_secret": service.secret is not None}
