"""Partners whose requests two readers could take for different ones, or who begin one and never end it."""

from __future__ import annotations

import pytest

from tests.gateway.serving import Served
from tests.request_heads import AMBIGUOUS, GOOD, open_connection, send


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused(gateway: Served, text: bytes) -> None:
    answer = send(gateway.url, text)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    assert b"application/problem+json" in answer
    assert b"invalid_http" in answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert send(gateway.url, GOOD).startswith(b"HTTP/1.1 200 ")


def test_a_request_that_never_ends_is_ended(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of them as connections are served at once would shut everybody else out."""
    monkeypatch.setattr("rmhdag.gateway.server.GatewayProtocol.header_seconds", 0.3)
    with open_connection(gateway.url) as silent, open_connection(gateway.url) as slow:
        slow.sendall(GOOD[:30])
        assert silent.recv(65536) == b""
        assert slow.recv(65536).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_is_not_sent_holds_no_connection(gateway: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmhdag.machine.strict_http.LINGER_SECONDS", 0.1)
    with open_connection(gateway.url) as connection:
        connection.sendall(b"POST /platform/submit HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n")
        answers = b""
        while piece := connection.recv(65536):
            answers += piece
    assert answers.startswith(b"HTTP/1.1 401 ")
