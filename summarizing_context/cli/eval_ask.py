"""`summarizing-context eval ask`: a model asks about a log of yours, and another answers and marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from summarizing_context.cli.eval import RunRequest, chosen_arms, run_recorded
from summarizing_context.cli.eval_model import ModelOptions
from summarizing_context.cli.options import (
    ConfigPath,
    DryRun,
    JsonPath,
    MaxCalls,
    OwnSettings,
    PromptsPath,
    Redact,
    SummarizerModel,
    SummarizerName,
    TranscriptFormat,
    read_path,
    read_tokens,
)
from summarizing_context.cli.output import (
    InputError,
    Status,
    dollars,
    examples,
    facts,
    help_text,
    notices,
    number,
    plain,
    screen,
    tell_skipped_lines,
    write_json,
)
from summarizing_context.settings.providers import NAMED, PROVIDERS

if TYPE_CHECKING:
    from summarizing_context.evaluation.cassettes import Cassette, Mode
    from summarizing_context.evaluation.models import Chat, ModelPlan
    from summarizing_context.settings.values import Settings

_EXAMPLES = examples(
    "eval ask run.jsonl --model gpt-5.4-mini --judge-model gpt-5.4 --dry-run    # price",
    "eval ask run.jsonl --model gpt-5.4-mini --judge-model gpt-5.4 --budget 16k --questions 30",
    "eval ask run.jsonl --config mine.toml --judge-model claude-haiku-4-5 --judge-provider anthropic",
    more={
        "Keys": (
            "From the environment: OPENAI_API_KEY, or ANTHROPIC_API_KEY. The log is sent to all models, in part or as "
            "a whole; keys\nand tokens are taken out by their shape, others by --redact."
        ),
    },
)
_CALL_TIMEOUT = 300.0  # seconds: one reply holds all questions
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")  # in the name of a file
_USUAL_ARMS = "ours,extractive,compact,tail"

_Log = Annotated[
    Path, typer.Argument(metavar="LOG", parser=read_path, help="A transcript of any known format, with one session.")
]
_Budget = Annotated[str, typer.Option(metavar="N", help="Tokens of each view.")]
_Cut = Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of messages before the view.")]
_Share = Annotated[
    float | None,
    typer.Option(
        metavar="X", min=0.01, max=1.0, help="Instead of --cut: share of the log before the view. Default: 1."
    ),
]
_Questions = Annotated[int, typer.Option(metavar="N", min=1, max=60, help="Number of questions to write.")]
_QuestionModel = Annotated[
    str | None,
    typer.Option(metavar="M", help="Model that writes questions and gold answers. Default: the summarizer's model."),
]
_ReaderModel = Annotated[
    str | None, typer.Option(metavar="M", help="Model that answers from views. Default: the judge's model.")
]
_JudgeModel = Annotated[
    str, typer.Option(metavar="M", help="Model that marks the answers. It must differ from the writer's.")
]
_QuestionProvider = Annotated[
    str | None, typer.Option(metavar="NAME", help="Provider of the question model. Default: the same.")
]
_ReaderProvider = Annotated[
    str | None, typer.Option(metavar="NAME", help="Provider of the reader model. Default: the judge's.")
]
_JudgeProvider = Annotated[
    str | None, typer.Option(metavar="NAME", help="Provider of the judge model. Default: the same.")
]
_Url = Annotated[str | None, typer.Option(metavar="URL", help="Base URL for all models of the summarizer's provider.")]
_JudgeUrl = Annotated[
    str | None, typer.Option(metavar="URL", help="Base URL for the judge, and a reader of its provider.")
]
_Arms = Annotated[str, typer.Option(metavar="A[,B]", help="Views to compare.")]
_Out = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", parser=read_path, help="Folder of the recording and the reports; several logs may share it."
    ),
]


def register(family: typer.Typer) -> None:
    """Add the command to the family `eval`."""
    family.command("ask", help=help_text(ask), epilog=_EXAMPLES)(ask)


def ask(
    log: _Log,
    *,
    format: TranscriptFormat = "auto",
    judge_model: _JudgeModel,
    reader_model: _ReaderModel = None,
    question_model: _QuestionModel = None,
    summarizer: SummarizerName = None,
    model: SummarizerModel = None,
    prompts: PromptsPath = None,
    config: ConfigPath = None,
    budget: _Budget = "8k",
    cut: _Cut = None,
    share: _Share = None,
    questions: _Questions = 20,
    question_provider: _QuestionProvider = None,
    reader_provider: _ReaderProvider = None,
    judge_provider: _JudgeProvider = None,
    base_url: _Url = None,
    judge_base_url: _JudgeUrl = None,
    arms: _Arms = _USUAL_ARMS,
    redact: Redact = None,
    dry_run: DryRun = False,
    max_calls: MaxCalls = None,
    out: _Out = Path("eval-ask"),
    json_path: JsonPath = None,
) -> int:
    """Ask about a log of yours: one model writes questions, another answers them from views, and one marks the answers.

    The writer reads the log before the cut and gives each question a gold answer with its messages. Views of all arms
    get the same number of tokens. The judge sees the answers under shuffled letters. All replies are kept in a folder:
    a run that was stopped goes on there, and `eval run FOLDER` shows the result again without a model.
    """
    from summarizing_context.evaluation.real.arms import ARMS
    from summarizing_context.evaluation.suites import recorded_folder

    if cut is not None and share is not None:
        raise InputError("--cut and --share exclude each other; give one of them")
    chosen = chosen_arms(arms, ARMS)
    _check(log, format)
    own = OwnSettings(config, prompts, summarizer, model).load(base_url)
    reader, judge = (reader_model, reader_provider), (judge_model, judge_provider)
    roles = _Roles((question_model, question_provider), reader, judge, judge_base_url)
    plan = _plan(own, roles)
    work = _Work(log, format, read_tokens(budget), cut or share or 1.0, questions, chosen, out, own, max_calls)
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
    format: str
    budget: int
    cut: int | float
    questions: int
    arms: tuple[str, ...]
    folder: Path
    own: Settings
    max_calls: int | None


class _Roles(NamedTuple):
    """Models by what they do, each with its provider."""

    question: tuple[str | None, str | None]
    reader: tuple[str | None, str | None]
    judge: tuple[str, str | None]
    judge_base_url: str | None


def _check(log: Path, format: str) -> None:
    """Raise `TranscriptError` for a file that cannot be read, before a folder is made; standard input is read once."""
    from summarizing_context.errors import TranscriptError
    from summarizing_context.transcripts import read_session

    if str(log) == "-":
        return
    found = read_session(log, format=format)
    if not found.messages:
        raise TranscriptError(f"{log}:1: holds no message; name another transcript")
    tell_skipped_lines(found.unreadable)


def _plan(own: Settings, roles: _Roles) -> ModelPlan:
    """Who summarizes, asks, reads and judges. Raises `InputError`."""
    from summarizing_context.evaluation.models import Chat, ModelPlan

    if own.summarizer not in PROVIDERS or own.model is None:
        raise InputError(f"--model: name the model that summarizes, or in --config a summarizer {NAMED} and its model")
    summarizes = Chat(provider=own.summarizer, model=own.model, base_url=own.base_url, api_key=own.api_key)

    def chat(named: tuple[str | None, str | None], option: str, usual: Chat, *known: Chat) -> Chat:
        provider = _known(named[1] or usual.provider, option)
        if named[0] is None and provider != usual.provider:
            raise InputError(f"{option}: name its model too, with {option.replace('provider', 'model')}")
        place = next((chat for chat in known if chat.provider == provider), None)
        if place is None and (own.base_url or roles.judge_base_url):
            raise InputError(
                f"{option}: a base URL is named, and it is not {provider}'s, which would get the log too; name the "
                "server of its models with --judge-base-url, or take a provider whose server is named"
            )
        model = named[0] or usual.model
        return Chat(provider=provider, model=model) if place is None else replace(place, model=model)

    # A host that is named for a provider gets all of its calls, and no other provider is asked beside it unnamed.
    named = summarizes
    if roles.judge_base_url is not None:
        named = replace(summarizes, provider=roles.judge[1] or own.summarizer, base_url=roles.judge_base_url)
        named = named if named == summarizes else replace(named, api_key=None)  # a key is its server's
    judge = chat(roles.judge, "--judge-provider", summarizes, named)
    reader = chat(roles.reader, "--reader-provider", judge, judge, summarizes)
    writer = chat(roles.question, "--question-provider", summarizes, summarizes, judge)
    if (writer.provider, writer.model) == (judge.provider, judge.model):
        raise InputError("--judge-model: name another model than the one that writes questions, or it marks its own")
    return ModelPlan(reader=reader, judge=judge, writer=writer, summarizer=summarizes, call_timeout=_CALL_TIMEOUT)


_Cassettes = dict[tuple[str, str], "Cassette"]  # by provider and model, as each has its own price


def _known(provider: str, option: str) -> str:
    if provider not in PROVIDERS:
        raise InputError(f"{option}: {plain(provider, 40)!r} is not a provider; there are {' and '.join(PROVIDERS)}")
    return provider


@contextmanager
def _opened(work: _Work, plan: ModelPlan, mode: Mode, redact: str | None) -> Iterator[_Cassettes]:
    from summarizing_context.evaluation.cassettes import Cassette
    from summarizing_context.evaluation.requests import Caps
    from summarizing_context.messages.redaction import load_redaction

    redaction, caps = load_redaction(redact) if redact is not None else None, Caps(work.max_calls)
    cassettes: _Cassettes = {}
    with ExitStack() as stack:
        for chat in plan.chats:
            file = work.folder / "cassettes" / f"{_UNSAFE.sub('-', f'{chat.provider}-{chat.model}')}.jsonl"
            if (chat.provider, chat.model) not in cassettes:
                opened = Cassette.open(file, mode, caps=caps, redact=redaction, secrets=(chat.api_key,))
                cassettes[chat.provider, chat.model] = stack.enter_context(opened)
        for cassette in cassettes.values():
            cassette.spent.beside = [other.spent for other in cassettes.values() if other is not cassette]
        yield cassettes


def _record(work: _Work, plan: ModelPlan, redact: str | None) -> None:
    from summarizing_context.stores.private_files import make_private_folder

    make_private_folder(work.folder)
    with _opened(work, plan, "record", redact) as cassettes:
        try:
            _ask(work, plan, cassettes, work.folder)
        except KeyboardInterrupt:
            notices().print(f"Stopped. Replies are kept in {plain(str(work.folder))}; the same command goes on.")
            raise
        rows = _spent(work.own, cassettes, plan)
    for row in rows:
        tokens = f"{row.input_tokens:,} input and {row.output_tokens:,} output tokens"
        words = f"{row.model} at {row.address}: {row.calls:,} calls, {tokens}"
        notices().print(f"Recorded with {plain(words)}, {dollars(row.cost)}.", soft_wrap=True)


def _forecast(work: _Work, plan: ModelPlan, redact: str | None, json_path: str | None) -> None:
    """Show calls, tokens and price by model. Nothing is sent or written."""
    with _opened(work, plan, "forecast", redact) as cassettes, TemporaryDirectory() as scratch:
        _ask(work, plan, cassettes, Path(scratch))
        rows = _spent(work.own, cassettes, plan)
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
        shown.append(("", "", plain(f"at {row.address}")))
    remark = "an estimate with assumed replies" if total is not None else "a price is not known; see the setting prices"
    shown.append(("all", dollars(total), f"{remark}; {number(sum(row.replayed for row in rows))} replies are kept"))
    screen().print(facts("Asking: nothing is sent", shown))


def _ask(work: _Work, plan: ModelPlan, cassettes: _Cassettes, folder: Path) -> None:
    """Ask about the log, whose case is added to a folder if that of the work has none."""
    import anyio

    from summarizing_context.evaluation.real.recorder import open_recorder
    from summarizing_context.evaluation.real.recording import with_own_case

    clean = next(iter(cassettes.values())).scrub
    recording = with_own_case(
        work.folder, work.log, cut=work.cut, budget=work.budget, own=work.own, clean=clean, to=folder,
        format=work.format,
    )  # fmt: skip
    if not notices().is_terminal:
        notices().print(f"Asking about {recording.cases[0].cut:,} messages of {plain(work.log.name, 60)}.")

    async def run() -> None:
        opened = open_recorder(
            recording, lambda chat: cassettes[chat.provider, chat.model], plan, questions=work.questions
        )
        async with opened as recorder:
            await recorder.record(work.arms)

    anyio.run(run)


class _Row(NamedTuple):
    """What one model takes."""

    model: str
    address: str  # of the server
    calls: int
    by_kind: dict[str, int]
    input_tokens: int
    output_tokens: int
    replayed: int
    cost: float | None


def _spent(own: Settings, cassettes: _Cassettes, plan: ModelPlan) -> list[_Row]:
    from summarizing_context.summarizers.prices import load_prices

    prices = load_prices(own.prices)

    def row(provider: str, model: str, cassette: Cassette) -> _Row:
        spent = cassette.spent
        address = " and ".join(dict.fromkeys(plan.addresses_of(provider, model)))
        kinds, cost = dict(sorted(spent.by_kind.items())), spent.cost(prices.price_of(model))
        return _Row(model, address, spent.calls, kinds, spent.input_tokens, spent.output_tokens, spent.replayed, cost)

    return [row(*names, cassette) for names, cassette in cassettes.items()]
