"""Instruction files (CLAUDE.md, AGENTS.md, GEMINI.md) that hosts put into rows of a conversation.

Pure. Only what no person typed is looked at, as `authorship` tells, and only behind the marks that hosts write before
a file. A result of a tool never holds one: it may quote anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from summarizing_context.messages.authorship import split_pieces
from summarizing_context.messages.reading import Reading

_MARKS = (  # without any of these in its bytes a message holds no such file
    *(b"Contents of ", b"AGENTS.md instructions", b"<user_instructions>", b"Instructions from: "),
    *(b"--- Context from: ", b"<context_file", b"# CLAUDE.md", b"# AGENTS.md", b"# GEMINI.md"),
)

FILE_ROLES = ("user", "system", "developer")  # of messages that may hold a file
_NAMED = r"[^\n]{0,300}\b(?:CLAUDE|AGENTS|GEMINI)(?:\.local|\.override)?\.md"
_TOLD = r"\((?=[^\n)]{0,200}(?:instructions|memory))[^\n)]{0,200}\)"  # behind a path, what the file is
_HEADS = re.compile(
    r"^(?:"
    rf"Contents of (?:(?P<claude>[^\n]{{1,300}}?) {_TOLD}|(?P<nested>{_NAMED})):"
    r"|\# AGENTS\.md instructions(?: for (?P<folder>[^\n]{1,300}))?"
    r"|(?P<tag><user_instructions>)"
    r"|Instructions from: (?P<opencode>[^\n]{1,300})"
    r"|--- Context from: (?P<gemini>[^\n]{1,160}\.md) ---"
    r"|(?P<amplifier><context_file(?:[^\S\n][^\n>]{0,1000})?>)"
    r")[^\S\n]*(?:\n|\Z)",
    re.MULTILINE,
)

_PATH = re.compile(r"(?<![^\s\"',;→])[^\s\"',;→]{0,300}\b(?:CLAUDE|AGENTS|GEMINI)(?:\.local|\.override)?\.md\b")
_TITLE = re.compile(r"\s*#+ ((?:CLAUDE|AGENTS|GEMINI)\.md)[^\S\n]*(?:\n|\Z)")  # of a file that stands there bare
_END = re.compile(  # what hosts write behind the last file
    r"^(?:</(?:system-reminder|INSTRUCTIONS|user_instructions|context_file)>|--- End of Context from: "
    r"|[^\S\n]*# (?:currentDate|gitStatus|userEmail|important-instruction-reminders)[^\S\n]*$"
    r"|[^\S\n]*IMPORTANT: this context may or may not be relevant)",
    re.MULTILINE,
)


def may_hold_files(message: bytes) -> bool:
    """Return False only for the bytes of a message that holds no instruction file."""
    return any(map(message.__contains__, _MARKS))


def instruction_files(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the instruction files in a message, in their order; none in what a person typed or a tool said. Each is its
    path, or its name where no path is told, and its text."""
    for part in reading.parts if reading.role in FILE_ROLES else ():
        for text in part.texts if part.kind == "text" else ():
            said = text[:400_000]
            if part.put_in or not reading.human:
                yield from _files(said)
            else:
                for piece in split_pieces(said):
                    yield from () if piece.typed else _files(piece.text)


def _files(text: str) -> Iterator[tuple[str, str]]:
    heads = list(_HEADS.finditer(text))
    if not heads and (title := _TITLE.match(text)):
        yield title[1], text.strip()
    for head, stop in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=False):
        body = text[head.end() : stop]
        end = _END.search(body)
        body = (body[: end.start()] if end else body).strip()
        body = body.removeprefix("<INSTRUCTIONS>").strip()  # stands between Codex's heading and the file
        if body and (name := _name(head, body)):
            yield name, body


def _name(head: re.Match[str], body: str) -> str:
    """Return the path of a file; empty for a file of Amplifier's context that holds no instructions."""
    if amplifier := head["amplifier"]:
        title = _TITLE.match(body)
        paths: list[str] = _PATH.findall(amplifier)
        return paths[-1] if paths else title[1] if title else ""
    if folder := head["folder"]:
        return f"{folder.strip().rstrip('/')}/AGENTS.md"
    named = head["claude"] or head["nested"] or head["opencode"] or head["gemini"]
    return named.strip() if named else "AGENTS.md"
