"""Secrets in the database are sealed, also where nobody has configured a key; and callbacks tell and delay nobody."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rmhdag.cli.settings import load_settings
from rmhdag.models.callbacks import Callback
from rmhdag.models.scopes import Scope
from rmhdag.services.callbacks.destinations import (
    NO_PUBLIC_ADDRESS,
    CallbackRefused,
    Rules,
    check_addresses,
    check_callback_url,
)
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.store import callback_endpoints, callbacks, vault
from rmhdag.store.connection import connect, enter_schema
from rmhdag.store.vault import KeyFile, SecretNotSealed, SecretUnreadable, Vault
from rmhdag.workflow.definition import InputDefinition
from tests.api.serving import served
from tests.engine.definitions import task, workflow
from tests.orchestrator.platform import Platform
from tests.store.rows import insert_rows

PASSPHRASE = "a passphrase of many letters"
PLACE = ("alpha", "https://example.org/hook")


@pytest.fixture
def key_file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "secret.key", may_make=True)


def test_a_passphrase_is_stretched_and_old_values_still_open() -> None:
    sealed = Vault(PASSPHRASE).seal("whsec", *PLACE)
    assert sealed.startswith("scrypt:")
    assert Vault(PASSPHRASE).unseal(sealed, *PLACE) == "whsec"
    nonce = os.urandom(12)
    old = AESGCM(hashlib.sha256(PASSPHRASE.encode()).digest()).encrypt(nonce, b"whsec", "\n".join(PLACE).encode())
    assert Vault(PASSPHRASE).unseal("aesgcm:" + base64.b64encode(nonce + old).decode(), *PLACE) == "whsec"
    assert Vault(PASSPHRASE).unseal("plain:whsec", *PLACE) == "whsec"
    for other in (Vault(), Vault("another passphrase")):
        with pytest.raises(SecretUnreadable):
            other.unseal(sealed, *PLACE)
    with pytest.raises(SecretUnreadable):
        Vault(PASSPHRASE).unseal(sealed, "beta", PLACE[1])


def test_without_a_passphrase_a_random_key_file_seals(key_file: KeyFile) -> None:
    sealed = Vault(None, key_file).seal("whsec", *PLACE)
    assert sealed.startswith("keyed:")
    assert "whsec" not in sealed
    assert stat.S_IMODE(key_file.path.stat().st_mode) == 0o600
    assert [path.name for path in key_file.path.parent.iterdir()] == ["secret.key"]
    assert Vault(None, key_file).unseal(sealed, *PLACE) == "whsec"
    # Whoever configures a passphrase later still opens it.
    assert Vault(PASSPHRASE, key_file).unseal(sealed, *PLACE) == "whsec"
    with pytest.raises(SecretUnreadable, match="not here"):
        Vault(None, KeyFile(key_file.path.with_name("other"))).unseal(sealed, *PLACE)


def test_a_key_file_is_made_once_whoever_comes_at_the_same_time(key_file: KeyFile) -> None:
    start, made = threading.Barrier(8, timeout=60), []

    def make() -> None:
        start.wait()
        made.append(key_file.read_or_make())

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert len(set(made)) == 1


@pytest.mark.parametrize(("mode", "text"), [(0o644, "0" * 64), (0o600, "short"), (0o600, "g" * 64)])
def test_a_key_file_that_is_open_or_damaged_is_refused(key_file: KeyFile, mode: int, text: str) -> None:
    key_file.path.write_text(text, encoding="ascii")
    key_file.path.chmod(mode)
    with pytest.raises(SecretUnreadable, match=r"chmod 600|hex digits"):
        Vault(None, key_file).seal("whsec", *PLACE)


def test_every_installation_makes_its_key_where_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RMHDAG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    before = vault.vault_of_inputs()
    try:
        assert load_settings().settings.key_file() == KeyFile(tmp_path / "secret.key", may_make=True)
        assert vault.vault_of_inputs().seal("x", "alpha").startswith("keyed:")
        monkeypatch.setenv("RMHDAG_DATABASE_URL", "postgresql://127.0.0.1:1/elsewhere")
        assert load_settings().settings.key_file() == KeyFile(tmp_path / "secret.key", may_make=True, is_shared=True)
        assert vault.vault_of_inputs().seal("x", "alpha").startswith("keyed:")
        monkeypatch.setenv("RMHDAG_SECRET_KEY_FILE", str(tmp_path / "shared.key"))
        assert load_settings().settings.key_file() == KeyFile(tmp_path / "shared.key", may_make=True, is_shared=True)
        monkeypatch.delenv("RMHDAG_DATABASE_URL")
        monkeypatch.setenv("RMHDAG_URL", "http://127.0.0.1:1")
        monkeypatch.delenv("RMHDAG_SECRET_KEY_FILE")
        assert not load_settings().settings.key_file().may_make
    finally:
        vault.use_for_inputs(before)


def unwritable(tmp_path: Path) -> KeyFile:
    """Below a file: nobody can make it, not even root."""
    (tmp_path / "home").write_text("", encoding="ascii")
    return KeyFile(tmp_path / "home" / "secret.key", may_make=True, is_shared=True)


def test_secrets_that_cannot_be_sealed_are_refused_unless_a_setting_allows_it(tmp_path: Path) -> None:
    file = unwritable(tmp_path)
    with pytest.raises(SecretNotSealed) as refusal:
        Vault(None, file).seal("whsec", *PLACE)
    for words in (str(file.path), "RMHDAG_SECRET_KEY_FILE", "RMHDAG_PLAIN_SECRETS", "every machine"):
        assert words in str(refusal.value)
    assert Vault(None, file, allow_plain=True).seal("whsec", *PLACE) == "plain:whsec"
    assert Vault(PASSPHRASE, file).seal("whsec", *PLACE).startswith("scrypt:")


def test_a_second_machine_does_not_make_a_second_key(conn: psycopg.Connection[Any], tmp_path: Path) -> None:
    first, second = (KeyFile(tmp_path / name, may_make=True, is_shared=True) for name in ("first", "second"))
    sealer = Vault(None, first)
    sealer.prepare(conn)
    callback_endpoints.create_endpoint(conn, "alpha", PLACE[1], sealer.seal("whsec", *PLACE), "test")
    sealer.prepare(conn)
    with pytest.raises(SecretNotSealed, match=r"copy .* from") as refusal:
        Vault(None, second).prepare(conn)
    assert "RMHDAG_SECRET_KEY_FILE" in str(refusal.value)
    assert not second.path.exists()
    Vault(PASSPHRASE, second).prepare(conn)
    second.path.write_bytes(first.path.read_bytes())
    second.path.chmod(0o600)
    Vault(None, second).prepare(conn)
    assert Vault(None, second).unseal(Vault(None, first).seal("x", *PLACE), *PLACE) == "x"


def test_another_key_than_that_of_the_others_is_refused(conn: psycopg.Connection[Any], tmp_path: Path) -> None:
    first, second = (KeyFile(tmp_path / name, may_make=True, is_shared=True) for name in ("first", "second"))
    callback_endpoints.create_endpoint(conn, "alpha", PLACE[1], Vault(None, first).seal("whsec", *PLACE), "test")
    second.read_or_make()
    with pytest.raises(SecretNotSealed, match="another key"):
        Vault(None, second).prepare(conn)


def test_api_and_command_say_what_to_do(
    platform: Platform, tmp_path: Path, call_cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = {"token": InputDefinition(type="string", secret=True)}
    platform.register(workflow(a=task()).model_copy(update={"inputs": inputs}))
    file = unwritable(tmp_path)
    before = vault.vault_of_inputs()
    given = {"RMHDAG_DATABASE_URL": platform.dsn, "RMHDAG_SECRET_KEY_FILE": str(file.path)}
    submit = ("submit", "under_test", "token=very-secret")
    try:
        done = call_cli(*submit, **given)
        assert done.returncode != 0
        assert "RMHDAG_SECRET_KEY_FILE" in done.stderr
        assert "Traceback" not in done.stderr
        settings = CallbackSettings(key_file=file, rules=Rules(frozenset({"127.0.0.1:9000"})))
        vault.use_for_inputs(Vault(None, file))
        with served(platform.dsn, callbacks=settings) as api:
            client = api.client(Scope.ADMIN)
            answers = [
                client.post("/api/v1/callback-endpoints", json={"url": "http://127.0.0.1:9000/"}),
                client.post("/api/v1/jobs", json={"workflow_id": "under_test", "input_params": {"token": "abcdefgh"}}),
            ]
        for answer in answers:
            assert (answer.status_code, answer.json()["code"]) == (503, "secrets_not_sealed")
            assert str(file.path) not in answer.text
            assert "operator" in answer.json()["remedy"]
        assert platform.count("dag_jobs") == 0
        assert call_cli(*submit, **given, RMHDAG_PLAIN_SECRETS="1").returncode == 0
    finally:
        vault.use_for_inputs(before)


def test_names_without_an_address_and_of_our_network_get_the_same_sentence() -> None:
    for addresses in ([], ["10.0.0.1"], ["127.0.0.1"], ["203.0.113.1", "192.168.0.1"], ["fe80::1%eth0"]):
        with pytest.raises(CallbackRefused) as refusal:
            check_addresses(addresses)
        assert str(refusal.value) == NO_PUBLIC_ADDRESS
    with pytest.raises(CallbackRefused, match=NO_PUBLIC_ADDRESS):
        check_callback_url("https://localhost/hook", Rules())


def test_a_trusted_host_is_trusted_for_its_namespace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RMHDAG_HOME", str(tmp_path))
    monkeypatch.setenv("RMHDAG_CALLBACK_HOSTS", "127.0.0.1:9000, beta=127.0.0.2, *=127.0.0.3")
    rules = load_settings().settings.callback_rules()

    def is_allowed(namespace: str, host: str) -> bool:
        try:
            check_callback_url(f"http://{host}/hook", rules.for_namespace(namespace))
        except CallbackRefused:
            return False
        return True

    hosts = ("127.0.0.1:9000", "127.0.0.2", "127.0.0.3")
    assert [is_allowed("default", host) for host in hosts] == [True, False, True]
    assert [is_allowed("beta", host) for host in hosts] == [False, True, True]
    assert [is_allowed("alpha", host) for host in hosts] == [False, False, True]


@pytest.fixture
def conn(migrated_database: str) -> Iterator[psycopg.Connection[Any]]:
    with connect(migrated_database, "test", autocommit=True) as made:
        enter_schema(made, "dagapp")
        yield made


def test_a_thousand_hosts_of_one_namespace_leave_turns_to_the_others(
    conn: psycopg.Connection[Any],
) -> None:
    moment = conn.execute("SELECT clock_timestamp() - interval '1 hour'").fetchone()
    assert moment is not None

    def due(namespace: str, number: int, host: str) -> Callback:
        return Callback(
            callback_id=f"{namespace}{number}",
            namespace=namespace,
            job_id=f"{namespace}{number}",
            url=f"{host}/hook",
            endpoint_url=f"{host}/hook",
            host=host,
            created_at=moment[0],
            next_attempt_at=moment[0],
            body={},
        )

    rows = [due("alpha", number, f"https://tarpit{number}.example") for number in range(1_500)]
    rows += [due("beta", number, "https://sink.example") for number in range(3)]
    insert_rows(conn, "dagapp", rows)
    conn.execute("UPDATE dag_callbacks SET next_attempt_at = clock_timestamp() WHERE namespace = 'beta'")

    def claim(under_way: dict[tuple[str, str], int], limit: int) -> list[str]:
        found = callbacks.claim_callbacks(
            conn, under_way, limit=limit, per_host=8, per_namespace=32, lease_seconds=60.0
        )
        return [one.namespace for one in found]

    first = claim({}, 4)
    assert sorted(first) == ["alpha", "alpha", "beta", "beta"]
    busy = {("alpha", f"https://tarpit{number}.example"): 1 for number in range(32)}
    assert claim(busy, 32) == ["beta"], "alpha has all that it may have under way"
