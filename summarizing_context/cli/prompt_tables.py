"""What `prompts` prints: the list, one prompt, a comparison, a request in its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from summarizing_context.cli.output import number, plain, screen, table

if TYPE_CHECKING:
    from summarizing_context.evaluation.prompting.differences import Change
    from summarizing_context.evaluation.prompting.rendering import Rendered
    from summarizing_context.prompt_library import Prompt

_STYLES = {"-": "red", "+": "green", " ": "", "…": "dim"}
_ENDS = 8  # lines of a record that are shown at either end


def facts_of(prompt: Prompt, count: Callable[[str], int]) -> dict[str, Any]:
    """What there is to know about a prompt, as JSON values."""
    from summarizing_context.evaluation.prompting.checks import fixed_text
    from summarizing_context.prompt_library import released

    name = f"{prompt.name}/v{prompt.version}"
    return {
        "name": name,
        "purpose": prompt.name,
        "version": prompt.version,
        "about": prompt.purpose,
        "fixed_tokens": count(fixed_text(prompt)),
        "hash": prompt.hash,
        "released": released().get(name) == prompt.hash,
    }


def list_table(rows: Sequence[dict[str, Any]], counter: str) -> Table:
    """All prompts, a row each."""
    made = table("Prompts", "purpose", "#version", "#tokens", "hash", "released", "about", wide="about")
    for row in rows:
        made.add_row(
            row["purpose"],
            str(row["version"]),
            number(row["fixed_tokens"]),
            row["hash"][:12],
            _told(row["released"]),
            Text(plain(row["about"]), style="dim"),
        )
    made.caption, made.caption_justify = f"tokens of the fixed text, counted by {counter}", "left"
    return made


def show_prompt(prompt: Prompt, facts: dict[str, Any], counter: str) -> None:
    """One prompt with its text as it stands in the file."""
    console = screen()
    told = "released" if facts["released"] else "not released"
    console.print(Text(f"{facts['name']}: {plain(facts['about'])}", style="bold"))
    console.print(f"{facts['fixed_tokens']} tokens by {counter}, {told}, hash {facts['hash']}", style="dim")
    for rank, focus in enumerate(prompt.focuses, start=1):
        console.print(Text(f"rank {rank}: {plain(focus)}", style="dim"))
    console.print()
    _print_text(prompt.text)


def diff_document(old: Prompt, new: Prompt, count: Callable[[str], int]) -> dict[str, Any]:
    """A comparison as JSON values."""
    from summarizing_context.evaluation.prompting.differences import compare_prompts

    changes = [[change.sign, change.text] for change in compare_prompts(old, new)]
    return {"first": facts_of(old, count), "second": facts_of(new, count), "changes": changes}


def show_diff(old: Prompt, new: Prompt, count: Callable[[str], int]) -> None:
    """A comparison, coloured on a terminal."""
    from summarizing_context.evaluation.prompting.differences import compare_prompts

    before, after = facts_of(old, count), facts_of(new, count)
    console = screen()
    tokens = f"{before['fixed_tokens']} → {after['fixed_tokens']} tokens"
    console.print(Text(f"{before['name']} → {after['name']}   {tokens}", style="bold"))
    changes = compare_prompts(old, new)
    for change in changes:
        console.print(_line(change), soft_wrap=True)
    if not changes:
        console.print("They say the same.")


def show_rendered(rendered: Rendered, counter: str, *, full: bool) -> None:
    """A request: what its parts cost, then the parts."""
    console = screen()
    where = f"messages {rendered.start}–{rendered.stop - 1}, number {rendered.number} of {rendered.among}"
    made = table(f"{rendered.prompt} for {where}", "slot", "part", "same every time", "#tokens", "#share")
    for part in rendered.parts:
        share = f"{part.tokens / max(rendered.tokens, 1):.1%}"
        made.add_row(part.slot, part.name, _told(part.fixed), number(part.tokens), share)
    made.add_section()
    fixed = f"{rendered.fixed_tokens / max(rendered.tokens, 1):.1%}"
    made.add_row("", "of it the same every time", "", number(rendered.fixed_tokens), fixed)
    made.add_row("", "the request", "", number(rendered.tokens), "100.0%")
    made.caption = f"counted by {counter}; the answer may have {rendered.max_tokens:,} tokens"
    made.caption_justify = "left"
    console.print(made)
    for slot in ("system", "user"):
        console.print(Text(f"── {slot}", style="bold"))
        text = "".join(part.text for part in rendered.parts if part.slot == slot)
        _print_text(text if full or slot == "system" else _ends_of(text))


def _line(change: Change) -> Text:
    style = _STYLES[change.sign]
    told = Text(f"{change.sign} ", style=style)
    for piece in change.pieces:
        told.append(piece.text, style=f"bold {style}" if piece.changed and style else style)
    return told


def _print_text(text: str) -> None:
    console = screen()
    for line in text.split("\n"):
        console.print(line, soft_wrap=True)


def _ends_of(text: str) -> str:
    lines = text.split("\n")
    if len(lines) <= 2 * _ENDS + 1:
        return text
    left_out = f"… {len(lines) - 2 * _ENDS:,} lines more; --full prints them"
    return "\n".join([*lines[:_ENDS], left_out, *lines[-_ENDS:]])


def _told(value: bool) -> str:
    return "yes" if value else "no"
