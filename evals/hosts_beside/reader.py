"""The model that summarizes, the same for every arm: it repeats lines of the session that it was sent, and no others.

It knows which lines were ever said, so that it never repeats an instruction. By `values` it chooses the lines with most
numbers and paths, and what says of itself that it is a decision, a correction or a rule; equals by chance. By `first`
it takes lines from the beginning. It writes at most `limit` tokens, or fewer where a request asks for fewer.
"""

from __future__ import annotations

import re
import zlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from evals.hosts_beside.clock import Clock
from evals.hosts_beside.rows import Row, tokens, wire
from evals.hosts_beside.watching import Watch

RULES = ("values", "first")
_START = 16  # characters by which a line is found
_WORD = re.compile(r"(?<!\w)\w")
_VALUE = re.compile(r"\d{3,}|\w[\w-]*/[\w./-]+")
_CUE = re.compile(r"Decision: |Correction: |From now on, ")


@dataclass
class Reader:
    lines: Iterable[str]  # all that are ever said
    watch: Watch
    clock: Clock
    latency: float  # steps
    limit: int = 1_500  # tokens of a summary
    rule: str = "values"
    _known: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        for line in self.lines:
            self._known[line[:_START]].add(line)

    async def summarize(self, request: list[Row], limit: int | None = None) -> str:
        """Read a request, take as long as the run says, and write. Raises `ValueError` where no line is known."""
        text = self._write(request, limit)
        await self.clock.sleep(self.latency)
        return text

    def summarize_here(self, request: list[Row], limit: int | None = None) -> str:
        """The same for a thread."""
        text = self._write(request, limit)
        self.clock.sleep_here(self.latency)
        return text

    def _write(self, request: list[Row], limit: int | None) -> str:
        found = self.lines_of(wire(request))
        if not found:
            raise ValueError(f"a request for a summary holds no line of the session: {wire(request)[:500]!r}")
        text = self.choose(found, min(self.limit, limit or self.limit))
        self.watch.summary(request, text)
        return text

    def lines_of(self, text: str) -> list[str]:
        """The lines of the session that stand whole in a text, each once, in their order."""
        found: dict[str, None] = {}
        for written in text.splitlines():
            at = 0
            while begins := _WORD.search(written, at):
                at = begins.start()
                known = self._known.get(written[at : at + _START], ())
                line = max((one for one in known if written.startswith(one, at)), key=len, default="")
                if line:
                    found[line] = None
                at += len(line) or 1
        return list(found)

    def choose(self, lines: list[str], limit: int) -> str:
        order = lines if self.rule == "first" else sorted(lines, key=_worth)
        left, chosen = limit, set()
        for line in order:
            size = tokens(line + "\n")
            if size <= left:
                left -= size
                chosen.add(line)
            elif self.rule == "first":
                break
        return "\n".join(line for line in lines if line in chosen)


def _worth(line: str) -> tuple[int, int]:
    """Best first; equals by a chance that has nothing to do with their place."""
    return -len(_VALUE.findall(line)) - 3 * bool(_CUE.match(line)), zlib.crc32(line.encode())
