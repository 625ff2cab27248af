"""One try against receivers that misbehave, and names that change their meaning between two look-ups."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rmhdag.orchestrator.callbacks.exchange import Answer, Exchange, Question, Resolve, read_retry_after
from rmhdag.services.callbacks.destinations import CallbackRefused, Rules
from tests.orchestrator.callbacks.sink import Behaviour, Sink, answer, drip, flood, hang, hang_up, reset

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"


@pytest.fixture
def sink() -> Iterator[Sink]:
    with Sink() as made:
        yield made


def post(url: str, *, hosts: Sequence[str] = (), seconds: float = 20, resolve: Resolve | None = None) -> Answer:
    exchange = Exchange(Rules(frozenset(hosts)), seconds, resolve=resolve)
    return asyncio.run(exchange.post(url, [("webhook-id", "m1")], b'{"a":1}'))


def test_what_arrives_is_what_was_sent(sink: Sink) -> None:
    assert post(sink.url("/hook?x=1"), hosts=[sink.host]) == Answer(204)
    [got] = sink.received
    assert (got.target, got.body, got.message_id) == ("/hook?x=1", b'{"a":1}', "m1")
    assert got.headers["content-type"] == "application/json"
    assert got.headers["host"] == sink.host


@pytest.mark.parametrize(
    ("behaviour", "status", "words"),
    [
        (answer(500), 500, "refused"),
        (answer(302, "Location: http://127.0.0.1/"), 302, "redirects are not followed"),
        (answer(410), 410, "refused"),
        (reset, None, "no connection"),
        (hang_up, None, "without an answer|not HTTP"),
        (flood(b""), None, "not HTTP"),
        (flood(HEAD + b"X: "), None, "not HTTP|too large"),
        (answer(200, "X: " + "y" * 70_000), None, "not HTTP|too large"),
    ],
)
def test_what_is_no_success(sink: Sink, behaviour: Behaviour, status: int | None, words: str) -> None:
    sink.script["/hook"] = [behaviour]
    got = post(sink.url(), hosts=[sink.host])
    assert got.status == status
    assert got.error is not None
    assert any(word in got.error for word in words.split("|"))
    assert len(sink.received) == 1


@pytest.mark.parametrize(
    "behaviour", [hang, drip(b"", b"H"), drip(HEAD, b"X: y\r\n"), drip(b"", b"HTTP/1.1 100 C\r\n\r\n")]
)
def test_whoever_takes_too_long_is_left(sink: Sink, behaviour: Behaviour) -> None:
    sink.script["/hook"] = [behaviour]
    got = post(sink.url(), hosts=[sink.host], seconds=0.5)
    assert got.status is None
    assert got.error is not None


@pytest.mark.parametrize(
    "behaviour",
    [
        answer(200, body=b"x" * 1_000_000),
        flood(HEAD + b"Content-Length: 10000000000\r\n\r\n"),
        drip(HEAD + b"Content-Length: 1000\r\n\r\n", b"x"),
    ],
)
def test_a_success_with_an_endless_body_is_a_success(sink: Sink, behaviour: Behaviour) -> None:
    sink.script["/hook"] = [behaviour]
    assert post(sink.url(), hosts=[sink.host], seconds=5) == Answer(200)


def test_nobody_there_is_a_failure() -> None:
    with Sink() as gone:
        host, url = gone.host, gone.url()
    got = post(url, hosts=[host])
    assert (got.status, got.error) == (None, "no connection: ConnectionRefusedError")


def test_patience_that_is_asked_for_is_read(sink: Sink) -> None:
    sink.script["/hook"] = [answer(429, "Retry-After: 120")]
    assert post(sink.url(), hosts=[sink.host]).retry_after_seconds == 120
    now = datetime(2026, 11, 16, 8, 49, 37, tzinfo=UTC)
    assert read_retry_after("Mon, 16 Nov 2026 08:50:37 GMT", now) == 60
    assert read_retry_after("Mon, 16 Nov 2026 08:40:37 GMT", now) == 0
    for nonsense in ("", "soon", "-1", "1.5", "9" * 400, "Mon, 99 Nov 2026 08:50:37 GMT", "²"):
        read_retry_after(nonsense, now)


class Resolver:
    """Answers as it is told, and counts."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.mark.parametrize(
    "addresses",
    [["127.0.0.1"], ["93.184.215.14", "127.0.0.1"], ["::ffff:127.0.0.1"], ["64:ff9b::7f00:1"], ["169.254.169.254"], []],
)
def test_a_name_that_leads_inside_is_refused_before_a_connection(sink: Sink, addresses: list[str]) -> None:
    got = post(f"http://innocent.example:{sink.port}/", resolve=Resolver(addresses))
    assert got.error is not None
    assert "the host has" in got.error
    assert not any(address in got.error for address in addresses)
    assert sink.connections == 0


