"""A TCP proxy in front of the database that can cut connections, hold them half-open, and delay what they carry.

One thread with one selector; what goes wrong is asked for from another thread and done between two reads.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

CHUNK_BYTES = 256 * 1024
LINGER_NOT = struct.pack("ii", 1, 0)  # closing sends a reset: the peer learns of it at once


@dataclass(eq=False)
class Pipe:
    """One connection: two sockets and what is on its way between them."""

    client: socket.socket
    server: socket.socket
    held_until: float = 0.0
    waiting: dict[socket.socket, deque[tuple[float, bytes]]] = field(default_factory=dict)

    def other(self, side: socket.socket) -> socket.socket:
        return self.server if side is self.client else self.client


class Proxy:
    """Listens on `port` from `start` until `stop`."""

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self._delay_seconds = 0.0
        self._delayed_until = 0.0
        self._pipes: dict[socket.socket, Pipe] = {}
        self._asked: deque[Callable[[], None]] = deque()
        self._selector = selectors.DefaultSelector()
        self._bell_out, self._bell_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def start(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._bell_out, selectors.EVENT_READ)
        self._thread.start()

    def stop(self) -> None:
        self._ask(self._end)
        self._thread.join(5)

    def cut(self, rng: Random, share: float) -> None:
        """Reset some of the connections."""

        def begin() -> None:
            for pipe in self._some(rng, share):
                self._close(pipe)

        self._ask(begin)

    def hold(self, rng: Random, share: float, seconds: float) -> None:
        """Half-open: both ends believe in the connection, nothing passes, and in the end it is reset."""

        def begin() -> None:
            for pipe in self._some(rng, share):
                pipe.held_until = time.monotonic() + seconds

        self._ask(begin)

    def delay(self, delay_seconds: float, seconds: float) -> None:
        """Everything arrives later, for a while."""

        def begin() -> None:
            self._delay_seconds = delay_seconds
            self._delayed_until = time.monotonic() + seconds

        self._ask(begin)

    def heal(self) -> None:
        def end() -> None:
            self._delay_seconds = 0.0
            for pipe in self._every():
                if pipe.held_until:
                    self._close(pipe)

        self._ask(end)

    def _ask(self, action: Callable[[], None]) -> None:
        self._asked.append(action)
        with suppress(OSError):
            os.write(self._bell_in, b"!")

    def _every(self) -> list[Pipe]:
        return list(dict.fromkeys(self._pipes.values()))

    def _some(self, rng: Random, share: float) -> list[Pipe]:
        pipes = self._every()
        return rng.sample(pipes, max(1, round(len(pipes) * share))) if pipes else []

    def _run(self) -> None:
        while not self._stopped:
            for key, _ in self._selector.select(self._next_due()):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj == self._bell_out:
                    with suppress(BlockingIOError):
                        os.read(self._bell_out, 4096)
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._read(key.fileobj)
            while self._asked:
                self._asked.popleft()()
            self._go_on()

    def _next_due(self) -> float:
        due = [
            queue[0][0] for pipe in self._every() for queue in pipe.waiting.values() if queue and not pipe.held_until
        ]
        due += [pipe.held_until for pipe in self._every() if pipe.held_until]
        return max(0.001, min([0.5, *(at - time.monotonic() for at in due)]))

    def _accept(self) -> None:
        with suppress(OSError):
            client, _ = self._listener.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.target_port), timeout=2)
            except OSError:
                client.close()
                return
            pipe = Pipe(client, server)
            for side in (client, server):
                side.setblocking(True)
                side.settimeout(5)
                side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pipe.waiting[side] = deque()
                self._pipes[side] = pipe
                self._selector.register(side, selectors.EVENT_READ)

    def _read(self, side: socket.socket) -> None:
        pipe = self._pipes.get(side)
        if pipe is None:
            return
        if pipe.held_until:
            # Nothing is read either: the sender's buffers fill up, as on a dead line.
            self._selector.unregister(side)
            return
        try:
            data = side.recv(CHUNK_BYTES)
        except OSError:
            data = b""
        if not data:
            self._close(pipe)
            return
        now = time.monotonic()
        wait = self._delay_seconds if now < self._delayed_until else 0.0
        target = pipe.other(side)
        if wait or pipe.waiting[target]:
            pipe.waiting[target].append((now + wait, data))
        else:
            self._send(pipe, target, data)

    def _go_on(self) -> None:
        now = time.monotonic()
        for pipe in self._every():
            if pipe.held_until:
                if now >= pipe.held_until:
                    self._close(pipe)
                continue
            for target, queue in pipe.waiting.items():
                while queue and queue[0][0] <= now and target in self._pipes:
                    self._send(pipe, target, queue.popleft()[1])

    def _send(self, pipe: Pipe, target: socket.socket, data: bytes) -> None:
        try:
            target.sendall(data)
        except OSError:
            self._close(pipe)

    def _close(self, pipe: Pipe) -> None:
        for side in (pipe.client, pipe.server):
            if self._pipes.pop(side, None) is not None:
                with suppress(KeyError, ValueError):
                    self._selector.unregister(side)
                with suppress(OSError):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
                side.close()

    def _end(self) -> None:
        self._stopped = True
        for pipe in self._every():
            self._close(pipe)
        self._selector.unregister(self._listener)
        self._listener.close()
        self._selector.close()
