"""What the built-in estimate promises."""

import base64
import json
import random
import string
import sysconfig
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from summarizing_context.messages.tokens import estimate_text
from tests.docs.checkout import ROOT
from tests.exact_counts import exact_counter

PROSE = json.loads((ROOT / "tests/data/prose.json").read_text(encoding="utf-8"))  # the same few sentences in each

DICE = random.Random(20)

CODES: dict[str, Callable[[], str]] = {
    "base64": lambda: base64.b64encode(DICE.randbytes(3_000)).decode(),
    "hex": lambda: DICE.randbytes(3_000).hex(),
    "a dump": lambda: "\n".join(f"{at:08x}: {DICE.randbytes(16).hex(' ', 2)}" for at in range(0, 2_000, 16)),
    "uuids": lambda: "\n".join(str(uuid.UUID(bytes=DICE.randbytes(16))) for _ in range(100)),
    "random letters": lambda: "".join(DICE.choices(string.ascii_letters, k=4_000)),
    "printable characters": lambda: "".join(DICE.choices(string.printable[:94], k=4_000)),
    "digits": lambda: "".join(DICE.choices(string.digits, k=3_000)),
    "numbers": lambda: " ".join(str(DICE.randint(0, 10**9)) for _ in range(400)),
    "Han by chance": lambda: "".join(chr(DICE.randint(0x4E00, 0x9FA5)) for _ in range(1_500)),
    "Hangul by chance": lambda: "".join(chr(DICE.randint(0xAC00, 0xD7A3)) for _ in range(1_500)),
    "Cyrillic by chance": lambda: "".join(chr(DICE.randint(0x430, 0x44F)) for _ in range(1_500)),
    "rare letters": lambda: "".join(chr(DICE.randint(0x13A0, 0x13F4)) for _ in range(1_500)),
    "emoji": lambda: "👩‍💻👍🏽🇩🇪✈️ " * 100,
}

LIBRARY = Path(sysconfig.get_path("stdlib"))

FILES = [*(LIBRARY / name for name in ("argparse.py", "typing.py", "tarfile.py")), ROOT / "pyproject.toml"]


@pytest.mark.parametrize("language", sorted(PROSE))
def test_prose_of_any_script_is_counted_within_a_half(language: str):
    exact = exact_counter().count(PROSE[language])
    assert 0.75 * exact <= estimate_text(PROSE[language]) <= 1.5 * exact


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_code_is_counted_within_a_half(path: Path):
    text = path.read_text(encoding="utf-8")
    exact = exact_counter().count(text)
    assert 0.8 * exact <= estimate_text(text) <= 1.5 * exact


@pytest.mark.parametrize("kind", sorted(CODES))
def test_what_makes_no_words_is_counted_within_a_half(kind: str):
    text = CODES[kind]()
    exact = exact_counter().count(text)
    assert 0.8 * exact <= estimate_text(text) <= 1.5 * exact
