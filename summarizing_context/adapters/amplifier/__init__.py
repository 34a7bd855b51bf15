"""The adapter for Microsoft Amplifier: `mount`, and the context manager that it mounts."""

from summarizing_context.adapters.amplifier.entry import __amplifier_module_type__, mount, on_session_ready
from summarizing_context.adapters.amplifier.manager import SummarizingContextManager

__all__ = ["SummarizingContextManager", "__amplifier_module_type__", "mount", "on_session_ready"]
