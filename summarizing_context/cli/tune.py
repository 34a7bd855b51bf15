"""`summarizing-context tune`: which of several prompts is better, on logs of one's own. `prompts` shows them."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from summarizing_context.cli import eval, options, output
from summarizing_context.cli.options import TRANSCRIPTS, argument, command, option
from summarizing_context.cli.output import InputError, Result, counted, dim, dollars, plain, table, tell
from summarizing_context.messages.tokens import TokenCounter, choose_counter, estimate_text
from summarizing_context.settings import Settings
from summarizing_context.stores.private_files import make_private_folder, replace_private
from summarizing_context.summarizers.prompts import Prompt, latest, load, names, prompts_root, write_prompt
from summarizing_context.summarizers.sdk import fenced
from summarizing_context.transcripts import read_session

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.report import Report
    from summarizing_context.evaluation.tune import Trial


@command(TRANSCRIPTS)
def tune(
    logs: Annotated[list[str], argument("LOGS", "Sources as `eval run` takes them.", parser=options.read_place)],
    *,
    prompt: Annotated[list[Path] | None, options.path("PATH", "A prompt to try; repeatable.", "--prompt")] = None,
    propose: Annotated[int, option("N", "Prompts that the model writes.", min=0, max=1_000)] = 0,
    optimizer: Annotated[Literal["model", "gepa"], option("NAME", "What proposes: model or gepa.")] = "model",
    budget: options.Budget = 16_000,
    held_out: Annotated[float, option("X", "Share to judge by only.", min=0.1, max=0.9)] = 0.5,
    judge_model: Annotated[str | None, option("M", "Compares right answers, where logs have any.")] = None,
    cassette: eval.CassettePath = None,
    out: options.ReportFolder = Path("tune-report"),
    write: Annotated[Path | None, options.path("DIR", "For the winner. Default: prompts in --out.")] = None,
    own: eval.RecordOptions,
) -> Result:
    """Compare prompts on your own transcripts.

    Show the summaries that changed most, and a verdict. The price is shown first; replies are kept, so a run that
    stopped goes on, and a finished one is repeated without a key. A winner is written as a prompt file.

    Examples:
        tune logs/ --model gpt-5.4-mini --prompt mine.md
    """
    from summarizing_context.evaluation import tune as trials
    from summarizing_context.evaluation.datasets import Dataset
    from summarizing_context.evaluation.report import MIN_SESSIONS

    started = time.perf_counter()
    settings = replace(own.load(), max_tokens=budget)
    own.need_model(settings)
    number = propose or (20 if optimizer == "gepa" else 0)
    if not prompt and not number:
        raise InputError("say what to try: prompt files with --prompt, or --propose N to have the model write some")
    start = trials.Variant(trials.START, tuple(_given(Path(settings.prompts), "--prompts") if settings.prompts else ()))
    tries: list[trials.Variant] = []
    for path in prompt or ():  # other prompts are those of the start
        tried = {one.name: one for one in (*start.prompts, *_given(path, "--prompt"))}
        name = f"{path.parent.name}/{path.stem}" if re.fullmatch(r"v\d+", path.stem) else path.stem
        name += f" ({len(tries) + 1})" if name in (one.name for one in (start, *tries)) else ""
        tries.append(trials.Variant(name, tuple(tried.values())))
    dataset = Dataset.load(*logs, format=own.format)
    judge = None if judge_model is None else replace(settings, model=judge_model, call_timeout=300.0)
    proposer = trials.propose_by_gepa if optimizer == "gepa" else trials.propose_by_model
    held = held_out if len(tries) > 1 or number else 0.0

    def measure(replies: Cassette) -> tuple[Trial, Report]:
        proposed = partial(proposer, number=number) if number and replies.mode != "forecast" else None
        count = 1 + len(tries) + (number if proposed else 0)
        with TemporaryDirectory() as folder:
            trial = trials.Trial(dataset, start, settings, replies, folder=Path(folder), held_out=held)
            judges = len({log.session for log in trial.judging.logs})
            if replies.mode == "forecast" and judges < MIN_SESSIONS:  # before anything is paid for
                tell(f"judged by {counted(judges, 'session')}: fewer than {MIN_SESSIONS} tell no sure difference")
            total = len(trial.judging.logs) + (count * len(trial.choosing.logs) if held else 0)
            doing = f"{eval.DOING[replies.mode]} {counted(count, 'prompt')}."
            with output.progress("sessions", total, doing) as trial.watch:
                return trial, trials.tune(trial, tries, proposed, judge)

    done = own.recorded(cassette or out / "replies.jsonl", [*filter(None, (settings, judge))], measure, number)
    if isinstance(done, Result):
        return done
    trial, report = done
    page, tuning = report.write(out), report.tuning
    assert tuning is not None
    # The prompts of a winner become new versions, where they are not there yet.
    winner, folder, written = trial.variants[tuning.winner], write or out / "prompts", list[Path]()
    for one in winner.prompts if winner is not start else ():
        make_private_folder(folder)
        there = [name for name in names(folder) if name.startswith(f"{one.name}/v")]
        same = [name for name in there if load(name, root=folder).hash == one.hash]
        version = 1 + max([latest(one.name).version, *(int(name.rpartition("/v")[2]) for name in there)])
        written.append(folder / (f"{same[0]}.md" if same else f"{one.name}/v{version}.md"))
        if not same:
            replace_private(written[-1], write_prompt(replace(one, version=version)).encode())

    # The difference of prompts, the summaries that changed most, right answers, length, price, verdict.
    colours = {"+": "green", "-": "red", "@": "dim"}
    parts: list[RenderableType] = [Text(plain(line), colours.get(line[:1], "")) for line in tuning.diff[:40]]
    for pair in tuning.pairs[:2]:  # two summaries of the same messages, each with what it keeps and loses
        shown = Table(title=plain(f"{pair.session}, messages {pair.start} to {pair.stop - 1}"), title_justify="left")
        cells = []
        for name, text, keeps in (("old", pair.old, pair.old_keeps), ("new", pair.new, pair.new_keeps)):
            lost, lines = [value for value in pair.needed if value not in keeps], text.splitlines()
            head = f"{name}: keeps {len(keeps)} of {len(pair.needed)} values needed later"
            head += f"; loses {plain(', '.join(lost), 90)}" if lost else ""
            shown.add_column(Text(head), ratio=1, overflow="fold")
            more = [f"… {counted(len(lines) - 14, 'more line')}"] if len(lines) > 14 else []
            cells.append(Text("\n".join([*map(plain, lines[:14]), *more])))
        shown.add_row(*cells)
        parts.append(shown)
    if len(tuning.tried) > 2 or tuning.chosen_on:
        rows = [(plain(name, 40), eval.share(score)) for name, score in tuning.tried.items()]
        parts.append(table("On the sessions that choose" if tuning.chosen_on else "Tried", ("prompt", "#score"), rows))
    parts.append(eval.score_table(report, marked=tuning.winner))
    costs = ((arm, cost) for arm in (tuning.old, tuning.new) if (cost := tuning.dollars.get(arm)) is not None)
    parts += [dim(f"{arm}: summaries of 1M tokens of history cost {dollars(cost)}") for arm, cost in costs]
    dropped = ", ".join(f"{arm} {report.figure(arm, 'dropped') or 0:,.0f}" for arm in report.arms)
    parts.append(dim(plain(f"lines dropped from replies, for their source does not hold them: {dropped}")))
    parts.append(Text(plain(report.verdict), "bold"))
    parts += [f"Written: {path}. Use it with Settings(prompts={str(path.parent.parent)!r})." for path in written]
    took = f"{counted(len(tuning.tried), 'variant')} in {time.perf_counter() - started:.0f} s"
    parts.append(f"{took}. Everything side by side: {page}")
    remarks = [f"a proposal was refused: {plain(why)}" for why in trial.refused]
    document = {**report.document(), "written": [str(path) for path in written]}
    return Result(document, parts, remarks=[*remarks, *output.told_lines(report.left_out)])


def _given(path: Path, option: str) -> list[Prompt]:
    """Load a prompt file, a folder's newest, or a text for segments. Raise `InputError`, also for broken rules."""
    from summarizing_context.evaluation.tune import SUMMARIES, check_prompt

    if re.fullmatch(r"v\d+\.md", path.name):
        found = [load(f"{path.parent.name}/{path.stem}", root=path.parent.parent)]
    elif path.is_file():
        shipped, text = latest("segment"), path.read_text(encoding="utf8")
        bare = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).strip()  # of a file that was copied
        found = [replace(shipped, version=shipped.version + 1, text=bare)]
    else:
        there = {name.partition("/")[0] for name in names(path)} if path.is_dir() else set()
        found = [latest(purpose, root=path) for purpose in SUMMARIES if purpose in there]
    if not found:
        raise InputError(f"{option}: {plain(path)} is no prompt, and no folder of prompts such as segment/v5.md")
    for complaint in (words for prompt in found for words in check_prompt(prompt)):
        raise InputError(f"{option}: {plain(path)}: {complaint}")
    return found


