"""Characters beyond ASCII against the true count: prose of many languages, and what is no prose in their scripts."""

from __future__ import annotations

import json
import random
import unicodedata

import pytest

from summarizing_context.messages.counters import TiktokenCounter, load_offline
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.messages.scripts import SCRIPTS, beyond_ascii
from tests.house.checkout import ROOT

PROSE = json.loads((ROOT / "tests/data/prose.json").read_text(encoding="utf-8"))  # the same few sentences in each
SIGNS = {
    "arrows": (0x2190, 0x21FF),
    "mathematics": (0x2200, 0x22FF),
    "technical signs": (0x2300, 0x23FF),
    "box drawing": (0x2500, 0x257F),
    "blocks and shapes": (0x2580, 0x25FF),
    "signs": (0x2600, 0x26FF),
    "dingbats": (0x2700, 0x27BF),
    "more mathematics": (0x2A00, 0x2AFF),
    "musical notes": (0x1D100, 0x1D126),
    "full width": (0xFF01, 0xFF5E),
    "private use": (0xE000, 0xF8FF),
    "Adlam": (0x1E900, 0x1E943),
    "Odia": (0x0B05, 0x0B39),
    "Vai": (0xA500, 0xA60C),
    "chess and cards": (0x1F0A0, 0x1F0F5),
    "hands and hearts": (0x1F440, 0x1F4FF),
}
ALPHABETS = {
    "Russian": "абвгдеёжзийклмнопрстуфхцчшщъыьэюя",
    "Ukrainian": "абвгґдеєжзиіїйклмнопрстуфхцчшщьюя",
    "Greek": "αβγδεζηθικλμνξοπρσςτυφχψω",
    "Hebrew": "אבגדהוזחטיכךלמםנןסעפףצץקרשת",
    "Arabic": "ابتثجحخدذرزسشصضطظعغفقكلمنهوي",
    "Armenian": "".join(map(chr, range(0x561, 0x587))),
    "Georgian": "".join(map(chr, range(0x10D0, 0x10F1))),
    "consonants of Devanagari": "".join(map(chr, range(0x915, 0x93A))),
    "consonants of Thai": "".join(map(chr, range(0xE01, 0xE2F))),
    "hiragana": "".join(map(chr, range(0x3041, 0x3097))),
    "katakana": "".join(map(chr, range(0x30A1, 0x30FB))),
}
rng = random.Random(21)


def true_count(text: str) -> int:
    encoding = load_offline()
    assert encoding is not None
    return TiktokenCounter(encoding).count(text)


def ratio(text: str) -> float:
    return estimate_text(text) / true_count(text)


def assigned(first: int, last: int) -> str:
    return "".join(chr(code) for code in range(first, last + 1) if unicodedata.category(chr(code)) != "Cn")


def by_chance(alphabet: str) -> list[str]:
    """Letters drawn by chance: in one run, in words, and a few inside of a sentence."""
    words = ["".join(rng.choices(alphabet, k=rng.randint(3, 10))) for _ in range(200)]
    return [
        "".join(rng.choices(alphabet, k=1_500)),
        " ".join(words),
        f"so {''.join(rng.choices(alphabet, k=200))} it is",
    ]


@pytest.mark.parametrize("language", sorted(PROSE))
def test_prose_is_counted_within_a_half(language: str) -> None:
    assert 0.75 <= ratio(PROSE[language]) <= 1.5
    assert 0.75 <= ratio("\n".join([PROSE[language]] * 20)) <= 1.5


@pytest.mark.parametrize("signs", sorted(SIGNS))
def test_signs_by_chance_are_not_undercounted(signs: str) -> None:
    assert min(map(ratio, by_chance(assigned(*SIGNS[signs])))) >= 0.8


@pytest.mark.parametrize(("first", "last"), [(first, last) for first, last, *_ in SCRIPTS])
def test_letters_by_chance_of_a_script_whose_words_are_known_are_not_undercounted(first: int, last: int) -> None:
    letters = assigned(first, last)
    frequent = "".join(letter for letter in letters if true_count(letter) == 1)
    for alphabet in (letters, frequent, frequent.lower()):
        assert min(map(ratio, by_chance(alphabet))) >= 0.8


@pytest.mark.parametrize("alphabet", sorted(ALPHABETS))
def test_letters_by_chance_of_one_alphabet_are_not_undercounted(alphabet: str) -> None:
    assert min(map(ratio, by_chance(ALPHABETS[alphabet]))) >= 0.8


def test_han_and_hangul_by_chance_are_not_undercounted_however_common() -> None:
    for first, last in ((0x4E00, 0x9FFF), (0xAC00, 0xD7A3)):
        letters = assigned(first, last)
        frequent = "".join(letter for letter in letters if true_count(letter) == 1)
        assert min(map(ratio, by_chance(letters) + by_chance(frequent))) >= 0.8


@pytest.mark.parametrize("sequence", ["👩‍💻👨‍👩‍👧‍👦", "👍🏽🤷🏿‍♀️", "🇩🇪🇯🇵🇧🇷", "🏴‍☠️❤️‍🔥", "1️⃣#️⃣", "🫨🪿🩷"])
def test_sequences_of_emoji_are_not_undercounted(sequence: str) -> None:
    assert min(ratio(sequence * 30), ratio(f"done {sequence} "), ratio(f"{sequence} " * 30)) >= 0.8


def test_a_letter_more_never_makes_a_text_cheaper() -> None:
    for first, last, *_ in SCRIPTS:
        letters = assigned(first, last)
        text = "".join(rng.choices(letters, k=300))
        counts = [estimate_text(text[:length]) for length in range(0, 300, 7)]
        assert counts == sorted(counts)


def test_the_tables_know_which_characters_are_tokens() -> None:
    encoding = load_offline()
    assert encoding is not None
    tokens = {token.decode(errors="ignore") for token in encoding.token_byte_values() if 1 < len(token) < 4}
    characters = {token for token in tokens if len(token) == 1 and not token.isascii()}
    known = {chr(code) for code in range(0x80, 0x10000) if beyond_ascii(chr(code)) <= 10_000}
    assert known == {character for character in characters if true_count(character) == 1}
