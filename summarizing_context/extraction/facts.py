"""Facts of a session: what tool calls and their results say, by the table of what tools do, which tells what argument
names a path, a command, a URL or an identifier, and what the call does to it; plans and to-do lists as tools write
them; decisions in what people say; and how important messages are, for what they do.

Pure, in bounded work: of huge texts both ends are read, or the lines around words that hint at an error. Of a shell
command only plain words are taken for files. Rules of the table are tried from the top; a host's own come first. What
is no list of items, nor a text, is no plan.
"""

from __future__ import annotations

import json
import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache, reduce
from importlib.resources import files
from itertools import dropwhile, pairwise
from math import prod
from operator import or_
from typing import Any, Literal, NamedTuple

from summarizing_context.messages.reading import Part, Reading, parsed
from summarizing_context.messages.text import cleaned, clip, shown, split_prose
from summarizing_context.settings import LedgerRule

WORDS: dict[str, Any] = tomllib.loads((files(__package__) / "words.toml").read_text("utf-8"))
_HUGE = 1_000_000  # characters of which a text has both ends read
_HEAD = 300  # characters at the beginning and end of a result, whose words tell how the call went
PATTERNS = {name: re.compile(pattern, re.VERBOSE) for name, pattern in WORDS["patterns"].items()}


# What the name of a tool says.

_VERBS = {word: verb for verb, words in WORDS["verbs"].items() for word in words}


def verb_of(name: str) -> str:
    """Return what a tool of this name has done to a file, in the past tense; "" if nothing."""
    return next((_VERBS[word] for word in _words(name) if word in _VERBS), "")


def looks_only(tool: str) -> bool:
    """Return whether a tool's name says that it only looks at something."""
    words = [word for word in _words(tool) if not word.isdigit()]
    return not verb_of(tool) and any(word in WORDS["tools"]["looking"] for word in words[:2])


# Arguments.

_VALUES = 200  # of the arguments of one call
_COMMAND = re.compile(r"""\bcmd["']?\s{0,9}:\s{0,9}("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)""")


def read_arguments(text: str, *, numbers: bool = False) -> list[tuple[str, str]]:
    """Return the arguments as names and texts, nested ones too, with `numbers` also these; what is no JSON has no
    name. The words of one command are one text."""
    try:
        whole = json.loads(text) if len(text) <= _HUGE else text[:_HEAD]
    except (ValueError, RecursionError):
        whole = text
    found: list[tuple[str, str]] = []

    def collect(name: str, value: Any, depth: int) -> None:
        if len(found) >= _VALUES or depth < 0:
            return
        words = value if name in ("command", "cmd") and isinstance(value, list) else []
        if words and all(isinstance(word, str) for word in words) and " " not in words[0].strip():
            value = " ".join(words[:_VALUES])  # a program and its words, not several commands
        if isinstance(value, str) or (numbers and type(value) in (int, float)):
            found.append((name, str(value)))
            if "tools.exec_command(" in str(value)[:_HUGE]:  # Codex runs its commands in JavaScript
                literals = _COMMAND.findall(value[:_HUGE])[:_VALUES]
                escapes = {"n": "\n", "t": "\t"}
                found.extend(
                    ("cmd", re.sub(r"(?s)\\(.)", lambda it: escapes.get(it[1], it[1]), literal[1:-1]))
                    for literal in literals
                )
        elif isinstance(value, dict | list):
            each = value.items() if isinstance(value, dict) else ((name, inner) for inner in value[:_VALUES])
            for key, inner in each:
                collect(key, inner, depth - 1)

    collect("", whole, 4)
    return found


_PATCHED = re.compile(r"\*\*\* (Add|Update|Delete) File: ([^\n\\\"]{1,400})(?:\n\*\*\* Move to: ([^\n\\\"]{1,400}))?")


