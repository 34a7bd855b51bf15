"""`summarizing-context prompts`: list, show, compare, render and check prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from summarizing_context.cli.options import JsonPath, PromptsPath, TranscriptFormat, read_path
from summarizing_context.cli.output import (
    InputError,
    Status,
    examples,
    help_text,
    number,
    plain,
    screen,
    show_result,
    table,
    tell_skipped_lines,
    write_json,
)
from summarizing_context.cli.stored import prompt_names

if TYPE_CHECKING:
    from summarizing_context.evaluation.prompt_inspection import Change, Rendered
    from summarizing_context.messages.counters import TokenCounter
    from summarizing_context.summarizers.prompts import Prompt


_STYLES = {"-": "red", "+": "green", " ": "", "…": "dim"}

_ENDS = 8  # lines of a record that are shown at either end


def facts_of(prompt: Prompt, count: Callable[[str], int]) -> dict[str, Any]:
    """What there is to know about a prompt, as JSON values."""
    from summarizing_context.evaluation.prompt_inspection import fixed_text

    return {
        "name": f"{prompt.name}/v{prompt.version}",
        "purpose": prompt.name,
        "version": prompt.version,
        "about": prompt.purpose,
        "fixed_tokens": count(fixed_text(prompt)),
        "hash": prompt.hash,
    }


def list_table(rows: Sequence[dict[str, Any]], counter: str) -> Table:
    """All prompts, a row each."""
    made = table("Prompts", "purpose", "#version", "#tokens", "hash", "about", wide="about")
    for row in rows:
        made.add_row(
            row["purpose"],
            str(row["version"]),
            number(row["fixed_tokens"]),
            row["hash"][:12],
            Text(plain(row["about"]), style="dim"),
        )
    made.caption, made.caption_justify = f"tokens of the fixed text, counted by {counter}", "left"
    return made


def show_prompt(prompt: Prompt, facts: dict[str, Any], counter: str) -> None:
    """One prompt with its text as it stands in the file."""
    console = screen()
    console.print(Text(f"{facts['name']}: {plain(facts['about'])}", style="bold"))
    console.print(f"{facts['fixed_tokens']} tokens by {counter}, hash {facts['hash']}", style="dim")
    for rank, focus in enumerate(prompt.focuses, start=1):
        console.print(Text(f"rank {rank}: {plain(focus)}", style="dim"))
    console.print()
    _print_text(prompt.text)


def show_diff(before: dict[str, Any], after: dict[str, Any], changes: Sequence[Change]) -> None:
    """A comparison of the prompts with these facts, coloured on a terminal."""
    console = screen()
    tokens = f"{before['fixed_tokens']} → {after['fixed_tokens']} tokens"
    console.print(Text(f"{before['name']} → {after['name']}   {tokens}", style="bold"))
    for change in changes:
        console.print(Text(f"{change.sign} {change.text}", style=_STYLES[change.sign]), soft_wrap=True)
    if not changes:
        console.print("They say the same.")


def show_rendered(rendered: Rendered, counter: str, *, full: bool) -> None:
    """A request: what its parts cost, then the parts."""
    console = screen()
    where = f"messages {rendered.start}–{rendered.stop - 1}, number {rendered.number} of {rendered.among}"
    made = table(f"{rendered.prompt} for {where}", "slot", "part", "same every time", "#tokens", "#share")
    for part in rendered.parts:
        share = f"{part.tokens / max(rendered.tokens, 1):.1%}"
        made.add_row(part.slot, part.name, _yes_or_no(part.fixed), number(part.tokens), share)
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


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


_EXAMPLES = examples(
    "prompts list",
    "prompts diff segment --prompts my-prompts/    # your newest version against the shipped one",
    "prompts render segment run.jsonl    # the request for a real segment, part by part",
    "prompts check --prompts my-prompts/",
)


_NAME = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="segment/v1, or segment for the newest version.",
        autocompletion=prompt_names,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the family to the app."""
    family = typer.Typer(
        help="Show, compare and check prompts.",
        epilog=_EXAMPLES,
        no_args_is_help=True,
        rich_markup_mode="rich",
    )
    family.command("list", help=help_text(list_prompts))(list_prompts)
    for command in (show, diff, render, check):
        family.command(command.__name__, help=help_text(command))(command)
    app.add_typer(family, name="prompts")


