"""Instruction files (CLAUDE.md and the like) that hosts put into rows of the conversation.

Pure. Only what no person typed is looked at, and only behind the marks that hosts write before a file. A result of a
tool never holds one: it may quote anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from summarizing_context.messages.reading import Reading
from summarizing_context.messages.text import split_pieces

_MARKS = re.compile(  # without any of these in its bytes a message holds no such file
    rb"Conte(?:nts of |xt from: )|AGENTS\.md instructions|Instructions from: |<(?:user_instructions>|context_file)"
    rb"|# (?:CLAUDE|AGENTS|GEMINI)\.md"
)

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


def may_hold_files(data: bytes) -> bool:
    """Return whether the bytes of a message have any of the marks, without which it holds no such file."""
    return _MARKS.search(data) is not None


def instruction_files(reading: Reading) -> Iterator[tuple[str, str]]:
    """Yield the instruction files in a message, in their order; none in what a person typed or a tool said. Each is its
    path, or its name where there is no path, and its text."""
    texts = list[str]()
    for part in reading.parts:
        for said in (text[:400_000] for text in part.texts if part.kind == "text"):
            is_host = part.put_in or not reading.human
            texts += [said] if is_host else [piece.text for piece in split_pieces(said) if not piece.typed]
    for text in texts:
        heads = list(_HEADS.finditer(text))
        if not heads and (title := _TITLE.match(text)):
            yield title[1], text.strip()
        for head, stop in zip(heads, [*(head.start() for head in heads[1:]), len(text)], strict=False):
            body = text[head.end() : stop]
            end = _END.search(body)
            body = (body[: end.start()] if end else body).strip()
            body = body.removeprefix("<INSTRUCTIONS>").strip()  # stands between Codex's heading and the file

            # its path; none for a file of Amplifier's context that holds no instructions
            named = head["claude"] or head["nested"] or head["opencode"] or head["gemini"] or "AGENTS.md"
            if amplifier := head["amplifier"]:
                title, paths = _TITLE.match(body), _PATH.findall(amplifier)
                named = paths[-1] if paths else title[1] if title else ""
            elif folder := head["folder"]:
                named = f"{folder.strip().rstrip('/')}/AGENTS.md"
            if body and named:
                yield named.strip(), body
