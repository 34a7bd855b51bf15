"""Token counters: tiktoken without a network, the built-in estimate, or the user's own; and calibration.

tiktoken's rank file is looked for in tiktoken's own cache and in bpe-openai, which the extra `offline-tokens` installs.
It is checked. Nothing is downloaded unless the settings allow it.
"""

from __future__ import annotations

import asyncio
import binascii
import gzip
import hashlib
import importlib.util
import inspect
import logging
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import anyio

from summarizing_context.errors import SettingsError, briefly
from summarizing_context.messages.estimate import ESTIMATE, budget_tokens

if TYPE_CHECKING:
    from tiktoken import Encoding


logger = logging.getLogger(__name__)
ENCODING = "o200k_base"
RANKS_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"  # of the official file
RANKS_CACHE_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"  # under which tiktoken keeps it

_PATTERN = "|".join(  # tiktoken's own definition of the encoding
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)

PIECE_CHARACTERS = 400_000  # tiktoken fails on runs of about a million blanks
_loading = threading.Lock()
_loaded: list[Encoding] = []  # at most one, for the whole process: it takes 80 MB and half a second


class TiktokenCounter:
    """Counts with tiktoken's o200k_base, piece by piece; a piece that tiktoken fails on is estimated."""

    name = f"tiktoken/{ENCODING}"

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding

    def count(self, text: str) -> int:
        """Return tokens in `text`; exact up to `PIECE_CHARACTERS`, beyond that a token or so too many at each cut."""
        tokens = 0
        for start in range(0, len(text), PIECE_CHARACTERS):
            piece = text[start : start + PIECE_CHARACTERS]
            try:
                tokens += len(self._encoding.encode(piece, disallowed_special=()))
            except BaseException as error:
                if not is_failure(error):
                    raise
                tokens += budget_tokens(piece)
        return tokens


