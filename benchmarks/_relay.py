"""A slow link: a TCP relay on the loopback that holds everything back for a while each way.

For ``settings.py``: kernels without netem have no other way to be far from a host.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def relay(address: str, port: int, delay: float) -> Iterator[int]:
    """The port on 127.0.0.1 behind which ``address:port`` is ``delay`` seconds away each way."""
    listener = socket.create_server(("127.0.0.1", 0))
    sockets: list[socket.socket] = [listener]

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection((address, port))
                for each in (near, far):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sockets.append(each)
                _carry(near, far, delay)
                _carry(far, near, delay)

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _carry(source: socket.socket, sink: socket.socket, delay: float) -> None:
    """Hand on what comes, each piece ``delay`` seconds after it came: late, but not slow."""
    waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def take() -> None:
        data = b"-"
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            waiting.put((time.monotonic() + delay, data))

    def give() -> None:
        with suppress(OSError):
            while True:
                due, data = waiting.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)

    for act in (take, give):
        threading.Thread(target=act, daemon=True).start()
