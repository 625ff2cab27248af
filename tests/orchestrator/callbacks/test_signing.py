"""Signatures that the receivers' own library accepts, and secrets that only their place and their key open."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from rmhdag.services.callbacks.signing import SecretUnreadable, Vault, check_secret, new_secret, sign

BODY = b'{"job_id":"j","status":"completed"}'


def headers(secrets: list[str], message_id: str = "0198f3c2") -> dict[str, str]:
    now = int(datetime.now(UTC).timestamp())
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(now),
        "webhook-signature": sign(secrets, message_id, now, BODY),
    }


def test_a_receiver_verifies_it_with_the_library() -> None:
    secret = new_secret()
    assert Webhook(secret).verify(BODY, headers([secret])) == {"job_id": "j", "status": "completed"}


def test_during_a_rotation_either_secret_verifies_and_no_other() -> None:
    old, new = new_secret(), new_secret()
    told = headers([new, old])
    for secret in (old, new):
        Webhook(secret).verify(BODY, told)
    with pytest.raises(WebhookVerificationError):
        Webhook(new_secret()).verify(BODY, told)


def test_another_id_time_or_body_does_not_verify() -> None:
    secret = new_secret()
    told = headers([secret])
    for changed in ({"webhook-id": "other"}, {"webhook-timestamp": str(int(told["webhook-timestamp"]) - 1)}):
        with pytest.raises(WebhookVerificationError):
            Webhook(secret).verify(BODY, told | changed)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(BODY.replace(b":", b": "), told)


@pytest.mark.parametrize("text", ["", "x", "whsec_", "whsec_AAAA", "whsec_" + "A" * 200, "whsec_ä", "A" * 44])
def test_a_secret_has_a_shape(text: str) -> None:
    with pytest.raises(ValueError, match="base64 of 24 to 64 bytes"):
        check_secret(text)
    assert check_secret(new_secret())


def test_without_a_key_secrets_are_stored_as_they_are() -> None:
    stored = Vault().seal("whsec_x", "default", "https://a/")
    assert stored == "plain:whsec_x"
    assert Vault("a key that came later").unseal(stored, "default", "https://a/") == "whsec_x"


def test_a_sealed_secret_opens_only_with_its_key_and_in_its_place() -> None:
    vault = Vault("correct horse battery staple")
    sealed = vault.seal("whsec_x", "default", "https://a/")
    assert "whsec_x" not in sealed
    assert sealed != vault.seal("whsec_x", "default", "https://a/")
    assert vault.unseal(sealed, "default", "https://a/") == "whsec_x"
    for other, place in (
        (Vault("another key altogether"), ("default", "https://a/")),
        (Vault(), ("default", "https://a/")),
        (vault, ("north", "https://a/")),
        (vault, ("default", "https://b/")),
    ):
        with pytest.raises(SecretUnreadable):
            other.unseal(sealed, *place)