# The prompts that there are

family = options.family("prompts", TRANSCRIPTS, "Show prompts, what they cost, and how they are sent.")
_Name = Annotated[str, argument("NAME", "segment/v3, or segment for the newest version.")]


@command(family, name="list")
def list_prompts(prompts: options.PromptsPath = None) -> Result:
    """List all prompts with the tokens that their fixed text costs in every request."""
    root, counter = _root(prompts), anyio.run(choose_counter, "auto")
    found = [_described(load(name, root=root), counter) for name in names(root)]
    rows = [{**one, "hash": one["hash"][:12], "about": dim(one["about"])} for one in found]
    columns = {"purpose": "purpose", "#version": "version", "#tokens": "fixed_tokens", "hash": "hash", "about": "about"}
    shown = table("Prompts", columns, rows, wide="about")
    shown.caption = f"tokens of the fixed text, counted by {counter.name}"
    return Result({"token_counter": counter.name, "prompts": found}, [shown])


@command(family)
def show(name: _Name, prompts: options.PromptsPath = None) -> Result:
    """Show the whole text of one prompt; what it is for and costs goes to standard error.

    Examples:
        prompts show segment > mine.md
    """
    prompt, counter = _find(name, prompts), anyio.run(choose_counter, "auto")
    about = _described(prompt, counter)
    told = [plain(f"{about['name']}: {about['about']} {about['fixed_tokens']} tokens by {counter.name}.")]
    whole = {"placeholders": sorted(prompt.placeholders), "text": prompt.text}
    return Result({**about, "token_counter": counter.name, **whole}, [prompt.text], remarks=told)


