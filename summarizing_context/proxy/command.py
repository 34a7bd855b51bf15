"""One command behind a proxy of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence

from summarizing_context.errors import SettingsError, briefly
from summarizing_context.proxy.ending import end_process_in_time
from summarizing_context.proxy.server import ProxySettings, bound_socket, serving


async def run_behind(proxy: ProxySettings, command: Sequence[str]) -> int:
    """Run the command with its base URLs at a proxy; its exit status. Raises `SettingsError` where it cannot start."""
    with bound_socket("127.0.0.1", 0) as listening:
        async with serving(proxy, listening) as address:
            places = {"ANTHROPIC_BASE_URL": address, "OPENAI_BASE_URL": f"{address}/v1"}
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal tells the command too, which decides
            try:
                process = await asyncio.create_subprocess_exec(
                    *command, env={**os.environ, **places}, preexec_fn=_take_interrupts
                )
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGTERM, process.send_signal, signal.SIGTERM)
                status = await process.wait()
                status = status if status >= 0 else 128 - status  # as shells tell a signal
                end_process_in_time(status)
                return status
            except OSError as error:
                raise SettingsError(f"{briefly(command[0])} cannot be run: {error.strerror}") from error
            finally:
                signal.signal(signal.SIGINT, before)


def _take_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
