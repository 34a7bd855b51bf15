"""Oddities of calls and results: one function a transcript; its docstring names the oddities in it.

Those of contents, rows and sizes are in `corpus_contents`.
"""

from __future__ import annotations

from collections.abc import Callable

from corpus_text import SYSTEM, Message, Writer, assistant, user


def orphan_results() -> list[Message]:
    """orphan_tool_result: results whose call was never made, in both dialects"""
    w, a = Writer(3), Writer(4, "anthropic")
    return [
        SYSTEM,
        *w.between([w.result("call_never", w.listing(4))]),
        *a.between([a.result("toolu_never", a.listing(4))]),
    ]


def reused_ids() -> list[Message]:
    """duplicate_call_id: one id used for several calls of a conversation, answered each time"""
    w = Writer(5)
    again = [[w.call("call_same"), w.result("call_same", w.listing(6))] for _ in range(4)]
    return [SYSTEM, *w.between(*again, again[0] + again[1])]


def duplicate_results() -> list[Message]:
    """duplicate_tool_result: a call answered twice, at once and later; once in the middle of parallel calls"""
    w = Writer(6)
    twice = [w.call("call_d1"), w.result("call_d1", w.listing(3)), w.result("call_d1", w.listing(3))]
    inside = [w.call("call_d2", "call_d3"), *(w.result(i, w.listing(2)) for i in ("call_d2", "call_d2", "call_d3"))]
    return [SYSTEM, *w.between(twice, [w.result("call_d1", "late copy " + w.text(2))], inside)]


def user_role_calls() -> list[Message]:
    """user_role_with_tool_calls, tool_result_answers_user_role_call, content None, starts_with_assistant"""
    w = Writer(7)
    own = [w.call("call_u1", role="user") | {"content": None}, w.result("call_u1", "Status: \U0001f4f5 no signal")]
    both = [w.call("call_u2", "call_u3", role="user"), w.result("call_u3", w.text(3)), w.result("call_u2", w.text(3))]
    return [assistant("Hi! How can I help?"), *w.between(own, both, own)]


def split_parallel_calls() -> list[Message]:
    """split_assistant_lines, assistant_message_id_reappears_nonadjacent: calls on several lines, crossed"""
    a = Writer(13, "anthropic")
    ids = [f"toolu_s{n}" for n in range(9)]
    lines = [a.call(i) | {"_meta": {"message_id": "msg_01"}} for i in ids]
    answers = [a.result(i, a.listing(6)) for i in ids]
    first = [*lines[:3], *answers[:3]]
    crossed = [lines[3], lines[4], answers[4], lines[5], answers[3], answers[5]]
    loose = [lines[6], lines[7], answers[7], lines[8], answers[8], answers[6]]
    return a.between(first, crossed, loose)


def results_of_several_groups() -> list[Message]:
    """one user row that answers the calls of several rows"""
    a = Writer(14, "anthropic")
    lines = [a.call(f"toolu_g{n}") for n in range(5)]
    rows = [a.result(f"toolu_g{n}", a.listing(4))["content"][0] for n in range(5)]
    two = [lines[0], lines[1], user([rows[0], rows[1]])]
    three = [
        lines[2],
        lines[3],
        lines[4],
        user([rows[4], rows[2]]),
        user([rows[3], {"type": "text", "text": "Go on, please."}]),
    ]
    return a.between(two, three)


def late_results() -> list[Message]:
    """late results: the human speaks first, the result comes later"""
    w, a = Writer(15), Writer(16, "anthropic")
    late = [w.call("call_l1"), user("Are you there?"), assistant("Yes."), w.result("call_l1", w.listing(5))]
    part = [w.call("call_l2", "call_l3"), w.result("call_l3", "3"), user("Hurry."), w.result("call_l2", w.listing(5))]
    block = [a.call("toolu_l1"), user("Wait."), a.result("toolu_l1", a.listing(5))]
    return [SYSTEM, *w.between(late, part), *a.between(block)]


def rows_between() -> list[Message]:
    """message_between_call_and_result: a hook's row, a system row or a text between a call and its result"""
    w = Writer(17)
    hook = {"role": "system", "content": "<hook>saved</hook>", "metadata": {"source": "hook", "event": "tool:post"}}
    one = [w.call("call_b1"), hook, w.result("call_b1", w.listing(4))]
    two = [
        w.call("call_b2", "call_b3"),
        w.result("call_b2", "2"),
        assistant("Meanwhile."),
        w.result("call_b3", w.listing(3)),
    ]
    return [
        SYSTEM,
        *w.between(
            one,
            two,
            [w.call("call_b4"), user("<system-reminder>check the list</system-reminder>"), w.result("call_b4", "4")],
        ),
    ]


