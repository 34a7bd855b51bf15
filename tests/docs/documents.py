"""The documents of the checkout, and the blocks and links in them.

The comment `<!-- in a session -->` before a Python block says that the block runs with an open `context`, and that
`await` may stand at its top. `<!-- needs NAME -->` names a library that it imports and that `test` does not install.
"""

import re
from pathlib import Path
from typing import NamedTuple

from tests.docs.checkout import ROOT

_BLOCK = re.compile(r"(?:^<!-- ([a-z_. ]+) -->\n+)?^( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\((?!https?://|mailto:)([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: its page, its language, its text, and the comment before it."""

    page: str
    number: int
    language: str
    text: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page}:{self.number}"


def pages() -> list[str]:
    """Every document that a user or a contributor reads, by its path."""
    found = (path.relative_to(ROOT) for path in ROOT.glob("docs/**/*.md"))
    return ["README.md", "CONTRIBUTING.md", *sorted(str(path) for path in found if "tools" not in path.parts)]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(*languages: str) -> list[Block]:
    """All blocks in these languages, in the order of the pages."""
    made = []
    for page in pages():
        for number, (mark, indent, language, text) in enumerate(_BLOCK.findall(read(page)), start=1):
            if language in languages:
                lines = (f"{line.removeprefix(indent)}\n" for line in text.splitlines())
                made.append(Block(page, number, language, "".join(lines), mark))
    return made


def commands(program: str) -> list[tuple[str, str]]:
    """Each line of a shell block that calls the program: the page and the line, without its comment or redirection."""
    lines = [(block.page, line) for block in blocks("bash") for line in block.text.splitlines()]
    return [(page, re.split(r"  +#| > | \| ", line)[0].strip()) for page, line in lines if line.startswith(program)]


def links(page: str) -> list[tuple[str, Path, str]]:
    """A page's links to files and anchors: each with the file that it names, and the anchor in it."""
    parted = [(link, *link.partition("#")) for link in _LINK.findall(_without_blocks(page))]
    here, folder = ROOT / page, (ROOT / page).parent
    return [(link, (folder / name).resolve() if name else here, anchor) for link, name, _, anchor in parted]


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as MkDocs and code hosts name them."""
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", heading) for heading in _HEADING.findall(_without_blocks(page)))
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower()) for text in plain}


def _without_blocks(page: str) -> str:
    return re.sub(r"<!--.*?-->", "", _BLOCK.sub("", read(page)), flags=re.DOTALL)
