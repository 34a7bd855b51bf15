"""The sections of a summary, and lines and sentences that may be kept: what they say, how much each is worth, and the
choice among them.

Pure, in whole numbers. The weights were learnt from notes that a language model wrote of real sessions.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from summarizing_context.extraction.facts import MARKUP, WORDS, error_lines, folded, statements
from summarizing_context.extraction.rules import cue_rules, rule_strength
from summarizing_context.messages.search_terms import stems
from summarizing_context.messages.text import (
    GONE,
    Words,
    bare,
    cleaned,
    clip,
    shown,
    split_lines,
    split_prose,
    words_of,
)
from summarizing_context.messages.tokens import estimate_text

INTENT, CONSTRAINTS, DONE, DECISIONS, ERRORS, STATE, FACTS = range(7)
NAMES = (
    *("Intent", "Constraints and corrections", "Done", "Decisions", "Errors and fixes", "State and next step"),
    "Facts",
)
PRIORITY = (CONSTRAINTS, STATE, INTENT, DECISIONS, ERRORS, DONE, FACTS)  # what is kept longest comes first
SHARES = (14, 30, 18, 14, 14, 6, 34)  # percents of a summary
STRICT_RANK = 6  # of constraints: from here on they are no mere preferences
GUIDE_RANK = 100  # of facts: rules that a guide states


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


def nothing_readable(content: str) -> Line:
    """Return what to say of a content in which no line can be shown."""
    return Line(f"({len(content)} characters without words)")


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


def split_children(content: str) -> list[str]:
    """Return the texts under the `### summary i of n` lines of a rollup's content; all of it, if there is none. They
    are as they were before they were put into it."""
    texts = [piece.rstrip("\n") for piece in _SUMMARY_LABEL.split(content) if piece.strip()]
    return [re.sub(r"(^|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029])\\(\\*### )", r"\1\2", text) for text in texts]


def escape_labels(text: str) -> str:
    """Return a model's text in which no line can be taken for the label of a block."""

    def escaped(found: re.Match[str]) -> str:
        is_label = _LABEL.match(found[1]) or _SUMMARY_LABEL.match(found[0].lstrip())
        return f"\\{found[0].lstrip()}" if is_label else found[0]

    return re.sub(r"^[ \t]*### (.*)$", escaped, text, flags=re.MULTILINE)


# -- lines that may be kept

PROSE = frozenset(("user", "assistant", "thinks"))
STOP_WORDS = frozenset(WORDS["stop_words"].encode().split())


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


_BLOB = re.compile(r"[A-Za-z0-9+/=]{32,}|\b[0-9a-f]{7,}\b|\b[^\W\d]{0,40}\d\w*")
_THOUGHT = re.compile(
    r"(?i)(?:(?:ok|okay|now|so|next|first|good|great|perfect|hmm+|wait|right|actually|also|then|but|and|well|sure)\b"
    r"[,.!: ]*){0,3}(?:let me|let'?s|let us|i think|i'll|i will|i need|i should|i can|i could|i want|i see|i guess|"
    r"i wonder|i'm (?:going|not sure)|maybe|perhaps|looking at|we (?:need|should|could)|feel free|"
    r"if you (?:have|need|want)|here(?:'s| is| are)\b|by following)\b"
)


def says_something(one: Candidate) -> bool:
    """Return whether a line can be a fact: no run of numbers, no hashes or encoded bytes, no thought of the agent's,
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
    errors, found = error_lines(body, 6), find_in_lines(body, "result")
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
    if is_open or not 5 < len(said) <= 300 or said.startswith(MARKUP) or re.match(r"\d+:", said):
        return 0
    if rule_strength(said) == "must":
        return STRICT_RANK
    lists, text = statements(), folded(said)
    while lead := lists["leads"].match(text):
        text = text[lead.end() :].lstrip()
    begins = lists["binds_first"].match(text)
    rank = STRICT_RANK if lists["binds_anywhere"].search(text) else _WISH_RANK if begins else 0
    if rank and (lists["no_rule_anywhere"].search(text) or (lists["no_rule_first"].match(text) and not begins)):
        return 0
    return rank
