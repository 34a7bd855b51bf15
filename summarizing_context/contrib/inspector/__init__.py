"""The inspector: a page on what a store's sessions hold, what was summarized, what left the view, and what it cost.

It reads beside the sessions' writers. `inspector_app` returns it as a Starlette application, `serve` runs it.
"""

from __future__ import annotations

from summarizing_context.contrib.inspector.app import Access, bound_socket, inspector_app, serve

__all__ = ["Access", "bound_socket", "inspector_app", "serve"]
