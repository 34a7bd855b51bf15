"""Tokens of requests, counted by tiktoken alone, and what of a request a provider's cache could have kept.

Nothing of the measured package is used: a judge that counts as the judged do would see no fault of theirs.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.resources
import importlib.util
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import tiktoken

_RANKS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"  # names the file in the cache
_PER_MESSAGE = 4  # tokens that a provider puts around each message
_UNSEEN = ("cache_control", "id", "signature", "encrypted_content", "type", "role", "status")  # no text for the model

Item = Mapping[str, Any]


@functools.cache
def _encoding() -> tiktoken.Encoding:
    """o200k_base, from the ranks that bpe-openai brings, if it is there: tiktoken would download them."""
    if importlib.util.find_spec("bpe_openai") is None:
        return tiktoken.get_encoding("o200k_base")
    ranks = importlib.resources.files("bpe_openai").joinpath("data/o200k_base.tiktoken.gz").read_bytes()
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, TIKTOKEN_CACHE_DIR=folder):
        Path(folder, hashlib.sha1(_RANKS.encode()).hexdigest()).write_bytes(gzip.decompress(ranks))
        return tiktoken.get_encoding("o200k_base")


@functools.lru_cache(maxsize=200_000)
def tokens(text: str) -> int:
    """Tokens of a text."""
    return len(_encoding().encode_ordinary(text))


def history(body: Item) -> list[Item]:
    """The messages or items of a request, of any of the three protocols."""
    found = body.get("messages", body.get("input"))
    return list(found) if isinstance(found, list) else []


def item_tokens(item: Item) -> int:
    """Tokens of one message or item: of all its texts that a model reads."""
    return _PER_MESSAGE + sum(tokens(text) for text in _texts(item))


def fixed_tokens(body: Item) -> int:
    """Tokens of what stands beside the history: system prompt and tools."""
    tools = sum(tokens(json.dumps(tool)) for tool in body.get("tools") or ())
    prompt = [body.get("system") or "", body.get("instructions") or ""]
    return tools + sum(tokens(text) for each in prompt for text in _texts(each))


def _texts(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        if name == "input":  # the arguments of a call
            yield json.dumps(value)
            return
        for key, each in value.items():
            if key not in _UNSEEN:
                yield from _texts(each, key)
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each, name)


def canonical(item: Item) -> str:
    """An item as a provider's cache compares it: without cache marks, a single text block as a string."""
    return json.dumps(_plain(item), sort_keys=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        made = {name: _plain(each) for name, each in value.items() if name != "cache_control"}
        content = made.get("content")
        if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
            made["content"] = content[0]["text"]
        return made
    return [_plain(each) for each in value] if isinstance(value, list) else value


def kept_items(before: Sequence[str], now: Sequence[str]) -> int:
    """How many items both begin with, as `canonical` writes them."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(before, now, strict=False))))
