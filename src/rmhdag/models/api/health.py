"""The health of the platform: a verdict, and the checks behind it with value, threshold and remedy."""

from enum import StrEnum

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel


class HealthStatus(StrEnum):
    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    UNHEALTHY = "UNHEALTHY"


class HealthCheck(ApiModel):
    name: str
    status: HealthStatus
    value: str
    meaning: str = Field(default="", description="What the check is about, and why it matters")
    threshold: str = Field(description="What is still healthy")
    remedy: str | None = Field(description="What to do; null where nothing is to be done")


class HealthComponent(ApiModel):
    status: HealthStatus = Field(description="The worst of its checks")
    checks: list[HealthCheck]


class Health(ApiModel):
    """UNHEALTHY comes with the status 503."""

    status: HealthStatus = Field(description="The worst of the components")
    version: str
    components: dict[str, HealthComponent] = Field(description="orchestrators, database, messaging, workers and system")
