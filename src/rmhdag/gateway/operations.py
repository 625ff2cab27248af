"""For operators: jobs as the API shows them, the gateway's own state, and a proxy to a few paths of the platform."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import httpx
from starlette.responses import Response

from rmhdag.gateway.calls import Call
from rmhdag.gateway.forwarding import check
from rmhdag.gateway.problems import Problem, invalid, not_found, unavailable
from rmhdag.gateway.rate_limits import windows_of
from rmhdag.models.partner_orders import segment
from rmhdag.models.scopes import Scope

PROXY_SECONDS = 30.0
MOST_JOBS_WITH_NODES = 50
JOB_STATES = ("pending", "running", "completed", "failed", "cancelled")
NAME = r"[A-Za-z0-9._-]{1,128}"
# All that a proxy may ask for; everything else would undo the boundary. Only GET, and only these.
ALLOWED = {
    "orchestrator": re.compile(
        rf"livez|readyz|health|metrics|api/v1/(?:health|me|workers|orchestrators|workflows|queues/status"
        rf"|orchestrator/(?:status|stats|activity)|metrics/(?:workflows|failures|throughput)"
        rf"|jobs|jobs/{NAME}|jobs/{NAME}/(?:nodes|timeline|progress|overview))"
    ),
    "worker": re.compile(r"livez|readyz|health"),
}


async def get_job(call: Call) -> Response:
    """A job, by its id."""
    return await pass_on(call, f"/api/v1/jobs/{segment(call.path['job_id'])}")


async def list_nodes(call: Call) -> Response:
    """The nodes of a job."""
    return await pass_on(call, f"/api/v1/jobs/{segment(call.path['job_id'])}/nodes")


async def list_events(call: Call) -> Response:
    """The events of a job, oldest first."""
    return await pass_on(call, f"/api/v1/jobs/{segment(call.path['job_id'])}/timeline")


async def list_jobs(call: Call) -> Response:
    """Jobs, newest first."""
    call.allow("status", "workflow_id", "limit", "offset", "include_nodes")
    limit, offset = call.limit(), call.number("offset", 0, 0, 10_000)
    state = call.query("status")
    if state is not None and state not in JOB_STATES:
        raise invalid(f"status is one of {', '.join(JOB_STATES)}", "/query/status")
    filters = {"status": state, "workflow_id": call.query("workflow_id")}
    jobs = await newest_jobs(call, filters, offset + limit)
    page = jobs[offset:]
    if call.flag("include_nodes"):
        for job in page[:MOST_JOBS_WITH_NODES]:
            job["nodes"] = (await ask(call, f"/api/v1/jobs/{job['job_id']}/nodes", {"limit": 500}))["nodes"]
    return call.answer({"jobs": page, "limit": limit, "offset": offset})


async def active_jobs(call: Call) -> Response:
    """Jobs that have not ended, newest first."""
    call.allow("limit")
    jobs = await newest_jobs(call, {"status": ["pending", "running"]}, call.limit())
    return call.answer({"jobs": jobs})


async def stats(call: Call) -> Response:
    """How workflows did in the last days."""
    return await pass_on(call, "/api/v1/metrics/workflows")


async def look_up(call: Call) -> Response:
    """Jobs by correlation id, or the order of a submitter by idempotency key."""
    call.allow("correlation_id", "idempotency_key", "submitted_by")
    correlation_id, key, submitter = (
        call.query(name) for name in ("correlation_id", "idempotency_key", "submitted_by")
    )
    if correlation_id is not None:
        # The jobs of an order have the platform's id of it; clients report what they call it.
        order = await call.gateway.reads.find_request(call.holder, correlation_id)
        filters = {"correlation_id": correlation_id if order is None else order[0]["platform_request_id"]}
        return call.answer({"jobs": await newest_jobs(call, filters, 50)})
    if key is None or submitter is None:
        raise invalid("name a correlation_id, or an idempotency_key and its submitted_by", "/query/correlation_id")
    row = await call.gateway.reads.find_by_key(call.holder, submitter, key)
    if row is None:
        raise not_found()
    jobs = [] if row["job_id"] is None else [await ask(call, f"/api/v1/jobs/{segment(row['job_id'])}")]
    return call.answer({"request_id": row["request_id"], "jobs": jobs})


async def gateway_health(call: Call) -> Response:
    """Whether orders are taken."""
    call.allow()
    checks = await call.gateway.readiness.check()
    takes_orders = all(outcome["passed"] for outcome in checks.values())
    return call.answer({"status": "healthy" if takes_orders else "degraded", "ready_for_jobs": takes_orders})


async def me(call: Call) -> Response:
    """Whose key or token this is, and what it may use."""
    call.allow()
    holder = call.holder
    quotas = holder.quotas
    return call.answer(
        {
            "client_id": holder.client_id,
            "key": None if holder.key_id is None else f"rmhdag_{holder.key_id}_…",
            "scopes": sorted(holder.scopes),
            "sandbox": holder.is_sandbox,
            "expires_at": None if holder.expires_at is None else holder.expires_at.isoformat(),
            "quotas": {
                "requests": [{"limit": w.quota, "seconds": w.seconds} for w in windows_of(quotas)],
                "open_orders": quotas.open_orders,
                "orders_per_day": quotas.orders_per_day,
            },
        }
    )


async def rotate_key(call: Call) -> Response:
    """The next key of this client; the one that calls works until the overlap ends."""
    call.allow()
    body = await call.body()
    if call.holder.key_id is None:
        raise Problem(409, "not_a_key", "only a caller with an API key has a key to rotate")
    answer = await call.gateway.forwarder.send_as_caller(call.authorization, "POST", "/api/v1/me/key/rotate", body=body)
    key = check(answer, call.own).json()
    return call.answer({"key": key["key"], "expires_at": key["expires_at"]}, 201)


async def health(call: Call) -> Response:
    """The platform's health, as the API sees it."""
    call.allow()
    return call.answer(await platform_health(call))


