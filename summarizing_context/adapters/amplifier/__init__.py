"""The adapter for Microsoft Amplifier: `mount`, and the context manager that it mounts."""

from summarizing_context.adapters.amplifier.manager import (
    SummarizingContextManager,
    __amplifier_module_type__,
    mount,
    on_session_ready,
)

__all__ = ["SummarizingContextManager", "__amplifier_module_type__", "mount", "on_session_ready"]
