"""Serve the inspector to a browser on this machine."""

from __future__ import annotations

import logging
import os
import socket
from ipaddress import ip_address

from summarizing_context.errors import MissingExtraError, SettingsError, StoreError

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount

    from summarizing_context.inspector.guard import Access
except ImportError as error:
    raise MissingExtraError("inspect", "the inspector needs the packages starlette and uvicorn") from error

_GRACE = 1  # seconds that open streams have when the server stops


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket that listens on a loopback address; port 0 takes a free one.

    Raises `SettingsError` for other addresses: the page would be sent in clear. Raises `StoreError` if it is taken.
    """
    if not ip_address(host).is_loopback:
        raise SettingsError(
            f"{host} is open to other machines, and the inspector does not encrypt; "
            "listen on 127.0.0.1, and reach it from elsewhere through an SSH tunnel"
        )
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error.strerror
        raise StoreError(f"cannot listen on {host}:{port}: {reason}; choose another --listen") from error


async def serve(app: Starlette, listening: socket.socket, access: Access | None = None) -> None:
    """Serve until the process is told to stop, which takes two seconds at most; with `access`, in its folder."""
    if access is not None:
        app = Starlette(routes=[Mount(f"/{access.folder}", app)])
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # streams that are cut at the end are no errors
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=_GRACE, server_header=False
    )
    await uvicorn.Server(config).serve([listening])
