"""The extractive summarizer: the default, without a key and without a network. Pure and deterministic.

The blocks of a segment are read in one pass, then each section takes its lines. The quick summary, for hundreds of
segments that must be shown at once, weighs no facts. Sentences are quoted verbatim; calls and their outcomes are short
lines with exact paths, commands and files. What a line is worth was learnt, in whole numbers, from notes that a
language model wrote of real sessions.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import accumulate
from typing import NamedTuple

from summarizing_context.concurrency import WorkerThread, YieldNow, never_yield
from summarizing_context.extraction import facts
from summarizing_context.extraction.rules import cue_rules, rule_strength
from summarizing_context.messages.text import (
    GONE,
    Words,
    bare,
    cleaned,
    clip,
    shown,
    split_lines,
    split_prose,
    stems,
    words_of,
)
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.summarizers.base import CallStatistics, SummaryJob, SummaryReply

# -- the sections of a summary

INTENT, CONSTRAINTS, DONE, DECISIONS, ERRORS, STATE, FACTS = range(7)
NAMES = (
    *("Intent", "Constraints and corrections", "Done", "Decisions", "Errors and fixes", "State and next step"),
    "Facts",
)
PRIORITY = (CONSTRAINTS, STATE, INTENT, DECISIONS, ERRORS, DONE, FACTS)  # what is kept longest comes first
SHARES = (14, 30, 18, 14, 14, 6, 34)  # percents of a summary
STRICT_RANK = 6  # of constraints: from here on they are no mere preferences
GUIDE_RANK = 100  # of facts: rules that a guide states
_SILENT = "({} characters without words)"  # a content in which no line can be shown


class Line(NamedTuple):
    text: str  # on one line, without the bullet
    rank: int = 0  # the higher, the longer it is kept; equal ranks: the later


Sections = list[list[Line]]  # one list for each name, each in the order in which it is shown


def read_sections(summary: str) -> Sections:
    """Return the bullets of a summary text. Text outside the fixed sections counts as facts, a line each."""
    sections: Sections = [[] for _ in NAMES]
    section = FACTS
    for line in map(shown, summary.split("\n")):
        if line.startswith("## "):
            section = NAMES.index(line[3:]) if line[3:] in NAMES else section
        elif len(line) > 2:
            sections[section].append(Line(line.removeprefix("- ")))
    return sections


def fit(sections: Sections, max_tokens: int) -> str:
    """Write the summary of the lines that fit. Never empty.

    Strict constraints and rules of guides go first, then each section has its share; what is left over goes to all.
    Where no line fits, the most important one is cut at a word's end, to the mark of a cut alone if no word fits.
    """
    ranked = [sorted(enumerate(lines), key=lambda it: (-it[1].rank, -it[0])) for lines in sections]
    taken: dict[tuple[int, int], None] = {}  # section and number of each line, in the order of choice
    used = dict.fromkeys(range(len(NAMES)), 0)  # tokens by section
    cost_of = cache(estimate_text)
    rounds = [(CONSTRAINTS, 70, STRICT_RANK), (FACTS, 20, GUIDE_RANK)]  # a section, percents of the room, a least rank
    rounds += [(section, SHARES[section], 0) for section in PRIORITY] + [(section, 100, 0) for section in PRIORITY]
    for section, percent, lowest in rounds:
        missed = 0
        for at, line in ranked[section]:
            if line.rank < lowest or missed > 2:  # three too long ones end it
                break
            cost = cost_of(f"- {line.text}\n") + (0 if used[section] else cost_of(f"## {NAMES[section]}\n"))
            if (section, at) in taken:
                continue
            if cost <= min(max_tokens * percent // 100 - used[section], max_tokens - sum(used.values())):
                taken[section, at] = None
                used[section] += cost
            else:
                missed += 1
    while taken:
        parts = {section: f"## {NAMES[section]}" for section, _ in sorted(taken)}
        for section, at in sorted(taken):
            parts[section] += f"\n- {sections[section][at].text}"
        if estimate_text(text := "\n".join(parts.values())) <= max_tokens:
            return text
        taken.popitem()
    section = next((section for section in PRIORITY if sections[section]), FACTS)
    first = max(sections[section], key=lambda line: line.rank, default=Line(GONE)).text
    if estimate_text(text := f"## {NAMES[section]}\n- {first}") <= max_tokens:
        return text
    text = shown(first)
    while (tokens := estimate_text(text)) > max_tokens and text != GONE:
        text = clip(text.removesuffix(f" {GONE}"), min(len(text) - 1, max(len(text) * max_tokens // tokens, 1)))
    return text


_LABEL = re.compile(
    r"(?:(?P<outcome>failed |late )?result of (?P<tool>.+?)"
    r"|(?P<role>user|assistant|system|developer|tool|function)"
    r"(?: (?:(?P<what>note|thinks|media)(?: \S+)?|calls (?P<called>.+?)))?)(?: \(\d+ times\))?\Z"
)
_SUMMARY_LABEL = re.compile(r"(?:\A|(?<=\n))### summary \d+ of \d+(?:\n|\Z)")


class Block(NamedTuple):
    kind: str  # user, assistant, thinks, call, result, failed, note, system, media or other
    body: str
    tool: str = ""


def split_blocks(content: str) -> list[Block]:
    """Return the blocks of a segment's content, in order; text before the first label is a block of kind `other`."""
    first, *pieces = f"\n{content}".split("\n### ")
    blocks = [Block("other", first)] if first.strip() else []
    for piece in pieces:
        label, _, body = piece.partition("\n")
        if (found := _LABEL.match(label)) is None:
            blocks.append(Block("other", piece))
        elif found["tool"]:
            blocks.append(Block("failed" if found["outcome"] == "failed " else "result", body, found["tool"]))
        elif found["called"]:
            blocks.append(Block("call", body, found["called"]))
        else:
            blocks.append(Block(found["what"] or found["role"], body))
    return blocks


