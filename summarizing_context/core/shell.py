"""Shell commands: the command without what surrounds it, whether it only looks, which files it obviously touches.

Pure, in bounded work. A shell can do anything: only plain words are taken for files, no variables and no patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_READ = 4_000  # characters of a command that are looked at
_TRIED = 600  # characters of a command that say what it tries
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


class FileDeed(NamedTuple):
    """One file operation of a command."""

    path: str
    operation: str
    program: str  # whose complaint would mean that it did not happen


def bare_command(command: str) -> str:
    """The command without a shell around it and a change of folder in front."""
    start = _without_shell(command)
    return _CHANGE_DIRECTORY.sub("", start, count=1) if start.startswith("cd ") else start


def _without_shell(command: str) -> str:
    start = command.lstrip()[:_READ]
    around = _SHELL.match(start)
    return start[around.end() :].lstrip() if around else start


def only_looks(command: str) -> bool:
    """Whether a bare command begins by looking, and commits nothing."""
    return LOOKS.match(command) is not None and not COMMITS.search(command)


def tried(command: str) -> str:
    """What a bare command tries, whatever its options and whoever reads its output: two runs of it are alike."""
    line = command.split("\n", 1)[0][:_TRIED]
    line = _PIPED.sub("", line) if "|" in line else line
    line = _REDIRECT.sub("", line) if ">" in line else line
    return " ".join((_OPTION.sub("", line) if " -" in line else line).split())[:200]


def files_of(command: str) -> list[FileDeed]:
    """The files that a command obviously creates, changes, moves or deletes, in order."""
    if not _HINT.search(command[:_READ]):
        return []
    start = _without_shell(command)
    folder = _CHANGE_DIRECTORY.match(start)
    found: list[FileDeed] = []
    for words, written in _simple_commands(_without_text(start)):
        found += [FileDeed(path, "wrote", "sh") for path in written]
        found += _deeds(words)
        if len(found) >= _MOST:
            break
    base = (folder[1] or folder[2] or folder[3]) if folder else ""
    return [_within(base, deed) for deed in found[:_MOST] if _is_plain(deed.path)]


def _without_text(command: str) -> str:
    """The command without comments and the bodies of here-documents."""
    bare = _COMMENT.sub("", command) if "#" in command else command
    return _HEREDOC.sub(r"<<\2\3 ", bare) if "<<" in bare else bare


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


def _deeds(words: Sequence[str]) -> list[FileDeed]:
    """What one simple command does to which files."""
    at = 0
    while at < len(words) and words[at] in _BEFORE:
        at += 1
    if at < len(words) - 1 and words[at] == "git" and words[at + 1] in ("rm", "mv"):
        at += 1
    program = words[at] if at < len(words) else ""
    options = [word for word in words[at + 1 :] if word.startswith("-")]
    names = [word for word in words[at + 1 :] if word and not word.startswith("-")]
    if program in _OPERATIONS:
        return [FileDeed(name, _OPERATIONS[program], program) for name in names]
    if program == "tee":
        return [FileDeed(name, "wrote", program) for name in names]
    if program in ("mv", "cp") and len(names) == 2:
        gone = [FileDeed(names[0], "moved", program)] if program == "mv" else []
        return [*gone, FileDeed(_target(names), "created", program)]
    if program == "sed" and any(option.startswith("-i") or option == "--in-place" for option in options):
        return [FileDeed(name, "edited", program) for name in names[1:] if "/" in name or "." in name]
    return []


def _target(names: Sequence[str]) -> str:
    """Where a file comes to stand: within a folder it keeps its name."""
    source, target = names
    return f"{target}{source.rstrip('/').rpartition('/')[2]}" if target.endswith("/") else target


def _within(base: str, deed: FileDeed) -> FileDeed:
    if not base or not _is_plain(base) or deed.path.startswith(("/", "~")):
        return deed
    return deed._replace(path=f"{base.rstrip('/')}/{deed.path.removeprefix('./')}")


def _is_plain(path: str) -> bool:
    return _PLAIN.match(path) is not None and not path.startswith(("/dev/", "&", "-")) and path not in (".", "..", "/")


def _unquoted(token: str) -> str:
    return token[1:-1] if len(token) > 1 and token[0] == token[-1] and token[0] in "'\"" else token
