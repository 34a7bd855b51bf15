"""`SummarizingMiddleware`: each model call of an agent is sent a view of its history; the graph's state stays whole.

A context belongs to one event loop, and an agent may be called from any, or from none. So the sessions have a loop of
their own, on which summaries are made while a model call blocks the caller.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextvars import Context
from dataclasses import replace
from typing import Any, Self, TypeVar

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.utils.function_calling import convert_to_openai_tool

from summarizing_context.adapters.bound_thinking import BINDING_BETA, bound_thinking, dropping
from summarizing_context.adapters.langchain.messages import History, plain
from summarizing_context.adapters.open_sessions import Sessions, Window, session_id_from
from summarizing_context.errors import ContextClosedError, SettingsError, briefly
from summarizing_context.sessions.session import Statistics
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.base import SummaryJob, SummaryReply

Result = TypeVar("Result")


class LoopThread:
    """An event loop in a thread, from the first call to `close`. `leave` runs on it at the end."""

    def __init__(self, leave: Callable[[], Awaitable[None]]) -> None:
        self._leave = leave
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, work: Callable[[], Coroutine[Any, Any, Result]]) -> Future[Result]:
        """Run `work` on the loop. Raise `ContextClosedError`."""
        with self._starting:
            if self._closed:
                raise ContextClosedError("the middleware was closed; make another one")
            # in an empty context: the caller's would hand the agent's callbacks on to summarizers
            if self._thread is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=Context().run, args=(self._run,), daemon=True)
                self._thread.start()
            return Context().run(asyncio.run_coroutine_threadsafe, work(), self._loop)

    def end(self) -> None:
        """End the loop soon, from any thread, without waiting for it. May be called twice."""

        async def stop() -> None:
            try:
                await self._leave()
            finally:
                self._loop.stop()

        with self._starting:
            if self._thread is not None and not self._closed:
                asyncio.run_coroutine_threadsafe(stop(), self._loop)
            self._closed = True

    def close(self) -> None:
        """End the loop and wait for it. May be called twice."""
        self.end()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.close()


class ChatModelSummarizer:
    """Asks the model for each job. Whatever it raises is a failed attempt."""

    def __init__(self, model: BaseChatModel) -> None:
        self._model = model
        self.recipe = f"langchain/{type(model).__name__}/{model_name(model) or 'default'}"

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        reply = await self._model.ainvoke([SystemMessage(job.instructions), HumanMessage(job.content)])
        usage: Any = reply.usage_metadata or {}
        told = reply.response_metadata
        return SummaryReply(
            str(reply.text),
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            truncated=(told.get("finish_reason") or told.get("stop_reason"))
            in ("length", "max_tokens", "MAX_TOKENS", "max_output_tokens"),
            cached_tokens=(usage.get("input_token_details") or {}).get("cache_read"),
        )


def model_name(model: BaseChatModel) -> str:
    """The name that a provider knows the model by; empty where it has none."""
    return str(getattr(model, "model_name", None) or getattr(model, "model", None) or "")


_OPTIONS = ("summarizer", "count_tokens", "clock", "redact", "events", "embedder")  # of `open_context`


class SummarizingMiddleware(AgentMiddleware):
    """A view of the history for each model call of an agent, within the budget. Nothing waits for a summary.

    `options` are settings by name, before those of `settings`, and arguments of `open_context`; `summarizer` may also
    be a chat model. At most `open_sessions` sessions stay open; the one that was not used for longest is closed.
    Raises `SettingsError`. What a call raises is what `open_context`, `follow` and `get_messages_for_request` raise.
    """

    def __init__(self, settings: Settings | None = None, *, open_sessions: int = 64, **options: Any) -> None:
        super().__init__()
        if isinstance(open_sessions, bool) or not isinstance(open_sessions, int) or open_sessions < 1:
            raise SettingsError(f"open_sessions is {briefly(open_sessions)}; it is a number of sessions, at least 1")
        if settings is not None and not isinstance(settings, Settings):
            said = f"settings is {type(settings).__name__}"
            raise SettingsError(f"{said}; pass Settings(...), or settings by their names")
        beside = {name: options.pop(name) for name in _OPTIONS if name in options}
        if isinstance(beside.get("summarizer"), str):
            options["summarizer"] = beside.pop("summarizer")
        if isinstance(beside.get("summarizer"), BaseChatModel):
            beside["summarizer"] = ChatModelSummarizer(beside["summarizer"])
        self._settings = replace(settings or Settings(), **options)
        self._sessions = Sessions(self._settings, most=open_sessions, **beside)
        self._loop = LoopThread(self._sessions.close)
        weakref.finalize(self, self._loop.end).atexit = False

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], ModelResponse]) -> ModelResponse:
        session, shorten = self._shortened(request)
        response = handler(self._loop.submit(shorten).result())
        if usage := _usage(response):
            self._loop.submit(lambda: self._observe(session, usage)).result()
        return response

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        session, shorten = self._shortened(request)
        response = await handler(await asyncio.wrap_future(self._loop.submit(shorten)))
        if usage := _usage(response):
            await asyncio.wrap_future(self._loop.submit(lambda: self._observe(session, usage)))
        return response

    def _shortened(self, request: ModelRequest) -> tuple[str, Callable[[], Coroutine[Any, Any, ModelRequest]]]:
        """Return the session of a request, and what makes the request with its view on the loop of the sessions."""
        history, model = History(request.messages), request.model
        session = session_id_from(_session_of(request, history, self._settings.session_id))
        prompt: Any = None if request.system_message is None else request.system_message.content
        if prompt is not None and not isinstance(prompt, str):  # blocks that are objects
            prompt = [{"type": "text", "text": block} if isinstance(block, str) else block for block in plain(prompt)]
        profile: Mapping[str, Any] = getattr(model, "profile", None) or {}
        limits = profile.get("max_input_tokens"), profile.get("max_output_tokens")
        window = Window(type(model).__name__, model_name(model), *limits)
        tools = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools]
        settings = request.model_settings or {}
        thinking = settings.get("thinking") or getattr(model, "thinking", None)
        is_anthropic = getattr(model, "_llm_type", "") == "anthropic-chat"
        bound = bound_thinking(model_name(model), thinking, may_ask=is_anthropic)

        async def shorten() -> ModelRequest:
            async with self._sessions.use(session) as context:
                await context.follow(history.rows, keys=history.keys)
                view = await context.next_view(provider=window, system=prompt, tools=tools, bound_thinking=bound)
            shown = view.messages[bool(prompt) :]  # without the prompt, which the request carries
            changed: dict[str, Any] = {"messages": history.messages_of(shown)}
            if bound == "asked" and view.rewritten_prefix:
                betas = [*(settings.get("betas") or getattr(model, "betas", None) or ())]
                asked = {"thinking": dropping(thinking), "betas": [*betas, *{BINDING_BETA}.difference(betas)]}
                changed["model_settings"] = {**settings, **asked}
                if getattr(model, "thinking", None) is not None:  # which goes over the settings of a request
                    changed["model"] = model.model_copy(update=asked)
            return request.override(**changed)

        return session, shorten

    async def _observe(self, session: str, usage: dict[str, int]) -> None:
        async with self._sessions.use(session) as context:
            await context.observe_usage(**usage)

    def statistics(self) -> dict[str, Statistics]:
        """The figures of each open session since it was opened, by session id."""

        async def read() -> dict[str, Statistics]:
            return {name: context.statistics() for name, context in self._sessions.contexts().items()}

        return self._loop.submit(read).result()

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until no open session has a summary to make; return whether all are there. See the context's own."""

        async def wait() -> bool:
            contexts = self._sessions.contexts().values()
            return all(await asyncio.gather(*(context.wait_idle(timeout) for context in contexts)))

        return self._loop.submit(wait).result()

    def close(self) -> None:
        """Close every session. Takes at most two seconds for each. Without it the process may end all the same: what
        was said is in the store, and summaries under way are made again."""
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _session_of(request: ModelRequest, history: History, name: str) -> str:
    """The thread, with a child agent's path in the graph; then, or without a thread, what its history begins with.

    Of the path only names count: the ids behind them are new with each run.
    """
    run = getattr(request.runtime, "execution_info", None)
    thread = "" if run is None or run.thread_id is None else str(run.thread_id)
    path = [] if run is None else [step.partition(":")[0] for step in run.checkpoint_ns.split("|")[:-1]]
    parts = ["langchain" if name == "default" else name, thread, *path]
    if path or not thread:
        parts.append(history.keys[0] if history.keys else "")
    return ":".join(parts)


def _usage(response: Any) -> dict[str, int] | None:
    """What the provider counted for the request."""
    found = [response] if isinstance(response, AIMessage) else getattr(response, "result", ())
    told = next((message.usage_metadata for message in found if isinstance(message, AIMessage)), None)
    if not told:
        return None
    details: Mapping[str, Any] = told.get("input_token_details") or {}
    read, written = details.get("cache_read") or 0, details.get("cache_creation") or 0
    return {"input_tokens": max(0, told["input_tokens"] - read - written), "cache_read": read, "cache_write": written}
