"""Read tool calls: arguments, shell commands, patches, exit statuses, and whether a call changes something.

Pure, in bounded work: of huge texts only the ends are read. Of a shell command only plain words are taken for files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_VERBS = dict.fromkeys(("edit", "multiedit", "replace", "insert", "patch", "str"), "edited") | {
    "update": "updated", "modify": "modified", "write": "wrote", "create": "created", "delete": "deleted",
    "drop": "dropped", "close": "closed", "archive": "archived", "remove": "removed", "move": "moved",
    "rename": "renamed", "save": "saved", "undo": "undid",
}  # fmt: skip

_LOOKING = frozenset(
    (
        *("read", "view", "open", "cat", "get", "list", "ls", "grep", "glob", "search", "find", "fetch", "lookup"),
        *("query", "think", "calculate", "check", "show", "describe", "inspect", "look", "wait", "poll", "screenshot"),
    )
)

CHANGES = re.compile(
    r"\b(?:mv|cp|rm|mkdir|touch|chmod|ln|tee|install|uninstall|upgrade|deploy|docker|kubectl|terraform|sed -i|curl -X|"
    r"kill|systemctl|apply_patch|migrate)\b|[^-=2&|<>]> ?[\w./~$]"
)


def looks_only(tool: str) -> bool:
    """Return whether a tool's name says that it only looks at something."""
    return any(word in _LOOKING for word in _name_words(tool)[:2]) and not verb_of(tool)


def verb_of(name: str) -> str:
    """Return what a tool of this name has done to a file, in the past tense; "" if nothing."""
    return next((_VERBS[word] for word in _name_words(name) if word in _VERBS), "")


def _name_words(name: str) -> list[str]:
    return [word.lower() for word in _NAME_WORD.findall(name)]


_READ = 4_000  # characters of a command that are looked at
_MOST = 24  # file operations of one command

_CHANGE_DIRECTORY = re.compile(
    r"cd (?:\"([^\"\n]{1,300})\"|'([^'\n]{1,300})'|([^\s;&|]{1,300}))[ \t]{0,3}(?:&&|;|\n)\s{0,3}"
)

_SHELL = re.compile(r"(?:/\S{0,40}/)?(?:ba|z|da)?sh -l?c ")

LOOKS = re.compile(
    r"(?:ls|cat|bat|head|tail|grep|rg|find|pwd|wc|which|nl|tree|stat|file|env|less|awk|jq|cd|sleep|sed -n|"
    r"gh \w+ (?:view|list|status|diff|checks)|"
    r"git (?:-C \S+ )?(?:status|diff|log|show|branch|blame|rev-parse|remote|grep|ls-files|tag -))\b"
)

COMMITS = re.compile(
    r"\b(?:gh pr (?:create|merge)|"
    r"git (?:-C \S+ )?(?:commit|push|merge|rebase|tag|cherry-pick|revert|reset|stash))\b"
)

