"""A provider on the loopback, in a thread of its own, that answers every request alike."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SAID = "ok"


def completion(text: str) -> bytes:
    """A reply that both protocols can be read from."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 12, "completion_tokens": 2, "input_tokens": 12, "output_tokens": 2}
    blocks = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "role": "assistant"}
    return json.dumps({"id": "1", "type": "message", "choices": [choice], "usage": usage, **blocks}).encode()


@dataclass
class Provider:
    """What it answers, and how often it was asked."""

    status: int = 200
    body: bytes = field(default_factory=lambda: completion(SAID))
    content_type: str = "application/json"
    address: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    silent: threading.Event | None = None  # it answers only once this is set

    @property
    def host(self) -> str:
        return self.address.removeprefix("http://")


@contextmanager
def provider(**answers: Any) -> Iterator[Provider]:
    """A provider for the length of the block."""
    told = Provider(**answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            if told.silent is not None:
                told.silent.wait(60)
            self.send_response(told.status)
            self.send_header("content-type", told.content_type)
            self.send_header("content-length", str(len(told.body)))
            self.end_headers()
            self.wfile.write(told.body)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    told.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=[0.02])
    thread.start()
    try:
        yield told
    finally:
        if told.silent is not None:
            told.silent.set()
        server.shutdown()
        server.server_close()
        thread.join()