def is_failure(error: BaseException) -> bool:
    """Return whether counting failed, rather than being interrupted. A panic in tiktoken's Rust part is no
    `Exception`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def load_offline() -> Encoding | None:
    """tiktoken's encoding without a network, or None if its ranks are not here; loaded once, from any thread.

    `SettingsError` when the ranks that bpe-openai brings along are not the official ones.
    """
    with _loading:
        if not _loaded:
            _loaded.extend(filter(None, [_find_encoding()]))
        return _loaded[0] if _loaded else None


async def load_in_thread() -> Encoding | None:
    """`load_offline` off the event loop, in a thread that ends with it: anyio keeps its own for the next caller."""

    def load() -> Encoding | None:
        encoding = load_offline()
        if encoding is not None:
            encoding.encode("the first text takes a tenth of a second", disallowed_special=())
        return encoding

    thread = ThreadPoolExecutor(1, thread_name_prefix="tiktoken ranks")
    try:
        return await asyncio.wrap_future(thread.submit(load))
    finally:
        thread.shutdown(wait=False)


async def download(seconds: float) -> Encoding | None:
    """Let tiktoken fetch its ranks into its own cache, off the event loop; None when that fails or takes longer."""

    def fetch() -> None:
        import tiktoken

        try:
            tiktoken.get_encoding(ENCODING)
        except Exception as error:
            logger.warning("tiktoken could not download its ranks", extra={"cause": type(error).__name__})

    # tiktoken sets no time limit, so the fetch may hang: only a daemon thread then lets the process end.
    fetching = threading.Thread(target=fetch, name="tiktoken download", daemon=True)
    fetching.start()
    with anyio.move_on_after(seconds):
        while fetching.is_alive():  # noqa: ASYNC110  (a thread of our own cannot set anyio's events)
            await anyio.sleep(0.02)
    return None if fetching.is_alive() else await load_in_thread()


def _find_encoding() -> Encoding | None:
    import tiktoken
    from tiktoken import registry

    if ENCODING in registry.ENCODINGS:  # somebody else in this process has loaded it
        return registry.ENCODINGS[ENCODING]
    data = _cached_ranks() or _supplied_ranks()
    if data is None:
        return None
    words = iter(data.split())  # a token, its rank, a token, its rank, ...
    ranks = {binascii.a2b_base64(token): int(rank) for token, rank in zip(words, words, strict=True)}
    special = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}
    return tiktoken.Encoding(ENCODING, pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=special)


def _cached_ranks() -> bytes | None:
    """Return the rank file from the folder where tiktoken keeps its downloads, if it is there and whole."""
    default = os.path.join(tempfile.gettempdir(), "data-gym-cache")
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
    if not folder:  # tiktoken's way to switch its cache off
        return None
    try:
        data = Path(folder, RANKS_CACHE_NAME).read_bytes()
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == RANKS_SHA256 else None


def _supplied_ranks() -> bytes | None:
    """Return the rank file that bpe-openai brings along, if it is installed."""
    package = importlib.util.find_spec("bpe_openai")  # found, not imported: only its data is wanted
    folders = package.submodule_search_locations if package is not None else None
    path = Path(folders[0], "data", f"{ENCODING}.tiktoken.gz") if folders else None
    if path is None or not path.exists():
        return None
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read ({error}); install bpe-openai again") from error
    if hashlib.sha256(data).hexdigest() != RANKS_SHA256:
        raise SettingsError(f"{path} does not hold the official ranks of {ENCODING}; install bpe-openai 0.1.4")
    return data


class TokenCounter(Protocol):
    """Counts tokens of a text. `name` says which counter it is, for statistics and for stored counts."""

    name: str

    def count(self, text: str) -> int:
        """Tokens in `text`, at least 0. Never raises, whatever the text."""


_MOST = 1_000_000_000  # tokens of one text


class EstimateCounter:
    """Counts by the kinds of bytes, and needs nothing."""

    name = ESTIMATE
    count = staticmethod(budget_tokens)


class CallableCounter:
    """Counts with the user's function, tried out first; a bad count later on gives way to the estimate.

    The name tells functions apart by what they count, so that stored counts of one are not taken for another's.
    """

    def __init__(self, function: Callable[[str], int]) -> None:
        if not callable(function):
            raise SettingsError(f"count_tokens must be a function of a text, not {type(function).__name__}")
        counts: list[int] = []
        for text in ("", "hello world", "def f(x):\n    return x + 1\n", "Grüße, 世界 🌍", "ab" * 500):
            tokens, problem = _asked(function, text)
            if problem is not None:
                asked = f"asked for {text[:20]!r}, {problem}"
                raise SettingsError(f"count_tokens must give an int from 0 to {_MOST:,}; {asked}")
            counts.append(tokens)
        self.name = f"custom/{hashlib.sha256(repr(counts).encode()).hexdigest()[:8]}"
        self.bad_counts = 0
        self._function = function

    def count(self, text: str) -> int:
        """Return tokens in `text` as the function says, or the estimate if it fails."""
        tokens, problem = _asked(self._function, text)
        if problem is None:
            return tokens
        self.bad_counts += 1
        if self.bad_counts == 1:
            logger.warning("count_tokens failed; the estimate stands in for it", extra={"cause": problem})
        return budget_tokens(text)


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many tokens a provider sees for one token here: a plain mean at first, then a moving one, within bounds."""

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

    def own_tokens(self, provider: int) -> int:
        """Return how many tokens of this counter fit into `provider` tokens. Never more than as many: what made a
        provider count less, such as images that it has for less, may have left the next view."""
        return int(provider / max(1.0, self.ratio))


def usage_total(*counts: object) -> int:
    """Return the sum of what a provider counted, or `SettingsError` for figures that are no counts."""
    total = 0
    for count in counts:
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            told = f"observe_usage was told {briefly(count)}"
            raise SettingsError(f"{told}; usage is counted in tokens, ints of at least 0")
        total += count
    return total


async def choose_counter(
    token_counter: Literal["auto", "tiktoken", "estimate"] = "auto",
    *,
    count_tokens: Callable[[str], int] | None = None,
    allow_download: bool = False,
    download_timeout: float = 20.0,
) -> TokenCounter:
    """Return the session's counter: the user's function if there is one, else what the setting asks for.

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
        tried = f", nor could be downloaded within {download_timeout:g} s" if allow_download else ""
        raise SettingsError(
            f"token_counter = 'tiktoken' is refused: its rank file is not on this machine{tried}; "
            "install summarizing-context[offline-tokens], set TIKTOKEN_CACHE_DIR to a folder that holds the file, "
            f"{'' if allow_download else 'set allow_download, '}or use token_counter = 'estimate'"
        )
    _tell_of_estimate()
    return EstimateCounter()


@cache
def _tell_of_estimate() -> None:
    """Say how to get exact counts: once in a process, and not to those who have chosen the estimate."""
    logger.warning(
        "tokens are estimated; for exact counts: pip install 'summarizing-context[offline-tokens]' "
        "(token_counter = 'estimate' ends this notice)"
    )


def _asked(function: Callable[[str], Any], text: str) -> tuple[int, str | None]:
    """Return what the function counts, and what was wrong with it: never the text, nor an error's own words."""
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
