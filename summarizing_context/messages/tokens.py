"""Count the tokens of a text: by an estimate, by tiktoken, or by the user's function.

The estimate adds up what each feature of a text costs, in integers, so that every host counts the same: segments are
cut by it, whichever counter keeps the budgets. Its tables stand in `token_estimate.toml`.

tiktoken's rank file is looked for in tiktoken's own cache and in bpe-openai, which the extra `offline-tokens` installs.
It is checked. Nothing is downloaded unless the settings allow it.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib.util
import logging
import os
import re
import tempfile
import threading
import tomllib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import product
from operator import mul
from pathlib import Path
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits, punctuation
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import anyio

from summarizing_context.errors import SettingsError, briefly
from summarizing_context.messages.reading import Message, read_content

if TYPE_CHECKING:
    from tiktoken import Encoding


logger = logging.getLogger(__name__)

MESSAGE_TOKENS = 4  # framing of one message

# -- the estimate

ESTIMATE = "estimate/3"  # its name as a counter: it tells what stored counts are

SCALE = 10_000  # integer arithmetic: no rounding that a platform could do otherwise
_TABLES = tomllib.loads((files(__package__) / "token_estimate.toml").read_text("utf-8"))
WEIGHTS: dict[str, int] = _TABLES["weights"]  # of each feature
_KINDS, _RARE = _TABLES["kinds"], _TABLES["rare"]
_PIECE = 500_000  # characters counted at once: one call over megabytes would hold every other thread up


def remembering(count: Callable[[str], int]) -> Callable[[str], int]:
    """Return the counter, which remembers what short texts cost: views count those of a wide group again and again."""
    short = lru_cache(8_192)(count)
    return lambda text: short(text) if len(text) <= 256 else count(text)


def media_cost(media: Iterable[int], image_tokens: int) -> int:
    """Return the tokens of media as `measure_media` gives them; where `image_tokens` is 0, none of them counts."""
    return sum(one if one > 0 else -one * image_tokens for one in media) if image_tokens else 0


class Price(NamedTuple):
    """How tokens are counted in a session."""

    count: Callable[[str], int]
    image_tokens: int

    def message(self, message: Message) -> int:
        """Cost of a message: 4 + its texts + its media."""
        reading = read_content(message)
        media = media_cost(reading.media, self.image_tokens)
        return MESSAGE_TOKENS + self.texts(reading.texts + reading.unread) + media

    def texts(self, texts: Iterable[str]) -> int:
        return sum(map(self.count, texts))

    def each(self, texts: Iterable[str]) -> list[int]:
        return list(map(self.count, texts))


def estimate_text(text: str) -> int:
    """Return the estimated tokens of `text`; 0 for an empty text."""
    tokens = 0
    for start in range(0, len(text), _PIECE):
        piece = text[start : start + _PIECE]
        data = piece.encode("utf-8", "surrogatepass")
        foreign = syllables = 0
        if not piece.isascii():
            foreign, syllables = _beyond_ascii(data.translate(None, _ASCII).decode("utf-8", "surrogatepass"))
        size, pairs = len(data), _pairs(data, _KIND_TABLE)
        kinds = [size - len(data.translate(None, members)) for members in _COUNTED]
        escapes, marks, ends, changes = [size - len(pairs.translate(None, codes)) for codes in _PAIR_CODES]
        rare = size - len(_pairs(data, _RARE_TABLE).translate(None, _RARE_CODES))
        counts = (*kinds, escapes, marks, foreign, syllables, ends, rare, changes)
        scaled = sum(map(mul, WEIGHTS.values(), counts))
        if rare * 16 > size:  # a row of one letter, such as of x, is few tokens
            scaled -= 7_000 * sum(len(run.group()) - 2 for run in _RUN.finditer(data.lower()))
        tokens += max(ends + 1, -(-scaled // SCALE))
    return tokens


def _pairs(data: bytes, table: bytes) -> bytes:
    """Return a byte for each pair of neighbours: the first's high half of the table's byte, and above it the second's
    low half."""
    return (int.from_bytes(data.translate(table), "little") >> 4).to_bytes(len(data), "little")


# A number for each kind of character, in both halves of its byte; and the codes of kinds that stand before others.
_numbers = {kind: number for number, kind in enumerate(_KINDS, start=1)}
_members = {member: _numbers[kind] * 17 for kind, members in _KINDS.items() for member in members}
_KIND_TABLE = bytes(_members.get(chr(byte), len(_KINDS) * 17) for byte in range(256))
_PAIR_CODES = [
    bytes(_numbers[end] << 4 | _numbers[one] for pair in pairs.items() for one, end in product(*map(str.split, pair)))
    for pairs in _TABLES["pairs"].values()
]

# A number for each class of first letters, and one for each of second letters, which seldom follow the same ones.
_rows = {letter: row for row, firsts in enumerate(_RARE, start=1) for letter in firsts}
_follow = {letter: tuple(letter in seconds for seconds in _RARE.values()) for letter in ascii_lowercase}
_columns = {letter: sorted(set(_follow.values())).index(row) + 1 for letter, row in _follow.items()}
_RARE_TABLE = bytes(_rows[at] << 4 | _columns[at] if (at := chr(code).lower()) in _rows else 0 for code in range(256))
_RARE_CODES = bytes({_columns[at] << 4 | row for row, seconds in enumerate(_RARE.values(), 1) for at in seconds})

_ASCII = bytes(range(128))
_COUNTED = [kind.encode() for kind in (ascii_letters, ascii_uppercase, digits, " ", "\n", punctuation)]
_COUNTED.append(_ASCII.translate(None, b"".join(_COUNTED)))  # controls
_RUN = re.compile(
    b"([%s])\\1\\1+" % "".join(one for firsts, others in _RARE.items() for one in firsts if one in others).encode()
)

# -- beyond ASCII: what o200k_base has for each character alone, unless common pairs of letters tell that it is prose


def _beyond_ascii(text: str) -> tuple[int, int]:
    """Return ten-thousandths of a token in a text without ASCII, and how many of its characters are `syllables`."""
    known, counts = _script_tables(), Counter(text)
    emoji_of_two = ((0x1F1C0, 0x1F1FF), (0x1F300, 0x1F53F), (0x1F600, 0x1F6BF), (0x1F900, 0x1F97F))
    scaled = syllables = 0
    for character, times in counts.items():
        code = ord(character)
        if code < 0x10000:
            is_two = known[0x2000 + (code >> 9)] >> (code >> 6 & 7) & 1
            tokens = 1 if known[code >> 3] >> (code & 7) & 1 else 2 if is_two else 3
            if 0x4E00 <= code < 0xA000 or 0xAC00 <= code < 0xD800:
                scaled -= 1_100 * times  # any Han character or Hangul syllable: two of them may be a word
                syllables += times * (tokens == 1)
        elif any(first <= code <= last for first, last in emoji_of_two):
            tokens = 2
        else:
            tokens = 3 if 0x1D000 <= code < 0x1E000 or 0x1F000 <= code < 0x20000 else 4
        scaled += tokens * SCALE * times

    # Common pairs of letters, found by the groups that the first and the second letter have in common.
    pages = {ord(character) >> 8 for character in counts}
    at = 0x2000 + 0x2000 // 64
    for first, last, pair, two in _TABLES["scripts"].values():
        size = last + 1 - first
        if first >> 8 in pages:
            letters = "".join(re.findall(f"[{chr(first)}-{chr(last)}]+", text)).encode("utf-16-le")[::2]
            firsts, seconds = (
                (bytes(first % 256) + known[begin : begin + size]).ljust(256, b"\0") for begin in (at, at + size)
            )
            both = int.from_bytes(letters[:-1].translate(firsts), "little")
            both &= int.from_bytes(letters[1:].translate(seconds), "little")
            common = both.to_bytes(len(letters), "little").translate(b"\0" + b"\1" * 255)
            scaled -= common.count(1) * (pair + two) - (b"\0" + common).count(b"\0\1") * two
        at += 2 * size
    return scaled, syllables


@cache
def _script_tables() -> bytes:
    """Return a bit for each character up to U+FFFF: it is one token; a bit for each block of 64: its other characters
    are two; and for each letter of each script its groups as a first letter of common pairs, then those as a second."""
    return zlib.decompress(base64.b85decode(b"".join((files(__package__) / "scripts.b85").read_bytes().split())))


# -- counters

ENCODING = "o200k_base"
RANKS_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"  # of the official file
RANKS_CACHE_NAME = "fb374d419588a4632f3f557e76b4b70aebbca790"  # under which tiktoken keeps it

_PATTERN = "|".join(  # tiktoken's own definition of the encoding
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    )
)

_loading = threading.Lock()  # once for the whole process: it takes 80 MB and half a second


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts the tokens of a text, at least 0, whatever the text. `name` stands in statistics and stored counts."""

    name: str
    count: Callable[[str], int]

    def __call__(self, text: str) -> int:
        return self.count(text)


