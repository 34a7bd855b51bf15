"""The providers' protocols as tests see them: how a summarizer is made, where it calls, what a reply looks like.

One more in `PROTOCOLS` runs through the suite of this folder; its replies that are no summary stand in `test_sdks`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from summarizing_context.summarizers.sdk import AnthropicSummarizer, OpenAIChatSummarizer

KEY = "sk-test-0123456789"
MODEL = "model-of-the-test"
GOOD = "## Done\n- The build was fixed in a.py."
Json = dict[str, Any]
LEFT_OUT: Any = object()


def completion_usage(read: Any, written: Any, cached: Any = 0) -> Json:
    return {"prompt_tokens": read, "completion_tokens": written, "prompt_tokens_details": {"cached_tokens": cached}}


def completion(text: Any = GOOD, *, reason: Any = "stop", usage: Any = None, **message: Any) -> Json:
    """A chat completion; what is `LEFT_OUT` is not in it."""
    said = _without({"role": "assistant", "content": text, **message})
    choice = _without({"index": 0, "message": said, "finish_reason": reason})
    usage = completion_usage(900, 30) if usage is None else usage
    return _without({"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage})


def answer_usage(read: Any, written: Any, cached: Any = 0) -> Json:
    return {"input_tokens": read, "cache_read_input_tokens": cached, "output_tokens": written}


def answer(text: Any = GOOD, *, reason: Any = "end_turn", usage: Any = None) -> Json:
    """A message of an Anthropic model."""
    content = text if isinstance(text, list) or text is None else [{"type": "text", "text": text}]
    usage = answer_usage(500, 30, 400) if usage is None else usage
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "content": content, "usage": usage}
    return _without({**reply, "stop_reason": reason})


def _without(value: Json) -> Json:
    return {key: item for key, item in value.items() if item is not LEFT_OUT}


@dataclass(frozen=True)
class Protocol:
    """One provider."""

    name: str
    root: str
    path: str
    summarizer: Callable[..., Any]
    reply: Callable[..., Json]  # of a text; by name: `reason`, why it ended, and `usage`
    usage: Callable[..., Json]  # of tokens read, written, and read from a cache
    cut: str  # why a reply ended that was cut off
    keys: tuple[str, ...]  # environment variables that may hold a key

    @property
    def url(self) -> str:
        """Where a call goes."""
        return self.root + self.path

    def made(self, **options: Any) -> Any:
        """A summarizer that the test closes."""
        return self.summarizer(options.pop("model", MODEL), **{"api_key": KEY, **options})

    def base_url(self, root: str) -> str:
        """The setting for a server at `root`."""
        return f"{root}/v1" if self.name == "openai" else root


OPENAI = Protocol(
    *("openai", "https://api.openai.com", "/v1/chat/completions"),
    *(OpenAIChatSummarizer, completion, completion_usage, "length", ("OPENAI_API_KEY",)),
)
ANTHROPIC = Protocol(
    *("anthropic", "https://api.anthropic.com", "/v1/messages"),
    *(AnthropicSummarizer, answer, answer_usage, "max_tokens", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")),
)
PROTOCOLS = (OPENAI, ANTHROPIC)


def spoken_at(path: str) -> Protocol:
    """The protocol of a request."""
    return next((protocol for protocol in PROTOCOLS if path.endswith(protocol.path)), ANTHROPIC)


def system_text(body: Json) -> str:
    """The instructions in a request of any protocol."""
    said = body.get("system") or [row for row in body["messages"] if row["role"] == "system"]
    return "".join(block.get("text") or block["content"] for block in said)


def user_text(body: Json) -> str:
    """The content in a request of any protocol."""
    (text,) = (message["content"] for message in body["messages"] if message["role"] == "user")
    return str(text)
