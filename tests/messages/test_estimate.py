"""The built-in measure of tokens."""

from __future__ import annotations

import base64
import binascii
import json
import quopri
import random
import string
import sysconfig
import unicodedata
import urllib.parse
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summarizing_context.messages.counters import TiktokenCounter, load_offline
from summarizing_context.messages.estimate import estimate_text
from tests.house.checkout import ROOT

SCALED = [  # text, tokens: pinned, because segments are cut by them on every host
    ("", 0),
    ("a", 1),
    ("hello world", 2),
    ("1234567890", 7),
    ("\n" * 10, 10),
    ("(){}[];:,.", 7),
    ("ÄÖÜ", 3),
    ("世界", 2),
    ("\x00\x1b", 2),
]


def test_the_measure_stays_as_it_is():
    assert [(text, estimate_text(text)) for text, _ in SCALED] == SCALED


WORDLESS = st.text(st.characters(exclude_characters=string.ascii_letters), max_size=200)


@given(WORDLESS, WORDLESS)
@settings(max_examples=150, deadline=None)
def test_any_text_is_measured_and_longer_texts_are_not_smaller(one, two):
    both = estimate_text(one + two)
    assert max(estimate_text(one), estimate_text(two)) <= both <= estimate_text(one) + estimate_text(two) + 1


