"""The way to the providers: addresses, headers that go on, and requests whose replies are streams."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Literal

import httpx2

from summarizing_context.errors import SettingsError, briefly

Headers = list[tuple[bytes, bytes]]

_HOP = frozenset(  # headers between two neighbours; `accept-encoding` is ours, so that usage can be read
    (
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"),
        *(b"trailer", b"transfer-encoding", b"upgrade", b"host", b"accept-encoding", b"expect"),
    )
)

TOKEN_HEADER = b"x-summarizing-context-token"
_TIMEOUT = httpx2.Timeout(None, connect=15.0)  # a model may be silent for minutes; the client knows how long it waits
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=15.0)

Kind = Literal["anthropic", "openai"]

_BARE = re.compile(rb"/(?:messages|chat/completions|responses)(?=/|$)")  # as clients ask that leave the version out

_GOOGLES_PATH = re.compile(
    r"^/(?:upload/)?v\d{1,3}(?:alpha|beta|internal)\d{0,3}(?:[/:]|$)|:[a-zA-Z]{0,30}(?:Contents?|Tokens|[pP]redict)$"
)

_GOOGLES_KEY = re.compile(rb"(?:^|&)key=AIza")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes: which provider, and its path with the query."""

    kind: Kind
    path: bytes


class Upstream:
    """Sends requests to the provider that speaks their protocol. Enter it before use."""

    def __init__(self, anthropic: str, openai: str) -> None:
        self._bases = {"anthropic": _base(anthropic, "--anthropic"), "openai": _base(openai, "--openai")}
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Upstream:
        self._client = httpx2.AsyncClient(timeout=_TIMEOUT, limits=_LIMITS, follow_redirects=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def send(
        self, method: str, target: Target, headers: Iterable[tuple[bytes, bytes]], body: bytes | AsyncIterator[bytes]
    ) -> httpx2.Response:
        """The provider's answer, its body still on the way; the caller closes it. Raises `httpx2.TransportError`."""
        assert self._client is not None
        request = httpx2.Request(
            method, self._url(target), headers=[*headers, (b"accept-encoding", b"identity")], content=body
        )
        return await self._client.send(request, stream=True)

    def _url(self, target: Target) -> httpx2.URL:
        """The address: never of another host, whatever the path says."""
        base, path = self._bases[target.kind], b"/" + target.path.removeprefix(b"/")
        folder = base.raw_path.rstrip(b"/")
        has_version = bool(folder) if target.kind == "openai" else folder.endswith(b"/v1")
        if has_version and (path == b"/v1" or path.startswith((b"/v1/", b"/v1?"))):
            path = path[3:]  # a base of OpenAI's SDK has it already, and one of the AI SDK's too
        return base.copy_with(raw_path=folder + path)


def target_of(path: bytes, query: bytes, headers: Headers) -> Target:
    """Where a request of this path goes. Paths that both providers have are told apart by the headers."""
    names = {name for name, _ in headers}
    path = b"/v1" + path if _BARE.match(path) else path
    is_anthropic = path.startswith((b"/v1/messages", b"/v1/complete?")) or path == b"/v1/complete"
    is_anthropic = is_anthropic or b"anthropic-version" in names or b"x-api-key" in names
    return Target("anthropic" if is_anthropic else "openai", path + (b"?" + query if query else b""))


def refusal(method: str, path: str, query: bytes, headers: Headers) -> tuple[int, str] | None:
    """Why a request goes to no provider, with the status of the answer; None where it does."""
    is_googles = _GOOGLES_PATH.search(path) or _GOOGLES_KEY.search(query)
    is_anthropics = path.startswith(("/v1/messages", "/messages"))  # whose server, a gateway perhaps, may ask for more
    if is_googles or (not is_anthropics and any(name.startswith(b"x-goog-") for name, _ in headers)):
        return 404, (
            "a request of Google's protocol, which is not spoken here; it was sent to no provider. Take the proxy's "
            "address out of the client's base URL for Google, such as GOOGLE_GEMINI_BASE_URL"
        )
    if method == "GET" and any(name == b"upgrade" and b"websocket" in value.lower() for name, value in headers):
        return 426, "no WebSocket is spoken here; ask the same by POST, whose reply may be a stream of events"
    return None


def passed_on(headers: Iterable[tuple[bytes, bytes]], *, but: Iterable[bytes] = ()) -> Headers:
    """The headers that go on: not those of one connection, nor those that `but` names."""
    given = [(name.lower(), value) for name, value in headers]
    named = {part.strip().lower() for name, value in given if name == b"connection" for part in value.split(b",")}
    names = {name for name, _ in given}
    false = {b"content-length"} & names if b"transfer-encoding" in names else set[bytes]()  # chunks tell the length
    left_out = _HOP | named | false | {TOKEN_HEADER} | set(but)
    return [(name, value) for name, value in given if name not in left_out]


def _base(text: str, option: str) -> httpx2.URL:
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, TypeError) as error:
        raise SettingsError(f"{option}: {briefly(text)} is not an address; write it like https://host") from error
    if url.scheme not in ("http", "https") or not url.host or url.userinfo or url.query or url.fragment:
        raise SettingsError(
            f"{option}: {briefly(text)} is not an address; write it like https://host, without a password"
        )
    return url
