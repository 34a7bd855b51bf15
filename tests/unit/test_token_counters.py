"""Counters of tokens: the estimate, tiktoken without a network, the user's function."""

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from summarizing_context.errors import SettingsError
from summarizing_context.messages import tokens
from summarizing_context.messages.tokens import RANKS_CACHE_NAME, choose_counter, load_offline
from tests.exact_counts import exact_counter


@pytest.fixture
def nothing_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine on which no ranks are: an empty cache, no extra, nothing loaded, no network."""
    import tiktoken
    from tiktoken import registry

    def refuse(*_: Any) -> None:
        raise ConnectionError("no network here")

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr(registry, "ENCODINGS", {})
    monkeypatch.setattr(tiktoken, "get_encoding", refuse)
    return tmp_path


# -- choosing


async def test_auto_takes_tiktoken_when_its_ranks_are_here():
    exact_counter()
    assert (await choose_counter("auto")).name == "tiktoken/o200k_base"


@pytest.mark.usefixtures("nothing_here")
async def test_auto_falls_back_to_the_estimate_without_ranks_and_says_once_how_to_count_exactly(caplog):
    tokens._tell_of_estimate.cache_clear()
    assert (await choose_counter("estimate")).name == "estimate/3"
    assert caplog.messages == [], "it was chosen"
    for _ in range(2):
        assert (await choose_counter("auto")).name == "estimate/3"
    (told,) = caplog.messages
    assert "pip install 'summarizing-context[offline-tokens]'" in told


@pytest.mark.usefixtures("nothing_here")
async def test_tiktoken_without_ranks_is_refused_and_says_what_to_do():
    with pytest.raises(SettingsError) as caught:
        await choose_counter("tiktoken")
    assert all(way in str(caught.value) for way in ("offline-tokens", "TIKTOKEN_CACHE_DIR", "allow_download"))


async def test_a_download_is_used_once_it_is_there(nothing_here: Path, monkeypatch: pytest.MonkeyPatch):
    from tiktoken import registry

    fetched = SimpleNamespace(encode=lambda text, **_: list(text))
    monkeypatch.setattr("tiktoken.get_encoding", lambda name: registry.ENCODINGS.update({name: fetched}))
    counter = await choose_counter("auto", allow_download=True)
    assert counter.count("abc") == 3


# -- ranks


def test_ranks_in_tiktokens_cache_are_used(nothing_here: Path, monkeypatch: pytest.MonkeyPatch):
    ranks = b"YQ== 0\nYg== 1\n"  # of the tokens `a` and `b`
    (nothing_here / RANKS_CACHE_NAME).write_bytes(ranks)
    monkeypatch.setattr(tokens, "RANKS_SHA256", hashlib.sha256(ranks).hexdigest())
    encoding = load_offline()
    assert encoding is not None
    assert encoding.encode("ab") == [0, 1]


# -- tiktoken


def test_a_long_text_is_counted_in_pieces():
    counter = exact_counter()
    assert counter.count("word " * 160_000) == pytest.approx(160_000, abs=3)
    assert counter.count(" " * 1_100_000) > 0