def list_prompts(prompts: PromptsPath = None, json_path: JsonPath = None) -> int:
    """List all prompts with the tokens that their fixed text costs in every request."""
    from summarizing_context.summarizers.prompts import load, names

    root, counter = _root(prompts), _counter()
    rows = [facts_of(load(name, root=root), counter.count) for name in names(root)]
    show_result(json_path, {"token_counter": counter.name, "prompts": rows}, list_table(rows, counter.name))
    return Status.OK


def show(name: _NAME, prompts: PromptsPath = None, json_path: JsonPath = None) -> int:
    """Show one prompt: what it is for, what it costs, and its whole text."""

    prompt, counter = find_prompt(name, prompts), _counter()
    facts = facts_of(prompt, counter.count)
    if json_path is not None:
        whole = {"placeholders": sorted(prompt.placeholders), "focuses": list(prompt.focuses), "text": prompt.text}
        write_json(json_path, {**facts, "token_counter": counter.name, **whole})
    if json_path != "-":
        show_prompt(prompt, facts, counter.name)
    return Status.OK


def diff(
    first: _NAME,
    second: Annotated[str | None, typer.Argument(metavar="[OTHER]", help="What to compare it with.")] = None,
    prompts: PromptsPath = None,
    json_path: JsonPath = None,
) -> int:
    """Compare two prompts; of one name alone, the shipped version with the one in your folder."""
    from summarizing_context.evaluation.prompt_inspection import compare_prompts

    if second is None:
        if prompts is None:
            raise InputError("name another prompt to compare it with, or the folder of yours with --prompts")
        old, new = find_prompt(first.partition("/")[0], None), find_prompt(first, prompts)
    else:
        old, new = find_prompt(first, prompts), find_prompt(second, prompts)
    counter, changes = _counter(), compare_prompts(old, new)
    before, after = facts_of(old, counter.count), facts_of(new, counter.count)
    if json_path is not None:
        told = [[change.sign, change.text] for change in changes]
        document = {"first": before, "second": after, "changes": told, "token_counter": counter.name}
        write_json(json_path, document)
    if json_path != "-":
        show_diff(before, after, changes)
    return Status.OK


def render(
    name: _NAME,
    transcript: Annotated[
        Path | None,
        typer.Argument(metavar="[TRANSCRIPT]", parser=read_path, help="A .jsonl or .jsonl.gz file of messages."),
    ] = None,
    *,
    format: TranscriptFormat = "auto",
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Use a stored session instead, with --store.")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", envvar="SUMMARIZING_CONTEXT_STORE", parser=read_path, help="Store of the session."
        ),
    ] = None,
    number: Annotated[int, typer.Option(metavar="N", help="Number of the segment or rollup, from 1.")] = 1,
    rank: Annotated[int, typer.Option(metavar="R", min=1, help="Rank in the tree, for rollups.")] = 1,
    topic: Annotated[str, typer.Option(metavar="WORDS", help="Topic, for focus prompts.")] = "",
    full: Annotated[bool, typer.Option("--full", help="Print the whole record, not only its beginning and end.")] = (
        False
    ),
    prompts: PromptsPath = None,
    json_path: JsonPath = None,
) -> int:
    """Show the exact request that a prompt is sent with for a real segment, and what each part costs.

    Nothing is sent. Messages are cut into segments as a session would cut them.
    """
    import anyio

    from summarizing_context.evaluation.prompt_inspection import RENDERED, jobs_for, render_request
    from summarizing_context.settings.values import Settings

    prompt, counter = find_prompt(name, prompts), _counter()
    if prompt.name not in RENDERED:
        raise InputError(f"{prompt.name} is not sent with parts of a session; those are {', '.join(RENDERED)}")
    if prompt.name == "focus" and not topic.strip():
        raise InputError("a focus prompt is about a topic; name one with --topic")
    messages = _messages(transcript, session, store, format)
    settings = Settings.load(store=":memory:", summarizer="extractive")
    jobs = anyio.run(partial(jobs_for, messages, settings, purpose=prompt.name, topic=topic, rank=rank))
    rendered = render_request(prompt, jobs, number, counter.count)
    if json_path is not None:
        from dataclasses import asdict

        parts = [part._asdict() for part in rendered.parts]
        sums = {"tokens": rendered.tokens, "fixed_tokens": rendered.fixed_tokens, "token_counter": counter.name}
        write_json(json_path, {**asdict(rendered), **sums, "parts": parts})
    if json_path != "-":
        show_rendered(rendered, counter.name, full=full)
    return Status.OK