def test_the_address_that_was_checked_is_the_one_connected_to() -> None:
    """Rebinding: the next look-up would give another address. There is no next look-up."""

    def only_the_first(addresses: Collection[str]) -> None:
        if any(address != "127.0.0.1" for address in addresses):
            raise CallbackRefused("not that one")

    resolver = Resolver(["127.0.0.1"], ["127.0.0.2"])
    with Sink("127.0.0.1") as checked, Sink("127.0.0.2", checked.port) as other:
        exchange = Exchange(Rules(), 20, resolve=resolver, check=only_the_first)
        url = f"http://innocent.example:{checked.port}/"
        assert asyncio.run(exchange.post(url, [], b"{}")).status == 204
        assert (resolver.asked, len(checked.received)) == (1, 1)
        assert asyncio.run(exchange.post(url, [], b"{}")).error == "not that one"
        assert (resolver.asked, len(checked.received), other.connections) == (2, 1, 0)


def test_the_system_s_resolver_is_not_believed_either(sink: Sink) -> None:
    # `localhost` is refused by name; whatever else the hosts file calls loopback is refused by address.
    got = post(f"http://ip6-localhost:{sink.port}/")
    assert got.status is None
    assert sink.connections == 0


def test_a_name_nobody_knows_is_a_failure() -> None:
    assert post("http://nobody.invalid/").error == "the host has no public address"


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "cert.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def test_a_pinned_address_still_has_to_show_the_name_s_certificate(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path, "sink.example")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(cert, key)
    client = ssl.create_default_context(cafile=str(cert))
    resolver = Resolver(["127.0.0.1"])
    with Sink(tls=server) as sink:
        rules = Rules(frozenset({"sink.example", "other.example"}))
        exchange = Exchange(rules, 20, resolve=resolver, tls=client)
        assert asyncio.run(exchange.post(f"https://sink.example:{sink.port}/", [], b"{}")).status == 204
        got = asyncio.run(exchange.post(f"https://other.example:{sink.port}/", [], b"{}"))
        assert got.error is not None
        assert "no TLS connection" in got.error
        untrusting = Exchange(rules, 20, resolve=resolver)
        assert asyncio.run(untrusting.post(f"https://sink.example:{sink.port}/", [], b"{}")).status is None
        assert len(sink.received) == 1


def ask(sink: Sink, question: Question) -> Answer:
    exchange = Exchange(Rules(frozenset([sink.host])), 20)
    return asyncio.run(exchange.ask(sink.url(), [("authorization", "Bearer t")], question))


def test_the_content_of_an_answer_is_read_if_it_is_asked_for(sink: Sink) -> None:
    sink.script["/hook"] = [answer(200, body=b'{"a": 1}')]
    assert ask(sink, Question("PUT", b"x=1", "text/plain", wants_content=True)) == Answer(200, content=b'{"a": 1}')
    assert ask(sink, Question(body=b"{}")) == Answer(200)
    [first, _] = sink.received
    assert (first.body, first.headers["content-type"], first.headers["authorization"]) == (
        b"x=1",
        "text/plain",
        "Bearer t",
    )


def test_a_refusal_keeps_its_content(sink: Sink) -> None:
    sink.script["/hook"] = [answer(403, body=b"why")]
    got = ask(sink, Question(wants_content=True))
    assert (got.status, got.content, got.error) == (403, b"why", "answer 403: the endpoint refused it")


@pytest.mark.parametrize("length", [f"Content-Length: {10**9}", "Connection: close"])
def test_content_without_end_is_given_up(sink: Sink, length: str) -> None:
    sink.script["/hook"] = [flood(f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n".encode())]
    got = ask(sink, Question(wants_content=True))
    assert (got.status, got.content) == (None, b"")