def tiktoken_counter(encoding: Encoding) -> TokenCounter:
    """Return a counter by tiktoken's o200k_base: exact up to 400,000 characters, beyond that a token or so too many at
    each cut. A piece that tiktoken fails on is estimated."""

    def count(text: str) -> int:
        if len(text) > 400_000:  # tiktoken fails on runs of about a million blanks
            return sum(count(text[start : start + 400_000]) for start in range(0, len(text), 400_000))
        try:
            return len(encoding.encode(text, disallowed_special=()))
        except BaseException as error:
            _check_failure(error)
            return estimate_text(text)

    return TokenCounter(f"tiktoken/{ENCODING}", count)


def checked_counter(function: Callable[[str], int]) -> TokenCounter:
    """Return a counter by the user's function, tried out first; a bad count later on gives way to the estimate.

    The name tells functions apart by what they count, so that stored counts of one are not taken for another's.
    """
    has_warned = False

    def ask(text: str) -> int | str:
        """Return what the function counts, or what was wrong with it: never the text, nor an error's own words."""
        try:
            tokens: Any = function(text)
        except BaseException as error:
            _check_failure(error)
            return f"it raised {type(error).__name__}"
        if isinstance(tokens, bool) or not isinstance(tokens, int):
            return f"it gave a {type(tokens).__name__}"
        return tokens if 0 <= tokens <= 1_000_000_000 else f"it gave {briefly(tokens)}"

    def count(text: str) -> int:
        nonlocal has_warned
        if isinstance(tokens := ask(text), int):
            return tokens
        if not has_warned:
            has_warned = True
            logger.warning("count_tokens failed; the estimate stands in for it", extra={"cause": tokens})
        return estimate_text(text)

    texts = ("", "hello world", "def f(x):\n    return x + 1\n", "Grüße, 世界 🌍", "ab" * 500)
    counts = [ask(text) for text in texts]
    for text, tokens in zip(texts, counts, strict=True):
        if isinstance(tokens, str):
            asked = f"asked for {text[:20]!r}, {tokens}"
            raise SettingsError(f"count_tokens must give an int from 0 to 1,000,000,000; {asked}")
    return TokenCounter(f"custom/{hashlib.sha256(repr(counts).encode()).hexdigest()[:8]}", count)


