"""This package's part: the reader behind its port, and its settings. Defaults but for the budget, kept in memory."""

from __future__ import annotations

import re
from typing import Any

from evals.hosts_beside.reader import Reader
from evals.hosts_beside.rows import Row, tokens
from summarizing_context import Settings, SummaryJob

_HEADING = re.compile(r"### user \[(\d+)\]")
_RULE = "From now on, "


class ByReader:
    """Summaries by the reader of every arm. Asked for standing rules, it quotes the lines that say they are."""

    recipe = "beside/1"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def summarize(self, job: SummaryJob) -> str:
        request = [Row("system", job.instructions), Row("user", job.content)]
        text = await self._reader.summarize(request, job.max_tokens)
        return _rules(job.content) if job.kind == "rules" else text


def _rules(content: str) -> str:
    quotes, number = [], ""
    for line in content.splitlines():
        if heading := _HEADING.match(line):
            number = heading[1]
        elif line.startswith(_RULE):
            quotes.append(f'- [{number}] must "{line}"')
    return "\n".join(quotes) or "none"


def options(setting: int, reader: Reader) -> tuple[Settings, dict[str, Any]]:
    """Settings, and what goes beside them."""
    settings = Settings(max_tokens=setting, session_id="beside")
    return settings, {"summarizer": ByReader(reader), "count_tokens": tokens}