def check(prompts: PromptsPath = None, json_path: JsonPath = None) -> int:
    """Check form, length, sections and names of all prompts. Exit status 1 if anything is wrong."""
    from summarizing_context.evaluation.prompt_inspection import check_prompts
    from summarizing_context.summarizers.prompts import names

    root, counter = _root(prompts), _counter()
    complaints = check_prompts(root, counter.count)
    listed = [complaint._asdict() for complaint in complaints]
    lines = [f"{plain(complaint.name)}: {plain(complaint.words)}" for complaint in complaints]
    lines.append(f"{len(names(root))} prompts, {len(complaints)} complaints (tokens by {counter.name})")
    show_result(json_path, {"prompts": names(root), "complaints": listed, "token_counter": counter.name}, *lines)
    return Status.LAW_BROKEN if complaints else Status.OK


def find_prompt(name: str, folder: Path | None) -> Prompt:
    """A prompt of the user's folder, else a shipped one; an error that names the nearest if there is none."""
    from summarizing_context.summarizers.prompts import latest, load, names

    roots = [_root(folder), None] if folder is not None else [None]
    for root in roots:
        known = names(root)
        if name in known:
            return load(name, root=root)
        if any(one.startswith(f"{name}/") for one in known):
            return latest(name, root=root)
    everything = [one for root in roots for one in names(root)]
    near = get_close_matches(name, everything, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(everything)}"
    raise InputError(f"there is no prompt {plain(name, 40)!r}; {hint}")


def _root(folder: Path | None) -> Any:
    from summarizing_context.summarizers.prompts import names, prompts_root

    if folder is None:
        return prompts_root()
    if not folder.is_dir():
        raise InputError(f"--prompts: {folder} is not a folder; name one that holds files such as segment/v1.md")
    if not names(folder):
        raise InputError(f"--prompts: {folder} holds no prompt; a prompt is a file such as segment/v1.md in it")
    return folder


def _counter() -> TokenCounter:
    import anyio

    from summarizing_context.messages.counters import choose_counter

    return anyio.run(choose_counter, "auto")


def _messages(transcript: Path | None, session: str | None, store: Path | None, format: str) -> list[dict[str, Any]]:
    if (transcript is None) == (session is None):
        raise InputError("name what to render for: a transcript, or --session with --store")
    if transcript is not None:
        from summarizing_context.transcripts import find_transcripts, read_session

        files = find_transcripts([transcript])
        if len(files) > 1:
            raise InputError(f"{transcript} holds {len(files)} transcripts; name one of them")
        found = read_session(files[0], format=format)
        tell_skipped_lines(found.unreadable)
        return list(found.messages)
    return _stored(session or "", store)


def _stored(session: str, store: Path | None) -> list[dict[str, Any]]:
    import anyio

    from summarizing_context.assembly import open_context
    from summarizing_context.cli.stored import find_session
    from summarizing_context.settings.values import Settings

    if store is None:
        raise InputError("--session: say with --store where it is stored")
    find_session(store, session)

    async def read() -> list[dict[str, Any]]:
        async with open_context(Settings.load(store=store, session_id=session), read_only=True) as context:
            return await context.get_messages()

    return anyio.run(read)