def _check_failure(error: BaseException) -> None:
    """Raise what interrupts counting. A panic of tiktoken's Rust part, no `Exception`, is a failure of it."""
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error


ESTIMATE_COUNTER = TokenCounter(ESTIMATE, estimate_text)


async def choose_counter(
    token_counter: Literal["auto", "tiktoken", "estimate"] = "auto",
    *,
    count_tokens: Callable[[str], int] | None = None,
    allow_download: bool = False,
    silent: bool = False,
) -> TokenCounter:
    """Return the session's counter: the user's function if there is one, else what the setting asks for.

    `auto` is tiktoken when its ranks are on this machine (or may be downloaded, and are in time), else the estimate,
    which a warning tells once, unless `silent`: to a session that is only read it makes no difference.
    """
    if count_tokens is not None:
        return count_tokens if isinstance(count_tokens, TokenCounter) else checked_counter(count_tokens)
    if token_counter == "estimate":
        return ESTIMATE_COUNTER
    encoding: Encoding | None = None

    def load() -> None:
        nonlocal encoding
        encoding = load_offline()
        if encoding is None and allow_download:
            import tiktoken

            try:
                encoding = tiktoken.get_encoding(ENCODING)
            except Exception as error:
                logger.warning("tiktoken could not download its ranks", extra={"cause": type(error).__name__})

    # Loading takes tenths of a second. tiktoken sets no time limit, so a download may hang: only a daemon thread then
    # lets the process end.
    loading = threading.Thread(target=load, name="tiktoken", daemon=True)
    loading.start()
    with anyio.move_on_after(20.0 if allow_download else None):
        while loading.is_alive():  # noqa: ASYNC110  (a thread of our own cannot set anyio's events)
            await anyio.sleep(0.001)
    if encoding is not None:
        return tiktoken_counter(encoding)
    if token_counter == "tiktoken":
        tried = ", nor could be downloaded within 20 s" if allow_download else ""
        raise SettingsError(
            f"token_counter = 'tiktoken' is refused: its rank file is not on this machine{tried}; "
            "install summarizing-context[offline-tokens], set TIKTOKEN_CACHE_DIR to a folder that holds the file, "
            f"{'' if allow_download else 'set allow_download, '}or use token_counter = 'estimate'"
        )
    if not silent:
        _tell_once(
            "tokens are estimated; for exact counts: pip install 'summarizing-context[offline-tokens]' "
            "(token_counter = 'estimate' ends this notice)"
        )
    return ESTIMATE_COUNTER


