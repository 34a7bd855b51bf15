"""The adapter for LangChain's agents, and so for LangGraph: a middleware that shortens what each model call is sent."""

from importlib import import_module

from summarizing_context.errors import MissingExtraError

try:
    import_module("langchain.agents.middleware")
except ImportError as error:
    raise MissingExtraError("langchain", "the adapter for LangChain needs langchain 1.3 or newer") from error

from summarizing_context.adapters.langchain.middleware import SummarizingMiddleware

__all__ = ["SummarizingMiddleware"]
