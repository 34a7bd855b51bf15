"""How people write down what they have read: each way passes with true values, and not with one altered."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from summarizing_context.summarizers.verification import verify
from summarizing_context.summarizers.verification.gate import unsupported_literals
from summarizing_context.summarizers.verification.sources import SourceValues

from .scripted import job

WORDS = [
    "amber",
    "basil",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "haven",
    "islet",
    "jetty",
    "knoll",
    "larch",
    "maple",
    "north",
    "olive",
    "pearl",
    "quill",
]
SEEDS = 40

Told = tuple[str, str, str]  # what the source says, what a reader makes of it, and the same with one value altered


def words(random: Random, number: int) -> list[str]:
    return random.sample(WORDS, number)


def other(random: Random, *known: str) -> str:
    return random.choice([word for word in WORDS if word not in known])


def numbers(random: Random, number: int, least: int = 100, most: int = 900) -> list[int]:
    """Numbers that rise, and stand so far apart that no other is near."""
    return sorted(random.sample(range(least, most, 7), number))


def lines_behind_one_path(random: Random) -> Told:
    name, *_ = words(random, 1)
    at = numbers(random, 3)
    said = "\n".join(f"cmd/{name}.go:{line}:\tcheck(it)" for line in at)
    gap = random.choice((", ", ","))
    mark = random.choice(("", "`"))
    return said, *(f"{mark}{name}.go:{at[0]}{gap}{last}{gap}{at[2]}{mark}" for last in (at[1], at[1] + 3))


def lines_in_a_list(random: Random) -> Told:
    at = numbers(random, 3)
    return "\n".join(f"  {line}: x = 1" for line in at), *(
        f"lines {at[0]},{at[1]},{last}" for last in (at[2], at[2] + 3)
    )


def lines_that_sed_prints(random: Random) -> Told:
    first, last = numbers(random, 2)
    return f'{{"cmd":"sed -n \'{first},{last}p\' a.md"}}', f"lines {first}-{last}", f"lines {first}-{last + 3}"


def slashes_for_or(random: Random) -> Told:
    one, two, three = words(random, 3)
    return f"first {one}, then the {two} and some {three}.", f"{one}/{two}/{three}", f"{one}/{two}/{three}_all"


def methods_joined_by_slashes(random: Random) -> Told:
    one, two, three = words(random, 3)
    told = f"os.{one.title()}File(x), {two.title()}File and {three.title()}Dir("
    joined = f"`os.{one.title()}File/{two.title()}File/{three.title()}Dir`"
    return told, joined, joined.replace(f"/{three.title()}", f"/{other(random, one, two, three).title()}")


def bars_for_or(random: Random) -> Told:
    one, two = words(random, 2)
    return f'type {one.title()} = "{one}" | "{two}"', f"`{one} | {two}`", f"`{one} | {other(random, one, two)}`"


def a_placeholder_in_a_command(random: Random) -> Told:
    tool, name, option = words(random, 3)
    hole = random.choice(("<id>", "<package name>", "{name}", "${NAME}"))
    told = f'{{"cmd":"{tool} show {name} --{option} --json"}}'
    return told, f"`{tool} show {hole} --{option}`", f"`{tool} show {hole} --{other(random, option)}`"


def a_placeholder_in_a_path(random: Random) -> Told:
    one, two, name = words(random, 3)
    path = f"`{one}/{two}/<{name}>/full.jsonl`"
    return f"{one}/{two}/3f9ab2/full.jsonl", path, path.replace(f"{two}/", f"{other(random, one, two)}/")


def a_signature(random: Random) -> Told:
    name, one, two = words(random, 3)
    limit = random.randrange(3, 90)
    told = f"def {name}_all({one}: str, {two}: int = {limit}, *, quiet: bool = False) -> None:"
    return told, *(f"`{name}_all({one}, {two}={value}, quiet=False)`" for value in (limit, limit + 100))


def a_rounded_number(random: Random) -> Told:
    tenths = random.randrange(11, 99)
    nanoseconds = 100 * tenths + random.randrange(-40, 40)
    mark = random.choice(("~", "about ", "≈ ", ""))
    unit = random.choice(("µs", "us", "μs"))
    return f"BenchmarkRun {nanoseconds} ns/op", *(f"{mark}{value / 10} {unit}" for value in (tenths, tenths + 2))


def a_unit_with_a_prefix(random: Random) -> Told:
    kilobytes = random.randrange(11, 900)
    return f"{1024 * kilobytes} B/op", *(f"{mark}{size} KiB" for mark, size in (("", kilobytes), ("~", kilobytes + 31)))


def an_escape(random: Random) -> Told:
    red, green = numbers(random, 2)
    said = random.choice(("\x1b", "\\x1b", "\\u001b", "\\033")) + f"[38;2;{red};{green}m"
    escape = random.choice(("\\x1b", "\\\\x1b", "\\u001b", "\\033", "ESC"))
    return f'{{"text":"{said}dim"}}', *(f"`{escape}[38;2;{red};{last}m`" for last in (green, green + 3))


def a_glob(random: Random) -> Told:
    one, two, name = words(random, 3)
    pattern = random.choice(("*.c", "**/*.c", "**", "{x,y}.c"))
    told = f"{one}/{two}/{name}.c and {one}/{two}/x.c {one}/{two}/y.c"
    return told, f"`{one}/{two}/{pattern}`", f"`{one}/{other(random, one, two, name)}/{pattern}`"


def a_glob_of_names(random: Random) -> Told:
    one, two, three = words(random, 3)
    told = f"func {one}All{two.title()}In{three.title()}() and {one}All{two.title()}Of()"
    return told, f"`{one}All{two.title()}*`", f"`{one}All{other(random, two).title()}*`"


def a_series_of_versions(random: Random) -> Told:
    major, minor = random.randrange(2, 9), random.randrange(10, 90)
    told = f"released v{major}.{minor}.{random.randrange(9)} today"
    mark = random.choice(("", "v"))
    return told, f"{mark}{major}.{minor}.x", f"{mark}{major}.{minor + 1}.x"


def a_pattern(random: Random) -> Told:
    one, two = numbers(random, 2)
    return f'{{"cmd":"rg next|4\\\\.{one}|4\\\\.{two}"}}', f"4.{one} and 4.{two}", f"4.{one} and 4.{two + 3}"


def amounts_joined_by_slashes(random: Random) -> Told:
    one, two, three = numbers(random, 3)
    told = f'{{"prices": {{"basic": {one}, "economy": {two}, "business": {three}}}}}'
    return told, f"{one}/{two}/{three}", f"{one}/{two}/{three + 3}"


def a_heading(random: Random) -> Told:
    one, two = words(random, 2)
    return f"## The {one} {two}\ntext", f"`## The {one} {two}`", f"`## The {one} {other(random, one, two)}`"


def a_path_below_the_working_directory(random: Random) -> Told:
    user, project, folder, name = words(random, 4)
    told = f"cd /home/{user}/{project} && cat {folder}/{name}.py"
    path = f"`/home/{user}/{project}/{folder}/{name}.py`"
    return told, path, path.replace(f"/{folder}/", f"/{other(random, user, project, folder, name)}/")


def files_below_a_folder(random: Random) -> Told:
    one, two, name = words(random, 3)
    told = f"{one}/{two}:\n  {name}.py\n  main.py"
    return told, f"{one}/{two}/{name}.py", f"{one}/{name}/{two}.py"


def a_path_that_git_shortens(random: Random) -> Told:
    one, two, three, name = words(random, 4)
    told = f" {one}/main.c | 2 +-\n .../{two}/{three}/{name}.c | 4 +-"
    return told, f"`{one}/{two}/{three}/{name}.c`", f"`{one}/{three}/{two}/{name}.c`"


def an_option_as_it_is_declared(random: Random) -> Told:
    one, two = words(random, 2)
    return f'flags.BoolVar(&x, "{one}", false, "the {two} of it")', f"`--{one}`", f"`--{two}`"


def a_range(random: Random) -> Told:
    first, last = numbers(random, 2)
    told = f"{first}: begin\n{last}: end"
    mark = random.choice(("-", "–", " to "))
    return told, f"lines {first}{mark}{last}", f"lines {first}{mark}{last + 3}"


WAYS: list[Callable[[Random], Told]] = [
    lines_behind_one_path,
    lines_in_a_list,
    lines_that_sed_prints,
    slashes_for_or,
    methods_joined_by_slashes,
    bars_for_or,
    a_placeholder_in_a_command,
    a_placeholder_in_a_path,
    a_signature,
    a_rounded_number,
    a_unit_with_a_prefix,
    an_escape,
    a_glob,
    a_glob_of_names,
    a_series_of_versions,
    a_pattern,
    amounts_joined_by_slashes,
    a_heading,
    a_path_below_the_working_directory,
    files_below_a_folder,
    a_path_that_git_shortens,
    an_option_as_it_is_declared,
    a_range,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_way_of_writing_passes_with_true_values_alone(way: Callable[[Random], Told]):
    refused, through = [], []
    for seed in range(SEEDS):
        said, honest, lie = way(Random(seed))
        held = SourceValues(f"### user\nPlease look.\n### result of run\n{said}\n")
        refused += [honest] if unsupported_literals(f"- It was {honest}, then.", held) else []
        through += [] if unsupported_literals(f"- It was {lie}, then.", held) else [lie]
    assert (refused, through) == ([], [])


@pytest.mark.parametrize(
    "lie",
    [
        *("`git push --force origin`", "src/render/tests", "`src/render.c | src/main.c`", "{copper_violet}"),
        *("tests/render/src/io.c", "`retry(times=5000)`", "src/io.rs", "`<48213>`", "logs:12, 55"),
    ],
)
def test_parts_that_stand_elsewhere_make_no_path_and_no_command(lie: str):
    held = SourceValues(
        "### user\nRead src/render/io.c and tests/render.py, then git commit; retry(times=3) src/main.c"
    )
    assert unsupported_literals(f"- It was {lie}, then.", held) != []


REAL = json.loads((Path(__file__).parent / "real_replies.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", REAL["honest"], ids=lambda case: case["line"][:40])
def test_a_line_of_a_real_reply_passes_where_its_values_stand_in_the_source(case: dict[str, Any]):
    assert unsupported_literals(case["line"], SourceValues(case["source"])) == []


@pytest.mark.parametrize("case", REAL["carried"], ids=lambda case: case["values"][0])
def test_a_value_of_another_part_of_the_session_is_not_shown(case: dict[str, Any]):
    """The replies are those of a model that had read the neighbouring parts of the log too."""
    reply = f"## Done\n- Read it, and edited nothing so far.\n## Facts\n{case['line']}\n"
    left = verify(reply, job(content=case["source"]))
    assert [value for value in case["values"] if value in left.text] == []
    assert left.dropped_lines > 0
    assert left.unsupported
    assert "edited nothing" in left.text
