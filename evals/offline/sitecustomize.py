"""Found first on the path while evals run: from here on this process, and every one that it starts, has no network.

A connection that is tried anyway is a fault of the evals, so it is an error and not a silence.
"""

from __future__ import annotations

import socket
from typing import NoReturn


def _refuse(*_: object, **__: object) -> NoReturn:
    raise RuntimeError("the evals run without a network, and something tried to connect")


socket.socket.connect = _refuse  # type: ignore[method-assign]
socket.socket.connect_ex = _refuse  # type: ignore[method-assign]
socket.getaddrinfo = _refuse
socket.create_connection = _refuse
