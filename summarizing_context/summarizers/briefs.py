"""One to three lines in place of a summary: the most important of its lines, whole.

Pure, and quick: it is asked for many nodes at one activation.
"""

from __future__ import annotations

from summarizing_context.summarizers.sections import (
    NAMES,
    PRIORITY,
    Count,
    Sections,
    nothing_readable,
    read_sections,
    shorten,
)

_MOST_LINES = 3
_MOST_TRIED = 4  # bullets of one section
_LEAST = 6  # tokens for which another bullet is worth a try


def brief_sections(summary: str, max_tokens: int, count: Count) -> str:
    """At most `max_tokens` of a summary text, a line for each of the sections it can still speak of."""
    sections = read_sections(summary)
    lines: list[str] = []
    left = max_tokens
    for section in PRIORITY:
        if len(lines) == _MOST_LINES or left < _LEAST:
            break
        told, left = _tell(section, _by_importance(sections, section), left, count)
        if told:
            lines.append(told)
    while lines and count("\n".join(lines)) > max_tokens:
        lines.pop()
    return "\n".join(lines) if lines else _best(sections, summary, max_tokens, count)


def _by_importance(sections: Sections, section: int) -> list[str]:
    return [line.text for line in sections[section]][::-1][:_MOST_TRIED]


def _tell(section: int, texts: list[str], left: int, count: Count) -> tuple[str, int]:
    told = f"{NAMES[section]}:"
    for text in texts:
        cost = count(f"{told} {text}\n" if told.endswith(":") else f" · {text}")
        if cost <= left:
            told += f" {text}" if told.endswith(":") else f" · {text}"
            left -= cost
    return ("" if told.endswith(":") else told), left


def _best(sections: Sections, summary: str, max_tokens: int, count: Count) -> str:
    texts = [text for section in PRIORITY for text in _by_importance(sections, section)[:1]]
    return shorten(texts[0] if texts else nothing_readable(summary)[0].text, max_tokens, count)
