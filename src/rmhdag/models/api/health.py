"""Whether the platform is well: a verdict, and behind it what was looked at, what is too much, and what to do."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, Field


class HealthStatus(StrEnum):
    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    UNHEALTHY = "UNHEALTHY"


class HealthCheck(BaseModel):
    name: str
    status: HealthStatus
    value: str
    threshold: str = Field(description="What is still healthy")
    remedy: str | None = Field(description="What to do; null where nothing is to be done")


class HealthComponent(BaseModel):
    status: HealthStatus = Field(description="The worst of its checks")
    checks: list[HealthCheck]


class Health(BaseModel):
    """UNHEALTHY comes with the status 503."""

    status: HealthStatus = Field(description="The worst of the components")
    version: str
    components: dict[str, HealthComponent] = Field(description="orchestrators, database, messaging, workers and system")
