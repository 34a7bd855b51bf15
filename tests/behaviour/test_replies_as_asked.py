"""What a summarizer is asked with, and what becomes of its replies: their length, thinking in them, the public fake."""

import itertools
import json
from typing import Any

import pytest

from summarizing_context import Settings, SummarizerError, SummaryJob
from summarizing_context.testing import ScriptedSummarizer, range_name
from tests.behaviour.contexts import TINY, Wordy, begun, said
from tests.laws.builders import assistant, user
from tests.laws.summarizers import Counting
from tests.talk import Talk


@pytest.mark.parametrize(("budget", "turns"), [(3_000, 45), (6_000, 75), (16_000, 90)])
async def test_a_reply_as_long_as_it_was_asked_for_is_taken(budget: int, turns: int):
    model = Wordy("full/1", 5.3)  # as many tokens as it was asked for, by the built-in estimate
    given = {"max_tokens": budget, "idle_after": "never", "count_tokens": None}
    async with begun(of=Settings, summarizer=model, **given) as context:
        for turn in range(turns):
            await context.add_message(said(turn, " ".join(f"word{turn * 180 + word}" for word in range(180))))
            assert await context.wait_idle(60)
            await context.get_messages_for_request()
        assert {job.kind for job in model.jobs} >= {"segment", "rollup"}
        assert context.statistics().refused_replies == 0


async def requests(opening: str, correction: str, **options: Any) -> list[SummaryJob]:
    """The jobs for segments of a session in which the human wants something else half-way."""
    model = Counting()
    steps = [assistant(f"Step {step}: " + "boats carry bread along " * 8) for step in range(40)]
    log = [user(opening), *steps[:20], user(correction), *steps[20:]]
    sizes = {"segment_min": 200, "segment_target": 400, "segment_max": 800}
    given = {"max_tokens": 4_000, "idle_after": "never", "start_at": 0.0, "count_tokens": None, **sizes, **options}
    async with begun(log, of=Settings, summarizer=model, **given) as context:
        await context.wait_idle()
    return model.segments


async def test_a_segments_request_holds_the_opening_request_and_the_newest_words_before_it():
    first, *others = jobs = await requests("Build the harbour.", "No, build a bridge.")
    assert "Build the harbour." in first.content
    assert first.context == ""
    assert all("Build the harbour." in job.context for job in others)
    late = [job for job in others if job.start > 21]
    assert late
    assert all("No, build a bridge." in job.context for job in late)
    assert not any("bridge" in job.context for job in others if job.start < 21)
    # it is part of the name of a summary
    again = await requests("Build the harbour.", "No, build a bridge.")
    assert [job.range_hash for job in again] == [job.range_hash for job in jobs]
    _, *changed = await requests("Break the harbour.", "No, build a bridge.")
    assert [job.content for job in changed] == [job.content for job in others]
    assert all(a.range_hash != b.range_hash for a, b in zip(others, changed, strict=True))
    # a long one is clipped and redacted
    jobs = await requests("secret " * 900, "Go on.", redact=lambda text: text.replace("secret", "hidden"))
    assert all("secret" not in job.context and len(job.context) < 4_000 for job in jobs)
    assert any("hidden" in job.context for job in jobs)


# Thinking stays out of summaries: that of the model that writes them, in any form, and the agent's unless asked.

SUMMARY = "## State and next step\n- The server listens on port 8443, and all of it is well by {}.\n"
CHANNEL = "<|channel|>{}<|message|>"
FORMS = {  # of a reply: § is reasoning, ¶ the summary
    "a tag": "<think>\n§\n</think>\n¶",
    "no opening tag": "§\n</think>\n¶",
    "no opening tag, on one line": "§</THINK>¶",
    "another closing tag": "<analysis>\n§\n</think>¶",
    "another tag": "<Reasoning effort='high'>§</Reasoning>\n\n¶",
    "a namespace": "<seed:think>§</seed:think>¶",
    "escaped": "&lt;thought&gt;§&lt;/thought&gt;\n¶",
    "brackets": "[THINK]§[/THINK]¶",
    "tokens": "<|START_THINKING|>§<|END_THINKING|><|START_RESPONSE|>¶<|END_RESPONSE|>",
    "other tokens": "<|begin_of_thought|>\n§\n<|end_of_thought|>\n\n¶",
    "nested": "<think>§<think>§</think>§</think>¶",
    "nested, of two kinds": "<thinking>§<reflection>§</thinking>¶",
    "two in a row": "<think>§</think>\n<think>§</think>\n¶",
    "behind": "¶<think>\n§",
    "behind, closed": "¶\n<thought>§</thought>",
    "behind, nested": "¶\n<think>§<think>§</think>§</think>",
    "beside an answer": "<analysis>\n§\n</analysis>\n<summary>\n¶</summary>\n§",
    "before an answer": "§\n<answer>\n¶\n</answer>",
    "in a fence": "```markdown\n<think>§</think>\n¶```",
    "channels": f"{CHANNEL.format('analysis')}§<|end|><|start|>assistant{CHANNEL.format('final')}¶<|return|>",
    "more channels": f"{CHANNEL.format('analysis')}§<|end|>{CHANNEL.format('commentary')}§{CHANNEL.format('final')}¶",
    "a channel behind": f"¶<|start|>assistant{CHANNEL.format('analysis')}§",
    "channels without tokens": "analysis§assistantcommentary§assistantfinal¶",
    "folded": '<details type="reasoning" done="true">\n<summary>Thought for 5 seconds</summary>\n> §\n</details>\n¶',
    "folded, as a page does it": "<details>\n<summary>Thinking</summary>\n§\n</details>\n¶",
    "a fence of its own": "```thinking\n§\n```\n¶",
    "left open before an answer": "<analysis>\n§\n<summary>\n¶</summary>",
}