def patched_files(values: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return (path, operation) of each file of a patch among the arguments."""
    found, verbs = list[tuple[str, str]](), {"Add": "created", "Update": "edited", "Delete": "deleted"}
    for verb, path, target in (each for _, text in values for each in _PATCHED.findall(text[:_HUGE])):
        found.append((path.strip(), "moved" if target.strip() else verbs[verb]))
        found += [(target.strip(), "created")] if target.strip() else []
    return found


# Shell commands.

_PIPED = re.compile(r"\s{0,9}(?:2>&1\s{0,9})?\|\s{0,9}(?:tail|head|grep|cat|tee|less|wc|sort)\b[^\"']{0,200}\Z")
_REDIRECT = re.compile(r"\s\d?>{1,2}\s?&?[\w./-]{1,200}")
_OPTION = re.compile(r"\s-{1,2}[\w-]{1,40}(?:=\S{0,200})?(?=\s|\Z)")
_HEREDOC = re.compile(r"<<-?\s{0,3}(['\"]?)(\w{1,40})\1([^\n]{0,400})\n.*?(?:\n\s{0,8}\2(?=\W|\Z)|\Z)", re.DOTALL)
_TOKEN = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|&&|\|\||[0-9&]?>>?(?:&\d)?|[;|\n&<()]|(?:[^\s;|&<>()'\"\\]|\\.)+|\\")
_PLAIN = re.compile(r"(?!/dev/|[&-]|(?:\.{1,2}|/)\Z)[\w./~+@%:=,-]{1,400}\Z")


def bare_command(command: str) -> tuple[str, str]:
    """Return a command without a shell around it, and the folder that it changes to first, which is left out of it."""
    start = command.lstrip()[:4_000]
    if shell := re.match(r"(?:/\S{0,40}/)?(?:ba|z|da)?sh -[a-z]{0,4}c ", start):
        start = start[shell.end() :].strip()
        if start[:1] in ("'", '"') and start.find(start[0], 1) == len(start) - 1:  # all of it in quotes
            start = start[1:-1].strip()
    folder = PATTERNS["change_directory"].match(start)
    return (start[folder.end() :], folder[1] or folder[2] or folder[3]) if folder else (start, "")


def tried_by(command: str) -> str:
    """Return what a command tries, whatever its options and the readers of its output: two runs are alike."""
    tried = bare_command(command)[0].split("\n", 1)[0][:600]
    for pattern, sign in ((_PIPED, "|"), (_REDIRECT, ">"), (_OPTION, " -")):
        tried = pattern.sub("", tried) if sign in tried else tried
    return " ".join(tried.split())[:200]


def only_looks(command: str) -> bool:
    """Return whether a bare command begins by looking, and commits nothing."""
    return PATTERNS["looks"].match(command) is not None and not PATTERNS["commits"].search(command)


def files_of(command: str) -> list[tuple[str, str, str]]:
    """Return the files that a command obviously creates, changes, moves or deletes, in order, at most 24: of each its
    path, what is done, and the program whose complaint would mean that it was not."""
    if not re.search(r"\b(?:rm|mv|cp|touch|mkdir|tee|unlink|rmdir|sed -[a-z]{0,3}i)\b|>", command[:4_000]):
        return []
    start, base = bare_command(command)
    start = re.sub(r"(?m)^[ \t]{0,40}#[^\n]{0,1000}", "", start) if "#" in start else start
    start = _HEREDOC.sub(r"<<\2\3 ", start) if "<<" in start else start
    found: list[tuple[str, str, str]] = []
    words: list[str] = []
    written: list[str] = []
    into = ""  # the redirection whose target comes next
    before = ("sudo", "command", "env", "time", "then", "do", "else", "!")
    for token in (*_TOKEN.findall(start), ";"):
        if token in ("&&", "||", ";", "|", "\n", "&", "(", ")"):
            found += [(path, "wrote", "sh") for path in written]
            program, *given = [*dropwhile(before.__contains__, words), ""]
            if program == "git" and given[0] in ("rm", "mv"):
                program, *given = given
            names = [word for word in given if word and not word.startswith("-")]
            if program in WORDS["programs"]:
                found += [(name, WORDS["programs"][program], program) for name in names]
            elif program in ("mv", "cp") and len(names) == 2:
                source, target = names
                if target.endswith("/"):  # within a folder it keeps its name
                    target += source.rstrip("/").rpartition("/")[2]
                found += [(source, "moved", program)] if program == "mv" else []
                found.append((target, "created", program))
            elif program == "sed" and any(word.startswith("-i") or word == "--in-place" for word in given):
                found += [(name, "edited", program) for name in names[1:] if "/" in name or "." in name]
            words, written, into = [], [], ""
        elif token[-1:] == ">" or ">&" in token or token == "<":
            into = token
        else:
            word = token[1:-1] if len(token) > 1 and token[0] == token[-1] and token[0] in "'\"" else token
            if not into:
                words.append(word)
            elif into in (">", ">>", "1>", "1>>", "&>", "&>>"):
                written.append(word)
            into = ""
    inside = f"{base.rstrip('/')}/" if _PLAIN.match(base) else ""
    return [
        (inside + path.removeprefix("./") if inside and not path.startswith(("/", "~")) else path, operation, program)
        for path, operation, program in found[:24]
        if _PLAIN.match(path)
    ]


# Results: how the call went.


def refuses(result: str, *, looks: bool) -> bool:
    """Return whether a result says that the call did nothing. What was looked at may itself begin with such words."""
    if PATTERNS["tool_error"].match(result[:_HEAD]) or denies(result):
        return True
    if looks:
        return False
    whole = fields = parsed(result) if result.lstrip()[:1] == "{" else None
    while isinstance(fields, dict):  # the object says so in one of the usual fields, or its `output` does
        went_well = fields.get("success", fields.get("ok"))
        failed = fields.get("is_error", fields.get("isError")) is True
        if failed or went_well is False or (went_well is not True and fields.get("error")):
            return True
        fields = fields.get("output")
    return whole is None and PATTERNS["refused"].match(result[:_HEAD]) is not None


def denies(result: str) -> bool:
    """Return whether a result says that the call was not even begun: it was denied or stopped."""
    return PATTERNS["denied"].match(result[:_HEAD]) is not None


def exit_code(text: str) -> str:
    """Return the exit status that a result tells at its beginning or its end; "" if it tells none."""
    for part in (text[:_HEAD], text[_HEAD:][-_HEAD:]):
        if ("xit" in part or "return" in part) and (found := PATTERNS["exit_status"].search(part)):
            return found[1]
    return ""


# Results: the line that names the error.

_TRACEBACK = "Traceback (most recent call last)"
_LAST_OF_TRACEBACK = re.compile(r"^[A-Za-z_][\w.]{0,120}(?:: .{0,300})?$", re.MULTILINE)
_TAG = re.compile(r"</?[A-Za-z_][\w-]{0,40}>")


def first_error_line(result: str, failed: bool) -> str:
    """Return the line of a result that names the error, word for word, and the next one too if it ends with a colon;
    "" if nothing went wrong in it."""
    traced = result.rfind(_TRACEBACK)
    if traced >= 0 and (raised := _LAST_OF_TRACEBACK.search(result, traced + len(_TRACEBACK))):
        return clip(shown(raised[0]), 200)
    lines: list[str] = []
    left_with = ""
    for at, line in _hinted_lines(result):
        if PATTERNS["exit_line"].match(line):
            left_with = left_with or shown(_TAG.sub("", line))
        elif PATTERNS["error_line"].match(line):
            below = line_at(result, result.find("\n", at) + 1 or len(result))
            lines = [shown(_TAG.sub("", text)) for text in (line, below)]
            break
    else:
        if left_with:
            end = result.rstrip()
            last = shown(line_at(end, len(end) - 1))
            return clip(left_with if last == left_with else f"{left_with}: {last}", 200)
        if failed:
            beginning = _TAG.sub("", result.lstrip()[:2_400])
            lines = [text for line in beginning.split("\n") if (text := shown(line))]
    first = clip(lines[0], 200) if lines else ""
    return clip(f"{first} {lines[1]}", 300) if first.endswith(":") and len(lines) > 1 else first


def error_line(result: str, failed: bool) -> str:
    """Return the same of a result as it came, without the time that it took, which is another one each time. Of a huge
    result both ends are read."""
    ends = result if len(result) <= 2 * _HUGE else f"{result[:_HUGE]}\n{result[-_HUGE:]}"
    line = first_error_line(cleaned(ends), failed)
    return re.sub(r"\s{0,3}(?:\(\d[\d.]{0,12}\s?m?s\)|in \d[\d.]{0,12}\s?m?s)[ =]{0,80}\Z", "", line)


def error_lines(result: str, most: int) -> list[str]:
    """Return the first lines of a result that name an error, each once."""
    kinds = PATTERNS["error_line"], PATTERNS["exit_line"]
    named = (line for _, line in _hinted_lines(result) if any(kind.match(line) for kind in kinds))
    told = dict.fromkeys(clip(shown(_TAG.sub("", line)), 200) for line in named)
    return [*filter(None, told)][:most]


def _hinted_lines(result: str) -> Iterator[tuple[int, str]]:
    """Yield the lines in which a word stands that error lines have, in order; for the first few of each word."""
    places: list[int] = []
    for hint in WORDS["tools"]["error_hints"]:
        at = result.find(hint)
        for _ in range(24):
            if at < 0:
                break
            places.append(at)
            at = result.find(hint, at + 16)
    before = ""
    for at in sorted(places):
        line = line_at(result, at)
        if line != before:
            yield at, line
        before = line


def line_at(text: str, at: int) -> str:
    """Return the line around a place; of a very long line the whole words near it, or nothing if it has none."""
    low, high = max(0, at - 300), at + 300
    start, end = text.rfind("\n", low, at) + 1, text.find("\n", at, high)
    if start == 0 and low > 0:
        start = text.find(" ", low, at) + 1 or high
    if end < 0:
        end = len(text) if len(text) <= high else text.rfind(" ", at, high)
    return text[start : max(start, end)]


# Results: ids and addresses.

_URL = re.compile(r"https?://[^\s\"'<>`)\]},\\|]{3,400}")


def is_id(value: str) -> bool:
    """Return whether an argument is one word with a digit in it, and more than a number."""
    is_one = re.match(r"(?!.{65})#?[A-Za-z0-9][\w#.:@-]{3,63}\Z", value) is not None and any(map(str.isdigit, value))
    return is_one and not re.sub("[.:-]", "", value).isdigit()


def urls_in(text: str) -> list[str]:
    """Return the addresses in a text, the first four."""
    found = (match[0].rstrip(".,;:!?)'") for match in _URL.finditer(text))
    return list(dict.fromkeys(found))[:4]


# The table of what tools do.

TOOL, ANY = "{tool}", "*"
COMMAND_KEYS = tuple(WORDS["ledger"]["keys"]["commands"])
_KEYS = {name: "|".join(keys) for name, keys in WORDS["ledger"]["keys"].items()}
RULES = tuple(LedgerRule(tool, kind, _KEYS.get(key, key), what) for tool, kind, key, what in WORDS["ledger"]["rules"])


Kind = Literal["path", "command", "error", "url", "identifier", "decision", "constraint"]


class ToolRules:
    """The rules by which the calls of a session are read, a host's own first; looked up once for each tool's name."""

    def __init__(self, own: Sequence[LedgerRule] = ()) -> None:
        self._own = len(own)
        self._rules = [*_with_words(own), *_WITH_WORDS]
        plans = (tool for rule, tools in self._rules if rule.kind == "plan" for tool in tools)
        self.plan_words = {tuple(tool.encode().split()) for tool in plans}
        self.rules_for = lru_cache(4_096)(self._rules_for)  # a model may make up any name

    def _rules_for(self, tool: str, word: str = "") -> list[LedgerRule]:
        """Return rules in the order in which they apply to a call of `tool`, whose one-word `command` may be a `word`:
        a host's own, then those for the first name, for the second, for any."""
        names = [f" {' '.join(_words(name))} " for name in (word, tool) if name]
        ranked = []
        for place, (_, tools) in enumerate(self._rules):
            fits = [any(words and f" {words} " in name for words in tools) for name in names]
            if any(fits) or "" in tools:
                ranked.append((place >= self._own, [*fits, True].index(True), place))
        return [self._rules[place][0] for *_, place in sorted(ranked)]

    def claims(self, tool: str, values: Sequence[tuple[str, str]]) -> list[tuple[Kind, str, str]]:
        """Return (kind, value, operation) of the arguments; each is taken by the first rule that fits it."""
        named: dict[str, list[str]] = {}
        for key, value in values:
            named.setdefault(key, []).append(value)
        words = [value for key in COMMAND_KEYS for value in named.get(key, ())]
        word = words[0] if len(words) == 1 and words[0].isidentifier() else ""
        if word and (more := named.pop("args", None)):  # a program, and its arguments
            named |= {key: [" ".join([word, *more])] for key in COMMAND_KEYS if key in named}
            word = ""
        taken, kinds, found = set[str](), set[str](), list[tuple[Kind, str, str]]()
        for rule in self.rules_for(tool, word):
            if (kind := rule.kind) == "plan":  # which is kept beside the log
                continue
            wanted = list(named) if rule.key == ANY else rule.key.split("|")  # the best first
            for key in [key for key in wanted if key in named and key not in taken]:
                fitting = _fitting(rule, key, named[key])
                if not fitting or (rule.tool == ANY and kind in kinds and kind != "identifier"):
                    continue
                taken.add(key)
                found += ((kind, value, rule.operation.replace(TOOL, tool[:64])) for value in fitting)
                kinds.add(kind)
                if rule.key != ANY:
                    break
        if word and "path" in kinds:  # the name of what an editor does
            found = [claim for claim in found if claim[0] != "command"]
        return found

    def plan_keys(self, tool: str) -> tuple[str, ...]:
        """Return the arguments of this tool that may hold a plan, the best first; none for one that makes no plans."""
        keys = "|".join(rule.key for rule in self.rules_for(tool) if rule.kind == "plan")
        return tuple(dict.fromkeys(filter(None, keys.split("|"))))


def _fitting(rule: LedgerRule, key: str, values: Sequence[str]) -> list[str]:
    """Return those of an argument's values that can be what a rule says."""
    if rule.kind == "command":
        commands = values[:24] if key in COMMAND_KEYS else [" ".join(values)]
        return [command for command in commands if command.strip()]
    if rule.kind == "url":
        return [value for value in values[:24] if value.startswith(("http://", "https://")) and len(value) <= 400]
    if rule.kind == "identifier" and rule.key == ANY:
        return [value for value in values[:24] if is_id(value)]
    longest, stripped = 64 if rule.kind == "identifier" else 400, (value.strip() for value in values[:24])
    return [value for value in stripped if value and len(value) <= longest and value.isprintable()]


def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name[:200]))


