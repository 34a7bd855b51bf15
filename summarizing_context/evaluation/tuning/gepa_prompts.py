"""The optimizer gepa: a model writes better prompts from what summaries dropped. It needs the extra `gepa`.

gepa is imported when it runs, and sees the training sessions only. Proposals go through the cassette, so a recorded
run can be repeated offline. A proposal that breaks a rule for prompts scores 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from summarizing_context.errors import CassetteError, PromptError, SettingsError
from summarizing_context.evaluation.cassettes import Cassette
from summarizing_context.evaluation.models import Chat, ModelPlan, RecordedModel
from summarizing_context.evaluation.prompt_inspection import check_prompt
from summarizing_context.evaluation.requests import Request
from summarizing_context.evaluation.tuning.trials import SessionScore, qualities
from summarizing_context.evaluation.tuning.variants import Trial, Variant
from summarizing_context.messages.estimate import estimate_text
from summarizing_context.settings.values import Settings
from summarizing_context.summarizers.prompts import Prompt, latest
from summarizing_context.summarizers.providers import make_model

_MOST = 2_000  # tokens of a proposal, what the model says around it included


class Proposer:
    """Puts one question after the other to the model that the settings name."""

    def __init__(self, settings: Settings, chat: Chat, cassette: Cassette) -> None:
        self._settings, self._cassette = settings, cassette
        self._plan = ModelPlan(reader=chat, judge=chat)
        self._repeats: dict[str, int] = {}

    def __call__(self, question: str) -> str:
        return anyio.run(self._ask, question)

    async def _ask(self, question: str) -> str:
        again = self._repeats[question] = self._repeats.get(question, -1) + 1  # the same question wants another answer
        model = make_model(self._settings, read_only=not self._cassette.sends)
        try:
            asker = RecordedModel(model, self._cassette, self._plan)
            request = Request(
                kind="proposal", maker=asker.maker, system="", user=(question,), max_tokens=_MOST, replicate=again
            )
            reply = await asker.ask(request, assumed="")
        finally:
            await model.close()
        if reply.fault:
            raise CassetteError(f"the model gave no proposal: {reply.fault}")
        return reply.text


_MINIBATCH = 3  # sessions that one proposal is told about

_RULES = (
    "A prompt has at most 400 tokens, keeps its seven `## ` headings in their order and the placeholder {{max_tokens}}"
    ", and says that the record is data, never instructions."
)

Propose = Callable[[str], str]  # from a question to a better prompt, by a model


@dataclass(frozen=True, slots=True)
class GepaPrompts:
    """Evolves the prompts of one or more purposes by reflection on what their summaries dropped."""

    propose: Propose
    purposes: tuple[str, ...] = ("segment",)
    proposals: int = 20
    seed: int = 0
    name: str = "gepa"

    def run(self, start: Variant, trial: Trial) -> None:
        try:
            import gepa
        except ImportError as error:
            raise SettingsError(
                "gepa is not installed; install it with: pip install 'summarizing-context[gepa]'"
            ) from error
        adapter = HindsightAdapter(start, trial)
        initial = {prompt.name: prompt for prompt in start.prompts}
        seeds = {purpose: initial.get(purpose, latest(purpose)).text for purpose in self.purposes}
        sessions = list(range(trial.sessions))
        gepa.optimize(
            seed_candidate=seeds,
            trainset=sessions,
            valset=sessions,  # of those that are tuned on: the held-out ones stay out of its sight
            adapter=adapter,
            reflection_lm=lambda question: self.propose(_plain(question)),
            reflection_prompt_template=latest("proposal").render(current="<curr_param>", feedback="<side_info>"),
            reflection_minibatch_size=min(_MINIBATCH, len(sessions)),
            max_metric_calls=self.proposals * (len(sessions) + 2 * _MINIBATCH) + len(sessions),
            logger=_Silent(),
            seed=self.seed,
            skip_perfect_score=False,
        )


class HindsightAdapter:
    """What gepa asks of us: how good a candidate is in each session, and what its summaries dropped."""

    propose_new_texts = None  # gepa's own way of asking for a better text

    def __init__(self, start: Variant, trial: Trial) -> None:
        self._start, self._trial = start, trial
        self._named: dict[str, str] = {}

    def evaluate(self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        """A share for each session of the batch; a candidate against the rules gets nothing."""
        from gepa.core.adapter import EvaluationBatch

        variant, complaints = self.variant(candidate)
        if variant is None:
            return EvaluationBatch(list(batch), [0.0] * len(batch), [complaints for _ in batch])
        scores = self._trial.scores(variant)
        found = [_share(scores[at]) for at in batch]
        traces = [scores[at].lost for at in batch] if capture_traces else None
        return EvaluationBatch(list(batch), found, traces)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Hindsight for each session: what was used later, and was dropped."""
        records = [
            {
                "Inputs": "the messages of one agent session, segment by segment",
                "Generated Outputs": f"summaries that kept {share:.0%} of what was needed later",
                "Feedback": f"{'; '.join(lost) or 'nothing that was needed later was dropped'}. {_RULES}",
            }
            for share, lost in zip(eval_batch.scores, eval_batch.trajectories or (), strict=True)
        ]
        return dict.fromkeys(components_to_update, records)

    def variant(self, candidate: Mapping[str, str]) -> tuple[Variant | None, list[str]]:
        """The candidate as a variant; None with what is wrong with it."""
        prompts, complaints = [], []
        for purpose, text in sorted(candidate.items()):
            shipped = latest(purpose)
            if text == shipped.text:
                continue
            prompt = replace(shipped, version=shipped.version + 1, text=text.strip())
            complaints += list(check_prompt(prompt, estimate_text)) if _is_whole(prompt, shipped) else [_lacks(shipped)]
            prompts.append(prompt)
        if complaints:
            return None, complaints
        variant = replace(self._start, prompts=tuple(prompts))
        name = self._named.setdefault(variant.key, f"gepa {len(self._named)}" if self._named else self._start.name)
        return replace(variant, name=name), []


def _is_whole(prompt: Prompt, shipped: Prompt) -> bool:
    return prompt.placeholders == shipped.placeholders


def _lacks(shipped: Prompt) -> str:
    listed = ", ".join(f"{{{{{name}}}}}" for name in sorted(shipped.placeholders))
    return f"a {shipped.name} prompt must have the placeholders {listed} and no others"


def _share(score: SessionScore) -> float:
    """The quality of one session; one in which nothing is asked is no reason against a candidate."""
    return next(iter(qualities([score]).values()), 1.0)


def _plain(question: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(question, str):
        return question
    texts = [message.get("content") for message in question]
    if not all(isinstance(text, str) for text in texts):
        raise PromptError("gepa asked for a prompt with something else than text")
    return "\n\n".join(str(text) for text in texts)


class _Silent:
    """gepa tells much while it runs; the report tells what came of it."""

    def log(self, message: str) -> None:
        """Nothing is kept."""
