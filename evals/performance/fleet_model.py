"""The model of the fleet demo: an HTTP server that speaks OpenAI's chat completions and notes who asked for what.

The key of a caller names it. Each summary takes a line of the record that it was given.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

_SECONDS = 0.15  # of a call


class Again(NamedTuple):
    """Calls that were made a second time."""

    after_killed: int
    beyond: int


class Model:
    """What was asked of it, by whom."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self.asked: list[tuple[str, str]] = []  # caller, and the digest of what it asked

    def note(self, caller: str, text: str) -> None:
        """A call begins."""
        with self._guard:
            self.asked.append((caller, hashlib.sha256(text.encode()).hexdigest()))

    def calls(self, caller: str) -> int:
        with self._guard:
            return sum(one == caller for one, _ in self.asked)

    def asked_again(self, after: str) -> Again:
        """Calls for what had been asked before: by a caller that was killed, or by others."""
        with self._guard:
            died = {digest for caller, digest in self.asked if caller == after}
            others = Counter(digest for caller, digest in self.asked if caller != after)
        return Again(len(died & others.keys()), others.total() - len(others))


def _summary(record: str) -> str:
    lines = [line.strip() for line in record.splitlines() if line.strip().startswith("Step ")]
    shown = "\n".join(f"- {line[:120]}" for line in lines[:3]) or "- The work went on."
    return f"## Done\n{shown}"


@contextmanager
def serving(model: Model) -> Iterator[str]:
    """The server on a free port of the loopback, by its base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            caller = self.headers.get("Authorization", "").removeprefix("Bearer ")
            model.note(caller, json.dumps(asked["messages"]))
            time.sleep(_SECONDS)
            text = _summary(asked["messages"][-1]["content"])
            self._reply({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})

        def _reply(self, answer: dict[str, Any]) -> None:
            body = json.dumps(answer).encode()
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:  # who asked was killed
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """No line for each request."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            """A caller was killed."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=[0.1], daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