async def told(*replies: str, said: str = "It is read. ", sizes: Any = TINY) -> tuple[str, str]:
    """Return a view of a session whose summaries are answered by these in turn, and its summaries."""
    turn = itertools.cycle(replies)
    summarizer = ScriptedSummarizer(lambda job: "none" if job.kind == "rules" else next(turn))
    steps = ((user(f"Step {at}: port 8443. " + "Read it. " * 30), assistant(said * 30)) for at in range(16))
    given = {"max_tokens": 2_500, "idle_after": "never", "attempts": 1, "count_tokens": None, **sizes}
    async with begun(itertools.chain(*steps), of=Settings, summarizer=summarizer, **given) as context:
        await context.compact()
        await context.wait_idle(30)
        await context.compact()
        view = str(await context.get_messages_for_request())
        return view, "\n".join(node.text for node in context.summaries())


@pytest.mark.parametrize("at", range(0, len(FORMS), 9))
async def test_a_models_reasoning_is_no_part_of_its_summary(at: int):
    forms = dict(itertools.islice(FORMS.items(), at, at + 9))
    reasoning = "The user wants me to summarize this. ZZREASONING. Wait, let me look again."
    replies = (form.replace("§", reasoning).replace("¶", SUMMARY.format(name)) for name, form in forms.items())
    view, summaries = await told(*replies)
    assert "ZZREASONING" not in view + summaries
    assert [name for name in forms if SUMMARY.format(name).strip() not in summaries] == []


async def test_a_reply_of_reasoning_alone_is_no_summary_and_a_summary_may_name_such_tags():
    for reply in ("<think>ZZREASONING, and on and on", "ZZREASONING</think>", "[THINK]ZZREASONING[/THINK]\n"):
        assert "ZZREASONING" not in (await told(reply))[0]
    lines = "- It strips <think> tags, then `</think>`, from List<Thought>.\n- Port 8443 is as it was."
    lines += "\n- It splits at `</think>\\n` by `(<think>.*?)</think>` too."
    assert lines in (await told(f"## Done\n{lines}", said=f"{lines}\n", sizes={}))[1]


@pytest.mark.parametrize("wanted", [False, True])
@pytest.mark.parametrize("by_model", [False, True])
async def test_what_the_agent_thought_is_summarized_only_where_the_settings_say_so(wanted: bool, by_model: bool):
    thought = "I decided to keep ZZTHOUGHT as it is."
    thoughts = [
        {"content": [{"type": "thinking", "thinking": thought, "signature": "s"}]},
        {"content": "So it is.", "reasoning_content": thought},
        {"content": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": thought}]}]},
    ]
    summarizer = ScriptedSummarizer() if by_model else None
    given = {"max_tokens": 3_000, "idle_after": "never", "summarize_thinking": wanted, "count_tokens": None}
    log = [{"role": "assistant", "reasoning_content": thought * 1_500, "content": "So."}]
    for at in range(30):
        log += [user(f"Step {at}. " + "Read the next file. " * 30), {"role": "assistant", **thoughts[at % 3]}]
    async with begun(log, of=Settings, summarizer=summarizer, **given) as context:
        await context.compact()
        await context.wait_idle(30)
        read = [job.content for job in summarizer.jobs] if summarizer else context.summaries()
    assert ("ZZTHOUGHT" in str(read)) is wanted
    assert ("assistant thinks" in str(read)) is (wanted and by_model)  # no model is asked about nothing


async def test_a_scripted_summarizer_answers_for_a_session():
    """The fake that users' tests may use; also where its script fails at first: such a call is made again."""
    for script in ([], [SummarizerError("down")] * 2):
        summarizer = ScriptedSummarizer(script)
        given = {"max_tokens": 3_000, "count_tokens": None, "summarizer": summarizer}
        async with begun(Talk().turns(40), every=1, of=Settings, **given) as context:
            assert await context.wait_idle(60)
            view = json.dumps(await context.get_messages_for_request())
            assert context.statistics().refused_replies == 0
        assert [job.kind for job in summarizer.jobs].count("segment") > len(script)
        assert any(f"called {range_name(job.range_hash)}" in view for job in summarizer.jobs)
