"""Which counter of tokens a session uses: the built-in estimate, tiktoken, or the user's own; and its calibration.

What a message costs is said in `core`; how tiktoken gets its data without a network, in `tiktoken_counter`.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from summarizing_context.core.entries import ESTIMATE
from summarizing_context.core.estimate import estimate_text
from summarizing_context.errors import SettingsError, briefly
from summarizing_context.ports import TokenCounter
from summarizing_context.tiktoken_counter import TiktokenCounter, download, is_failure, load_in_thread

__all__ = ["Calibration", "CallableCounter", "EstimateCounter", "TiktokenCounter", "choose_counter", "usage_total"]

logger = logging.getLogger(__name__)

_MOST = 1_000_000_000  # tokens of one text
_PROBES = ("", "hello world", "def f(x):\n    return x + 1\n", "Grüße, 世界 🌍", "ab" * 500)


class EstimateCounter:
    """Counts by the kinds of bytes: needs nothing, and is 3 % off on real sessions."""

    name = ESTIMATE

    def count(self, text: str) -> int:
        """Estimated tokens in `text`."""
        return estimate_text(text)


class CallableCounter:
    """Counts with the user's function, tried out first; a bad count later on gives way to the estimate.

    The name tells functions apart by what they count, so that stored counts of one are not taken for another's.
    """

    def __init__(self, function: Callable[[str], int]) -> None:
        counts = [_probed(function, text) for text in _PROBES]
        self.name = f"custom/{hashlib.sha256(repr(counts).encode()).hexdigest()[:8]}"
        self.bad_counts = 0
        self._function = function

    def count(self, text: str) -> int:
        """Tokens in `text` as the function says, or the estimate if it fails."""
        tokens, problem = _asked(self._function, text)
        if problem is None:
            return tokens
        self.bad_counts += 1
        if self.bad_counts == 1:
            logger.warning("count_tokens failed; the estimate stands in for it", extra={"cause": problem})
        return estimate_text(text)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many tokens a provider sees for one of ours: a plain mean at first, then a moving one, within bounds."""

    ratio: float = 1.0
    samples: int = 0

    def observed(self, reported: int, counted: int) -> Calibration:
        """After one more request, for which the provider reported `reported` tokens and we had counted `counted`.

        Left out are requests too small to tell, and figures that cannot be about the same text.
        """
        if counted < 200 or not counted / 5 <= reported <= counted * 5:
            return self
        weight = max(0.2, 1 / (self.samples + 1))
        ratio = min(max(reported / counted, 0.5), 2.5)
        return Calibration(self.ratio + weight * (ratio - self.ratio), self.samples + 1)

    def provider_tokens(self, own: int) -> int:
        """What the provider will probably see for `own` tokens of ours."""
        return round(own * self.ratio)

    def own_tokens(self, provider: int) -> int:
        """How many tokens of ours fit into `provider` tokens of the provider's. Never more than as many: what made a
        provider count less, such as images that it has for less, may have left the next view."""
        return int(provider / max(1.0, self.ratio))


def usage_total(*counts: object) -> int:
    """The sum of what a provider counted, or `SettingsError` for figures that are no counts."""
    total = 0
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise SettingsError(
                f"observe_usage was told {briefly(count)}; usage is counted in tokens, ints of at least 0"
            )
        total += count
    return total


async def choose_counter(
    token_counter: Literal["auto", "tiktoken", "estimate"] = "auto",
    *,
    count_tokens: Callable[[str], int] | None = None,
    allow_download: bool = False,
    download_timeout: float = 20.0,
) -> TokenCounter:
    """The session's counter: the user's function if there is one, else what the setting asks for.

    `auto` is tiktoken when its ranks are on this machine (or may be downloaded, and are in time), else the estimate,
    which a warning tells once.
    """
    if count_tokens is not None:
        return CallableCounter(count_tokens)
    if token_counter == "estimate":
        return EstimateCounter()
    encoding = await load_in_thread()
    if encoding is None and allow_download:
        encoding = await download(download_timeout)
    if encoding is not None:
        return TiktokenCounter(encoding)
    if token_counter == "tiktoken":
        raise SettingsError(_unavailable(allow_download, download_timeout))
    _tell_of_estimate()
    return EstimateCounter()


@cache
def _tell_of_estimate() -> None:
    """Say how to get exact counts: once in a process, and not to those who have chosen the estimate."""
    logger.warning(
        "tokens are estimated; for exact counts: pip install 'summarizing-context[offline-tokens]' "
        "(token_counter = 'estimate' ends this notice)"
    )


def _unavailable(allow_download: bool, seconds: float) -> str:
    tried = f", nor could be downloaded within {seconds:g} s" if allow_download else ""
    other = "" if allow_download else "set allow_download, "
    return (
        f"token_counter = 'tiktoken' is refused: its rank file is not on this machine{tried}; "
        "install summarizing-context[offline-tokens], set TIKTOKEN_CACHE_DIR to a folder that holds the file, "
        f"{other}or use token_counter = 'estimate'"
    )


def _probed(function: Callable[[str], int], text: str) -> int:
    if not callable(function):
        raise SettingsError(f"count_tokens must be a function of a text, not {type(function).__name__}")
    tokens, problem = _asked(function, text)
    if problem is not None:
        raise SettingsError(f"count_tokens must give an int from 0 to {_MOST:,}; asked for {text[:20]!r}, {problem}")
    return tokens


def _asked(function: Callable[[str], Any], text: str) -> tuple[int, str | None]:
    """What the function counts, and what was wrong with it: never the text, nor an error's own words."""
    try:
        tokens = function(text)
    except BaseException as error:
        if not is_failure(error):
            raise
        return 0, f"it raised {type(error).__name__}"
    if inspect.iscoroutine(tokens):
        tokens.close()  # else Python warns that it was never awaited
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return 0, f"it gave a {type(tokens).__name__}"
    if not 0 <= tokens <= _MOST:
        return 0, f"it gave {briefly(tokens)}"
    return tokens, None
