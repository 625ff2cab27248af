"""Orders of platforms: submit, and how they stand."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.identity import Caller, Reader, Submitter
from rmhdag.api.input_checks import Checks, with_checks
from rmhdag.api.job_paths import is_id
from rmhdag.api.problems import not_found
from rmhdag.api.routes.jobs import (
    REPEAT,
    KeyHeader,
    check_submitter,
    one_key,
    previews,
    say_repeated,
)
from rmhdag.models.api.assets import OrderAccepted, RequestView, WorkOrderBody
from rmhdag.models.api.previews import OrderPreview
from rmhdag.services.clients import admit_order
from rmhdag.services.requests import (
    Ordered,
    WorkOrder,
    order,
)
from rmhdag.services.submissions import Completion
from rmhdag.store.connection import Conn
from rmhdag.views.assets import accepted, read_request

router = APIRouter(prefix="/api/v1", tags=["assets"])

RequestName = Annotated[str, Path(description="The id of a request", examples=["5f0c6a52-8d0f-4c38-9a5e-0b1f7a3c2d1e"])]
ACCEPTED: dict[int | str, dict[str, Any]] = {200: {"model": OrderAccepted | OrderPreview, **REPEAT[200]}}


@router.post("/submit", status_code=201, responses=ACCEPTED)
def submit_request(
    body: WorkOrderBody, caller: Submitter, api: ApiContext, response: Response, key: KeyHeader = None
) -> OrderAccepted | OrderPreview:
    """Order work for a platform: request, asset, revision and job come to be together. 409 if the asset is being
    processed with other parameters. A dry run answers 200 with what would happen, also if the order would be refused.
    """
    if body.dry_run:
        response.status_code = 200
        return _preview(body, caller, api, key)
    api.submit_rate.take(caller.rate_name, 1)
    api.quotas.admit_jobs(caller.namespace, [body.input_params], [body.priority], key_priority=caller.max_priority)
    work = _order_of(body, caller, key)

    def admit(conn: Conn) -> None:
        if caller.is_client:
            admit_order(conn, caller.namespace, caller.name, api.settings.client_quotas)

    def make(conn: Conn, complete: Completion) -> Ordered:
        return order(
            conn,
            work,
            namespace=caller.namespace,
            platforms=api.platforms.read(conn, caller.namespace),
            callback_rules=api.settings.callbacks.rules,
            source_app=caller.source_app,
            complete=complete,
            admit=admit,
        )

    ordered = with_checks(api, caller.namespace, make)
    if ordered.is_repeat:
        say_repeated(response)
    return accepted(ordered.request)


def _order_of(body: WorkOrderBody, caller: Caller, key: str | None) -> WorkOrder:
    check_submitter(caller, body.submitted_by)
    # The parameters are passed on as they are: dumping 400,000 of them would copy each one.
    fields = body.model_dump(exclude={"submitted_by", "idempotency_key", "input_params", "dry_run", "subscriber"})
    return WorkOrder(
        **fields,
        is_client=caller.is_client,
        subscriber=None if body.subscriber is None else body.subscriber.model_dump(exclude_none=True),
        input_params=body.input_params,
        submitted_by=body.submitted_by or caller.name,
        client_id=caller.name,
        idempotency_key=one_key(body.idempotency_key, key),
    )


def _preview(body: WorkOrderBody, caller: Caller, api: Api, key: str | None) -> OrderPreview:
    work = _order_of(body, caller, key)

    def look(conn: Conn, checks: Checks) -> OrderPreview:
        platforms = api.platforms.read(conn, caller.namespace)
        return previews(api, caller, checks).of_order(conn, work, platforms)

    return with_checks(api, caller.namespace, look)


@router.get("/requests/{request_id}")
def get_request(request_id: RequestName, caller: Reader, api: ApiContext) -> RequestView:
    """The status of an order, with its progress, result or error."""
    with api.connection() as conn:
        request = read_request(conn, caller.namespace, request_id) if is_id(request_id) else None
    if request is None:
        raise not_found(f"request {request_id!r}")
    return request
