"""`summarizing-context eval ask`: a model asks about a log of yours, and another answers and marks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from summarizing_context.cli.eval_model import DryRun, ModelOptions, Redact
from summarizing_context.cli.eval_real import chosen_arms, run_recorded
from summarizing_context.cli.eval_run import RunRequest
from summarizing_context.cli.output import (
    InputError,
    JsonPath,
    Status,
    dollars,
    facts,
    help_text,
    notices,
    number,
    plain,
    read_tokens,
    screen,
    write_json,
)
from summarizing_context.settings.providers import NAMED, PROVIDERS

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette, Mode
    from summarizing_context.evaluation.questions import Chat, ReaderPlan

_EXAMPLES = """[bold]Examples[/bold]

summarizing-context eval ask run.jsonl --model gpt-5.4-mini --judge gpt-5.4 --dry-run    [dim]# what it costs[/dim]

summarizing-context eval ask run.jsonl --model gpt-5.4-mini --judge gpt-5.4 --budget 16k --questions 30

summarizing-context eval ask run.jsonl --model gpt-5.4-mini --judge claude-haiku-4-5 --judge-provider anthropic

[bold]Keys[/bold]

From the environment: OPENAI_API_KEY, or ANTHROPIC_API_KEY. The log is sent to both models, in part or as a whole; keys
and tokens are taken out by their shape, others by --redact.
"""
_CALL_TIMEOUT = 300.0  # seconds: one reply holds all questions
_USUAL_ARMS = "ours,extractive,compact,tail"

_Log = Annotated[Path, typer.Argument(metavar="LOG", help="A transcript: JSONL or JSONL.gz, one message a line.")]
_Budget = Annotated[str, typer.Option(metavar="N", help="Tokens of our view; all other views get as many.")]
_Cut = Annotated[int | None, typer.Option(metavar="N", min=1, help="Messages before the view.")]
_Share = Annotated[
    float | None,
    typer.Option(
        metavar="X", min=0.01, max=1.0, help="Instead of --cut: the share of the log before the view; 1 if not given."
    ),
]
_Questions = Annotated[int, typer.Option(metavar="N", min=1, max=60, help="Questions to be written.")]
_Provider = Annotated[str, typer.Option(metavar="NAME", help=f"Whose model writes: {NAMED}.")]
_Model = Annotated[str, typer.Option(metavar="M", help="The model that writes questions, gold answers and summaries.")]
_Judge = Annotated[str, typer.Option(metavar="M", help="Another model, which answers from views and marks answers.")]
_JudgeProvider = Annotated[str | None, typer.Option(metavar="NAME", help="Whose model that is; if not the same.")]
_Url = Annotated[str | None, typer.Option(metavar="URL", help="Another server of the model that writes.")]
_JudgeUrl = Annotated[str | None, typer.Option(metavar="URL", help="Another server of the model that marks.")]
_Arms = Annotated[str, typer.Option(metavar="A[,B]", help="The views that are compared.")]
_Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Where recording and reports go; several logs may share a folder.")
]


def register(family: typer.Typer) -> None:
    """Add the command to the family `eval`."""
    family.command("ask", help=help_text(ask), epilog=_EXAMPLES)(ask)


def ask(
    log: _Log,
    *,
    model: _Model,
    judge: _Judge,
    budget: _Budget = "8k",
    cut: _Cut = None,
    share: _Share = None,
    questions: _Questions = 20,
    provider: _Provider = "openai",
    judge_provider: _JudgeProvider = None,
    base_url: _Url = None,
    judge_base_url: _JudgeUrl = None,
    arms: _Arms = _USUAL_ARMS,
    redact: Redact = None,
    dry_run: DryRun = False,
    out: _Out = Path("eval-ask"),
    json_path: JsonPath = None,
) -> int:
    """Ask about a log of yours: one model writes questions, another answers them from views and marks the answers.

    The writer reads the log before the cut and gives each question a gold answer with its messages. Views of all arms
    get the same number of tokens. The judge sees the answers under shuffled letters. All replies are kept in a folder:
    a run that was stopped goes on there, and `eval run FOLDER` shows the result again without a model.
    """
    from summarizing_context.evaluation.questions import Chat, ReaderPlan
    from summarizing_context.evaluation.suites import recorded_folder

    if cut is not None and share is not None:
        raise InputError("--cut and --share: take one of them")
    chosen = chosen_arms(arms)
    writer = Chat(provider=_known(provider, "--provider"), model=model, base_url=base_url)
    other = Chat(provider=_known(judge_provider or provider, "--judge-provider"), model=judge, base_url=judge_base_url)
    if (writer.provider, writer.model) == (other.provider, other.model):
        raise InputError("--judge: name another model than --model, or it marks by its own questions")
    plan = ReaderPlan(reader=other, judge=other, writer=writer, call_timeout=_CALL_TIMEOUT)
    work = _Work(log, read_tokens(budget), cut or share or 1.0, questions, chosen, out)
    if dry_run:
        _forecast(work, plan, redact, json_path)
        return Status.OK
    _record(work, plan, redact)
    request = RunRequest(suite=None, cases=None, dataset=None, budget=budget, arms=arms, out=out, json_path=json_path)
    loaded = recorded_folder(out)
    assert loaded is not None  # its case was just asked
    return run_recorded(request, ModelOptions(), loaded)


class _Work(NamedTuple):
    """What is asked about."""

    log: Path
    budget: int
    cut: int | float
    questions: int
    arms: tuple[str, ...]
    folder: Path


class _Tapes(NamedTuple):
    """A cassette for each model, as each has its own price."""

    writer: Cassette
    judge: Cassette


def _known(provider: str, option: str) -> str:
    if provider not in PROVIDERS:
        raise InputError(f"{option}: {plain(provider, 40)!r} is no provider; there are {' and '.join(PROVIDERS)}")
    return provider


@contextmanager
def _opened(folder: Path, mode: Mode, redact: str | None) -> Iterator[_Tapes]:
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.messages.redaction import load_redaction

    redaction = load_redaction(redact) if redact is not None else None
    with ExitStack() as stack:
        names = [folder / "cassettes" / f"{name}.jsonl" for name in _Tapes._fields]
        yield _Tapes(*(stack.enter_context(Cassette.open(name, mode, redact=redaction)) for name in names))


def _record(work: _Work, plan: ReaderPlan, redact: str | None) -> None:
    from summarizing_context.stores.private_files import make_private_folder

    make_private_folder(work.folder)
    with _opened(work.folder, "record", redact) as tapes:
        try:
            _ask(work, plan, tapes, work.folder)
        except KeyboardInterrupt:
            notices().print(f"Stopped. Replies are kept in {plain(str(work.folder))}; the same command goes on.")
            raise
        rows = _spent(plan, tapes)
    for row in rows:
        words = f"{row.model}: {row.calls:,} calls, {row.input_tokens:,} input and {row.output_tokens:,} output tokens"
        notices().print(f"Recorded with {plain(words)}, {dollars(row.cost)}.", soft_wrap=True)


def _forecast(work: _Work, plan: ReaderPlan, redact: str | None, json_path: str | None) -> None:
    """Show calls, tokens and price by model. Nothing is sent or written."""
    with _opened(work.folder, "forecast", redact) as tapes, TemporaryDirectory() as scratch:
        _ask(work, plan, tapes, Path(scratch))
        rows = _spent(plan, tapes)
    costs = [row.cost for row in rows if row.cost is not None]
    total = round(sum(costs), 6) if len(costs) == len(rows) else None
    if json_path is not None:
        write_json(json_path, {"models": [row._asdict() for row in rows], "estimated_cost": total})
    if json_path == "-":
        return
    shown: list[tuple[str, str, str]] = []
    for row in rows:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in row.by_kind.items())
        tokens = f"{row.input_tokens:,} tokens read, {row.output_tokens:,} written"
        shown += [(plain(row.model, 60), f"{row.calls:,} calls", kinds), ("", dollars(row.cost), tokens)]
    remark = "an estimate with assumed replies" if total is not None else "a price is not known; see the setting prices"
    shown.append(("all", dollars(total), f"{remark}; {number(sum(row.replayed for row in rows))} replies are kept"))
    screen().print(facts("Asking: nothing is sent", shown))


def _ask(work: _Work, plan: ReaderPlan, tapes: _Tapes, folder: Path) -> None:
    """Ask about the log, whose case is added to a folder if that of the work has none."""
    import anyio

    from summarizing_context.evaluation.real.asking import open_asking
    from summarizing_context.evaluation.real.cases import with_own_case

    recording = with_own_case(
        work.folder, work.log, cut=work.cut, budget=work.budget, clean=tapes.writer.scrub, to=folder
    )
    if not notices().is_terminal:
        notices().print(f"Asking about {recording.cases[0].cut:,} messages of {plain(work.log.name, 60)}.")

    async def run() -> None:
        opened = open_asking(recording, tapes.judge, plan, questions=work.questions, writers=tapes.writer)
        async with opened as asking:
            await asking.record(work.arms)

    anyio.run(run)


class _Row(NamedTuple):
    """What one model takes."""

    model: str
    calls: int
    by_kind: dict[str, int]
    input_tokens: int
    output_tokens: int
    replayed: int
    cost: float | None


def _spent(plan: ReaderPlan, tapes: _Tapes) -> list[_Row]:
    from summarizing_context.summarizers.prices import load_prices

    assert plan.writer is not None
    prices = load_prices()

    def row(chat: Chat, cassette: Cassette) -> _Row:
        spent = cassette.spent
        kinds, cost = dict(sorted(spent.by_kind.items())), spent.cost(prices.price_of(chat.model))
        return _Row(chat.model, spent.calls, kinds, spent.input_tokens, spent.output_tokens, spent.replayed, cost)

    return [row(plan.writer, tapes.writer), row(plan.judge, tapes.judge)]
