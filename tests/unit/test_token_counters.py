"""Counters of tokens: what the estimate promises, tiktoken without a network, the user's function."""

import base64
import hashlib
import json
import random
import string
import sys
import sysconfig
import uuid
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import pytest

from summarizing_context.errors import SettingsError
from summarizing_context.messages import tokens
from summarizing_context.messages.tokens import RANKS_CACHE_NAME, choose_counter, estimate_text, load_offline
from tests.docs.checkout import ROOT
from tests.exact_counts import exact_counter

PROSE = json.loads((ROOT / "tests/data/prose.json").read_text(encoding="utf-8"))  # the same few sentences in each
FILES = [*(Path(sysconfig.get_path("stdlib"), f"{name}.py") for name in ("argparse", "typing", "tarfile"))]
DICE = random.Random(20)
LETTERS = (string.ascii_letters, string.printable[:94], string.digits)
SCRIPTS = ((0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x430, 0x44F), (0x13A0, 0x13F4))  # Han, Hangul, Cyrillic, Cherokee
CODES = [
    *(base64.b64encode(DICE.randbytes(3_000)).decode(), DICE.randbytes(3_000).hex(), "👩‍💻👍🏽🇩🇪✈️ " * 100),
    "\n".join(f"{at:08x}: {DICE.randbytes(16).hex(' ', 2)}" for at in range(0, 2_000, 16)),
    "\n".join(str(uuid.UUID(bytes=DICE.randbytes(16))) for _ in range(100)),
    " ".join(str(DICE.randint(0, 10**9)) for _ in range(400)),
    *("".join(DICE.choices(letters, k=4_000)) for letters in LETTERS),
    *("".join(chr(DICE.randint(*script)) for _ in range(1_500)) for script in SCRIPTS),
    *(path.read_text(encoding="utf-8") for path in [*FILES, ROOT / "pyproject.toml"]),
]
TEXTS = [*((text, 0.75) for text in PROSE.values()), *((code, 0.8) for code in CODES)]


@pytest.mark.parametrize(("text", "least"), TEXTS, ids=lambda of: ascii(of)[:24])
def test_text_of_any_kind_is_estimated_within_a_half(text: str, least: float):
    exact = exact_counter().count(text)
    assert least * exact <= estimate_text(text) <= 1.5 * exact


async def test_tiktoken_counts_where_its_ranks_are_and_a_long_text_in_pieces():
    counter = exact_counter()
    assert (await choose_counter("auto")).name == "tiktoken/o200k_base"
    assert counter.count("word " * 160_000) == pytest.approx(160_000, abs=3)
    assert counter.count(" " * 1_100_000) > 0


async def test_a_counter_is_found_while_another_thread_imports_tiktoken(monkeypatch: pytest.MonkeyPatch):
    exact_counter()
    monkeypatch.setitem(sys.modules, "tiktoken.registry", ModuleType("tiktoken.registry"))  # as it is until its end
    assert (await choose_counter("auto")).name == "tiktoken/o200k_base"


async def test_auto_falls_back_to_the_estimate_without_ranks_and_says_once_how_to_count_exactly(
    tmp_path, monkeypatch, caplog
):
    """On a machine with an empty cache, no extra, nothing loaded and no network; then with a download, and ranks."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
    monkeypatch.setattr("tiktoken.get_encoding", Mock(side_effect=ConnectionError("no network here")))
    tokens._tell_once.cache_clear()
    assert (await choose_counter("estimate")).name == "estimate/3"
    assert (await choose_counter("auto", silent=True)).name == "estimate/3"
    assert caplog.messages == [], "it was chosen, or makes no difference"
    for _ in range(2):
        assert (await choose_counter("auto")).name == "estimate/3"
    (told,) = caplog.messages
    assert "pip install 'summarizing-context[offline-tokens]'" in told
    with pytest.raises(SettingsError) as caught:
        await choose_counter("tiktoken")
    assert all(way in str(caught.value) for way in ("offline-tokens", "TIKTOKEN_CACHE_DIR", "allow_download"))
    monkeypatch.setattr("tiktoken.get_encoding", lambda _name: SimpleNamespace(encode=lambda text, **_: list(text)))
    assert (await choose_counter("auto", allow_download=True)).count("abc") == 3
    ranks = b"YQ== 0\nYg== 1\n"  # of the tokens `a` and `b`
    (tmp_path / RANKS_CACHE_NAME).write_bytes(ranks)
    monkeypatch.setattr(tokens, "RANKS_SHA256", hashlib.sha256(ranks).hexdigest())
    assert load_offline().encode("ab") == [0, 1]