def test_a_text_of_megabytes_is_measured_in_pieces():
    line = "bcdfgh Qz9 говорить 文 1234\n"
    piece = (line * (500_000 // len(line) + 1))[:500_000]
    assert estimate_text(piece * 2 + line) == 2 * estimate_text(piece) + estimate_text(line)


CODED = st.text("bcdfgBCDFG0123456789aeiou \n\\ж文", max_size=400)
BY_CHANCE = (
    10  # of tokens: 4 that either may have unnoticed, 4.1 where a capital meets a small letter, rounding, an escape
)


@given(CODED, CODED)
@settings(max_examples=300, deadline=None)
def test_where_texts_that_make_no_words_meet_only_what_could_be_chance_is_added(one, two):
    both = estimate_text(one + two)
    assert max(estimate_text(one), estimate_text(two)) <= both <= estimate_text(one) + estimate_text(two) + BY_CHANCE


def test_wherever_tokens_end_a_longer_text_costs_no_less_and_a_joint_no_more_than_its_end():
    text = '(a) 1  2 "b" x.y\\n\u0301 10.5\n\nüber - {c}: 7 É'
    counts = [estimate_text(text[:at]) for at in range(len(text) + 1)]
    assert counts == sorted(counts)
    assert all(counts[-1] <= estimate_text(text[:at]) + estimate_text(text[at:]) + 1 for at in range(len(text)))


def test_lone_surrogates_are_measured():
    assert estimate_text("\ud800") > 0


def test_plain_english_is_about_a_token_for_four_to_six_characters():
    text = "The quick brown fox jumps over the lazy dog and goes home. " * 20
    assert len(text) / 6 < estimate_text(text) < len(text) / 4


# -- against the true count

rng = random.Random(20)


def data(size: int) -> bytes:
    return rng.randbytes(size)


def letters(alphabet: str, size: int = 4_000) -> str:
    return "".join(rng.choices(alphabet, k=size))


def in_words(alphabet: str, size: int = 600) -> str:
    return " ".join(letters(alphabet, rng.randint(3, 10)) for _ in range(size))


MARKS = "".join(map(chr, range(0x300, 0x370)))
CODES: dict[str, Callable[[], str]] = {
    "single letters": lambda: " ".join(letters(string.ascii_lowercase, 600)),
    "words of one or two letters": lambda: " ".join(letters(string.ascii_lowercase, at % 2 + 1) for at in range(600)),
    "words of up to three letters": lambda: " ".join(letters(string.ascii_lowercase, at % 3 + 1) for at in range(600)),
    "lines of one or two letters": lambda: "\n".join(letters(string.ascii_lowercase, at % 2 + 1) for at in range(600)),
    "single letters in brackets": lambda: " ".join(f"({letter})" for letter in letters(string.ascii_lowercase, 400)),
    "single letters in json": lambda: json.dumps([*letters(string.ascii_lowercase, 400)]),
    "single digits": lambda: " ".join(letters(string.digits, 600)),
    "single digits by two spaces": lambda: "  ".join(letters(string.digits, 600)),
    "single digits by commas": lambda: ", ".join(letters(string.digits, 600)),
    "rows of single digits": lambda: "\n".join(" ".join(letters(string.digits, 9)) for _ in range(60)),
    "numbers of two digits": lambda: " ".join(letters(string.digits, 2) for _ in range(600)),
    "fractions": lambda: " ".join(f"{letters(string.digits, 1)}.{letters(string.digits, 1)}" for _ in range(400)),
    "single characters": lambda: " ".join(letters(string.printable[:94], 600)),
    "formulas": lambda: " ".join("({} + {}) * {}".format(*letters("abnxyz", 2), rng.randrange(10)) for _ in range(200)),
    "letters with accents": lambda: "\u0301".join(letters(string.ascii_lowercase, 600)),
    "letters with any marks": lambda: "".join(
        letter + letters(MARKS, rng.randint(1, 6)) for letter in letters(string.ascii_letters + " ", 300)
    ),
    "letters struck through": lambda: "\u0336".join("he comes with his hands behind him " * 9),
    "base64": lambda: base64.b64encode(data(3_000)).decode(),
    "base64 in lines": lambda: base64.encodebytes(data(3_000)).decode(),
    "base64 of a short value": lambda: base64.b64encode(data(200)).decode(),
    "base64 for addresses": lambda: base64.urlsafe_b64encode(data(3_000)).decode(),
    "base64 in json": lambda: json.dumps({str(n): base64.b64encode(data(60)).decode() for n in range(40)}),
    "base85": lambda: base64.b85encode(data(3_000)).decode(),
    "base85 of Adobe's": lambda: base64.a85encode(data(3_000)).decode(),
    "base85 in lines": lambda: base64.a85encode(data(3_000), wrapcol=76).decode(),
    "passwords": lambda: "\n".join(letters(string.printable[:94], 16) for _ in range(100)),
    "printable characters": lambda: letters(string.printable[:94]),
    "punctuation": lambda: letters(string.punctuation),
    "base32": lambda: base64.b32encode(data(3_000)).decode(),
    "a token in three parts": lambda: ".".join(base64.urlsafe_b64encode(data(n)).decode() for n in (40, 300, 64)),
    "hex": lambda: data(3_000).hex(),
    "capital hex": lambda: data(3_000).hex().upper(),
    "hashes": lambda: "\n".join(data(32).hex() for _ in range(60)),
    "short hashes": lambda: " ".join(data(4).hex()[:7] for _ in range(400)),
    "uuids": lambda: "\n".join(str(uuid.UUID(bytes=data(16))) for _ in range(100)),
    "small letters": lambda: letters(string.ascii_lowercase),
    "capital letters": lambda: letters(string.ascii_uppercase),
    "letters": lambda: letters(string.ascii_letters),
    "letters and digits": lambda: letters(string.ascii_letters + string.digits),
    "words of small letters": lambda: in_words(string.ascii_lowercase),
    "words of letters": lambda: in_words(string.ascii_letters),
    "words of three letters": lambda: " ".join(letters(string.ascii_lowercase, 3) for _ in range(600)),
    "words of five letters": lambda: " ".join(letters(string.ascii_lowercase, 5) for _ in range(600)),
    "words of five capitals": lambda: " ".join(letters(string.ascii_uppercase, 5) for _ in range(600)),
    "names of four letters": lambda: "_".join(letters(string.ascii_lowercase, 4) for _ in range(600)),
    "consonants": lambda: letters("bcdfghjklmnpqrstvwxz"),
    "vowels": lambda: letters("aeiou"),
    "words of vowels": lambda: in_words("aeiou"),
    "bases of DNA": lambda: letters("ACGT"),
    "base32 of short values": lambda: "\n".join(base64.b32encode(data(10)).decode() for _ in range(150)),
    "small base32": lambda: base64.b32encode(data(3_000)).decode().lower(),
    "small base32 of short values": lambda: " ".join(base64.b32encode(data(5)).decode().lower() for _ in range(300)),
    "small letters and digits": lambda: letters(string.ascii_lowercase + string.digits),
    "uuencoding": lambda: "".join(binascii.b2a_uu(data(45)).decode() for _ in range(60)),
    "percent encoding": lambda: urllib.parse.quote(data(2_000)),
    "quoted-printable": lambda: quopri.encodestring(data(2_000)).decode(),
    "hex by bytes": lambda: data(2_000).hex(" "),
    "capital hex by bytes": lambda: data(2_000).hex(" ").upper(),
    "hex by colons": lambda: data(2_000).hex(":"),
    "capital hex by colons": lambda: data(2_000).hex(":").upper(),
    "hex in lines": lambda: "\n".join(data(16).hex(" ") for _ in range(100)),
    "hex by two bytes": lambda: data(2_000).hex(" ", 2),
    "hex by four bytes": lambda: data(2_000).hex(" ", 4),
    "an array of bytes": lambda: ", ".join(f"0x{byte:02x}" for byte in data(1_000)),
    "a dense array of bytes": lambda: ",".join(f"0x{byte:02X}" for byte in data(1_000)),
    "escaped bytes": lambda: "".join(f"\\x{byte:02x}" for byte in data(1_000)),
    "hardware addresses": lambda: "\n".join(data(6).hex(":") for _ in range(100)),
    "network addresses": lambda: "\n".join(data(16).hex(":", 2) for _ in range(100)),
    "a dump": lambda: "\n".join(f"{at:08x}: {data(16).hex(' ', 2)}  {'.' * 16}" for at in range(0, 2_000, 16)),
    "a dump by bytes": lambda: "\n".join(f"{at:08x}  {data(16).hex(' ')}" for at in range(0, 2_000, 16)),
}
NUMBERED: dict[str, Callable[[], str]] = {  # letters beside digits that are no codes
    "a log": lambda: "\n".join(
        f"2025-11-{day:02d} 10:{day:02d}:07,123 INFO worker-{day} finished step {day * 7} in {day * 31}ms"
        for day in range(1, 29)
    ),
    "dates": lambda: "\n".join(f"{day} Nov 2025, {day + 1}th Dec 2025T10:{day}:00Z" for day in range(10, 28)),
    "rows of numbers": lambda: "\n".join(",".join(str(rng.randrange(1_000)) for _ in range(9)) for _ in range(40)),
    "a table of rows": lambda: "\n".join(f"{n},Ana,item{n},{n * 3}.50,EUR,open" for n in range(60)),
    "sizes": lambda: "\n".join(f".box{n} {{ margin: {n}px {n * 2}px; width: {n}rem; }}" for n in range(1, 60)),
    "assembly": lambda: "\n".join(f"    mov x{n}, [sp, #0x{n * 8:x}]\n    add w{n}, w1, #4" for n in range(1, 30)),
    "names with digits": lambda: "\n".join(
        f"def to_utf8(md5, value{n}: int32) -> Base64:\n    return sha256(value{n}, x1, y2)" for n in range(20)
    ),
    "a list of commits": lambda: "\n".join(
        f"{data(4).hex()[:7]} Fix the parser of the rows that the workers have written" for _ in range(40)
    ),
    "names of many capitals": lambda: "\n".join(
        f"HTTP_MAX_RETRIES_{n} = os.environ['XML_HTTP_URL']  # mkdir, ctrl, kwargs, lstrip, wchar, ptr"
        for n in range(20)
    ),
}
BLOCKS = {  # script: first and last letter
    "Han": (0x4E00, 0x9FA5),
    "rare Han": (0x3400, 0x4DBF),
    "rarest Han": (0x20000, 0x2A6DF),
    "Hiragana": (0x3041, 0x3096),
    "Katakana": (0x30A1, 0x30FA),
    "Hangul": (0xAC00, 0xD7A3),
    "Yi": (0xA000, 0xA48C),
    "Bopomofo": (0x3105, 0x312F),
    "Tibetan": (0x0F40, 0x0FBC),
    "Khmer": (0x1780, 0x17D3),
    "Lao": (0x0E81, 0x0ECD),
    "Ethiopic": (0x1200, 0x137C),
    "Georgian": (0x10D0, 0x10FA),
    "Thai": (0x0E01, 0x0E4D),
    "Nko": (0x07C0, 0x07EA),
    "Devanagari": (0x0904, 0x094D),
    "Arabic": (0x0621, 0x064A),
    "Cherokee": (0x13A0, 0x13F4),
    "Hebrew": (0x05D0, 0x05EA),
    "Greek": (0x0391, 0x03C9),
    "Cyrillic": (0x0410, 0x044F),
    "Armenian": (0x0531, 0x0586),
    "Tamil": (0x0B85, 0x0BCD),
    "Bengali": (0x0985, 0x09CD),
    "Sinhala": (0x0D85, 0x0DDF),
    "Myanmar": (0x1000, 0x1049),
    "Mongolian": (0x1820, 0x1878),
    "Syriac": (0x0710, 0x074A),
    "Thaana": (0x0780, 0x07B1),
    "Inuktitut": (0x1401, 0x166C),
    "runes": (0x16A0, 0x16EA),
    "Balinese": (0x1B05, 0x1B44),
    "Coptic": (0x2C80, 0x2CE4),
    "Tifinagh": (0x2D30, 0x2D67),
    "Gothic": (0x10330, 0x1034A),
    "hieroglyphs": (0x13000, 0x1342E),
    "Latin of Europe": (0x00C0, 0x017F),
    "phonetic": (0x0250, 0x02AF),
    "old Greek": (0x1F00, 0x1FFC),
    "faces": (0x1F600, 0x1F64F),
    "emoji": (0x1F300, 0x1F6C5),
    "new emoji": (0x1F900, 0x1F9FF),
    "signs": (0x2600, 0x26FF),
    "letters of formulas": (0x1D400, 0x1D7CB),
    "Braille": (0x2800, 0x28FF),
}


def true_count(text: str) -> int:
    encoding = load_offline()
    assert encoding is not None
    return TiktokenCounter(encoding).count(text)


@pytest.mark.parametrize("kind", sorted(CODES))
def test_codes_and_random_letters_are_not_undercounted(kind):
    text = CODES[kind]()
    assert estimate_text(text) >= 0.8 * true_count(text)


@pytest.mark.parametrize("script", sorted(BLOCKS))
def test_no_script_is_undercounted(script):
    first, last = BLOCKS[script]
    alphabet = "".join(chr(code) for code in range(first, last + 1) if unicodedata.category(chr(code)) != "Cn")
    for text in (letters(alphabet, 1_500), in_words(alphabet, 200), f"a word, then {letters(alphabet, 300)} and more"):
        assert estimate_text(text) >= 0.8 * true_count(text)


@pytest.mark.parametrize("kind", sorted(NUMBERED))
def test_numbers_and_short_names_among_words_are_counted_within_a_half(kind):
    text = NUMBERED[kind]()
    assert estimate_text(text) <= 1.5 * true_count(text)


def test_emoji_made_of_several_are_not_undercounted():
    text = "\U0001f469\u200d\U0001f4bb \u2708\ufe0f \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd " * 50
    assert estimate_text(text) >= 0.8 * true_count(text)


SOURCES = ["argparse.py", "json/decoder.py", "asyncio/tasks.py", "typing.py", "pydoc_data/topics.py", "tarfile.py"]
WRITTEN = ["README.md", "CONTRIBUTING.md", "pyproject.toml", "Makefile", *("summarizing_context/stores/sql",)]


def prose_and_code() -> list[Path]:
    library = Path(sysconfig.get_path("stdlib"))
    named = [library / name for name in SOURCES] + [ROOT / name for name in WRITTEN]
    return [file for path in named for file in (sorted(path.glob("*")) if path.is_dir() else [path]) if file.is_file()]


@pytest.mark.parametrize("path", prose_and_code(), ids=lambda path: path.name)
def test_prose_and_code_are_counted_within_a_half(path):
    text = path.read_text(encoding="utf-8")
    assert 0.8 * true_count(text) <= estimate_text(text) <= 1.5 * true_count(text)


PROSE = {
    "German": "Gestern Abend haben wir die Verbindung zur Datenbank repariert, aber die Prüfungen schlagen noch fehl. ",
    "French": "Hier soir nous avons réparé la connexion à la base de données, mais les tests échouent encore. ",
    "Spanish": "Anoche arreglamos la conexión con la base de datos, pero las pruebas siguen fallando por el puerto. ",
    "Vietnamese": "Tối qua chúng tôi đã sửa kết nối tới cơ sở dữ liệu, nhưng các bài kiểm tra vẫn thất bại. ",
    "Vietnamese without marks": "Toi qua chung toi da sua ket noi toi co so du lieu, nhung cac bai kiem tra that bai. ",
    "Yoruba": "Ní alẹ́ àná, a tún ìsopọ̀ mọ́ ibi ìpamọ́ dátà ṣe, ṣùgbọ́n àwọn ìdánwò ṣì ń kùnà. ",
    "Polish": "Wczoraj wieczorem naprawiliśmy połączenie z bazą danych, ale testy wciąż nie przechodzą przez port. ",
    "English": "Last night we repaired the connection to the database, but the checks fail because of a wrong port. ",
}


@pytest.mark.parametrize("language", sorted(PROSE))
def test_languages_in_latin_letters_are_counted_within_a_half(language):
    text = PROSE[language] * 5
    assert 0.8 * true_count(text) <= estimate_text(text) <= 1.5 * true_count(text)


@pytest.mark.parametrize("language", sorted(PROSE))
def test_letters_and_their_marks_apart_are_not_undercounted(language):
    text = unicodedata.normalize("NFD", PROSE[language] * 5)
    assert 0.8 * true_count(text) <= estimate_text(text) <= 1.5 * true_count(text)


@pytest.mark.parametrize("letter", string.ascii_letters)
def test_a_row_of_one_letter_is_no_code(letter):
    assert estimate_text(letter * 600) == -(-600 * (1_764 + 1_197 * letter.isupper()) // 10_000)


def test_a_letter_more_never_makes_a_text_cheaper():
    text = "".join(letters(string.ascii_letters + "xxx", 30) + letter * 5 for letter in "xqaZ7 ")
    counts = [estimate_text(text[:length]) for length in range(len(text))]
    assert counts == sorted(counts)


def test_words_code_and_listings_are_measured_as_they_always_were():
    assert estimate_text("The parser keeps every row until the worker has written it. " * 10) == 111
    assert estimate_text("def get_user(user_id):\n    return users[user_id].displayName\n" * 10) == 164
    assert estimate_text("-rw-r--r-- 1 root root 4096 Nov 20 10:00 settings.toml\n" * 10) == 192
