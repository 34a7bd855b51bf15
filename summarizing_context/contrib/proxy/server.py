"""The proxy as a server: its parts put together, its socket, one command behind it, and its end within two seconds.

Open streams get half a second, and closing the sessions what is left. Then the process ends as it is, whatever holds it
up. Nothing is lost by that: what was acknowledged is in the store, and the rest stands in the client's next request.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from summarizing_context.errors import MissingExtraError, SettingsError, briefly

try:
    import uvicorn

    from summarizing_context.contrib.proxy import installation
    from summarizing_context.contrib.proxy.app import OPENAI
    from summarizing_context.contrib.proxy.app import ProxySettings as ProxySettings
    from summarizing_context.contrib.proxy.app import make_app as make_app
except ImportError as error:
    raise MissingExtraError("proxy", "the proxy needs starlette, uvicorn and httpx2") from error

logger = logging.getLogger("summarizing_context.proxy")

STREAMS_END_WITHIN = 0.5  # seconds, after which open streams are cut off
PROCESS_ENDS_WITHIN = 1.6  # seconds after it was told to


def bound_socket(host: str, port: int) -> socket.socket:
    """A listening socket whose connections send small packets at once; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=2_048)
    # asyncio sees by the protocol that it is TCP
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=listening.detach())


class Server(uvicorn.Server):
    """A server that writes no log of requests."""

    def __init__(self, app: Any) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_level="critical",
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                lifespan="on",
                http="h11",  # with httptools, which uvicorn takes where it is there, requests come in that h11 refuses
                ws="none",  # no protocol that views are made for has them
                timeout_graceful_shutdown=STREAMS_END_WITHIN,  # type: ignore[arg-type] # for `asyncio.wait_for`
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to others: uvicorn would raise one once more at last, which is no exit status of 0."""
        yield


async def serve(app: Any, listening: socket.socket) -> None:
    """Serve an application of `make_app` until the process is told to end."""
    server = Server(app)

    def told_to_end(sign: int, frame: FrameType | None) -> None:
        if not server.should_exit:
            end_process_in_time()
        server.handle_exit(sign, frame)

    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, told_to_end)
    await server.serve(sockets=[listening])
    gc.freeze()  # the process ends: else its end would look through all that it holds once more


@asynccontextmanager
async def serving(proxy: ProxySettings, listening: socket.socket) -> AsyncIterator[str]:
    """A server beside other work, by its address. Raises `SettingsError`."""
    server = Server(make_app(proxy, listening.getsockname()[0]))
    running = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        while not (server.started or running.done()):  # noqa: ASYNC110 - uvicorn tells no other way
            await asyncio.sleep(0.01)
        yield address_of(listening)
    finally:
        server.should_exit = True
        await running


def address_of(listening: socket.socket) -> str:
    """The address that clients ask."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def end_process_in_time(status: int = 0) -> None:
    """Let this process end by itself, with this exit status; what is left of it at the deadline ends at once."""

    def end_at_deadline() -> None:
        time.sleep(PROCESS_ENDS_WITHIN)
        logger.warning("the proxy ended before all was closed; what is missing comes with the next requests")
        os._exit(status)

    threading.Thread(target=end_at_deadline, name="deadline", daemon=True).start()


async def run_behind(proxy: ProxySettings, command: Sequence[str]) -> int:
    """Run the command with its base URLs at a proxy; its exit status. Raises `SettingsError` where it cannot start.

    Ctrl-C at a terminal reaches the command by itself, and this process goes on until the command ends.
    """
    token = proxy.token or ""
    is_codex = Path(command[0]).name == "codex"
    codex = installation.read_codex(os.environ, Path.home()) if is_codex else None
    by_chatgpt = codex is not None and codex.by_chatgpt
    if by_chatgpt and proxy.openai == OPENAI:
        proxy = replace(proxy, openai=installation.CHATGPT)
    if codex is not None and (trouble := codex.trouble(token, openai=proxy.openai)) is not None:
        raise SettingsError(trouble)
    with bound_socket("127.0.0.1", 0) as listening:
        async with serving(proxy, listening) as address:
            places = installation.base_urls(address, proxy.token) | {installation.TOKEN_VARIABLE: token}
            if is_codex:
                arguments = installation.arguments_for(address, by_chatgpt=by_chatgpt)
                command = [command[0], *arguments, *command[1:]]
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    env={**os.environ, **places},
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                )
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, process.send_signal, signal.SIGTERM)
                status = await process.wait()
                status = status if status >= 0 else 128 - status  # as shells tell a signal
                end_process_in_time(status)
                return status
            except OSError as error:
                raise SettingsError(f"{briefly(command[0])} cannot be run: {error.strerror}") from error
            finally:
                signal.signal(signal.SIGINT, before)
