"""What is said of a session, from what the provider saw and from what the proxy told of its activations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from evals.clients.counting import kept_items
from evals.clients.upstream import UNIQUE, Seen


@dataclass(slots=True)
class Verdict:
    """One session of one client. What has to be zero comes first."""

    client: str
    version: str
    middle: str
    above_budget: int = 0  # requests with more tokens than the budget, by the judge's count
    refused: int = 0  # requests that the provider found wrong
    unexplained: int = 0  # requests that do not begin with the one before, and no activation was told
    lost: int = 0  # results of tools that did not reach the provider
    unchanged_by_failure: int = 0  # requests that a failure of the proxy let pass
    final_arrived: bool = False  # the model's last words, in what the client printed
    legs_right: int = 0
    legs: int = 0
    requests: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    sessions: int = 0  # that the proxy told apart
    activations: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    compacted: int = 0  # histories that the client has begun anew after its own compaction
    most_tokens: int = 0
    budget: int = 0
    tokens: int = 0  # of all requests
    cached: int = 0  # of these, begun with the request before
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether everything is as it should be."""
        wrong = self.above_budget + self.refused + self.unexplained + self.lost + self.unchanged_by_failure
        return not wrong and self.final_arrived and self.legs_right == self.legs

    def asdict(self) -> dict[str, Any]:
        return {"holds": self.holds, **asdict(self)}


def judge(
    verdict: Verdict, seen: Sequence[Seen], records: Sequence[Mapping[str, Any]], told: Mapping[str, Any]
) -> None:
    """Fill in what the requests say."""
    activated = _activations(seen, records)
    before: dict[str, Seen] = {}
    for each in seen:
        last = before.get(each.thread)
        if not each.problem:
            before[each.thread] = each
        if last is not None and kept_items(last.items, each.items) < len(last.items) and each.number not in activated:
            if any(other.kind == "compaction" for other in seen[last.number : each.number - 1]):
                verdict.compacted += 1
            else:
                verdict.unexplained += 1
                words = f"request {each.number} of {each.kind} does not begin with request {last.number}"
                verdict.problems.append(words)
        if each.problem:
            verdict.problems.append(f"request {each.number} of {each.kind}: {each.problem}")
        if each.lost:
            verdict.problems.append(f"request {each.number} misses {each.lost}")
        verdict.by_kind[each.kind] = verdict.by_kind.get(each.kind, 0) + 1
        verdict.above_budget += each.tokens > verdict.budget
        verdict.refused += bool(each.problem)
        verdict.lost += len(each.lost)
        verdict.tokens += each.tokens
        verdict.cached += each.cached
        verdict.most_tokens = max(verdict.most_tokens, each.tokens)
    verdict.requests = len(seen)
    verdict.sessions = len({record["session"] for record in records})
    reasons = [record["activation"] for record in records if record["activation"]]
    verdict.activations = len(reasons)
    verdict.reasons = {reason: reasons.count(reason) for reason in sorted(set(reasons))}
    verdict.unchanged_by_failure = told.get("failures", 0)
    if told.get("last_failure"):
        verdict.problems.append(f"the proxy let requests pass after {told['last_failure']}")


def _activations(seen: Sequence[Seen], records: Sequence[Mapping[str, Any]]) -> set[int]:
    """The numbers of the requests for which an activation was told.

    A record is known by the tokens that the reply told as its output; one of a reply that broke off, by its place.
    """
    numbers = {each.number for each in seen}
    found: dict[int, Mapping[str, Any]] = {}
    rest: list[Mapping[str, Any]] = []
    for record in records:
        number = (record["usage"] or {}).get("output", 0) - UNIQUE
        if number in numbers:
            found[number] = record
        else:
            rest.append(record)
    missing = sorted(numbers - set(found))
    found.update(zip(missing, rest, strict=False))
    return {number for number, record in found.items() if record["activation"]}
