"""One value of each kind, the ways in which a model gets it wrong, and honest ways of telling it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

_NAMES = "copper violet harbor meadow walnut ember lantern glacier orchard timber"
_BELOW_TWENTY = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
"""
_FROM_TWENTY = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS, _SMALL, _TENS = _NAMES.split(), _BELOW_TWENTY.split(), _FROM_TWENTY.split()

Alteration = Callable[[str, Random], str]


def in_words(number: int) -> str:
    """A number below a million as it is spoken."""
    if number >= 1_000:
        rest = f" {in_words(number % 1_000)}" if number % 1_000 else ""
        return f"{in_words(number // 1_000)} thousand{rest}"
    if number >= 100:
        rest = f" and {in_words(number % 100)}" if number % 100 else ""
        return f"{_SMALL[number // 100]} hundred{rest}"
    if number >= 20:
        return _TENS[number // 10 - 2] + (f"-{_SMALL[number % 10]}" if number % 10 else "")
    return _SMALL[number]


MADE: dict[str, Callable[[Random], str]] = {
    "order": lambda random: f"{random.randrange(3_000, 9_000)}-{random.randrange(11, 99)}",
    "account": lambda random: f"555-0{random.randrange(110, 199)}-{random.randrange(2, 9)}",
    "phone": lambda random: f"+49 30 {random.randrange(2_000, 9_000)} {random.randrange(2_000, 9_000)}",
    "file": lambda random: f"src/{random.choice(_WORDS)}/core/{random.choice(_WORDS)}.py",
    "commit": lambda random: f"{random.getrandbits(160) | 1 << 159:040x}",
    "uuid": lambda random: f"{random.getrandbits(32) | 1 << 31:08x}-77aa-4f0{random.randrange(9)}-9c3d-2b1c4d5e6f7a",
    "version": lambda random: f"3.{random.randrange(11, 40)}.{random.randrange(11, 40)}",
    "server": lambda random: f"10.2.3.{random.randrange(10, 99)}:{random.randrange(5_000, 9_000)}",
    "disk": lambda random: f"{random.randrange(300, 900)} MB",
    "share": lambda random: f"{random.randrange(3, 12)}.{random.randrange(1, 9)}%",
    "warmth": lambda random: f"{random.randrange(15, 29)} °C",
    "stamp": lambda random: (
        f"2026-0{random.randrange(4, 7)}-{random.randrange(13, 28)}T14:{random.randrange(10, 59)}:05Z"
    ),
    "mail": lambda random: f"a.{random.choice(_WORDS)}@example.com",
    "page": lambda random: f"https://example.com/{random.choice(_WORDS)}?page={random.randrange(10, 99)}&order=up",
    "variable": lambda random: f"{random.choice(_WORDS).upper()}_URL",
    "call": lambda random: f"load{random.choice(_WORDS).title()}()",
    "method": lambda random: f"{random.choice(_WORDS)}.flush()",
    "option": lambda random: f"--no-{random.choice(_WORDS)}",
    "setting": lambda random: f"MAX_ROWS={random.randrange(1_100, 2_900)}",
    "price": lambda random: f"€{random.randrange(11, 99)},{random.randrange(111, 999)}",
    "rows": lambda random: f"{random.randrange(11, 99)},{random.randrange(111, 999)}",
    "spoken": lambda random: f"{in_words(random.randrange(111_111, 999_999))} rows",
}


def exact_values(random: Random) -> dict[str, str]:
    """One value of each kind."""
    return {kind: make(random) for kind, make in MADE.items()}


def told_values(values: dict[str, str]) -> str:
    """The values as a record tells them."""
    return "\n".join(f"the {kind} is {value} now" for kind, value in values.items())


def _digit(text: str, random: Random) -> str:
    at = random.choice([at for at, char in enumerate(text) if char.isdigit()])
    return text[:at] + random.choice([digit for digit in "123456789" if digit != text[at]]) + text[at + 1 :]


def _last_digit(text: str, _: Random) -> str:
    at = max(at for at, char in enumerate(text) if char.isdigit())
    return text[:at] + str(int(text[at]) % 9 + 1) + text[at + 1 :]


def _letter(text: str, random: Random) -> str:
    at = random.choice([at for at, char in enumerate(text) if char.isalpha() and at > 1])
    return text[:at] + random.choice([char for char in "bdghk" if char != text[at].lower()]) + text[at + 1 :]


def _number(text: str) -> int:
    return int("".join(char for char in text if char.isdigit()))


def _spaced(text: str, random: Random) -> str:
    return _last_digit(text, random).replace("-", random.choice("_/:"))


def _in_words(text: str, random: Random) -> str:
    return in_words(_number(_last_digit(text, random))) + (" euros" if "€" in text else " rows")


def _other_word(text: str, random: Random) -> str:
    return random.choice([word for word in _WORDS if word not in text.lower()]).join(_parted(text))


def _parted(text: str) -> tuple[str, str]:
    word = next(word for word in _WORDS if word in text.lower())
    before, after = text[: text.lower().index(word)], text[text.lower().index(word) + len(word) :]
    return before, after


def _between(mark: str) -> Alteration:
    return lambda text, random: mark.join(_last_digit(text, random))


def _in_other_digits(zero: str) -> Alteration:
    wide = {48 + digit: chr(ord(zero) + digit) for digit in range(10)}
    return lambda text, random: _last_digit(text, random).translate(wide)


def _replaced(old: str, new: str) -> Alteration:
    return lambda text, _: text.replace(old, new)


_DISGUISES: dict[str, Alteration] = {
    "zero width": _between("\u200b"),
    "direction marks": _between("\u200e"),
    "invisible plus": _between("\u2064"),
    "struck through": _between("\u0336"),
    "stars": _between("**"),
    "full width": _in_other_digits("０"),
    "bold digits": _in_other_digits("𝟎"),
    "arabic digits": _in_other_digits("٠"),
}
_DIGITS = {"a digit": _digit, "the last digit": _last_digit}

ALTERED: dict[str, dict[str, Alteration]] = {
    "order": {**_DIGITS, "other marks": _spaced, **_DISGUISES},
    "account": {**_DIGITS, "other marks": _spaced},
    "phone": {"the last digit": _last_digit},
    "file": {
        "a letter": _letter,
        "another folder": _other_word,
        "folders turned round": lambda text, _: "/".join((*text.split("/")[2::-1], text.split("/")[3])),
        "another ending": _replaced(".py", ".rs"),
        "a line": lambda text, random: f"{text}:{random.randrange(20_000, 30_000)}",
        "a lookalike": _replaced("e", "е"),
    },
    "commit": {
        "a digit": _digit,
        "its middle": lambda text, _: text[9:21],
        "cut, another end": lambda text, random: f"{text[:7]}...{_letter('aa' + text[-6:] + 'a', random)[2:]}",
    },
    "uuid": {**_DIGITS},
    "version": {**_DIGITS, "with v": lambda text, random: f"v{_last_digit(text, random)}"},
    "server": {"the port": _last_digit, "the host": lambda text, random: _last_digit(text.partition(":")[0], random)},
    "disk": {**_DIGITS, "the unit": _replaced("MB", "GB"), "a sign": lambda text, _: f"minus {text}"},
    "share": {**_DIGITS, "a sign": lambda text, _: f"-{text}", "of a thousand": _replaced("%", " ms")},
    "warmth": {"the last digit": _last_digit, "the unit": _replaced("C", "F"), "a sign": lambda text, _: f"-{text}"},
    "stamp": {
        "the minute": lambda text, _: text[:14] + ("31" if text[14:16] != "31" else "42") + text[16:],
        "the hour": _replaced("T14", "T17"),
        "the day": lambda text, _: text[:8] + ("11" if text[8:10] != "11" else "12"),
        "the year": lambda text, _: text[:10].replace("2026", "2025"),
        "the month": lambda text, _: text[:10].replace("-0", "-1"),
        "half of the day": lambda text, _: f"2:{text[14:16]} am",
    },
    "mail": {"the name": _other_word, "its beginning": lambda text, _: text[2:], "the host": _replaced(".com", ".org")},
    "page": {"the query": _last_digit, "the path": _other_word, "the host": _replaced("example", "examples")},
    "variable": {"a word": _other_word, "the end": _replaced("URL", "URI")},
    "call": {
        "a letter": lambda text, random: f"load{random.choice('XYZ')}{text[5:]}",
        "another": _replaced("load", "drop"),
    },
    "method": {"another": _replaced("flush", "clear")},
    "option": {"the word": _other_word, "the other way": _replaced("--no-", "--only-")},
    "setting": {**_DIGITS},
    "price": {
        **_DIGITS,
        "the currency": _replaced("€", "$"),
        "in words": _in_words,
        "in thousands": lambda text, _: f"€{_number(text) // 1_000 + 1_200}k",
    },
    "rows": {
        **_DIGITS,
        "in words": _in_words,
        "in thousands": lambda text, _: f"{_number(text) // 1_000 + 1_200}k rows",
        **_DISGUISES,
    },
    "spoken": {"in digits": lambda _, random: f"{random.randrange(111_111, 999_999):,}"},
}

HONEST: dict[str, tuple[Alteration, ...]] = {
    "order": (_replaced("-", " "), _replaced("-", "/")),
    "account": (_replaced("-", " "),),
    "file": (lambda text, _: text.partition("/")[2], lambda text, _: f"`{text}`"),
    "commit": (lambda text, _: text[:7], lambda text, _: f"{text[:8]}…{text[-4:]}"),
    "uuid": (lambda text, _: text[:8],),
    "version": (lambda text, _: f"v{text}", lambda text, _: text.rpartition(".")[0]),
    "server": (lambda text, _: text.partition(":")[0], lambda text, _: f"port {text.partition(':')[2]}"),
    "disk": (lambda text, _: f"{_number(text) / 1_000:.2f} GB", lambda text, _: f"{_number(text)}MB"),
    "share": (
        lambda text, _: f"{float(text[:-1]):.0f} percent",
        lambda text, _: f"about {in_words(round(float(text[:-1])))} percent",
    ),
    "warmth": (lambda text, _: f"{in_words(_number(text))} degrees",),
    "stamp": (lambda text, _: f"2:{text[14:16]} pm on {text[:10]}", lambda text, _: text[:16]),
    "price": (lambda text, _: f"{_number(text)} euros", lambda text, _: f"{in_words(_number(text))} euros"),
    "rows": (lambda text, _: in_words(_number(text)), lambda text, _: f"{_number(text) // 1_000}k rows"),
    "spoken": (lambda text, _: text, lambda text, _: text.replace(" and ", " ")),
    "call": (lambda text, _: f"`{text.removesuffix('()')}`",),
    "setting": (lambda text, _: text.replace("=", " = "),),
}


def lies(values: dict[str, str], random: Random) -> list[tuple[str, str]]:
    """Each value with each of its alterations: what was done, and what came of it."""
    return [
        (f"{kind}: {name}", alter(values[kind], random))
        for kind, alterations in ALTERED.items()
        for name, alter in alterations.items()
    ]


def truths(values: dict[str, str], random: Random) -> list[str]:
    """Each value as it stands, and told in other ways."""
    return [*values.values(), *(tell(values[kind], random) for kind, ways in HONEST.items() for tell in ways)]


def altered(kind: str, text: str, random: Random) -> str | None:
    """A literal of any text, altered in one digit, letter or word; None for one that can only be altered honestly."""
    if kind == "glob":
        return f"`{_letter(text, random)}`" if any(map(str.isalpha, text[2:])) else None
    if kind in ("quote", "code"):
        words = text.split()
        words[random.randrange(len(words))] = random.choice(_WORDS)
        return f"`{' '.join(words)}`" if "`" not in text else None
    if kind in ("number", "day", "time"):
        return _digit(text, random) if any(char in "0123456789" for char in text) else None
    places = [at for at, char in enumerate(text) if char.isascii() and char.isalnum()]
    if kind in ("term", "pair") or not places:
        return None
    return random.choice(_AT_ONE_PLACE)(text, random.choice(places), random)


def _other_character(text: str, at: int, random: Random) -> str:
    those = "123456789" if text[at].isdigit() else "bdghkz"
    return text[:at] + random.choice([char for char in those if char != text[at]]) + text[at + 1 :]


def _one_more(text: str, at: int, random: Random) -> str:
    return text[:at] + random.choice("bdghkz") + text[at:]


def _one_less(text: str, at: int, _: Random) -> str:
    return text[:at] + text[at + 1 :]


_AT_ONE_PLACE = (_other_character, _other_character, _one_more, _one_less)
