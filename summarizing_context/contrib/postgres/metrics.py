"""What a worker tells of itself: `/metrics` in Prometheus' text form and `/health`, served by a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from summarizing_context.errors import MissingExtraError, StoreError
from summarizing_context.summarizers.base import SummaryJob, SummaryReply

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app
except ImportError as error:
    raise MissingExtraError("pool", "the metrics of a worker need the package prometheus-client") from error

_NAME = "summarizing_context_worker"
_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160)  # seconds


class PoolMetrics:
    """The figures of one worker. No label holds a session or a text."""

    every = 5.0  # seconds between two looks at the backlog

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.jobs = Counter(f"{_NAME}_jobs", "Jobs that ended, by how", ["outcome"], registry=registry)
        for outcome in ("made", "answered", "failed", "released"):
            self.jobs.labels(outcome)
        self.running = Gauge(f"{_NAME}_calls_running", "Summaries being made", registry=registry)
        self.seconds = Histogram(
            f"{_NAME}_call_seconds", "How long a summary took", buckets=_BUCKETS, registry=registry
        )
        self._tokens = Counter(f"{_NAME}_tokens", "Tokens of the model's calls", ["direction"], registry=registry)
        self.requests = Gauge(f"{_NAME}_requests", "Requests of the whole store", ["state"], registry=registry)
        self.held = Gauge(f"{_NAME}_calls_held", "1 while calls are held back", registry=registry)

    def note_made(self, job: SummaryJob, reply: SummaryReply) -> None:
        """A summary was made and kept."""
        self.jobs.labels("made").inc()
        self._tokens.labels("input").inc(reply.input_tokens or 0)
        self._tokens.labels("output").inc(reply.output_tokens or 0)


@contextmanager
def serving(host: str, port: int, metrics: PoolMetrics, health: Callable[[], str]) -> Iterator[str]:
    """Serve both pages for the length of the block, at the address that is told; port 0 takes a free one.

    Raises `StoreError` where the port is taken.
    """
    pages: Any = make_wsgi_app(metrics.registry)

    def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return pages(environ, start_response)  # type: ignore[no-any-return]
        state = health() if path == "/health" else "not found"
        status = {"ok": "200 OK", "not found": "404 Not Found"}.get(state, "503 Service Unavailable")
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{state}\n".encode()]

    try:
        server = make_server(host, port, app, _Server6 if ":" in host else WSGIServer, _Silent)
    except OSError as error:
        raise StoreError(f"cannot listen on {host}:{port}: {error.strerror}; choose another --listen") from error
    thread = threading.Thread(target=server.serve_forever, args=[0.1], name="metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server6(WSGIServer):
    address_family = socket.AF_INET6


class _Silent(WSGIRequestHandler):
    timeout = 5  # seconds that a client may take

    def log_message(self, format: str, *args: object) -> None:
        """No line for each request."""