async def configuration(call: Call) -> Response:
    """How this gateway is set up, without secrets and addresses."""
    call.allow()
    return call.answer(call.gateway.settings.shown())


async def proxy_health(call: Call) -> Response:
    """Whether the targets of the proxy answer."""
    call.allow()
    targets = {"orchestrator": await call.gateway.forwarder.is_alive()}
    if call.gateway.settings.worker_url is not None:
        try:
            targets["worker"] = (await ask_worker(call, "livez")).status_code == 200
        except Problem:
            targets["worker"] = False
    return call.answer({"targets": {name: "alive" if is_alive else "away" for name, is_alive in targets.items()}})


async def proxy(call: Call) -> Response:
    """A path of the platform that is on the list; the API decides by the caller's own key."""
    target, path = call.path["target"], call.path["path"]
    allowed = ALLOWED.get(target)
    if allowed is None or not allowed.fullmatch(unquote(path)):
        raise Problem(
            404,
            "not_found",
            "this path is not one that the proxy passes on",
            remedy="It passes on what is about health, jobs, workflows, queues and metrics.",
        )
    if target == "worker":
        answer = await ask_worker(call, path)
    else:
        names = ("x-correlation-id",)
        headers = {name: call.request.headers[name] for name in names if name in call.request.headers}
        answer = await call.gateway.forwarder.send_as_caller(
            call.authorization,
            "GET",
            f"/{path}",
            query=call.request.query_params.multi_items(),
            headers=headers,
        )
    media_type = answer.headers.get("content-type", "application/octet-stream")
    return Response(answer.content, answer.status_code, media_type=media_type)


# -- what they share -----------------------------------------------------------------------------------------------


async def pass_on(call: Call, path: str) -> Response:
    """What the API answers to an operator of this namespace."""
    query = call.request.query_params.multi_items()
    answer = await call.gateway.forwarder.send(call.holder, "GET", path, query=query, own=str(call.request.url))
    return call.answer(answer.json())


async def ask(call: Call, path: str, query: dict[str, Any] | None = None) -> Any:
    parameters = {name: value for name, value in (query or {}).items() if value is not None}
    answer = await call.gateway.forwarder.send(call.holder, "GET", path, query=parameters, own=str(call.request.url))
    return answer.json()


async def newest_jobs(call: Call, filters: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Page by page, for the API has no offsets."""
    jobs: list[dict[str, Any]] = []
    cursor = None
    while len(jobs) < count:
        page = await ask(call, "/api/v1/jobs", {**filters, "limit": min(500, count - len(jobs)), "cursor": cursor})
        jobs += page["jobs"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    return jobs


async def platform_health(call: Call) -> Any:
    """The API says with 503 that the platform is not well; that is an answer, too."""
    forwarder = call.gateway.forwarder
    answer = await forwarder.send_raw(call.holder, "GET", "/api/v1/health", scopes=(Scope.READ,))
    if answer.status_code not in (200, 503) or "components" not in answer.text:
        raise unavailable()
    return answer.json()


async def ask_worker(call: Call, path: str) -> httpx.Response:
    url = call.gateway.settings.worker_url
    if url is None:
        raise not_found("target: RMHDAG_WORKER_URL is not set")
    try:
        async with httpx.AsyncClient(base_url=url, timeout=PROXY_SECONDS, trust_env=False) as client:
            return await client.get(f"/{path}")
    except httpx.TransportError:
        raise unavailable("the worker does not answer") from None