@command(family)
def render(
    name: _Name,
    transcript: Annotated[Path, argument("TRANSCRIPT", "One of any known format.", parser=options.read_path)],
    format: options.TranscriptFormat = "auto",
    number: Annotated[int, option("N", "Number of the segment or merge.", min=1)] = 1,
    prompts: options.PromptsPath = None,
) -> Result:
    """Show the exact request that a prompt is sent with for a real segment or merge.

    Nothing is sent. Messages are cut into segments as a session with a budget of 16,000 tokens cuts them.

    Examples:
        prompts render segment run.jsonl
    """
    from summarizing_context.evaluation.cassettes import assumed_summary
    from summarizing_context.evaluation.views import play
    from summarizing_context.testing import ScriptedSummarizer

    prompt, found = _find(name, prompts), read_session(transcript, format=format)
    model = ScriptedSummarizer(assumed_summary)
    anyio.run(play, found.messages, (), Settings.load(start_at=0.0, max_tokens=16_000), model)
    jobs = sorted((job for job in model.jobs if job.kind == prompt.name), key=lambda job: (job.rank, job.start))
    if number > len(jobs):
        few = f"this log makes {len(jobs)} such requests; give --number up to that, or take another log or purpose"
        raise InputError(f"number {number} of {prompt.name}: {few}")
    job, named = jobs[number - 1], f"{prompt.name}/v{prompt.version}"
    slots = {"system": prompt.render(max_tokens=job.max_tokens), "user": fenced(job)}
    about = {name: getattr(job, name) for name in ("rank", "start", "stop", "max_tokens")}
    shown: list[RenderableType] = [f"{named} for messages {job.start}–{job.stop - 1}, number {number} of {len(jobs)}"]
    for slot, text in slots.items():
        shown += [Text(f"── {slot}, {estimate_text(text):,} tokens by the built-in estimate", style="bold"), text]
    document = {"prompt": named, **about, "number": number, "among": len(jobs), **slots}
    return Result(document, shown, remarks=output.told_lines(found.unreadable))


def _described(prompt: Prompt, counter: TokenCounter) -> dict[str, Any]:
    """Return what there is to know about a prompt, as JSON values."""
    from summarizing_context.evaluation.tune import fixed_text

    known = {"name": f"{prompt.name}/v{prompt.version}", "purpose": prompt.name, "version": prompt.version}
    return {**known, "about": prompt.purpose, "fixed_tokens": counter.count(fixed_text(prompt)), "hash": prompt.hash}


def _find(name: str, folder: Path | None) -> Prompt:
    """Return a prompt of the user's folder, else a shipped one. Raise `InputError`."""
    for root in (_root(folder), prompts_root()):
        known = names(root)
        if name in known or any(one.startswith(f"{name}/") for one in known):
            return load(name, root=root) if name in known else latest(name, root=root)
    raise InputError(f"there is no prompt {plain(name, 40)!r}; there are {', '.join(known)}")


def _root(folder: Path | None) -> Any:
    """Return the user's folder of prompts, or that of the shipped ones. Raise `InputError`."""
    if folder is not None and not (folder.is_dir() and names(folder)):
        raise InputError(f"--prompts: {folder} is not a folder that holds a prompt, such as segment/v1.md")
    return folder or prompts_root()
