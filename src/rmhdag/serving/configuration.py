"""Settings of the services for maps and catalogues."""

from __future__ import annotations

from pydantic import Field, SecretStr

from rmhdag.models.setting_types import Interval, SettingsGroup, WebUrl


class ServingConfiguration(SettingsGroup):
    """Where `rmhdag serve` listens, what it reads, and how much it may use."""

    serve_host: str = Field(default="127.0.0.1", description="Address on which `rmhdag serve` listens")
    serve_port: int = Field(default=8900, ge=0, le=65535, description="Port of `rmhdag serve`; 0 chooses a free one")
    serve_public_url: WebUrl | None = Field(
        default=None,
        description="URL under which clients reach `rmhdag serve`, for links; the gateway's service addresses point "
        "there too",
    )
    stac_database_url: SecretStr | None = Field(
        default=None,
        description="Database URL of the STAC API, with the role `stac` that `rmhdag db roles --services` creates",
    )
    features_database_url: SecretStr | None = Field(
        default=None,
        description="Database URL of OGC features, with the role `features` that `rmhdag db roles --services` creates",
    )
    serve_memory_mb: int = Field(
        default=1024,
        ge=256,
        le=1024 * 1024,
        description="Memory of each service, in MB; a request that needs more fails",
    )
    serve_requests: int = Field(
        default=16,
        ge=1,
        le=1000,
        description="Requests that each service answers at a time; 64 more wait, others get 503",
    )
    serve_request_seconds: Interval = Field(
        default=30.0,
        description="Time limit for a request to a service, in seconds; for its statements in the database too",
    )
