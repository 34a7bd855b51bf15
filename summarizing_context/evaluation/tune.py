"""Tune prompts: which of several makes views hold more of what was needed later, at the same budget?

Where one prompt is tried, all sessions judge it. Where one of several is chosen, or prompts are proposed, a share of
the sessions is held out: the others choose, and the held-out ones alone judge the choice. All replies of the model come
through a cassette, so a run that stopped goes on where it was, and a run without a model repeats it.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import anyio
import msgspec

from summarizing_context.errors import CassetteError, PromptError, SettingsError
from summarizing_context.evaluation.cassettes import Cassette, RecordedModel, Reply, Request
from summarizing_context.evaluation.datasets import Dataset
from summarizing_context.evaluation.report import Pair, Report, Tuning, by_session, paired
from summarizing_context.evaluation.run import Arm, Run
from summarizing_context.evaluation.views import THINKS, Text, clipped, joined, parts_of
from summarizing_context.messages.tokens import estimate_text
from summarizing_context.models import load_models
from summarizing_context.settings import Settings
from summarizing_context.summarizers.extractive import CONSTRAINTS, NAMES
from summarizing_context.summarizers.prompts import Prompt, latest, load, names, read_text, save

SUMMARIES = ("segment", "rollup")  # their replies have the fixed sections
PURPOSE = "segment"  # of the prompts that are proposed
START = "start"
_AT_ONCE = 4  # sessions whose summaries are asked for
_MINIBATCH = 3  # sessions that one proposal is told about
_CAP = 900  # tokens of the fixed text, as sent: twice the shipped ones; and what stands for `max_tokens` in it


@dataclass(frozen=True, slots=True)
class Variant:
    """One candidate: prompts in the place of the shipped ones, one for each purpose that differs."""

    name: str
    prompts: tuple[Prompt, ...] = ()
    file: str = ""  # that the user gave, or its folder

    def prompt(self, purpose: str) -> Prompt:
        """Return its prompt of a purpose, or the shipped one."""
        return next((prompt for prompt in self.prompts if prompt.name == purpose), None) or latest(purpose)

    def write(self, folder: Path | str) -> list[Path]:
        """Write its prompts as new versions into a folder for `Settings(prompts=)`, where they are not there yet."""
        return [save(prompt, Path(folder)) for prompt in self.prompts]


def read_variants(paths: Sequence[Path | str], prompts: Path | str | None = None) -> list[Variant]:
    """Return what is compared: the start, with the prompts of a folder in the place of the shipped ones, then a variant
    for each path. Other prompts of a variant are those of the start. Raise `PromptError`, as `read_prompts` does."""
    found = [Variant(START, tuple(read_prompts(Path(prompts))) if prompts else ())]
    for path in map(Path, paths):
        own = {one.name: one for one in (*found[0].prompts, *read_prompts(path))}
        name = f"{path.parent.name}/{path.stem}" if re.fullmatch(r"v\d+", path.stem) else path.stem
        name += f" ({len(found)})" if name in (one.name for one in found) else ""
        found.append(Variant(name, tuple(own.values()), f"{name}{path.suffix}"))
    return found


def read_prompts(path: Path) -> list[Prompt]:
    """Return the prompts of a file such as `segment/v5.md`, of a text for segments, or the newest ones of a folder.

    Raise `PromptError` for what is none, and for one that breaks a rule for prompts."""
    if re.fullmatch(r"v\d+\.md", path.name):
        found = [load(f"{path.parent.name}/{path.stem}", root=path.parent.parent)]
    elif path.is_file():
        shipped, text = latest(PURPOSE), read_text(path)
        bare = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL).strip()  # of a file that was copied
        found = [replace(shipped, version=shipped.version + 1, text=bare)]
    else:
        there = {name.partition("/")[0] for name in names(path)} if path.is_dir() else set()
        found = [latest(purpose, root=path) for purpose in SUMMARIES if purpose in there]
    if not found:
        raise PromptError(f"{path} is no prompt, and no folder of prompts such as segment/v5.md")
    for complaint in (words for prompt in found for words in check_prompt(prompt)):
        raise PromptError(f"{path}: {complaint}")
    return found


@dataclass
class Trial:
    """The sessions that choose and those that judge, and what each variant came to."""

    dataset: Dataset
    start: Variant
    settings: Settings  # with the model that the prompts are for
    cassette: Cassette
    held_out: float = 0.0  # the share that only judges; 0 where nothing has to be chosen
    watch: Callable[[str], None] = lambda _: None  # called with each session that was measured
    variants: dict[str, Variant] = field(default_factory=dict)  # by name, as they were tried
    reports: dict[str, Report] = field(default_factory=dict)  # of the sessions that choose, by variant
    refused: list[str] = field(default_factory=list)  # why a proposal was not tried
    asked: Counter[str] = field(default_factory=Counter)  # the same question wants another proposal

    def __post_init__(self) -> None:
        self.old, logs = self.start.prompt(PURPOSE), self.dataset.logs
        sessions = {log.session for log in logs}  # logs of one session are on one side
        if self.held_out and len(sessions) < 2:
            raise SettingsError("choosing needs at least two sessions: some choose, the others judge; give more")
        dealt = sorted(sessions, key=lambda name: hashlib.sha256(f"0/{name}".encode()).hexdigest())
        judges = dealt[: max(1, round(self.held_out * len(dealt)))] if self.held_out else dealt
        self.judging = replace(self.dataset, logs=[log for log in logs if log.session in judges])
        others = [log for log in logs if log.session not in judges]
        self.choosing = replace(self.dataset, logs=others) if self.held_out else self.judging

    def of(self, variant: Variant) -> Report:
        """Return what a variant came to on the sessions that choose, measured once."""
        if variant.name not in self.variants:
            self.variants[variant.name] = variant
            self.reports[variant.name] = self.measure(self.choosing, variant)
        return self.reports[variant.name]

    def measure(self, side: Dataset, *variants: Variant, judge: Settings | None = None) -> Report:
        """Measure variants on a side, without the ledger, which has paths and commands whatever summaries say; recorded
        answers belong to views with it. A `judge` marks those."""
        ledger_share = 0.0 if self.dataset.recording is None else self.settings.ledger_share
        with TemporaryDirectory() as scratch:
            arms = []
            for one in variants:
                key = "".join(sorted(f"{prompt.name}{prompt.hash}" for prompt in one.prompts))
                folder = Path(scratch) / hashlib.sha256(key.encode()).hexdigest()[:16]
                one.write(folder)
                about = ", ".join(f"{each.name}/v{each.version} {each.hash[:8]}" for each in one.prompts)
                prompts = folder if one.prompts else None
                settings = replace(self.settings, prompts=prompts, ledger_share=ledger_share)
                arms.append(Arm(one.name, settings, about=f"prompts: {about or 'as shipped'}"))
            run = Run(dataset=side, arms=arms, cassette=self.cassette.path, jobs=_AT_ONCE, judge=judge)
            return run.report(self.cassette, self.watch)

    def replays(self, prompts: int) -> int:
        """Return how many logs are played to compare so many prompts, the start among them."""
        judging = len(self.judging.logs)
        return 2 * judging + prompts * len(self.choosing.logs) if self.held_out else prompts * judging

    # Prompts that the model proposes

    def ask(self, question: str) -> str:
        async def asked() -> Reply:
            async with RecordedModel(self.settings, self.cassette) as model:
                return await model.ask(Request("proposal", model.maker, "", (question,), 2_000, self.asked[question]))

        if (reply := anyio.run(asked)).fault:
            raise CassetteError(f"the model gave no proposal: {reply.fault}")
        self.asked[question] += 1
        return reply.text

    def proposal(self, text: str) -> tuple[Variant | None, list[str]]:
        """Return a proposal as a variant; None, and why, where it breaks a rule for prompts."""
        if text == self.old.text:
            return self.start, []
        prompt = replace(self.old, version=self.old.version + 1, text=text)
        complaints, others = [*check_prompt(prompt)], tuple(one for one in self.start.prompts if one.name != PURPOSE)
        return (None if complaints else Variant(f"proposal {prompt.hash[:8]}", (*others, prompt))), complaints

    def lost(self, variant: Variant) -> dict[str, tuple[float, list[str]]]:
        """Return, by choosing session, the share that is held, and in words what was dropped."""
        report = self.of(variant)
        found = {name: (share, list[str]()) for name, share in by_session(report.points(variant.name)).items()}
        for one in report.asked:
            answer = one.answers.get(variant.name)
            if answer is not None and answer.points.get(report.metric, 1.0) < 1.0 and one.session in found:
                found[one.session][1].append(f"{one.gold!r} was dropped ({one.question.lower()})")
        return {name: (share, dropped[:20]) for name, (share, dropped) in found.items()}


def tune(
    trial: Trial,
    tries: Sequence[Variant],
    proposals: Callable[[Trial], Iterator[Variant]] | None = None,
    judge: Settings | None = None,  # its model answers from the views of both, and marks
) -> Report:
    """Try each variant and proposal; return the report about the best. Raise `SettingsError` for nothing to measure."""
    start, found, is_chosen = trial.start, trial.reports, trial.choosing is not trial.judging
    if judge is not None and trial.judging.recording is None:
        raise SettingsError("right answers need questions with answers; take a folder that `eval ask` has recorded")
    if is_chosen:
        for variant in (start, *tries, *(proposals(trial) if proposals is not None else ())):
            trial.of(variant)
    else:
        trial.variants |= {one.name: one for one in (start, *tries)}
        found |= dict.fromkeys(trial.variants, trial.measure(trial.judging, start, *tries, judge=judge))
    tried = {name: report.score(name) for name, report in found.items()}
    if tried[start.name] is None:
        why = "no view has room, or no value is used once its message has left them; take another budget or log"
        longest = max((row.history_tokens for row in found[start.name].spent), default=0)
        if longest <= trial.settings.max_tokens:
            why = f"all {longest:,} tokens of the longest log fit into the budget; take a smaller one, or longer logs"
        raise SettingsError(f"nothing to measure: {why}")
    others = [name for name in tried if name != start.name]
    new = trial.variants[max(others, key=lambda name: tried[name] or (0.0,), default=start.name)]
    report = found[start.name]
    if is_chosen:
        report = trial.measure(trial.judging, *dict.fromkeys((start, new)), judge=None if new is start else judge)

    # The winner is surely better. Where others chose it, it has to be no worse here.
    ahead, why = report.ahead(new.name, start.name), ""
    if is_chosen:
        gain = paired(found[new.name].points(new.name), found[start.name].points(start.name))
        if gain is None or ahead is None or 4 * gain.mean <= gain.high - gain.low or ahead.mean <= 0:
            why = "no proposal could be tried" if new is start else "it is not surely better"
    elif ahead is None or ahead.low <= 0:
        why = "the interval is not wholly above zero" if ahead and ahead.has_ends else "too few sessions to tell"
    if (useless := report.useless(new.name)) > report.useless(start.name) + 0.1:  # extracts are what is better
        why = f"no reply can serve of {useless:.0%} of its segments"

    # What the summaries of a million tokens of history cost.
    dollars: dict[str, float | None] = {}
    price = load_models(trial.settings.prices).price_of(trial.settings.model or "")
    for name, one in found.items():
        rows = [(row.input_tokens, row.output_tokens, row.history_tokens) for row in one.spent if row.arm == name]
        read, written, history = map(sum, zip(*rows, strict=True))
        dollars[name] = None if price is None or not history else price.cost(read, written) * 1_000_000 / history
    diff: list[str] = []
    for purpose in dict.fromkeys(one.name for one in (*start.prompts, *new.prompts)):
        prompts = start.prompt(purpose), new.prompt(purpose)
        before, after = (one.text.splitlines() for one in prompts)
        old_name = f"{START if prompts[0] in start.prompts else 'shipped'} {purpose}/v{prompts[0].version}"
        diff += difflib.unified_diff(before, after, old_name, new.file or new.name, lineterm="", n=2)

    # The segment summaries that differ in most values needed later, then words; two a log at most.
    def change(pair: Pair) -> tuple[int, int]:
        before, after = Counter(pair.old.split()), Counter(pair.new.split())
        return len({*pair.old_keeps} ^ {*pair.new_keeps}), ((before - after) + (after - before)).total()

    pairs: list[Pair] = []
    olds, news = ([one.summaries for one in report.spent if one.arm == arm] for arm in (start.name, new.name))
    for log, *both in zip(trial.judging.logs, olds, news, strict=False):
        old, now = map(_by_place, both)
        changed = [(*place, old[place], now[place]) for place in now if old.get(place, now[place]) != now[place]]
        messages, of_log = log.read() if changed else [], []
        asked = [one for one in report.asked if one.session == log.session]
        for first, stop, was, said in changed:
            wanted = (one for one in asked if any(first <= place < stop for place, _ in one.evidence))
            needed = list(dict.fromkeys(value for one in wanted for value in one.values))
            keeps = [[value for value in needed if Text([text]).holds(value)] for text in (was, said)]
            scrubbed, reads = map(trial.cassette.scrub, messages[first:stop]), trial.settings.summarize_thinking
            shown = ([one for one in parts_of(each) if reads or one.label != THINKS] for each in scrubbed)
            source = "\n\n".join(clipped(joined(each), 1_200) for each in shown if each)
            of_log.append(Pair(log.name, first, stop, clipped(source, 12_000), was, said, needed, *keeps))
        pairs += sorted(of_log, key=change, reverse=True)[:2]
    pairs = [pair for pair in pairs if pair.needed] or pairs
    tuning = Tuning(
        old=start.name,
        new=new.name,
        diff=diff,
        pairs=sorted(pairs, key=change, reverse=True)[:6],
        chosen_on=list(dict.fromkeys(log.session for log in trial.choosing.logs)) if is_chosen else [],
        judged_on=list(dict.fromkeys(log.session for log in trial.judging.logs)),
        tried=tried,
        dollars=dollars,
        winner=start.name if why else new.name,
        why=why,
    )
    return msgspec.structs.replace(report, baseline=start.name, tuning=tuning, name="tuning of prompts")


def _by_place(summaries: Sequence[tuple[int, int, str]]) -> dict[tuple[int, int], str]:
    """Return summaries by first message and one past the last; those of the parts of a large message are joined."""
    texts = defaultdict[tuple[int, int], list[str]](list)
    for first, stop, text in summaries:
        texts[first, stop].append(text)
    return {place: "\n\n".join(parts) for place, parts in texts.items()}


# The rules for prompts


def fixed_text(prompt: Prompt) -> str:
    """Return what is sent with every request, whatever it is about."""
    return prompt.render(**{name: _CAP if name == "max_tokens" else "" for name in prompt.placeholders})


def check_prompt(prompt: Prompt) -> Iterator[str]:
    """Yield what is wrong with one prompt that could be read."""
    if (tokens := estimate_text(fixed_text(prompt))) > _CAP:
        yield f"its fixed text costs {tokens} tokens with every request; at most {_CAP} are allowed"
    if prompt.name in SUMMARIES:
        found = [line.strip() for line in prompt.text.splitlines() if line.startswith("## ")]
        # Rules may be asked for by the prompt `rules` alone.
        wanted = [f"## {name}" for name in NAMES if name != NAMES[CONSTRAINTS] or f"## {name}" in found]
        if found != wanted:
            has = ", ".join(found) or "none"
            yield f"its sections must be the fixed ones, in their order: {', '.join(wanted)}; it has {has}"
    shipped = [name for name in names() if name.startswith(f"{prompt.name}/")]
    given = load(shipped[-1]).placeholders if shipped else prompt.placeholders
    if "max_tokens" in given - prompt.placeholders:
        yield "it lacks the placeholder {{max_tokens}}, the longest summary"
    if unknown := prompt.placeholders - given:
        yield f"nothing fills in {', '.join(sorted(unknown))}; {prompt.name} prompts get {', '.join(sorted(given))}"


# What proposes prompts


def propose_by_model(trial: Trial, number: int) -> Iterator[Variant]:
    """Yield so many proposals, each a better text of the best prompt so far, by what its summaries dropped."""
    best = trial.start
    for _ in range(number):
        worst = sorted(trial.lost(best).items(), key=lambda one: one[1][0])[:_MINIBATCH]
        feedback = "\n".join(f"- {share:.0%} held. {'; '.join(dropped)}" for _, (share, dropped) in worst)
        text = trial.ask(latest("proposal").render(current=best.prompt(PURPOSE).text, feedback=feedback))
        fenced = text.partition("```\n")[2].rpartition("\n```")[0].strip()
        variant, complaints = trial.proposal(fenced or text.strip())
        if variant is None or variant.name in trial.variants:
            trial.refused.append("; ".join(complaints) or "it is a prompt that was tried already")
            continue
        yield variant
        scores = [trial.of(one).score(one.name) or (0.0,) for one in (variant, best)]
        best = variant if scores[0][0] > scores[1][0] else best


def propose_by_gepa(trial: Trial, number: int) -> Iterator[Variant]:
    """Evolve the prompt with gepa; what breaks a rule for prompts scores 0. Yield nothing: the trial has all scores."""
    try:
        from gepa import optimize_anything as gepa
    except ImportError as error:
        raise SettingsError("gepa is not installed; install it with: pip install '.[gepa]'") from error
    sessions = list(trial.lost(trial.start))

    def evaluate(candidate: str, example: str) -> tuple[float, dict[str, str]]:
        variant, complaints = trial.proposal(candidate.strip())
        trial.refused += ["; ".join(complaints)] if complaints else []
        share, dropped = (0.0, complaints) if variant is None else trial.lost(variant).get(example, (1.0, []))
        outputs = f"summaries that kept {share:.0%} of what was needed later"
        feedback = "; ".join(dropped) or "nothing that was needed later was dropped"
        inputs = "the messages of one agent session, segment by segment"
        return share, {"Inputs": inputs, "Generated Outputs": outputs, "Feedback": feedback}

    reflection = gepa.ReflectionConfig(
        reflection_lm=trial.ask,
        reflection_prompt_template=latest("proposal").render(current="<curr_param>", feedback="<side_info>"),
        reflection_minibatch_size=min(_MINIBATCH, len(sessions)),
    )
    engine = gepa.EngineConfig(max_candidate_proposals=number, parallel=False)
    tracking = gepa.TrackingConfig(logger=SimpleNamespace(log=lambda message: None))  # the report tells what came of it
    config = gepa.GEPAConfig(engine=engine, reflection=reflection, tracking=tracking)
    gepa.optimize_anything(trial.old.text, evaluator=evaluate, dataset=sessions, config=config)
    return iter(())
