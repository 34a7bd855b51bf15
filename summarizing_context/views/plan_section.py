"""The block of a header that shows the newest plan or to-do list word for word.

Pure. Where room is short, items that are still open stay longest; then finished ones, the newest first. A last line
counts the others.
"""

from __future__ import annotations

from summarizing_context.extraction.plans import Item
from summarizing_context.log.kept_texts import PlanItems
from summarizing_context.messages.fences import fence
from summarizing_context.messages.truncation import Count

PREFACE = "The newest plan, word for word: [x] is done, [>] in progress, [ ] still to do, [-] given up."

_TAG = "current_plan"

_LINE = 1  # tokens between two items


def plan_block(plan: PlanItems, cap: int, count: Count) -> str:
    """The plan in at most `cap` tokens; "" where none of its items fits."""
    whole = _block(plan, plan.items, 0)
    if count(whole) <= cap:
        return whole
    costs = [count(item.line) for item in plan.items]
    places = range(len(costs))
    ranked = [at for at in places if plan.items[at].is_open] + [at for at in places[::-1] if not plan.items[at].is_open]
    left = cap - count(_block(plan, (), sum(costs)))
    chosen: list[int] = []
    for at in ranked:
        if costs[at] + _LINE <= left:
            chosen.append(at)
            left -= costs[at] + _LINE
    while chosen:
        missing = sum(costs) - sum(costs[at] for at in chosen)
        block = _block(plan, [plan.items[at] for at in sorted(chosen)], missing)
        if count(block) <= cap:
            return block
        chosen.pop()
    return ""


def _block(plan: PlanItems, items: tuple[Item, ...] | list[Item], missing: int) -> str:
    """The block with some items; all others take `missing` tokens."""
    lines = [PREFACE, *(item.line for item in items)]
    others = len(plan.items) - len(items)
    if others:
        counted = f"{others} more item{'s' * (others > 1)}, {missing} tokens"
        lines.append(f"[not shown for want of room: {counted} (/context expand {plan.message})]")
    return fence(_TAG, "\n".join(lines), message=plan.message)
