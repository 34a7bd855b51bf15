"""Amplifier's door by name. The wheel carries this file as the package `amplifier_module_context_summarizing`, which is
where a host that is given a folder looks for `context-summarizing`."""

from __future__ import annotations

from summarizing_context.adapters.amplifier.manager import __amplifier_module_type__, mount, on_session_ready

__all__ = ["__amplifier_module_type__", "mount", "on_session_ready"]
