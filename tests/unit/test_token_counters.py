"""Counters of tokens: the estimate, tiktoken without a network, the user's function; and their calibration."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summarizing_context.errors import SettingsError
from summarizing_context.messages import tokens
from summarizing_context.messages.tokens import (
    RANKS_CACHE_NAME,
    Calibration,
    TiktokenCounter,
    budget_tokens,
    choose_counter,
    load_offline,
)
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
    monkeypatch.setattr(tokens, "_loaded", [])
    monkeypatch.setattr(registry, "ENCODINGS", {})
    monkeypatch.setattr(tiktoken, "get_encoding", refuse)
    return tmp_path


# -- choosing


async def test_auto_takes_tiktoken_when_its_ranks_are_here():
    exact_counter()
    assert (await choose_counter("auto")).name == "tiktoken/o200k_base"


@pytest.mark.usefixtures("nothing_here")
async def test_auto_falls_back_to_the_estimate_without_ranks_and_says_once_how_to_count_exactly(
    caplog: pytest.LogCaptureFixture,
):
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


@pytest.mark.usefixtures("nothing_here")
async def test_a_failed_download_leads_to_the_estimate_or_to_an_error(caplog: pytest.LogCaptureFixture):
    assert (await choose_counter("auto", allow_download=True)).name == "estimate/3"
    ours = [record for record in caplog.records if record.name.startswith("summarizing_context")]
    assert [record.cause for record in ours] == ["ConnectionError"]  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="nor could be downloaded"):
        await choose_counter("tiktoken", allow_download=True)


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


def test_a_damaged_file_in_tiktokens_cache_is_passed_over_and_left_alone(nothing_here: Path):
    damaged = nothing_here / RANKS_CACHE_NAME
    damaged.write_bytes(b"not the official bytes")
    assert load_offline() is None
    assert damaged.exists()


# -- tiktoken


def test_a_long_text_is_counted_in_pieces():
    counter = exact_counter()
    assert counter.count("word " * 160_000) == pytest.approx(160_000, abs=3)
    assert counter.count(" " * 1_100_000) > 0


def test_a_piece_that_tiktoken_panics_on_is_estimated():
    class PanicException(BaseException):
        """As pyo3 has it: not an Exception."""

    def panic(*_: Any, **__: Any) -> None:
        raise PanicException

    assert TiktokenCounter(SimpleNamespace(encode=panic)).count("hello") == budget_tokens("hello")  # type: ignore[arg-type]


def test_the_first_observation_counts_whole_and_later_ones_less():
    once = Calibration().observed(1_500, 1_000)
    assert once.ratio == pytest.approx(1.5)
    assert once.observed(1_000, 1_000).ratio == pytest.approx(1.25)


@pytest.mark.parametrize(("reported", "counted"), [(0, 1_000), (-5, 1_000), (9_000, 1_000), (150, 100), (100, 0)])
def test_absurd_figures_are_left_out(reported: int, counted: int):
    assert Calibration().observed(reported, counted) == Calibration()


@given(st.lists(st.tuples(st.integers(), st.integers()), max_size=20))
def test_the_ratio_stays_within_its_bounds(observations: list[tuple[int, int]]):
    calibration = Calibration()
    for reported, counted in observations:
        calibration = calibration.observed(reported, counted)
    assert 0.5 <= calibration.ratio <= 2.5