def is_rendered(text: str) -> bool:
    """Say whether this is a segment's own content, standing for itself because it is short."""
    first = text.lstrip().partition("\n")[0]
    return first.startswith("### ") and _LABEL.match(first[4:]) is not None


def escape_labels(text: str) -> str:
    """Return a model's text in which no line can be taken for the label of a block."""

    def escaped(found: re.Match[str]) -> str:
        is_label = _LABEL.match(found[1]) or _SUMMARY_LABEL.match(found[0].lstrip())
        return f"\\{found[0].lstrip()}" if is_label else found[0]

    return re.sub(r"^[ \t]*### (.*)$", escaped, text, flags=re.MULTILINE)


# -- lines that may be kept

PROSE = frozenset(("user", "assistant", "thinks"))
STOP_WORDS = frozenset(facts.WORDS["stop_words"].encode().split())


class Candidate(NamedTuple):
    """One line or sentence that may be kept."""

    text: str
    words: Words
    kind: str  # of its block; `told` in a merge
    values: int  # how many digits and marks of paths, names and percentages it has
    block: int = 0  # number of the block it stands in
    source: str = ""  # the file it was read from


def find_in_lines(body: str, kind: str, block: int = 0, source: str = "") -> list[Candidate]:
    """Return the lines that say enough to be kept."""
    read = ((line, words_of(line), re.findall(r"[0-9/=@$%_`]", line)) for line in split_lines(body))
    return [Candidate(line, words, kind, len(marks), block, source) for line, words, marks in read if len(words) > 2]


