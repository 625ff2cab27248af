"""How callbacks are delivered; values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from rmhdag.services.callbacks.destinations import Rules
from rmhdag.store.vault import KeyFile, Vault

MINUTE, HOUR = 60.0, 3600.0
# The schedule of Standard Webhooks: at once, and then after each of these pauses.
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
    """`secret_key`, or the key file, encrypts the secrets of endpoints; `result_url` begins with `public_url`, and with
    `gateway_url`, if that is set, for an order.
    """

    rules: Rules = field(default_factory=Rules)
    schedule_seconds: tuple[float, ...] = SCHEDULE_SECONDS
    jitter: float = 0.1
    most_retry_after_seconds: float = 24 * HOUR
    total_seconds: float = 15.0
    concurrency: int = 64
    # Limit per namespace, however many hosts it uses.
    per_namespace: int = 32
    per_host: int = 8
    public_url: str = ""
    gateway_url: str = ""
    secret_key: str | None = field(default=None, repr=False)
    key_file: KeyFile | None = None
    # If there is neither a key nor a key file.
    allow_plain: bool = False

    @property
    def partner_url(self) -> str:
        return self.gateway_url or self.public_url

    def vault(self) -> Vault:
        return Vault(self.secret_key, self.key_file, allow_plain=self.allow_plain)

    def pause_seconds(self, tries: int, asked_seconds: float | None, jitter: Random) -> float | None:
        """The pause after a failure that `tries` others came before; None: that was the last try.

        A receiver may ask for a longer delay, within bounds, but not for a shorter one.
        """
        if tries >= len(self.schedule_seconds):
            return None
        pause = self.schedule_seconds[tries] * jitter.uniform(1 - self.jitter, 1 + self.jitter)
        return max(pause, min(asked_seconds or 0.0, self.most_retry_after_seconds))

    @property
    def lease_seconds(self) -> float:
        """A claim outlives its try: it expires only if its holder has died."""
        return self.total_seconds * 2 + 5