def arguments_not_json() -> list[Message]:
    """arguments_not_json: patches and scripts as raw text, empty arguments"""
    w = Writer(18)
    patch = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-" + w.text(4) + "\n+" + w.text(4) + "\n*** End Patch"
    rows = []
    for n, given in enumerate(
        (patch, "await run({ 'x': [1, 2,] })", "{broken", "plain words", "[1, 2]", '"text"', "null")
    ):
        rows.append([w.call(f"call_j{n}", arguments=given), w.result(f"call_j{n}", w.listing(3))])
    return [SYSTEM, *w.between(*rows, turns=1)]


def forty_calls() -> list[Message]:
    """parallel calls: 40 in one row, answered in another order; and 40 in one row with long results"""
    w = Writer(21)
    ids = [[f"call_f{k}_{n}" for n in range(40)] for k in range(2)]
    short = [w.call(*ids[0]), *(w.result(i, w.sentence()) for i in reversed(ids[0]))]
    long = [w.call(*ids[1]), *(w.result(i, w.listing(12)) for i in ids[1])]
    return [SYSTEM, *w.between(short, long)]


def ends_on_a_call() -> list[Message]:
    """ends_on_unanswered_call: two calls, one answered, the end"""
    w = Writer(28)
    return [SYSTEM, *w.work(6), w.call("call_z1", "call_z2"), w.result("call_z2", w.listing(4))]


def abandoned_calls() -> list[Message]:
    """unanswered_calls: calls that nobody ever answers, alone, partly, several at once"""
    w, a = Writer(29), Writer(30, "anthropic")
    part = [w.call("call_a2", "call_a3", "call_a4"), w.result("call_a3", "3"), user("Stop.")]
    lines = [a.call("toolu_a1"), a.call("toolu_a2"), a.result("toolu_a2", "2"), user("Never mind.")]
    return [SYSTEM, *w.between([w.call("call_a1"), user("Forget it.")], part), *a.between(lines)]


def amplifier_shapes() -> list[Message]:
    """Amplifier: each call as a block and in `tool_calls` with key `tool`, thinking_block, metadata None"""
    m = Writer(33, "amplifier")
    caller = m.call("call_m1", "call_m2", say="I check both.")
    think = {"type": "thinking", "thinking": m.text(3), "signature": "Qm" * 40, "visibility": None}
    caller["content"] = [think, *caller["content"]]
    caller["thinking_block"] = think
    named = [m.result(i, m.listing(4)) | {"name": "read_file"} for i in ("call_m1", "call_m2")]
    reasoning = assistant(
        [
            {"type": "thinking", "thinking": "", "content": ["gAAAA" + "e" * 80, "rs_1"], "signature": None},
            {"type": "text", "text": "Done."},
        ]
    )
    flat = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "call_m3", "tool": "run_tests", "arguments": {"all": True}}],
    }
    plain = [flat, m.result("call_m3", '{"success": false, "error": "cancelled"}'), assistant("Stopped as you asked.")]
    return [SYSTEM, *m.between([caller, *named], [reasoning], plain)]


def failures() -> list[Message]:
    """tool_result_is_error, tool_errors, tool_result_list_content, stop_error, stop_aborted, api_error_messages"""
    a = Writer(35, "anthropic")
    failed = [a.call("toolu_x1"), a.result("toolu_x1", "error: exit code 2\n" + a.listing(3), failed=True)]
    listed = [
        a.call("toolu_x2"),
        a.result("toolu_x2", [{"type": "text", "text": a.listing(4)}, {"type": "text", "text": "end"}]),
    ]
    stopped = [
        assistant([{"type": "text", "text": "I was"}]) | {"stop_reason": "aborted", "_meta": {"stop": "aborted"}}
    ]
    return a.between(
        failed, listed, stopped, [assistant("API Error: 529 overloaded") | {"_meta": {"isApiErrorMessage": True}}]
    )


CALL_CASES: list[Callable[[], list[Message]]] = [
    orphan_results,
    reused_ids,
    duplicate_results,
    user_role_calls,
    split_parallel_calls,
    results_of_several_groups,
    late_results,
    rows_between,
    arguments_not_json,
    forty_calls,
    ends_on_a_call,
    abandoned_calls,
    amplifier_shapes,
    failures,
]
