"""How callbacks are delivered; values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from rmhdag.orchestrator.callbacks.destinations import Rules
from rmhdag.store.vault import KeyFile, Vault

MINUTE, HOUR = 60.0, 3600.0
# Of Standard Webhooks: at once, and then after each of these.
SCHEDULE_SECONDS = (
    5.0,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
)


@dataclass(frozen=True)
class CallbackSettings:
    """`secret_key`, else the key file, seals the secrets of endpoints; `public_url` stands before `result_url`."""

    rules: Rules = field(default_factory=Rules)
    schedule_seconds: tuple[float, ...] = SCHEDULE_SECONDS
    jitter: float = 0.1
    most_retry_after_seconds: float = 24 * HOUR
    total_seconds: float = 15.0
    concurrency: int = 64
    # No namespace takes more of them, however many hosts it names.
    per_namespace: int = 32
    per_host: int = 8
    public_url: str = ""
    secret_key: str | None = field(default=None, repr=False)
    key_file: KeyFile | None = None

    def vault(self) -> Vault:
        return Vault(self.secret_key, self.key_file)

    @property
    def lease_seconds(self) -> float:
        """A claim outlives its try: it lapses only if whoever holds it is gone."""
        return self.total_seconds * 2 + 5