_tell_once = cache(logger.warning)  # in a process


def load_offline() -> Encoding | None:
    """Return tiktoken's encoding without a network, or None if its ranks are not here; loaded once, from any thread."""
    with _loading:
        import tiktoken
        from tiktoken import registry

        # The official rank file, from the folder where tiktoken keeps its downloads, else from bpe-openai.
        default = os.path.join(tempfile.gettempdir(), "data-gym-cache")
        folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
        places = [Path(folder, RANKS_CACHE_NAME)] if folder else []  # an empty name is tiktoken's way to switch it off
        package = importlib.util.find_spec("bpe_openai")  # found, not imported: only its data is wanted
        if package is not None and package.submodule_search_locations:
            places.append(Path(package.submodule_search_locations[0], "data", f"{ENCODING}.tiktoken.gz"))
        for place in places if ENCODING not in registry.ENCODINGS else ():
            data = b""
            with suppress(OSError, EOFError, ValueError, zlib.error):
                data = gzip.decompress(place.read_bytes()) if place.suffix == ".gz" else place.read_bytes()
            if hashlib.sha256(data).hexdigest() == RANKS_SHA256:
                words = iter(data.split())  # a token, its rank, a token, its rank, ...
                ranks = {base64.b64decode(token): int(rank) for token, rank in zip(words, words, strict=True)}
                special = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}
                encoding = tiktoken.Encoding(ENCODING, pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens=special)
                encoding.encode("a", disallowed_special=())  # the first text takes a tenth of a second
                registry.ENCODINGS[ENCODING] = encoding  # where all parts of the process look for it
                break
        return registry.ENCODINGS.get(ENCODING)