class Vocabulary:
    """What the work is about, by the words that people and the agent say; and the words that say nothing: stop words,
    and those of lines that look alike, such as the name of a step before each line of a log."""

    def __init__(self, found: Sequence[Candidate]) -> None:
        others = [one for one in found if one.kind not in PROSE]
        read = Counter(word for one in others for word in set(one.words))
        often = max(len(others) // 8, 8)  # more than one of eight lines says nothing
        self.empty = STOP_WORDS.union(word for word, times in read.items() if times > often)
        self.said = {word for one in found if one.kind in PROSE for word in one.words} - STOP_WORDS
        self.asked = {word for one in found if one.kind == "user" for word in one.words} - STOP_WORDS


# Thousandths by bucket: of its words, of its values, of the share of its words that were said, and that were asked.
_OF_PROSE = ((-53, 21, 42, 35, 18, -19), (-98, 1, -5, 43, 102), (-49, 33, 5, 5, 49), (28, 8, 7, 16, -16))
_OF_LINES = ((4, 63, 64, 87, -17, 3), (14, 50, 18, 34, 88), (-35, 3, 49, 69, 117), (50, 21, 65, 40, 28))
_OF_KIND = {"assistant": 273, "thinks": 261, "other": 11, "arguments": 53, "code": 54, "failed": 60}


def worth(one: Candidate, vocabulary: Vocabulary, so_far: int = 0) -> int:
    """Return how likely careful notes repeat a line; at most 0 for what they leave out.

    A sentence counts twice as much as a line of a result or of arguments: what they repeat can be read again.
    """
    is_prose = one.kind in PROSE
    content = set(one.words) - (STOP_WORDS if is_prose else vocabulary.empty)
    if one.values and not is_prose:
        content = {word for word in content if word > b":"}  # numbers are counted as values
    size = len(content) or 1
    length, values, said, asked = _OF_PROSE if is_prose else _OF_LINES
    score = so_far + _OF_KIND.get(one.kind, 26) - 40 * (is_prose and one.text.endswith((":", "?")))
    score += length[bisect((4, 7, 11, 17, 27), len(one.words if is_prose else content))]
    score += values[bisect((1, 2, 4, 8), one.values)]
    score += said[bisect((1, 5, 9, 13), 16 * len(vocabulary.said & content) // size)]
    score += asked[bisect((1, 5, 9, 13), 16 * len(vocabulary.asked & content) // size)]
    return score if not is_prose else 2 * score if score >= 150 else 0


_BLOB = re.compile(r"\A.*\d%\|.*|[A-Za-z0-9+/=]{32,}|\b[0-9a-f]{7,}\b|\b[^\W\d]{0,40}\d\w*")
_THOUGHT = re.compile(
    r"(?i)(?:(?:ok|okay|now|so|next|first|good|great|perfect|hmm+|wait|right|actually|also|then|but|and|well|sure)\b"
    r"[,.!: ]*){0,3}(?:let me|let'?s|let us|i think|i'll|i will|i need|i should|i can|i could|i want|i see|i guess|"
    r"i wonder|i'm (?:going|not sure)|maybe|perhaps|looking at|we (?:need|should|could)|feel free|"
    r"if you (?:have|need|want)|here(?:'s| is| are)\b|by following)\b"
)


def says_something(one: Candidate) -> bool:
    """Return whether a line can be a fact: no run of numbers, no bar, hashes or encoded bytes, no thought of the agent,
    no setting of a client's."""
    if '"type":"configuration_update"' in one.text:
        return False
    if one.kind in PROSE:
        return _THOUGHT.match(bare(one.text).lstrip("*_ ").replace("’", "'")) is None
    return 3 * sum(map(str.isalpha, _BLOB.sub("", one.text))) > len(one.text.replace(" ", ""))


def choose_lines(
    found: Sequence[Candidate], scores: Sequence[int], vocabulary: Vocabulary, *, others: int = 16
) -> list[tuple[Candidate, Line]]:
    """Return the lines of the highest scores, unlike each other, in their order; ranked by the order of choice.

    Of those that compete at most `others` are no prose. Results that repeat are counted. A line of a file is shown with
    the file and its number in it.
    """
    most, pool = 60, 120

    # Lines of results once each; of five and more that differ in digits alone the newest, with a count. Those without
    # two words of letters are alike only if equal.
    repeating = {at: one.text for at, one in enumerate(found) if one.kind in ("result", "failed") and not one.source}
    alike: dict[str, list[int]] = {}
    for at, text in repeating.items():
        has_words = len(re.findall(r"[^\W\d_]{2,}", text)) > 1
        alike.setdefault(re.sub(r"\d\d*(?:[.,]\d+)*", "0", text) if has_words else text, []).append(at)
    counted: dict[int, str] = {}
    for places in alike.values():
        last = {repeating[at]: at for at in places}  # of each text
        if len(places) >= 5:
            last = {f"{repeating[places[-1]]} ({len(places)} times)": places[-1]}
        counted |= {at: text for text, at in last.items()}
    prose = [at for at, one in enumerate(found) if one.kind in PROSE]
    prose = [prose[at] for at in newest_of_each_pattern([found[at].text for at in prose])]
    lines = [at for at, one in enumerate(found) if one.kind not in PROSE and (at in counted or at not in repeating)]
    ranked, few = (sorted((-scores[at], -at) for at in part if scores[at] > 0) for part in (prose, lines))
    best = [-at for _, at in sorted([*ranked, *few[:others]])[:pool]]

    # Take the best again and again; its words make other lines that hold them worth less.
    words = {at: set(found[at].words) - vocabulary.empty for at in best}
    left = [at for at in best if words[at]]
    overlap = dict.fromkeys(left, 0)  # the largest share of a line's words in one that is chosen, in 64ths
    chosen: list[int] = []
    while left and len(chosen) < most:
        taken = max(left, key=lambda at: scores[at] * (80 - overlap[at]))
        chosen.append(taken)
        for at in left:
            overlap[at] = max(overlap[at], len(words[at] & words[taken]) * 64 // len(words[at]))
        left = [at for at in left if at != taken and overlap[at] <= 56]

    kept: list[tuple[Candidate, Line]] = []
    for at in sorted(chosen):
        text, where = counted.get(at, found[at].text), found[at].source
        if where and (numbered := re.match(r"\s{0,8}(\d{1,6})(?:→|\t|[:|-](?!\d)) ?", text)):
            text, where = text[numbered.end() :], f"{where}:{numbered[1]}"
        said = f"{where}: {shown(bare(text))}" if where else shown(bare(text))
        kept.append((found[at], Line(said, most - chosen.index(at))))
    return kept


def newest_of_each_pattern(texts: Sequence[str]) -> list[int]:
    """Return the places of the texts without those of which two newer ones differ in numbers, paths and names of code
    alone."""
    seen: Counter[str] = Counter()
    kept: list[int] = []
    exact = re.compile(r"[\d_/`]|\w\.\w|[a-z][A-Z]")  # in a number, a path or a name of code
    for at in reversed(range(len(texts))):
        pattern = " ".join("" if exact.search(word) else word for word in texts[at].split())
        seen[pattern] += 1
        kept += [at] if seen[pattern] <= 2 else []
    return kept[::-1]


def key_lines(text: str, max_tokens: int) -> list[str]:
    """Return the lines of `text` that matter most, each on one line, within `max_tokens` together: errors, then
    values."""
    body = cleaned(text)
    errors, found = facts.error_lines(body, 6), find_in_lines(body, "result")
    vocabulary = Vocabulary(found)
    chosen = [line for _, line in choose_lines(found, [worth(one, vocabulary) for one in found], vocabulary)]
    joined, left = "", max_tokens
    taken: set[str] = set()
    for line in dict.fromkeys((*errors, *(fact.text for fact in sorted(chosen, key=lambda fact: -fact.rank)))):
        longer = f"{joined}- {line}\n"  # together they may be more than each by itself
        if estimate_text(f"- {line}\n") <= left and estimate_text(longer) <= max_tokens:
            taken.add(line)
            joined, left = longer, max_tokens - estimate_text(longer)
    return [line for line in dict.fromkeys((*errors, *(fact.text for fact in chosen))) if line in taken]


def lines_about(content: str, topic: str, max_tokens: int) -> str:
    """Return the lines of a content that share words with a topic as bullets, in their order, at most `max_tokens`;
    empty where none does."""
    words = (one.replace(" ", "") for one in stems(topic))
    parts = (rf"(?<![^\W_]){re.escape(word)}" if word.isascii() else re.escape(word) for word in words)
    pattern, label = re.compile("|".join(sorted(parts, key=len, reverse=True)) or "(?!)"), "record"
    found: list[tuple[frozenset[str], str]] = []  # what each line shares with the topic
    for raw in content.split("\n"):
        if raw.startswith("### "):
            label = raw[4:]
            continue
        found += [(frozenset(pattern.findall(text.lower())), f"{label}: {text}") for text in split_lines(raw)]

    # the rarer what a line shares, the sooner it is taken, and the newer among equals; as far as they fit
    often = Counter(stem for shared, _ in found for stem in shared)
    scores = [sum((len(found) // often[stem]).bit_length() for stem in shared) for shared, _ in found]
    chosen: dict[str, int] = {}
    for at in sorted((at for at, score in enumerate(scores) if score), key=lambda at: (-scores[at], -at)):
        line = f"- {shown(cleaned(found[at][1]))}"
        cost = estimate_text(line) + 1
        if cost <= max_tokens and line not in chosen:
            chosen[line] = at
            max_tokens -= cost
    return "\n".join(sorted(chosen, key=chosen.__getitem__))


# What a sentence says.

_WISH_RANK = 2  # of rules: what only begins like one
_ENDS = 8  # sentences of a long message that are read for rules, at its beginning and at its end
_GUIDE = re.compile(r"(?i)(?:\.(?:md|mdc|rst|adoc|txt)|(?:^|/)\.?[a-z]*rules)\Z")


def rules_said(text: str, sentences: Sequence[str], *, wishes: bool) -> list[Line]:
    """Return the rules in what a human typed, quoted, those that bind before others; with `wishes` also those of its
    `sentences` that only begin like one."""
    lines = {f'"{rule.quote}"': STRICT_RANK if rule.strength == "must" else 4 for rule in cue_rules([text])}
    for one in map(shown, sentences if len(sentences) <= 2 * _ENDS else [*sentences[:_ENDS], *sentences[-_ENDS:]]):
        rank = _rule_rank(one)
        if rank > (0 if wishes else _WISH_RANK) and not any(one in quote or quote[1:-1] in one for quote in lines):
            lines[f'"{one}"'] = rank
    return [Line(quote, rank) for quote, rank in lines.items()]


def rules_of_guide(path: str, text: str) -> list[str]:
    """Return the first rules that a project's guide, skill or document states outright; none of any other file."""
    if not _GUIDE.search(path):
        return []
    prose = split_prose(re.sub(r"(?m)^[ ]{0,8}\d{1,6}(?:→|\t)", "", cleaned(text[:40_000])))[0]
    return [one for one in map(shown, prose) if _rule_rank(one) >= STRICT_RANK][:12]


def is_of_guide(fact: str) -> bool:
    """Return whether a fact is a rule of a guide, after the name of its file."""
    name, colon, said = fact.partition(": ")
    return bool(colon) and _GUIDE.search(name) is not None and _rule_rank(said) >= STRICT_RANK


def without_rules(summary: str) -> str:
    """Return a summary text without those of its constraints that the session's own rules hold."""
    parts = re.split(r"^(?=## )", summary, flags=re.MULTILINE)
    for at, part in enumerate(parts):
        heading, *bullets = part.rstrip("\n").split("\n")
        if heading == f"## {NAMES[CONSTRAINTS]}":
            kept = [bullet for bullet in bullets if not cue_rules([bullet.removeprefix("- ").strip('"')])]
            parts[at] = "\n".join([heading, *kept, ""]) if kept else ""
    return "".join(parts).strip("\n")


def _rule_rank(said: str) -> int:
    """Return how strong a rule a sentence is: `STRICT_RANK` for one that binds, `_WISH_RANK` for one that only begins
    like a rule, 0 for none."""
    is_open = any(mark in said for mark in "?？؟{=") or said.endswith((":", "(", ","))
    if is_open or not 5 < len(said) <= 300 or said.startswith(facts.MARKUP) or re.match(r"\d+:", said):
        return 0
    if rule_strength(said) == "must":
        return STRICT_RANK
    lists, text = facts.statements(), facts.plain_words(said)
    while lead := lists["leads"].match(text):
        text = text[lead.end() :].lstrip()
    begins = lists["binds_first"].match(text)
    rank = STRICT_RANK if lists["binds_anywhere"].search(text) else _WISH_RANK if begins else 0
    if rank and (lists["no_rule_anywhere"].search(text) or (lists["no_rule_first"].match(text) and not begins)):
        return 0
    return rank


# -- summaries


def summarize_extractively(
    content: str,
    *,
    kind: str = "segment",  # or "rollup"
    max_tokens: int,
    yield_now: YieldNow = never_yield,
) -> str:
    """Return the summary of a job's content in the fixed sections, at most `max_tokens` (at least 1).

    All of `content` is read; `yield_now` is called all along. The result is empty only where `content` is.
    """
    if not content:
        return ""
    if kind == "rollup":
        return fit(_read_summaries(content, max_tokens, yield_now), max_tokens)
    return fit(_read_segment(content, yield_now), max_tokens)


def skim(content: str, max_tokens: int) -> str:
    """Return a small summary without facts and decisions, for many segments at once."""
    return fit(_read_segment(content, is_quick=True), max_tokens) if content else ""


def brief_of(text: str, max_tokens: int = 60) -> str:
    """Return one to three lines with the most important of a summary, or of a short segment that is its own summary.

    A line for each of the most important sections that fit, at most `max_tokens`.
    """
    if not text:
        return ""
    found = read_sections(skim(text, 4 * max_tokens) if is_rendered(text) else text)
    return re.sub(r"(?m)^## (.*)\n- ", r"\1: ", fit(found, max_tokens)).replace("\n- ", " · ")


def cut_to(summary: str, max_tokens: int) -> str:
    """Return a summary without the last lines of those sections that take most for their share; a brief where none is
    left."""
    by_heading = {f"## {name}": share for name, share in zip(NAMES, SHARES, strict=True)}
    kept = [part.rstrip("\n").split("\n") for part in re.split(r"^(?=## )", summary, flags=re.MULTILINE)]
    shares = [by_heading.get(part[0], min(SHARES)) for part in kept]
    cost_of = cache(lambda line: estimate_text(f"{line}\n"))
    while any(len(part) > 1 for part in kept):
        text = "\n\n".join("\n".join(part) for part in kept if len(part) > 1)
        if estimate_text(text) <= max_tokens:
            return text
        costs = [sum(map(cost_of, part[1:])) for part in kept]
        kept[max(range(len(kept)), key=lambda at: costs[at] / shares[at])].pop()
    return brief_of(summary, max_tokens=max_tokens)


def _read_segment(content: str, yield_now: YieldNow = never_yield, *, is_quick: bool = False) -> Sections:
    """Return all lines that a segment's summary may hold, ranked within their sections."""
    blocks = split_blocks(content)
    steps = read_steps(blocks)
    sections: Sections = [[] for _ in NAMES]

    # what people say: rules, in a chat wishes too; of all else the beginnings of messages rank before what follows
    # them, and the first and the newest message before the others
    typed = [(block.body, split_prose(cleaned(block.body))[0]) for block in blocks if block.kind == "user"]
    rules = [rule for body, sentences in typed for rule in rules_said(body, sentences, wishes=not steps)]
    known = {rule.text for rule in rules}
    asked: list[Line] = []
    for number, (_, sentences) in enumerate(typed):
        early = 2 if number in (0, len(typed) - 1) else 0
        quotes = [f'"{shown(text)}"' for text in sentences if len(words_of(text)) > 1]
        for late, quote in enumerate([quote for quote in quotes if quote not in known][:8]):
            asked.append(Line(quote, number + (8 - max(late - early, 0)) * len(typed)))
    asked = _last_of_each(asked)
    sections[INTENT] = [asked[at] for at in newest_of_each_pattern([line.text for line in asked])]
    sections[CONSTRAINTS] = _last_of_each(rules)

    # the sentences and lines of all blocks that say something, in order
    called, answers = {step.at: step for step in steps}, {step.answered: step for step in steps}
    erring, found = [step for step in steps if step.error][-16:], list[Candidate]()
    for at, block in enumerate(blocks):
        yield_now(len(block.body))
        if block.kind in ("result", "failed"):
            answer = answers.get(at)
            source = answer.file if answer and answer.looks else ""
            guide = (answer.path or answer.command).rpartition(" ")[2] if answer and answer.looks else ""
            stated = rules_of_guide(guide, block.body)
            sections[FACTS] += [Line(f"{guide.rpartition('/')[2]}: {text}", GUIDE_RANK) for text in stated]
            found += [] if is_quick else find_in_lines(cleaned(block.body), block.kind, at, source)
        elif block.kind == "call" and not is_quick:  # without path and command, which the section of actions shows
            step = called[at]
            items = [(key, value) for key, value in step.items if value not in (step.path, step.command)]
            said = "\n".join(value if len(value) > 60 else f"{key}={value}" for key, value in items)
            found += find_in_lines(said if step.items else step.body, "arguments", at)
        elif not is_quick:
            prose, code = split_prose(cleaned(block.body))
            found += find_in_lines("\n".join(prose), block.kind if block.kind in PROSE else "other", at)
            found += [one for part in code for one in find_in_lines(part, "code", at)]
    for at in reversed(range(len(blocks) if is_quick else 0)):  # what the agent said last, and soon after an error
        is_soon = any(step.answered < at <= step.answered + 12 for step in erring)
        if (kind := blocks[at].kind) in ("assistant", "thinks") and (is_soon or not found):
            found[:0] = find_in_lines("\n".join(split_prose(cleaned(blocks[at].body))[0]), kind, at)
    spoken = [one for one in found if one.kind in ("assistant", "thinks")]
    vocabulary = Vocabulary(found)
    yield_now(len(content))
    sections[DONE] = find_actions(steps)

    # each error once, with its fix if the agent reports one, or the note that the same call passed later
    tries = {step.at: (step.tool, facts.tried_by(step.command), step.path) for step in steps}
    passed = {tries[step.at]: step.at for step in steps if step.answered >= 0 and not step.error}
    errors: dict[str, Line] = {}
    for step in erring:
        # the fix: the first sentence soon after that reports one; one that shares a word with the error wins
        soon = [one for one in spoken if step.answered < one.block <= step.answered + 12][:60]
        fixes = [one for one in soon if facts.is_informative(one.text) and facts.says("fix", one.text)]
        related = [one for one in fixes if not set(words_of(step.error)).isdisjoint(one.words)]
        later = passed.get(tries[step.at], -1) > step.at
        fix = f" → {clip(shown((related or fixes)[0].text), 160)}" if fixes else " → passed later" if later else ""
        errors.pop(step.error, None)
        rank = (3 if step.looks else 6) + (0 if later else 3)
        errors[step.error] = Line(f"{step.render(70)}: {step.error}{fix}", rank)
    sections[ERRORS] = list(errors.values())

    # the state: the open tasks of the newest list, the newest message's best and last words, a call without result
    keys = ("todos", "plan", "tasks", "items", "steps")
    plans = (facts.plan_in_call(step.body, keys, ()) for step in reversed(steps) if '"status"' in step.body)
    tasks = [task for task in next(filter(None, plans), ()) if task.is_open]
    doing = [Line(f"in progress: {clip(shown(task.text), 120)}", 12) for task in tasks if task.mark == "[>]"]
    waiting = "; ".join(clip(shown(task.text), 120) for task in tasks if task.mark != "[>]")
    newest = [one for one in spoken if one.block == spoken[-1].block]
    best = sorted(newest[:-1], key=lambda one: worth(one, vocabulary))[-2:] if not is_quick else []
    state = [shown(one.text) for one in newest if one in best or one is newest[-1]]
    sections[STATE] = [*doing[:3], *([Line(clip(f"to do: {waiting}", 300), 11)] if waiting else [])]
    sections[STATE] += [Line(text, 7 + place) for place, text in enumerate(state)]
    if steps and steps[-1].answered < 0:
        sections[STATE].append(Line(f"called, no result yet: {steps[-1].render()}", 9))

    # the facts and choices that are worth it, without what is said already
    known = {line.text for section in sections for line in section}
    found = [one for one in found if not is_quick and one.kind != "user" and (says_something(one) or _is_choice(one))]
    yield_now(len(content))
    for one, line in choose_lines(found, [worth(one, vocabulary) for one in found], vocabulary):
        if line.text not in known:
            sections[DECISIONS if _is_choice(one) else FACTS].append(line)
    if not any(sections):  # the first words of the newest block that has some
        bodies = (clip(shown(cleaned(block.body[:2000])), 200) for block in reversed(blocks))
        words = next((words for words in bodies if len(words) > 1), "")
        sections[FACTS] = [Line(words or _SILENT.format(len(content)))]
    return sections


def _is_choice(one: Candidate) -> bool:
    return one.kind in ("assistant", "thinks") and ("because" in one.text or facts.says("decision", one.text))


def _last_of_each(bullets: Sequence[Line]) -> list[Line]:
    """Return lines of the same text once, where the last one stands."""
    return list({line.text: line for line in reversed(bullets)}.values())[::-1]


def _read_summaries(content: str, max_tokens: int, yield_now: YieldNow) -> Sections:
    """Return all lines that a merge of neighbouring summaries may hold, section by section, oldest first.

    Constraints stay before everything else; of the states the latest wins; what repeats is said once. A segment so
    short that its own text stands for it is summarized first.
    """
    # the texts under the `### summary i of n` lines, as they were before they were put there; all, if there is none
    texts = [piece.rstrip("\n") for piece in _SUMMARY_LABEL.split(content) if piece.strip()]
    texts = [re.sub(r"(^|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])\\(\\*### )", r"\1\2", text) for text in texts]
    children: list[Sections] = []
    for text in texts:
        yield_now(len(text))
        if is_rendered(text):
            text = fit(_read_segment(text, yield_now), max(max_tokens // len(texts), 40))
        children.append(read_sections(text))

    def merged(section: int) -> list[Line]:
        return [line for child in children for line in child[section]]

    def thin(bullets: Sequence[Line]) -> list[Line]:
        """Return each line once, ranked by worth and news. A line that a child kept has some worth already."""
        found = find_in_lines("\n".join(line.text for line in _last_of_each(bullets)), "told")
        scores = [worth(one, vocabulary, 1_000) * (4 * len(found) + at) for at, one in enumerate(found)]
        return [line for _, line in choose_lines(found, scores, vocabulary, others=120)]

    sections: Sections = [[] for _ in NAMES]
    asked = list(dict.fromkeys(line.text for line in merged(INTENT)))  # the first request, then the newest
    sections[INTENT] = [Line(asked[at], at or len(asked)) for at in newest_of_each_pattern(asked)]
    sections[CONSTRAINTS] = [Line(line.text, STRICT_RANK) for line in _last_of_each(merged(CONSTRAINTS))]
    errors = _last_of_each(merged(ERRORS))  # the newest are kept longest, and longer those without a known fix
    sections[ERRORS] = [Line(error.text, 0 if " → " in error.text else 1) for error in errors]
    stated = [child[STATE] for child in children if child[STATE]]
    sections[STATE] = stated.pop() if stated else []
    passing = ("in progress: ", "to do: ", "called, no result yet: ")  # a state that a later one replaces
    told = [*merged(FACTS), *(line for state in stated for line in state if not line.text.startswith(passing))]
    vocabulary = Vocabulary(find_in_lines("\n".join(asked), "user"))
    sections[DONE] = add_up(merged(DONE))
    sections[DECISIONS] = thin(merged(DECISIONS))
    guides = _last_of_each([Line(fact.text, GUIDE_RANK) for fact in told if is_of_guide(fact.text)])
    sections[FACTS] = [*guides, *thin([fact for fact in told if not is_of_guide(fact.text)])]
    if not any(sections):
        sections[FACTS] = [Line(_SILENT.format(len(content)))]
    return sections


class ExtractiveSummarizer:
    """Summarizes one job at a time in a worker thread, which it closes: a given one, or one of its own.

    Nothing limits it: it is always ready, and makes no call.
    """

    recipe: str | None = "extractive/v13"  # another name whenever the same content would give other bytes
    model: str | None = None

    def __init__(self, *, thread: WorkerThread | None = None) -> None:
        self._thread = WorkerThread("extractive") if thread is None else thread

    async def summarize(self, job: SummaryJob) -> SummaryReply:
        """Return the summary of a job. When cancelled, the thread only finishes the segment it is reading."""
        read = partial(summarize_extractively, job.content, kind=job.kind, max_tokens=job.max_tokens)
        text = await self._thread.run(partial(read, yield_now=self._thread.yield_now))
        return SummaryReply(text, input_tokens=0, output_tokens=0)

    def ready_in(self) -> float:
        return 0.0

    def statistics(self) -> CallStatistics:
        return CallStatistics()

    async def close(self) -> None:
        """Drop the jobs that wait, let the running one finish, and end the thread. May be called twice."""
        await self._thread.close()


# What was done.

_PATH_KEYS = ("file_path", "path", "filename", "file", "filepath", "target_file", "notebook_path", "file_name")


class Step(NamedTuple):
    """One call and what came of it."""

    at: int  # number of the call's block
    tool: str
    command: str  # "" where the tool runs none
    path: str  # "" where it names none
    body: str  # the arguments as written
    items: list[tuple[str, str]]  # the arguments as names and texts
    looks: bool  # whether it only looks at something
    answered: int = -1  # number of the result's block; -1: not in this content
    result: str = ""
    failed: bool = False
    error: str = ""  # the line that names what went wrong

    @property
    def file(self) -> str:
        return shown(self.path.rstrip("/").rpartition("/")[2])

    @property
    def works_on_a_file(self) -> bool:
        """Whether the path says what was done, and no command line does."""
        return bool(self.path) and " " not in self.command

    def render(self, limit: int = 140) -> str:
        """Return the call in about `limit` characters; a path is named by its last part rather than cut."""
        if self.works_on_a_file:
            return f"{self.command or self.tool} {shown(self.path) if len(self.path) < limit else self.file}"
        if self.command:
            return f"`{clip(shown(facts.bare_command(self.command)[0]), limit)}`"
        if patched := facts.patched_files(self.items):
            return f"{self.tool} {shown(patched[0][0])}"
        items = [f"{key}={clip(shown(value), 40)}" for key, value in self.items if value]
        return f"{self.tool}({clip(', '.join(items[:12]), limit)})"


def read_steps(blocks: Sequence[Block]) -> list[Step]:
    """Return the calls in order, each with the first result of its tool that follows and is not yet taken."""
    waiting: dict[str, deque[int]] = {}
    steps: list[Step] = []
    for at, (kind, body, tool) in enumerate(blocks):
        if kind == "call":
            waiting.setdefault(tool, deque()).append(len(steps))
            items = facts.read_arguments(body, numbers=True)
            first = dict(reversed(items))
            path = next((first[key] for key in _PATH_KEYS if key in first), "")
            runs_by = next((key for key in facts.COMMAND_KEYS if key in first), None)
            command = " ".join(value for name, value in items if name == runs_by)
            runs = bool(command) and (not path or " " in command)
            looks = facts.only_looks(facts.bare_command(command)[0]) if runs else facts.looks_only(command or tool)
            steps.append(Step(at, tool, command, path, body, items, looks))
        elif kind in ("result", "failed") and waiting.get(tool):
            index = waiting[tool].popleft()
            step, result, failed = steps[index], cleaned(body), kind == "failed"
            # often prose about errors; those that failed say so at once or at last
            read = result if step.command or failed else f"{result[:300]}\n{result[300:][-600:]}"
            error = "" if step.looks and not failed else facts.first_error_line(read, failed)
            steps[index] = step._replace(answered=at, result=result, failed=failed, error=error)
    return steps


_LOOKED, _CALLED = "looked at", "called with"
_LISTED = re.compile(
    rf"({_LOOKED}|{_CALLED}|edited|updated|modified|wrote|created|saved|moved|renamed|undid|deleted|removed|dropped|"
    r"closed|archived) ([^\n]+)\Z"
)


def find_actions(steps: Sequence[Step]) -> list[Line]:
    """Return what the steps changed or checked, oldest first; ids among the arguments are listed."""
    deeds: list[Line] = []
    for step in steps:
        deeds += [Line(f"{_CALLED} {value}") for _, value in step.items if len(value) <= 40 and facts.is_id(value)]
        if step.looks or re.search(r"(?i)todo|plan\b|_plan|think", step.tool):
            deeds += [Line(f"{_LOOKED} {shown(step.path)}")] if step.path else []
            continue
        if step.answered < 0:
            continue

        # the outcome: as a test run or a build counts it, by the exit status, or in its own words
        end, status = step.result[-3000:], facts.exit_code(step.result)
        tallies = [found.start() for found in facts.PATTERNS["tally"].finditer(end)]
        if step.failed or step.error:
            outcome, rank = "failed", 3
        elif tallies:
            outcome, rank = clip(shown(facts.line_at(end, tallies[-1])), 100), 12
        else:
            rank = 14 if facts.PATTERNS["commits"].search(step.command) else 8
            last = step.result.rstrip()
            line = facts.line_at(last, len(last) - 1) if step.command else step.result.strip()[:300].split("\n")[0]
            outcome = f"exit code {status}" if status.strip("0") else "ok" if status else clip(shown(line), 80)

        # the deed
        verb = facts.verb_of(step.command or step.tool)
        changed = facts.patched_files(step.items) or ([(step.path, verb)] if step.works_on_a_file and verb else [])
        failed = " → failed" if step.failed else ""
        deeds += [Line(f"{how} {shown(path)}{failed}", 10) for path, how in changed]
        if not changed and not step.works_on_a_file:
            ran = f"ran {step.render()}" if step.command else step.render(80)
            deeds.append(Line(f"{ran} → {outcome}" if outcome else ran, rank))
    return add_up(deeds)


def add_up(deeds: Iterable[Line]) -> list[Line]:
    """Return what was done, oldest first: a line for each verb with the newest names, and what has an outcome or no
    known verb by itself, with how often; done again it stands at its last place, with its last outcome."""
    verbs: dict[str, str] = {}  # of each name, the newest last; what was changed stays changed when looked at later
    kept: dict[str, Line] = {}
    times: Counter[str] = Counter()
    for text, rank in deeds:
        if " → " not in text and (listed := _LISTED.match(text)):
            for name in map(str.strip, listed[2].split(", ")):
                before = verbs.pop(name, listed[1])
                verbs[name] = before if listed[1] in (_LOOKED, _CALLED) else listed[1]
        else:
            action, arrow, outcome = text.partition(" → ")
            counted = re.search(r" \((\d{1,9}) times\)\Z", action)
            action = action[: counted.start()] if counted else action
            times[action] += int(counted[1]) if counted else 1
            kept.pop(action, None)
            kept[action] = Line(arrow + outcome, rank)
    verbs.pop(GONE, None)
    lines: list[Line] = []
    for verb in dict.fromkeys(verbs.values()):
        newest = [name for name, how in reversed(verbs.items()) if how == verb]
        fitting = sum(length <= 400 for length in accumulate(map(len, newest))) or 1
        names = [*newest[:fitting], *([GONE] if fitting < len(newest) else [])]
        lines.append(Line(f"{verb} {', '.join(reversed(names))}", 6 if verb in (_LOOKED, _CALLED) else 15))
    for action, (outcome, rank) in kept.items():
        lines.append(Line((f"{action} ({times[action]} times)" if times[action] > 1 else action) + outcome, rank))
    return lines