def _with_words(rules: Sequence[LedgerRule]) -> list[tuple[LedgerRule, list[str]]]:
    return [(rule, [" ".join(_words(name)) for name in rule.tool.split("|")]) for rule in rules]


_WITH_WORDS = _with_words(RULES)  # once: every session reads them


# What a call did to which things.

LOOKS = frozenset({"read", "searched", "listed", "used", "seen", "fetched"})  # operations that change nothing
_SHOWN, _SHORT = 300, 2_000  # characters of a command, and of a result that may tell what was made


class Touch(NamedTuple):
    """What one group of messages did to, or said of, one thing."""

    kind: Kind
    value: str
    operation: str
    start: int = 0
    stop: int = 0
    order: int = 0  # in the ledger
    about: str = ""  # of commands and errors: what was tried; a later success of the same fixes an error
    went_well: bool = False
    times: int = 1
    work: str = ""  # of commands, what may end a piece of work: `commit`, `tests`


def touches_of(call: Part, answer: Part | None, rules: ToolRules) -> Iterator[Touch]:
    """Yield what a call did, by its result."""
    tool, result, failed = call.name, answer and "\n".join(answer.texts), answer is not None and answer.failed
    values = read_arguments(call.texts[0] if call.texts else "")
    patched = patched_files(values)
    claims = [] if patched else rules.claims(tool, values)
    commands = [value for kind, value, _ in claims if kind == "command"]

    # what each command printed, as lines, where the result is a list of that in JSON; else the whole result for each
    outputs = [result] * len(commands)
    whole = parsed(result) if result and len(commands) > 1 and result.lstrip()[:1] in ("[", "{") else None
    for items in (whole, *(whole.values() if isinstance(whole, dict) else ())):
        if isinstance(items, list) and len(items) == len(commands):
            told = (read_arguments(json.dumps(item), numbers=True) for item in items)
            outputs = ["\n".join(f"{name}: {text}" if name else text for name, text in each) for each in told]
            break

    # commands, each with its exit status, the files that it obviously touched, and what went wrong
    for command, output in zip(commands, outputs, strict=True):
        bare, text = bare_command(command)[0], output or ""
        code, line, start = exit_code(text), "", bare[:4_000]
        value = " ".join(bare[: 4 * _SHOWN].split())
        value = value if len(value) <= _SHOWN else f"{value[: _SHOWN - 1]}…"
        is_wrong = output is not None and (code not in ("", "0") or (not code and failed))
        if output is not None and code != "0" and (failed or not only_looks(bare)):
            line = error_line(text, is_wrong)
        refused = denies(text)
        is_wrong = is_wrong or bool(line) or refused
        done = f"exit {code}" if code else "failed" if is_wrong else _confirmed("ran", output)

        about = tried_by(command)
        went_well = output is not None and not is_wrong
        work = "tests" if PATTERNS["tests"].search(start) else "commit" if PATTERNS["keeps"].search(start) else ""
        yield Touch("command", value, done, about=about, went_well=went_well, work=work)
        for path, done, program in () if refused else files_of(command):
            if f"{program}: " not in text[:_SHORT]:
                yield Touch("path", path, _confirmed(done, output), about=path)
        if line:
            yield Touch("error", line, "seen", about=about)

    # all else
    path = patched[0][0] if patched else next((value for kind, value, _ in claims if kind == "path"), "")
    about = f"{tool} {path}"
    looks = not patched and all(done in LOOKS for kind, _, done in claims if kind != "command")
    if not commands and result is not None and (failed or refuses(result, looks=looks)):
        if line := error_line(result, True):
            yield Touch("error", line, "seen", about=about)
        return
    for path, done in patched:
        yield Touch("path", path, _confirmed(done, result), about=f"{tool} {path}", went_well=result is not None)
    for kind, value, done in claims:
        if kind != "command":
            operation = _confirmed(done, result) if kind == "path" else done
            yield Touch(kind, value, operation, about=about, went_well=result is not None)
    if not patched and result is not None and len(result) <= _SHORT:  # it tells what was made, or found
        yield from (Touch("url", url, "seen") for url in urls_in(result))
        ids = dict.fromkeys(filter(is_id, PATTERNS["named_id"].findall(result)))
        yield from (Touch("identifier", id, "seen") for id in list(ids)[:8])


