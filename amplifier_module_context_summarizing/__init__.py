"""Amplifier's door to summarizing_context, by the name under which a host looks for `context-summarizing`."""

from summarizing_context.adapters.amplifier import __amplifier_module_type__, mount, on_session_ready

__all__ = ["__amplifier_module_type__", "mount", "on_session_ready"]