_HEREDOC = re.compile(r"<<-?\s{0,3}(['\"]?)(\w{1,40})\1([^\n]{0,400})\n.*?(?:\n\s{0,8}\2(?=\W|\Z)|\Z)", re.DOTALL)
_COMMENT = re.compile(r"^[ \t]{0,40}#[^\n]{0,1000}", re.MULTILINE)
_HINT = re.compile(r"\b(?:rm|mv|cp|touch|mkdir|tee|unlink|rmdir|sed -[a-z]{0,3}i)\b|>")
_TOKEN = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|&&|\|\||[0-9&]?>>?(?:&\d)?|[;|\n&<()]|(?:[^\s;|&<>()'\"\\]|\\.)+|\\")
_ENDS = frozenset({"&&", "||", ";", "|", "\n", "&", "(", ")"})
_PLAIN = re.compile(r"[\w./~+@%:=,-]{1,400}\Z")
_OPERATIONS = {"rm": "deleted", "unlink": "deleted", "rmdir": "deleted", "touch": "touched", "mkdir": "created"}
_BEFORE = frozenset({"sudo", "command", "env", "time", "then", "do", "else", "!"})
_PIPED = re.compile(r"\s{0,9}(?:2>&1\s{0,9})?\|\s{0,9}(?:tail|head|grep|cat|tee|less|wc|sort)\b[^\"']{0,200}\Z")
_REDIRECT = re.compile(r"\s\d?>{1,2}\s?&?[\w./-]{1,200}")
_OPTION = re.compile(r"\s-{1,2}[\w-]{1,40}(?:=\S{0,200})?(?=\s|\Z)")


class FileOperation(NamedTuple):
    """One file operation of a command."""

    path: str
    operation: str
    program: str  # whose complaint would mean that it did not happen


def bare_command(command: str) -> str:
    """Return the command without a shell around it and a change of folder in front."""
    start = _without_shell(command)
    return _CHANGE_DIRECTORY.sub("", start, count=1) if start.startswith("cd ") else start


def _without_shell(command: str) -> str:
    start = command.lstrip()[:_READ]
    around = _SHELL.match(start)
    return start[around.end() :].lstrip() if around else start


def only_looks(command: str) -> bool:
    """Return whether a bare command begins by looking, and commits nothing."""
    return LOOKS.match(command) is not None and not COMMITS.search(command)


def tried(command: str) -> str:
    """Return what a bare command tries, whatever its options and the readers of its output: two runs of it are
    alike."""
    line = command.split("\n", 1)[0][:600]
    line = _PIPED.sub("", line) if "|" in line else line
    line = _REDIRECT.sub("", line) if ">" in line else line
    return " ".join((_OPTION.sub("", line) if " -" in line else line).split())[:200]


def files_of(command: str) -> list[FileOperation]:
    """Return the files that a command obviously creates, changes, moves or deletes, in order."""
    if not _HINT.search(command[:_READ]):
        return []
    start = _without_shell(command)
    folder = _CHANGE_DIRECTORY.match(start)
    found: list[FileOperation] = []
    start = _COMMENT.sub("", start) if "#" in start else start
    start = _HEREDOC.sub(r"<<\2\3 ", start) if "<<" in start else start
    for words, written in _simple_commands(start):
        found += [FileOperation(path, "wrote", "sh") for path in written]
        found += _operations(words)
        if len(found) >= _MOST:
            break
    base = (folder[1] or folder[2] or folder[3]) if folder else ""
    listed = [one for one in found[:_MOST] if _is_plain(one.path)]
    if not base or not _is_plain(base):
        return listed
    inside = f"{base.rstrip('/')}/"
    return [
        one if one.path.startswith(("/", "~")) else one._replace(path=inside + one.path.removeprefix("./"))
        for one in listed
    ]


def _simple_commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """(words, files written to) of each command of a line."""
    words: list[str] = []
    written: list[str] = []
    into: str = ""
    for token in _TOKEN.findall(text):
        if token in _ENDS:
            yield words, written
            words, written, into = [], [], ""
        elif token[-1:] == ">" or ">&" in token or token == "<":
            into = token
        elif into:
            if into in (">", ">>", "1>", "1>>", "&>", "&>>"):
                written.append(_unquoted(token))
            into = ""
        else:
            words.append(_unquoted(token))
    yield words, written


def _operations(words: Sequence[str]) -> list[FileOperation]:
    """Return what one simple command does to which files."""
    at = 0
    while at < len(words) and words[at] in _BEFORE:
        at += 1
    if at < len(words) - 1 and words[at] == "git" and words[at + 1] in ("rm", "mv"):
        at += 1
    program = words[at] if at < len(words) else ""
    options = [word for word in words[at + 1 :] if word.startswith("-")]
    names = [word for word in words[at + 1 :] if word and not word.startswith("-")]
    if program in _OPERATIONS:
        return [FileOperation(name, _OPERATIONS[program], program) for name in names]
    if program == "tee":
        return [FileOperation(name, "wrote", program) for name in names]
    if program in ("mv", "cp") and len(names) == 2:
        source, target = names
        if target.endswith("/"):  # within a folder it keeps its name
            target += source.rstrip("/").rpartition("/")[2]
        gone = [FileOperation(source, "moved", program)] if program == "mv" else []
        return [*gone, FileOperation(target, "created", program)]
    if program == "sed" and any(option.startswith("-i") or option == "--in-place" for option in options):
        return [FileOperation(name, "edited", program) for name in names[1:] if "/" in name or "." in name]
    return []


def _is_plain(path: str) -> bool:
    return _PLAIN.match(path) is not None and not path.startswith(("/dev/", "&", "-")) and path not in (".", "..", "/")


def _unquoted(token: str) -> str:
    return token[1:-1] if len(token) > 1 and token[0] == token[-1] and token[0] in "'\"" else token


PATCHED = re.compile(r"\*\*\* (Add|Update|Delete) File: ([^\n\\\"]{1,400})(?:\n\*\*\* Move to: ([^\n\\\"]{1,400}))?")
PATCH_VERBS = {"Add": "created", "Update": "edited", "Delete": "deleted"}
_DIFF = re.compile(r"(?:\A|\n)--- ([^\t\n]{1,400})[^\n]{0,100}\n\+\+\+ ([^\t\n]{1,400})")
_PARSED = 1_000_000  # characters of arguments; in larger ones names are looked for at both ends
_END = 4_000  # characters
_VALUES, _DEPTH = 200, 4  # of the arguments of one call
_HEAD = 300  # characters of a result's beginning and end, whose words tell how it went
_ERROR = re.compile(r"\s{0,9}(?:<tool_use_error>|(?:[A-Z]\w{0,30})?[Ee]rror: |Traceback \()")

_REFUSED = re.compile(
    r"(?i)\W{0,3}(?:error|failed|failure|fatal|invalid|cannot|could not|unable to|no such|not found|"
    r"old_str\w{0,4} not|string to replace not|no (?:replacement|changes?) (?:was|were)|"
    r"(?:permission|access) (?:was )?denied|operation not permitted)\b"
)

_DENIED = re.compile(
    r"(?i)\W{0,3}(?:the user (?:does ?n['’]t want|does not want|rejected|denied|declined|cancell?ed|refused)|"
    r"request interrupted|(?:(?:the |this )?(?:tool|call|command|execution|operation|use)[ -]?){1,3} "
    r"(?:was |has been )?(?:cancell?ed|rejected|denied|aborted|interrupted|not executed|not run))\b"
)

_EXIT = re.compile(
    r"(?i)\b(?:exit(?:ed)?[ _]?(?:with )?(?:exit )?(?:code|status)|return[_ ]?code|exit(?=[=:]))"
    r"[\"'\s:=]{1,4}(-?\d{1,5})\b"
)

_TOOK = re.compile(r"\s{0,3}(?:\(\d[\d.]{0,12}\s?m?s\)|in \d[\d.]{0,12}\s?m?s)[ =]{0,80}\Z")
_URL = re.compile(r"https?://[^\s\"'<>`)\]},\\|]{3,400}")
_ID = re.compile(r"#?[A-Za-z0-9][\w#.:@-]{3,63}\Z")

_ID_IN_RESULT = re.compile(
    r"\"(?:\w{0,40}_)?(?:id|number|key|ref|sha)\"\s?:\s?\"?([A-Za-z0-9][\w#.:@-]{2,63})\"?(?=[,}\s])"
)

_NAMED = re.compile(r'"([\w-]{1,40})"\s?:\s?"((?:[^"\\\n]|\\.){1,400})"')


def read_arguments(text: str) -> list[tuple[str, str]]:
    """Return the arguments as names and texts, nested ones too; a text that is no JSON has no name."""
    if len(text) > _PARSED:
        return [(key, value) for part in (text[:_END], text[-_END:]) for key, value in _NAMED.findall(part)]
    try:
        parsed = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            return [("", text)]
    found: list[tuple[str, str]] = []
    _flatten("", parsed, found, _DEPTH)
    return found


def _flatten(name: str, value: Any, found: list[tuple[str, str]], depth: int) -> None:
    if len(found) >= _VALUES or depth < 0:
        return
    if isinstance(value, str):
        found.append((name, value))
    elif isinstance(value, dict):
        for key, inner in value.items():
            _flatten(key, inner, found, depth - 1)
    elif isinstance(value, list):
        for inner in value[:_VALUES]:
            _flatten(name, inner, found, depth - 1)


def patched_files(values: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """(path, operation) of each file of a patch among the arguments."""
    found: list[tuple[str, str]] = []
    for name, text in values:
        if name in ("patch", "diff", "") and "+++ " in text:
            for old, new in ((old.strip(), new.strip()) for old, new in _DIFF.findall(text[:_PARSED])):
                done = "deleted" if new == "/dev/null" else "created" if old == "/dev/null" else "edited"
                found.append((old.removeprefix("a/") if done == "deleted" else new.removeprefix("b/"), done))
        if "*** " not in text:
            continue
        for verb, path, target in PATCHED.findall(text[:_PARSED]):
            moved = target.strip()
            found.append((path.strip(), "moved" if moved else PATCH_VERBS[verb]))
            found += [(moved, "created")] if moved else []
    return found


def refuses(result: str, *, looks: bool) -> bool:
    """Return whether a result says that the call did nothing. What was looked at may itself begin with such words."""
    if _ERROR.match(result[:_HEAD]) or denies(result):
        return True
    if looks:
        return False
    if result.lstrip()[:1] == "{" and len(result) <= _PARSED:
        with suppress(msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return _reports_failure(msgspec.json.decode(result))
    return _REFUSED.match(result[:_HEAD]) is not None


def denies(result: str) -> bool:
    """Return whether a result says that the call was not even begun: somebody forbade or stopped it."""
    return _DENIED.match(result[:_HEAD]) is not None


def _reports_failure(fields: dict[str, Any]) -> bool:
    """Return whether an object says so in one of the usual fields, or its `output` does."""
    went_well, failed = fields.get("success", fields.get("ok")), fields.get("is_error", fields.get("isError"))
    if went_well is False or failed is True or (went_well is not True and bool(fields.get("error"))):
        return True
    inner = fields.get("output")
    return isinstance(inner, dict) and _reports_failure(inner)


def exit_code(text: str) -> str:
    """Return the exit status that a result tells at its beginning or its end; "" if it tells none."""
    for part in (text[:_HEAD], text[_HEAD:][-_HEAD:]):
        if ("xit" in part or "return" in part) and (found := _EXIT.search(part)):
            return found[1]
    return ""


def is_id(value: str) -> bool:
    """Return whether an argument is one word with a digit in it, and more than a number."""
    return (
        len(value) <= 64
        and _ID.match(value) is not None
        and any(map(str.isdigit, value))
        and not value.replace(".", "").replace("-", "").replace(":", "").isdigit()
    )


def signature(line: str) -> str:
    """Return an error's line without the time that it took, which is another one each time."""
    return _TOOK.sub("", line)


def ids_in_result(text: str) -> list[str]:
    """Return the ids that a result names as such, the first few."""
    return list(dict.fromkeys(id for id in _ID_IN_RESULT.findall(text) if is_id(id)))[:8]


def urls_in(text: str) -> list[str]:
    """Return the addresses in a text, the first few."""
    if "://" not in text:
        return []
    found: dict[str, None] = {}
    for match in _URL.finditer(text):
        found[match[0].rstrip(".,;:!?)'")] = None
        if len(found) == 4:
            break
    return list(found)


def both_ends(text: str) -> str:
    """Return a text, or of a huge one its beginning and its end."""
    return text if len(text) <= 2 * _PARSED else f"{text[:_PARSED]}\n{text[-_PARSED:]}"


def one_line(text: str, most: int) -> str:
    """Return a text on one line of at most so many characters."""
    line = " ".join(text[: 4 * most].split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
