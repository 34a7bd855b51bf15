"""A model that makes things up: honest summaries of a generated record, and literals that the record does not hold."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from random import Random

from tests.summarizers.altering import exact_values, lies, told_values, truths

_PLACES = ("src/app", "tests/unit", "docs", "lib/core", "/srv/data")
_NAMES = ("parser", "ledger", "clock", "router", "invoice", "cache")
_PEOPLE = ("kim", "ana", "lee", "noor")
_SAYINGS = (
    "we cannot ship on a Friday",
    "keep the old tables until the audit is over",
    "call me before the switch is thrown",
    "nobody touches the billing code",
)
_WORDS = ["copper", "violet", "harbor", "meadow", "walnut", "ember", "lantern", "glacier", "orchard", "timber"]
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"


@dataclass(frozen=True)
class Facts:
    """The exact values of one record."""

    path: str
    number: int
    milliseconds: int
    ticket: str
    hash: str
    url: str
    mail: str
    saying: str
    year: int
    month: int
    day: int
    others: dict[str, str]  # by kind

    @property
    def date(self) -> str:
        return f"{self.year}-{self.month:02}-{self.day:02}"

    def values(self) -> tuple[str, ...]:
        return (
            self.path,
            str(self.number),
            f"{self.milliseconds} ms",
            self.ticket,
            self.hash,
            self.url,
            self.mail,
            self.date,
        )


def facts(random: Random) -> Facts:
    name = random.choice(_NAMES)
    return Facts(
        path=f"{random.choice(_PLACES)}/{name}.py",
        number=random.randrange(1_000, 90_000),
        milliseconds=random.randrange(120, 9_000),
        ticket=f"{random.choice(('HAT', 'OPS', 'WEB'))}-{random.randrange(100, 9999)}",
        hash=f"{random.getrandbits(64):016x}",
        url=f"https://{random.choice(_WORDS)}.example.com/{name}/{random.randrange(100)}",
        mail=f"{random.choice(_PEOPLE)}@example.com",
        saying=random.choice(_SAYINGS),
        year=random.randrange(2019, 2027),
        month=random.randrange(1, 13),
        day=random.randrange(1, 29),
        others=exact_values(random),
    )


def record(told: Facts) -> str:
    return (
        f"### user\nPlease look at {told.path} for {told.ticket}. {told.saying[0].upper()}{told.saying[1:]}.\n"
        f'### assistant calls read_file\n{{"path":"{told.path}","limit":{told.number}}}\n'
        f"### result of read_file\nrows: {told.number:,}\nduration_ms: {told.milliseconds}\ncommit {told.hash}\n"
        f"see {told.url}, last changed {told.date} by {told.mail}\n"
        f"{told_values(told.others)}\n"
        "### assistant\nThe reader deploys three files, and the tests pass now. I renamed the helper and retried twice."
    )


def honest_lines(told: Facts, random: Random) -> list[str]:
    """What a good model may write: rounded and counted numbers, inflected words, other marks and forms."""
    hundreds = round(told.number, -2)
    lines = [
        f"- Read `{told.path}`, {told.number:,} rows.",
        f"- Reading {told.path.rpartition('/')[2]} took about {round(told.milliseconds, -1)} ms.",
        f"- It took {told.milliseconds / 1000:.1f} seconds to read roughly {hundreds} rows.",
        f"- About {told.number / 1000:.1f}k rows were read for **{told.ticket}**.",
        f"- The user said “{told.saying}”.",
        f"- The user insists: '{told.saying}'",
        f"- {_MONTHS.split()[told.month - 1]} {told.day}, {told.year}: changed by {told.mail} ({told.url}).",
        f"- Commit {told.hash[:8]} of {told.day} {_MONTHS.split()[told.month - 1]} {told.year} was checked.",
        "- Three files are deployed; 2 retries, 12 steps, and all the tests passed.",
        "- The helpers were renaming and retrying; the reader's deployment works.",
    ]
    lines += [f"- It is {truth}, as they said." for truth in truths(told.others, random)]
    return random.sample(lines, random.randrange(5, 12))


def invented(told: Facts, random: Random) -> str:
    """A literal that the record does not hold: made up, or a true one changed."""
    while True:
        made = random.choice((_made_up, _changed, _altered))(told, random)
        if spelled(made) not in spelled(record(told)) and made not in told.hash:
            return made


def spelled(text: str) -> str:
    """A text as it is looked through for inventions."""
    return unicodedata.normalize("NFKC", text).casefold()


def _altered(told: Facts, random: Random) -> str:
    return random.choice(lies(told.others, random))[1]


def _made_up(told: Facts, random: Random) -> str:
    other = facts(random)
    return random.choice(
        (
            *other.values(),
            f"{random.choice(_WORDS)}_{random.choice(_WORDS)}",
            f"{random.randrange(13, 99)}%",
            f"${random.randrange(100, 999)}",
            f"{random.randrange(11, 59)} minutes",
            f"v{random.randrange(3, 9)}.{random.randrange(30)}.{random.randrange(30)}",
            f"10.{random.randrange(256)}.{random.randrange(256)}.7",
            f'"{" ".join(random.sample(_WORDS, 4))}"',
            f"`{random.choice(_WORDS)} --{random.choice(_WORDS)} {random.choice(_WORDS)}`",
            f"{random.choice(_MONTHS.split())} {other.day}, {random.randrange(2030, 2040)}",
        )
    )


def _changed(told: Facts, random: Random) -> str:
    """A true value with one thing about it changed."""
    words = told.saying.split()
    words[random.randrange(len(words))] = random.choice(_WORDS)
    at = random.randrange(len(told.hash))
    return random.choice(
        (
            told.path.replace(".py", random.choice(("s.py", ".rs", "_old.py"))),
            told.path.rpartition("/")[0] + f"/{random.choice(_WORDS)}.py",
            str(_with_another_digit(told.number, random)),
            f"{_with_another_digit(told.milliseconds, random)} ms",
            f"{told.milliseconds} s",
            f"{told.ticket[:4]}{_with_another_digit(int(told.ticket[4:]), random)}",
            told.hash[:at] + ("0" if told.hash[at] != "0" else "1") + told.hash[at + 1 :],
            told.url + f"/{random.choice(_WORDS)}",
            f'"{" ".join(words)}"',
            f"{told.year + 7}-{told.month:02}-{told.day:02}",
        )
    )


def _with_another_digit(number: int, random: Random) -> int:
    digits = list(str(number))
    at = random.randrange(len(digits))
    digits[at] = random.choice([digit for digit in "123456789" if digit != digits[at]])
    return int("".join(digits))


def dressed(literal: str, random: Random) -> str:
    """A line that holds a literal, in one of the ways in which models write."""
    quoted = literal[0] in '"`' or not literal.isascii() or "**" in literal
    wide = str.maketrans("0123456789", "０１２３４５６７８９")
    forms = (
        f"- Then {literal} was read.",
        f"- **{literal}**: fixed",
        f"Fixed ({literal}).",
        f"| done | {literal} |",
        f"- It works now. The cause was {literal}. Three files changed.",
        f"## About {literal}",
        f"- see [{literal}]",
        f"1. {literal}",
        literal,
        *(() if quoted else (f"- “{literal}”", f"- `{literal}` failed", f"- the value is {literal.translate(wide)}.")),
    )
    return random.choice(forms)


def lying_reply(told: Facts, random: Random) -> tuple[str, list[str]]:
    """A summary with one to three literals that the record does not hold, and these."""
    lines = honest_lines(told, random)
    lies = [invented(told, random) for _ in range(random.randrange(1, 4))]
    for lie in lies:
        lines.insert(random.randrange(len(lines) + 1), dressed(lie, random))
    return "## Done\n" + "\n".join(lines), lies