def _confirmed(operation: str, result: str | None) -> str:
    """Return what was done; of a change without a result, with the words that say so."""
    return operation if result is not None or operation in LOOKS else f"{operation} (no result)"


# Plans.

_MOST = 1_000  # items
_MARKS = {state: mark for mark, states in WORDS["plans"]["marks"].items() for state in states}
_TO_DO = "[ ]"


class Item(NamedTuple):
    """One item of a plan."""

    text: str  # its words, as given
    mark: str = ""  # of its state; empty for a plan that is a text
    id: str = ""

    @property
    def line(self) -> str:
        return f"{self.mark} {self.text}" if self.mark else self.text

    @property
    def is_open(self) -> bool:
        return self.mark not in ("[x]", "[-]")


def plan_in_call(arguments: str, keys: Sequence[str], before: Sequence[Item]) -> tuple[Item, ...] | None:
    """Return the plan that a call writes, in one of the arguments `keys`; None where it writes none. `before` is the
    plan that stood: arguments with `merge` change single items of it by their ids."""
    call = parsed(arguments)
    if not isinstance(call, dict):
        return None

    # one task more, or one changed by its id
    if changes_one(keys):
        subject, state = call.get("subject"), call.get("status")
        words = subject.strip() if isinstance(subject, str) else ""
        if "taskId" not in call:
            return (*before, Item(words, _TO_DO)) if words and len(before) < _MOST else None
        known = next((item for item in before if item.id == str(call["taskId"])), None)
        if known is None:
            return None
        mark = _MARKS.get(state, _TO_DO) if isinstance(state, str) else known.mark
        changed = known._replace(text=words or known.text, mark=mark)
        return tuple(changed if item is known else item for item in before)

    # all of it, or some of its items
    items = _items(next((call[key] for key in keys if key in call), None))
    if items is None or call.get("merge") is not True:
        return items
    merged = {item.id or f"\0{at}": item for at, item in enumerate(before)}
    for at, item in enumerate(items):
        known = merged.get(item.id) if item.id else None
        merged[item.id or f"\0\0{at}"] = item._replace(text=item.text or known.text) if known else item
    return tuple(item for item in merged.values() if item.text)


