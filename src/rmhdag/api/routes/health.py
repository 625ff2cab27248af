"""Whether the platform is well, for people and for monitors."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from rmhdag.api.context import ApiContext
from rmhdag.api.identity import Reader
from rmhdag.api.problems import MEDIA_TYPE
from rmhdag.models.api.health import Health, HealthStatus
from rmhdag.views.health import look

router = APIRouter(tags=["health"])

SICK: dict[int | str, dict[str, Any]] = {
    503: {
        "model": Health,
        "description": "UNHEALTHY; or a problem, if the database does not answer",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}},
    }
}


@router.get("/health", summary="Health", responses=SICK, operation_id="health")
@router.get("/api/v1/health", summary="Health", responses=SICK, operation_id="health_v1")
def health(caller: Reader, api: ApiContext, response: Response) -> Health:
    """Five components with their checks: value, threshold and remedy. UNHEALTHY answers 503."""
    with api.connection() as conn:
        report = look(conn, api.settings, caller.namespace)
    if report.status is HealthStatus.UNHEALTHY:
        response.status_code = 503
        response.headers["Retry-After"] = "5"
    return report
