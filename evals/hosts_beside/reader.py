"""The model that summarizes, the same for every arm: it repeats lines of the session that it was sent, and no others.

It knows which lines were ever said, so that it never repeats an instruction. It writes at most `limit` tokens, or fewer
where a request asks for fewer. Which lines it repeats was fixed before any figure of this rule was seen. By `ranked`:

1. rules: lines that begin with "From now on, ";
2. decisions and corrections: lines that begin with "Decision: " or "Correction: ", as equals;
3. lines with an exact value: a number of at least four digits, or a path;
4. all others.

Within each of the four the newest come first: those that the session said last, wherever they stand in the request. A
line that does not fit is left out, and the next is tried. By `first` it takes lines from the beginning until one does
not fit. Either way it writes the lines in the order of the request.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from evals.hosts_beside.clock import Clock
from evals.hosts_beside.request_figures import Watch
from evals.hosts_beside.rows import Row, tokens, wire

RULES = ("ranked", "first")
_START = 16  # characters by which a line is found
_WORD = re.compile(r"(?<!\w)\w")
_RANKS = (
    re.compile(r"^From now on, "),
    re.compile(r"^(Decision|Correction): "),
    re.compile(r"\d{4,}|\w[\w-]*/[\w./-]+"),
)


@dataclass
class Reader:
    lines: Iterable[str]  # all that are ever said
    watch: Watch
    clock: Clock
    latency: float  # steps
    limit: int = 1_500  # tokens of a summary
    rule: str = "ranked"
    _place: dict[str, int] = field(default_factory=dict)  # in the session, where it was said last
    _known: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def __post_init__(self) -> None:
        for place, line in enumerate(self.lines):
            self._known[line[:_START]].add(line)
            self._place[line] = place

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
        order = lines if self.rule == "first" else sorted(lines, key=self._rank)
        left, chosen = limit, set()
        for line in order:
            size = tokens(line + "\n")
            if size <= left:
                left -= size
                chosen.add(line)
            elif self.rule == "first":
                break
        return "\n".join(line for line in lines if line in chosen)

    def _rank(self, line: str) -> tuple[int, int]:
        """First what comes first."""
        kind = next((at for at, pattern in enumerate(_RANKS) if pattern.search(line)), len(_RANKS))
        return kind, -self._place[line]