def plan_in_result(result: str, keys: Sequence[str]) -> tuple[Item, ...] | None:
    """Return the plan that the result of a call tells: a list, or an object that holds one; None for any other."""
    told = parsed(result)
    if isinstance(told, dict):
        told = next((told[key] for key in keys if isinstance(told.get(key), list)), None)
    return _items(told) if isinstance(told, list) else None


def changes_one(keys: Sequence[str]) -> bool:
    """Return whether calls with these arguments make or change one item, and the others stand."""
    return "subject" in keys or "taskId" in keys


def numbered_task(result: str, before: Sequence[Item]) -> tuple[Item, ...] | None:
    """Return the plan with the id that a result tells of the newest item without one; None where it tells none."""
    found = re.match(r"\s*Task #(\w{1,40}) created", result)
    new = next((item for item in before if not item.id), None)
    return tuple(item._replace(id=found[1]) if item is new else item for item in before) if found and new else None


def _items(value: object) -> tuple[Item, ...] | None:
    if isinstance(value, str):
        listed = parsed(value) if value.lstrip()[:1] == "[" else None
        if not isinstance(listed, list):
            return (Item(value.strip()),) if value.strip() else None
        value = listed  # as JSON in a text
    if not isinstance(value, list) or len(value) > _MOST:
        return None
    items: list[Item] = []
    for each in value:
        item = {"content": each} if isinstance(each, str) else each
        if not isinstance(item, Mapping):
            return None
        words = next((text for key in WORDS["plans"]["text"] if isinstance(text := item.get(key), str)), "").strip()
        state = next((str(item[key]).lower() for key in ("status", "state", "completed", "done") if key in item), "")
        id = str(item.get("id", ""))
        if not (words or id or isinstance(each, str)):
            return None
        items.append(Item(words, _MARKS.get(state, _TO_DO), id))
    return tuple(items)


