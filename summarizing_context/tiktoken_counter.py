"""Count with tiktoken, without a network: find the rank file on this machine, check it, hand it to tiktoken.

When tiktoken is used at all, and what is used in its place, is decided in `tokens`.
"""

from __future__ import annotations

import asyncio
import binascii
import gzip
import hashlib
import importlib.util
import logging
import os
import tempfile
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from summarizing_context.core.estimate import estimate_text
from summarizing_context.errors import SettingsError

if TYPE_CHECKING:
    from tiktoken import Encoding

logger = logging.getLogger(__name__)

ENCODING = "o200k_base"
RANKS_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"  # of the official file
RANKS_CACHE_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"  # under which tiktoken keeps it
PIECE_CHARACTERS = 400_000  # tiktoken fails on runs of about a million blanks

_loading = threading.Lock()
_loaded: list[Encoding] = []  # at most one, for the whole process: it takes 80 MB and half a second


class TiktokenCounter:
    """Counts with tiktoken's o200k_base, piece by piece; a piece that tiktoken fails on is estimated."""

    name = f"tiktoken/{ENCODING}"

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding

    def count(self, text: str) -> int:
        """Tokens in `text`; exact up to `PIECE_CHARACTERS`, beyond that a token or so too many at each cut."""
        starts = range(0, len(text), PIECE_CHARACTERS)
        return sum(self._count_piece(text[start : start + PIECE_CHARACTERS]) for start in starts)

    def _count_piece(self, piece: str) -> int:
        try:
            return len(self._encoding.encode(piece, disallowed_special=()))
        except BaseException as error:
            if not is_failure(error):
                raise
            return estimate_text(piece)


def is_failure(error: BaseException) -> bool:
    """Whether counting failed, rather than being interrupted. A panic in tiktoken's Rust part is no `Exception`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def load_offline() -> Encoding | None:
    """tiktoken's encoding without a network, or None if its ranks are not here; loaded once, from any thread.

    `SettingsError` when the ranks that bpe-openai brings along are not the official ones.
    """
    with _loading:
        if not _loaded:
            encoding = _find_encoding()
            if encoding is None:
                return None
            _loaded.append(encoding)
        return _loaded[0]


async def load_in_thread() -> Encoding | None:
    """`load_offline` off the event loop, in a thread that ends with it: anyio keeps its own for the next caller."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="tiktoken ranks")
    try:
        return await asyncio.wrap_future(thread.submit(_load_warm))
    finally:
        thread.shutdown(wait=False)


def _load_warm() -> Encoding | None:
    encoding = load_offline()
    if encoding is not None:
        encoding.encode("the first text takes a tenth of a second", disallowed_special=())
    return encoding


async def download(seconds: float) -> Encoding | None:
    """Let tiktoken fetch its ranks into its own cache, off the event loop; None when that fails or takes longer."""
    # tiktoken sets no time limit, so the fetch may hang: only a daemon thread then lets the process end.
    fetching = threading.Thread(target=_fetch, name="tiktoken download", daemon=True)
    fetching.start()
    with anyio.move_on_after(seconds):
        while fetching.is_alive():  # noqa: ASYNC110  (a thread of our own cannot set anyio's events)
            await anyio.sleep(0.02)
    return None if fetching.is_alive() else await load_in_thread()


def _fetch() -> None:
    import tiktoken

    try:
        tiktoken.get_encoding(ENCODING)
    except Exception as error:
        logger.warning("tiktoken could not download its ranks", extra={"cause": type(error).__name__})


def _find_encoding() -> Encoding | None:
    from tiktoken import registry

    if ENCODING in registry.ENCODINGS:  # somebody else in this process has loaded it
        return registry.ENCODINGS[ENCODING]
    data = _cached_ranks() or _supplied_ranks()
    return None if data is None else _encoding(data)


def _cached_ranks() -> bytes | None:
    """The rank file from the folder where tiktoken keeps its downloads, if it is there and whole."""
    default = os.path.join(tempfile.gettempdir(), "data-gym-cache")
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
    if not folder:  # tiktoken's way to switch its cache off
        return None
    try:
        data = Path(folder, RANKS_CACHE_NAME).read_bytes()
    except OSError:
        return None
    return data if _is_official(data) else None


def _supplied_ranks() -> bytes | None:
    """The rank file that bpe-openai brings along, if it is installed."""
    package = importlib.util.find_spec("bpe_openai")  # found, not imported: only its data is wanted
    folders = package.submodule_search_locations if package is not None else None
    if not folders:
        return None
    path = Path(folders[0], "data", f"{ENCODING}.tiktoken.gz")
    if not path.exists():
        return None
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read ({error}); install bpe-openai again") from error
    if not _is_official(data):
        raise SettingsError(f"{path} does not hold the official ranks of {ENCODING}; install bpe-openai 0.1.4")
    return data


def _is_official(data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == RANKS_SHA256


def _encoding(data: bytes) -> Encoding:
    """tiktoken's own definition of the encoding, run with these ranks where it would download them."""
    import tiktoken
    from tiktoken_ext import openai_public

    words = iter(data.split())  # a token, its rank, a token, its rank, ...
    ranks = {binascii.a2b_base64(token): int(rank) for token, rank in zip(words, words, strict=True)}
    # A copy of the function with another loader in its namespace: nothing is patched that others could see.
    namespace = {**vars(openai_public), "load_tiktoken_bpe": lambda *_args, **_options: ranks}
    definition = types.FunctionType(openai_public.o200k_base.__code__, namespace)()
    return tiktoken.Encoding(**definition)
