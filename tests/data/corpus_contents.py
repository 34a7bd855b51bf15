"""Oddities of contents, rows and sizes: one function a transcript; its docstring names the oddities in it.

Those of calls and results are in `corpus_calls`.
"""

from __future__ import annotations

from collections.abc import Callable

from corpus_text import SYSTEM, Message, Writer, assistant, user

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def plain_openai() -> list[Message]:
    """no oddity: OpenAI chat with parallel calls"""
    return [SYSTEM, *Writer(1).work(8)]


def plain_anthropic() -> list[Message]:
    """no oddity: Anthropic blocks with parallel calls"""
    return Writer(2, "anthropic").work(8)


def empty_contents() -> list[Message]:
    """empty_content, empty_content_with_tool_calls, empty_text_block, empty_tool_result"""
    w, a = Writer(8), Writer(9, "anthropic")
    nothing = [user(""), assistant(""), user([]), assistant([]), user([{"type": "text", "text": ""}])]
    silent = [w.call("call_e1"), w.result("call_e1", ""), w.call("call_e2"), w.result("call_e2", [])]
    blank = [
        a.call("toolu_e1"),
        a.result("toolu_e1", ""),
        a.call("toolu_e2"),
        a.result("toolu_e2", [{"type": "text", "text": ""}]),
    ]
    missing = [a.call("toolu_e3"), user([{"type": "tool_result", "tool_use_id": "toolu_e3"}])]
    return [SYSTEM, *w.between(nothing, silent), *a.between(blank, missing)]


def content_none() -> list[Message]:
    """content None, with and without calls; content missing"""
    w = Writer(10)
    with_call = [w.call("call_n1") | {"content": None}, w.result("call_n1", w.listing(3))]
    no_content = {key: value for key, value in w.call("call_n2").items() if key != "content"}
    return [SYSTEM, *w.between(with_call, [no_content, w.result("call_n2", "ok")], [assistant(None)], [user(None)])]


def thinking() -> list[Message]:
    """thinking_blocks: signed, redacted, unsigned; before text and before calls; as a field"""
    a = Writer(11, "anthropic")
    signed = {"type": "thinking", "thinking": a.text(6), "signature": "EuYBCkQYAiJA" + "q" * 120}
    redacted = {"type": "redacted_thinking", "data": "EmwKAhgBEgy3" + "z" * 90}
    unsigned = {"type": "thinking", "thinking": a.text(3), "signature": None}
    caller = a.call("toolu_t1", say="I look.")
    caller["content"] = [signed, redacted, *caller["content"]]
    field = assistant(a.text(2)) | {
        "thinking_block": {"type": "thinking", "thinking": a.text(2), "signature": "Sg" * 30}
    }
    said = assistant([signed, {"type": "text", "text": a.text(2)}])
    return a.between(
        [caller, a.result("toolu_t1", a.listing(5))], [said], [assistant([unsigned, *said["content"][1:]])], [field]
    )


def thinking_only() -> list[Message]:
    """thinking_only_assistant: alone, and two in a row"""
    a = Writer(12, "anthropic")
    only = [assistant([{"type": "thinking", "thinking": a.text(4), "signature": "Ab" * 60}]) for _ in range(3)]
    return a.between(only[:1], only[1:], [*only[:1], *a.step()])


def strange_characters() -> list[Message]:
    """ansi_or_control_chars, astral_chars, non_ascii_chars: colours, NUL, emoji, right-to-left, CJK, box lines"""
    w = Writer(19)
    ansi = "\x1b[31mFAILED\x1b[0m tests/test_a.py \x07\x00 50%\r100%\x1b]0;title\x07 \x7f\x85\u2028\u2029 done\n" * 8
    astral = (
        "\U0001f680\U0001f469\u200d\U0001f4bb \U0001d54f \U00020bb7 e\u0301 \ufeff\u202eabc\u202c \ufffe \uffff " * 8
    )
    world = "日志显示第三步失败。ビルドは成功しました。Сборка завершена. شكرا جزيلا. ─────┼─────│ ÄÖÜ ß €\n" * 8
    row = [w.call("call_c1"), w.result("call_c1", ansi), user(astral), assistant(world)]
    return [
        SYSTEM,
        *w.between(row, [user(world)], [w.call("call_c2", arguments={"text": astral}), w.result("call_c2", world)]),
    ]


def lone_surrogates() -> list[Message]:
    """lone surrogates in text, results, arguments and ids"""
    w = Writer(20)
    text = "half \ud83d of a pair, \udc00 and the other way, " + w.text(3)
    rows = [w.call("call_\ud800", arguments={"\udfff": "\ud800"}), w.result("call_\ud800", text)]
    return [SYSTEM, *w.between([user(text), assistant(text)], rows)]


def starts_with_assistant() -> list[Message]:
    """starts_with_assistant, and no system row"""
    w = Writer(22)
    return [assistant("Hello, what shall we do?"), *w.work(6)]


def consecutive_rows() -> list[Message]:
    """consecutive_user, consecutive_assistant, equal rows repeated"""
    w = Writer(23)
    users, says = [user(w.text(2)) for _ in range(4)], [assistant(w.text(2)) for _ in range(4)]
    return [user("First."), user("Second."), *w.between(users, says, [user("continue")] * 5, [assistant("ok")] * 3)]


