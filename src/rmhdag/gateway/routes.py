"""All routes of the gateway as data: who may call them, what goes in and comes out, and their older names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.routing import compile_path

from rmhdag.gateway import assets, files, operations, orders, processes
from rmhdag.gateway.calls import Handler
from rmhdag.gateway.problems import Problem
from rmhdag.gateway.schemas import MOMENT, STATE, Schema, text
from rmhdag.models.scopes import Scope

PARTNERS = (Scope.B2B, Scope.OPS, Scope.REVIEWER)
REVIEWERS = (Scope.REVIEWER,)
OPERATORS = (Scope.OPS,)
# Of the administrator of a namespace.
ADMINISTRATORS = (Scope.ADMIN,)

LIMIT: Schema = {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}
CURSOR = text("`next_cursor` of the page before", maxLength=400)
PAGE = {"limit": LIMIT, "cursor": CURSOR}
FILE_TYPE = "application/octet-stream"
# Since when older names are no longer the ones to use: the first version of this gateway.
DEPRECATED_AT = 1_793_491_200


@dataclass(frozen=True, kw_only=True)
class Operation:
    method: str
    path: str
    handler: Handler
    answer: str
    scopes: tuple[Scope, ...] = PARTNERS
    status: int = 200
    media_type: str = "application/json"
    body: str | None = None
    query: Mapping[str, Schema] = field(default_factory=dict)
    # Whether every other parameter of the query is a reference.
    has_references: bool = False
    # Whether it may be repeated with an Idempotency-Key.
    takes_key: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or "").partition(".")[0]

    @property
    def description(self) -> str:
        return (self.handler.__doc__ or "").strip()


def get(path: str, handler: Handler, answer: str, **more: Any) -> Operation:
    return Operation(method="GET", path=path, handler=handler, answer=answer, **more)


def post(path: str, handler: Handler, answer: str, **more: Any) -> Operation:
    return Operation(method="POST", path=path, handler=handler, answer=answer, **more)


REQUEST = "/platform/requests/{request_id}"
OPERATIONS: tuple[Operation, ...] = (
    post(
        "/platform/submit",
        orders.submit,
        "OrderAccepted",
        body="Order",
        status=202,
        query={"dry_run": {"type": "boolean"}},
        takes_key=True,
        aliases=("/platform/submit_dag", "/gateway/submit"),
    ),
    post(
        "/gateway/submit/batch",
        orders.submit_batch,
        "BatchAnswer",
        body="OrderBatch",
        takes_key=True,
        aliases=("/platform/submit/batch",),
    ),
    get("/platform/status/{request_id}", orders.status, "Status", aliases=("/platform/dag_status/{request_id}",)),
    get("/platform/results/{request_id}", orders.results, "Results"),
    get("/platform/results/{request_id}/files/{sha256}", files.get_file, "FileBytes", media_type=FILE_TYPE),
    get(
        "/platform/requests",
        orders.list_requests,
        "RequestPage",
        query={
            "status": STATE,
            "since": MOMENT,
            "until": MOMENT,
            "label": text("`aoi=oslo` or `aoi`; may be repeated"),
            **PAGE,
        },
        has_references=True,
        aliases=("/platform/status",),
    ),
    post(f"{REQUEST}/cancel", orders.cancel, "Command", body="Reason", status=202),
    post(f"{REQUEST}/retry", orders.retry, "Command", status=202, takes_key=True),
    get(f"{REQUEST}/deliveries", orders.list_deliveries, "DeliveryList"),
    post(f"{REQUEST}/deliveries/{{delivery_id}}/redeliver", orders.redeliver, "Delivery", status=202),
    get(
        "/platform/assets",
        assets.list_assets,
        "AssetPage",
        query={"platform_id": text(), **PAGE},
        has_references=True,
    ),
    get("/platform/assets/{platform_id}", assets.get_asset, "Asset", has_references=True),
    Operation(
        method="DELETE",
        path="/platform/assets/{platform_id}",
        handler=assets.delete_asset,
        answer="AssetDeleted",
        scopes=OPERATORS,
        has_references=True,
    ),
    get(
        "/platform/catalog/lookup",
        assets.look_up,
        "Lookup",
        query={"platform_id": text()},
        has_references=True,
    ),
    get("/platform/registry", assets.list_platforms, "PlatformList", aliases=("/assets/platforms",)),
    get("/platform/registry/{platform_id}", assets.get_platform, "Platform"),
    get("/platform/workflows", assets.list_workflows, "WorkflowList"),
    get(
        "/platform/approvals",
        assets.list_reviews,
        "ReviewPage",
        scopes=REVIEWERS,
        query={"status": text(enum=list(assets.REVIEW_STATES)), **PAGE},
    ),
    post("/platform/approve", assets.approve, "Decided", body="Decision", scopes=REVIEWERS),
    post("/platform/reject", assets.reject, "Decided", body="Decision", scopes=REVIEWERS),
    post("/platform/revoke", assets.revoke, "Decided", body="Revocation", scopes=REVIEWERS),
    post("/platform/clear", assets.clear, "Decided", body="ClearanceChange", scopes=REVIEWERS),
    post("/platform/rollback", assets.rollback, "RolledBack", body="Address", scopes=OPERATORS, status=201),
    post("/platform/unpublish", assets.unpublish, "Unpublished", body="Unpublishing", scopes=OPERATORS),
    get("/ogc", processes.landing, "OgcLanding"),
    get("/ogc/", processes.landing, "OgcLanding"),
    get("/ogc/conformance", processes.conformance, "OgcConformance"),
    get("/ogc/api", processes.api_definition, "Operators", media_type=processes.OPENAPI_TYPE),
    get("/ogc/processes", processes.list_processes, "OgcProcessList", query={"limit": LIMIT}),
    get("/ogc/processes/{processID}", processes.get_process, "OgcProcess"),
    post(
        "/ogc/processes/{processID}/execution",
        processes.execute,
        "OgcJob",
        body="OgcExecute",
        status=201,
        takes_key=True,
    ),
    get(
        "/ogc/jobs",
        processes.list_jobs,
        "OgcJobList",
        query={
            **{name: text(maxLength=400) for name in ("type", "processID", "status", "datetime")},
            **{name: {"type": "integer", "minimum": 0} for name in ("minDuration", "maxDuration")},
            **PAGE,
        },
    ),
    get("/ogc/jobs/{jobID}", processes.get_job, "OgcJob"),
    Operation(method="DELETE", path="/ogc/jobs/{jobID}", handler=processes.dismiss, answer="OgcJob"),
    get("/ogc/jobs/{jobID}/results", processes.get_results, "OgcResults"),
    get("/platform/me", operations.me, "Me"),
    post("/platform/keys/rotate", operations.rotate_key, "NewKey", body="Rotation", status=201),
    get("/gateway/health", operations.gateway_health, "Health", aliases=("/platform/health",)),
    get("/status/job/{job_id}", operations.get_job, "Operators", scopes=OPERATORS),
    get("/status/job/{job_id}/nodes", operations.list_nodes, "Operators", scopes=OPERATORS, has_references=True),
    get("/status/job/{job_id}/events", operations.list_events, "Operators", scopes=OPERATORS, has_references=True),
    get(
        "/status/jobs",
        operations.list_jobs,
        "Operators",
        scopes=OPERATORS,
        query={
            "status": text(enum=list(operations.JOB_STATES)),
            "workflow_id": text(maxLength=64),
            "limit": LIMIT,
            "offset": {"type": "integer", "minimum": 0, "maximum": 10_000},
            "include_nodes": {"type": "boolean"},
        },
    ),
    get("/status/stats", operations.stats, "Operators", scopes=OPERATORS, has_references=True),
    get(
        "/status/lookup",
        operations.look_up,
        "Operators",
        scopes=OPERATORS,
        query={name: text(maxLength=128) for name in ("correlation_id", "idempotency_key", "submitted_by")},
    ),
    get("/admin/health", operations.health, "Operators", scopes=OPERATORS),
    get("/admin/config", operations.configuration, "Operators", scopes=OPERATORS),
    get("/admin/active-jobs", operations.active_jobs, "Operators", scopes=OPERATORS, query={"limit": LIMIT}),
    get("/proxy/health", operations.proxy_health, "Operators", scopes=ADMINISTRATORS),
    get("/proxy/{target}/{path:path}", operations.proxy, "Operators", scopes=ADMINISTRATORS, has_references=True),
)


class Match(NamedTuple):
    operation: Operation
    path: dict[str, str]
    # The newer name, if the caller used an older one.
    successor: str | None


class Routes:
    """Names are matched in the order of the table: `/proxy/health` before `/proxy/{target}/…`."""

    def __init__(self, operations: tuple[Operation, ...] = OPERATIONS) -> None:
        self._table: list[tuple[re.Pattern[str], Operation, str | None]] = []
        for operation in operations:
            self._table.append((compile_path(operation.path)[0], operation, None))
            self._table += [(compile_path(alias)[0], operation, operation.path) for alias in operation.aliases]

    def find(self, method: str, path: str) -> Match:
        """Raises a 404 or a 405."""
        methods: list[str] = []
        for pattern, operation, successor in self._table:
            match = pattern.match(path)
            if match is None:
                continue
            if method == operation.method or (method == "HEAD" and operation.method == "GET"):
                return Match(operation, match.groupdict(), successor)
            methods.append(operation.method)
        if methods:
            allow = ", ".join(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))
            raise Problem(405, "method_not_allowed", "this path has no such method", headers={"Allow": allow})
        raise Problem(404, "not_found", "there is nothing at this path", remedy="GET /openapi.json lists all paths.")
