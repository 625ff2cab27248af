"""The proxy carries bytes, and stops carrying them in the ways it is asked to."""

import socket
import threading
import time
from collections.abc import Iterator
from random import Random

import pytest

from rmhdag.lab.chaos.proxy import Proxy


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that sends back what it gets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(peer: socket.socket) -> None:
        with peer:
            try:
                while data := peer.recv(65536):
                    peer.sendall(data)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=[peer], daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


@pytest.fixture
def proxy(echo_port: int) -> Iterator[Proxy]:
    between = Proxy(echo_port)
    between.start()
    yield between
    between.stop()


def call(proxy: Proxy) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", proxy.port), timeout=5)
    client.sendall(b"hello")
    assert client.recv(100) == b"hello"
    return client


def test_bytes_go_both_ways(proxy: Proxy) -> None:
    with call(proxy) as client:
        sent = bytes(range(256)) * 400
        client.sendall(sent)
        got = b""
        while len(got) < len(sent):
            got += client.recv(65536)
        assert got == sent


def test_a_cut_is_noticed_at_once(proxy: Proxy) -> None:
    with call(proxy) as client:
        proxy.cut(Random(1), 1.0)
        with pytest.raises(ConnectionResetError):
            client.recv(100)


def test_a_half_open_connection_is_silent_and_then_reset(proxy: Proxy) -> None:
    with call(proxy) as client:
        proxy.hold(Random(1), 1.0, 0.5)
        began = time.monotonic()
        client.sendall(b"anybody?")
        with pytest.raises(ConnectionResetError):
            client.recv(100)
        assert time.monotonic() - began >= 0.3


def test_a_delay_keeps_the_order(proxy: Proxy) -> None:
    with call(proxy) as client:
        proxy.delay(0.2, 5)
        began = time.monotonic()
        client.sendall(b"slow")
        assert client.recv(100) == b"slow"
        assert time.monotonic() - began >= 0.15


def test_without_a_server_the_client_is_turned_away() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    between = Proxy(port)
    between.start()
    try:
        with socket.create_connection(("127.0.0.1", between.port), timeout=5) as client:
            assert client.recv(100) == b""
    finally:
        between.stop()