def system_rows() -> list[Message]:
    """role_developer, system rows in the middle, rows that a hook put in"""
    w = Writer(24)
    files = {"role": "developer", "content": [{"type": "text", "text": "<rules>" + w.text(4) + "</rules>"}]}
    hook = {"role": "system", "content": "Disk is 91 % full.", "metadata": {"source": "hook", "hook_name": "disk"}}
    note = user("<system-reminder>The list is empty.</system-reminder>")
    later = {"role": "developer", "content": "From now on write tests first."}
    return [SYSTEM, files, *w.between([hook], [note], [later], [SYSTEM | {"content": "New rule: use tabs."}])]


def images() -> list[Message]:
    """image_blocks, block_type_input_image, image_in_tool_result, documents"""
    w, a = Writer(25), Writer(26, "anthropic")
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    block = {"type": "image", "source": source}
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}
    inputs = user(
        [{"type": "input_image", "image_url": "data:image/png;base64," + PIXEL}, {"type": "text", "text": "And this?"}]
    )
    shot = [a.call("toolu_i1"), a.result("toolu_i1", [{"type": "text", "text": "The page:"}, block])]
    paper = user(
        [
            {"type": "document", "source": source | {"media_type": "application/pdf"}},
            {"type": "text", "text": "Read it."},
        ]
    )
    look = user([{"type": "text", "text": "See the picture."}, block])
    return [
        SYSTEM,
        *w.between([user([{"type": "text", "text": "Look."}, url])], [inputs]),
        *a.between([look], shot, [paper]),
    ]


def unknown_blocks() -> list[Message]:
    """tool_result_other_block_types and blocks of kinds that nobody knows"""
    a = Writer(27, "anthropic")
    odd = {"type": "hologram", "payload": {"depth": [1, 2.5, None, True], "note": a.text(3)}}
    found = [
        a.call("toolu_k1"),
        a.result("toolu_k1", [{"type": "tool_reference", "tool_name": "search"}, {"type": "text", "text": "x"}]),
    ]
    server = assistant([{"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": "x"}}, odd])
    return a.between([user([odd])], found, [server], [assistant([{"type": "text"}, {"no_type": 1}])])


def compact_summaries() -> list[Message]:
    """compact_summary_messages, compact_boundary, compacted_events: another tool's summaries in the log"""
    a = Writer(31, "anthropic")
    text = "This session is being continued from a previous conversation. Summary: " + a.text(20)
    summary = user(text) | {"_meta": {"isCompactSummary": True}}
    boundary = {"role": "system", "content": "Conversation compacted", "_meta": {"compact_boundary": True}}
    return a.between([boundary, summary], [summary])


def private_keys() -> list[Message]:
    """`_meta` keys, timestamps, usage, names and other fields beside the content"""
    w = Writer(32)
    rows = w.work(6)
    for n, row in enumerate(rows):
        row["_meta"] = {
            "ts": f"2026-11-20T10:{n:02d}:00Z",
            "usage": {"input_tokens": n * 7},
            "message_id": f"msg_{n:03d}",
        }
        row |= {"timestamp": 1_790_000_000 + n} if n % 3 == 0 else {}
        row |= {"name": "ana"} if row["role"] == "user" else {}
    return [SYSTEM, *rows]


def text_actions() -> list[Message]:
    """no_native_tool_calls(text_actions): actions and observations as plain text; starts with a demonstration"""
    w = Writer(34)
    rows = [SYSTEM, user("Here is a demonstration of how to work:\n" + w.text(12))]
    for n in range(10):
        rows += [
            assistant(f"DISCUSSION\n{w.text(2)}\n```\nopen src/part{n}.py\n```"),
            user("[File: src]\n" + w.listing(14)),
        ]
    return rows


def huge_messages() -> list[Message]:
    """max_message_chars: 95 % of an 8k budget and three times of it, as user text, blocks, argument, result"""
    w = Writer(36)
    nearly, triple = w.text(560), w.listing(1500)
    asked, blocked = (
        user(nearly),
        user([{"type": "text", "text": nearly[k : k + 9000]} for k in range(0, len(nearly), 9000)]),
    )
    written = [w.call("call_h1", arguments={"path": "big.py", "text": nearly}), w.result("call_h1", "written")]
    read = [w.call("call_h2"), w.result("call_h2", triple)]
    return [SYSTEM, *w.between([asked], [blocked], written, read, turns=1)]


def long_session() -> list[Message]:
    """a long session for many activations, with two standing constraints at its start"""
    w = Writer(37)
    return [SYSTEM, user("Never push to main. Always answer in one line. " + w.text(3)), *w.work(70, lines=24)]


CONTENT_CASES: list[Callable[[], list[Message]]] = [
    plain_openai,
    plain_anthropic,
    empty_contents,
    content_none,
    thinking,
    thinking_only,
    strange_characters,
    lone_surrogates,
    starts_with_assistant,
    consecutive_rows,
    system_rows,
    images,
    unknown_blocks,
    compact_summaries,
    private_keys,
    text_actions,
    huge_messages,
    long_session,
]
