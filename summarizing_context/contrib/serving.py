"""How the inspector and the proxy are served: a listening socket, and uvicorn's server until the process is to end.

The end takes two seconds. Open streams get half a second, and closing what is left. Then the process ends as it is.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from summarizing_context.errors import StoreError

PROCESS_ENDS_WITHIN = 1.6  # seconds after the signal


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket whose connections send small packets at once; port 0 is a free one. Raise `StoreError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    try:
        listening = socket.create_server((host, port), family=family, backlog=2_048, dualstack_ipv6=both)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise StoreError(f"cannot listen on {host}:{port}: {reason}; choose another --listen") from error
    # asyncio sees by the protocol that it is TCP
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listening.detach())


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class Server(uvicorn.Server):
    """A server that writes no log of requests."""

    def __init__(self, app: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="critical",  # so there is no log of requests either
                server_header=False,
                date_header=False,
                proxy_headers=False,
                lifespan="on",
                http="h11",  # with httptools, which uvicorn takes where it is there, requests come in that h11 refuses
                ws="none",  # no protocol that views are made for has them
                timeout_graceful_shutdown=0.5,  # type: ignore[arg-type] # seconds, for `asyncio.wait_for`
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to others: uvicorn would raise one once more at last, which is no exit status of 0."""
        yield


async def serve(app: Any, listening: socket.socket) -> None:
    """Serve an application until a signal ends the process."""
    server = Server(app)

    def told_to_end(sign: int, frame: Any) -> None:
        if not server.should_exit:
            end_process_in_time()
        server.handle_exit(sign, frame)

    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, told_to_end)
    await server.serve(sockets=[listening])


def end_process_in_time(status: int = 0) -> None:
    """Let this process end by itself, with this exit status; what is left of it at the deadline ends at once."""
    deadline = threading.Timer(PROCESS_ENDS_WITHIN, os._exit, [status])
    deadline.daemon = True
    deadline.start()