# What a sentence says: a choice, a fix, or a rule, in the languages of `statements.toml`.

MARKUP = ("|", "<", "{", "//")


def says(kind: str, text: str) -> bool:
    """Return whether any word or phrase of a list stands in a sentence."""
    return statements()[kind].search(plain_words(text)) is not None


def is_informative(text: str) -> bool:
    """Return whether a sentence is understood alone: more than three words, and no markup."""
    return len(plain_words(text).split()) > 3 and not (text.startswith(MARKUP) or text.endswith((":", ",")))


def decisions(text: str) -> list[str]:
    """Return the decisions in one text that a human wrote, word for word."""
    said = split_prose(cleaned(text))[0]
    return list(dict.fromkeys(shown(one) for one in said if says("decision", one) and is_informative(one)))


def plain_words(text: str) -> str:
    """Return a text in lower case without accents and apostrophes, one space between its words."""
    text = text.replace("’", "'").replace("'", "").casefold()
    if not text.isascii():
        text = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    return " ".join(re.findall(r"\w+", text))


@cache
def statements() -> Mapping[str, re.Pattern[str]]:
    """Return a pattern for each list: whole words, but for scripts that part no words."""
    lists: dict[str, list[str]] = tomllib.loads((files(__package__) / "statements.toml").read_text("utf-8"))
    patterns: dict[str, re.Pattern[str]] = {}
    for kind, cues in lists.items():
        words = sorted(map(plain_words, cues), key=len, reverse=True)
        parted, signs = ("|".join(word for word in words if (word < "\u2e80") is whole) for whole in (True, False))
        first = "".join(sorted({word[0] for word in words}))  # looked for before all of them are tried
        patterns[kind] = re.compile(rf"(?=[{first}])(?:\b(?:{parted})\b|{signs or '(?!)'})")
    return patterns


# How important a group of messages is: a number from 0 to 1, the same for the same log in any process. Traits are read
# from a message alone; of long texts only both ends are looked at. The score is 1 - (1 - w1)(1 - w2)..., over the
# weights of what applies. So with the default threshold of 0.6 a constraint stays, an error that a change answered or
# brought stays, a decision or a change stays while it is new, and what has no trait never does.

_DECISION, _ERROR, _WRITE, _CRITICAL, _STRICT, _SOFT = 1, 2, 4, 8, 16, 32
# A mark of the host's, a human's standing rule or preference, a choice, a call that changes something, a failed result.
_WEIGHTS = {_CRITICAL: 1.0, _STRICT: 0.7, _SOFT: 0.4, _DECISION: 0.5, _WRITE: 0.4, _ERROR: 0.35}

_GIVEN = re.compile(r'"(?:command|cmd|script)"\s?:\s?"((?:[^"\\]|\\.){1,400})')


def read_traits(reading: Reading, strengths: Collection[str]) -> int:
    """Return what is noteworthy in a message, as flags, given how strong the rules are that it states."""
    flags = _CRITICAL * reading.critical | _STRICT * ("must" in strengths) | _SOFT * ("prefer" in strengths)
    for part in reading.parts:
        if part.kind == "result":
            flags |= _ERROR * (part.failed or any(first_error_line(_ends(text), False) for text in part.texts))
        elif part.kind == "call":
            # it changes something: by its tool's name, a patch, or the command that it runs
            arguments = _ends("".join(part.texts))
            command = found[1] if (found := _GIVEN.search(arguments)) else ""
            verb = verb_of(part.name) or (verb_of(command) if command.isidentifier() else "")
            kinds = () if command.isidentifier() else ("commits", "changes")
            is_said = "*** Begin Patch" in arguments or any(PATTERNS[kind].search(command) for kind in kinds)
            flags |= _WRITE * bool(verb or is_said)
    written = (text for part in reading.parts if part.kind == "text" for text in part.texts)
    said = written if reading.role == "assistant" else reading.typed
    return flags | _DECISION * any(PATTERNS["choice"].search(_ends(text).lower()) for text in said)


def _ends(text: str) -> str:
    return text if len(text) <= 2_000 else f"{text[:1_000]}\n{text[-1_000:]}"


def rank_groups(traits: Sequence[int], ends: Sequence[int], stop: int, threshold: float) -> list[int]:
    """Return the first entry of each group before entry `stop` that scores at least `threshold`, the most important
    first, newer ones before older ones that score the same; by the traits of all messages of a log, and where its
    closed groups end."""
    ranked: list[tuple[float, int]] = []
    for number, (start, end) in enumerate(pairwise(ends)):
        flags = reduce(or_, traits[start:end])
        if flags & _STRICT:
            flags &= ~_SOFT
        age = 1 - 0.2 * (number / (len(ends) - 2) if len(ends) > 2 else 1.0)  # most for the newest
        rest = prod((1 - weight for flag, weight in _WEIGHTS.items() if flags & flag), start=age)
        if start < stop and 1 - rest >= threshold:
            ranked.append((1 - rest, start))
    return [start for _, start in sorted(ranked, reverse=True)]
