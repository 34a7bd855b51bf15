"""Break the package on purpose, in one place at a time, and tell whether the net notices.

    python -m evals.mutations            each mutation, with the tests that should catch it
    python -m evals.mutations 3 17-20    some of them
    python -m evals.mutations --whole    the whole net for each that its own tests let through

Each is made in a copy of the package in a temporary folder; the checkout is not changed. The exit status is 1 if any is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

LAWS, DO = "tests/laws/test_", "tests/behaviour/test_"


class Mutation(NamedTuple):
    breaks: str
    file: str  # of the package
    old: str  # stands there once
    new: str
    tests: str  # that should catch it, the likeliest first


SAME = f"{LAWS}same_content_same_key.py::test_"
PAID = f"{LAWS}paid_once.py::test_"
TOLD = f"{DO}failures_are_told.py::test_"
STORE = "tests/contract/test_store"

MUTATIONS = [
    Mutation(
        "the header comes before the first request",
        "views/view.py",
        "[*rows, *state.before, *header,",
        "[*rows, *header, *state.before,",
        f"{LAWS}conversation_order.py",
    ),
    Mutation(
        "the newest message is not shown",
        "views/view.py",
        "for item in self.tail.items]]",
        "for item in self.tail.items[:-1]]",
        f"{LAWS}conversation_order.py",
    ),
    Mutation(
        "a header that changes between activations",
        "views/view.py",
        "else [state.header]",
        'else [{**state.header, "n": len(self.tail.items)}]',
        f"{LAWS}append_only_between_activations.py",
    ),
    Mutation(
        "the stable prefix is told too long",
        "views/view.py",
        "return common_prefix(before, messages)",
        "return len(messages)",
        f"{LAWS}append_only_between_activations.py",
    ),
    Mutation(
        "no error where the system rows leave no room",
        "views/builder.py",
        "if room < LEAST_ROOM:",
        "if room < -(10**9):",
        f"{LAWS}within_budget.py",
    ),
    Mutation(
        "system rows are not counted",
        "views/builder.py",
        "room = budget - self.system_rows.tokens\n",
        "room = budget\n",
        f"{LAWS}within_budget.py",
    ),
    Mutation(
        "any room has the same view",
        "views/builder.py",
        "(self.only_looks or distance(nearest) < _OTHER_ROOM)",
        "True",
        f"{DO}budgets_that_change.py",
    ),
    Mutation(
        "calls that a message follows stay open",
        "views/builder.py",
        "if for_request:\n            self._log.interrupt()",
        "if False:\n            self._log.interrupt()",
        f"{DO}open_calls.py",
    ),
    Mutation(
        "calls that wait for ever get no stand-in",
        "log/repairs.py",
        "lost = waiting | open_calls.given_up",
        "lost = open_calls.given_up",
        f"{DO}open_calls.py {LAWS}tool_safe.py",
    ),
    Mutation(
        "a stand-in answers another call",
        "log/repairs.py",
        '"tool_call_id": part.id, "content": NO_RESULT',
        '"tool_call_id": part.id + "x", "content": NO_RESULT',
        f"{LAWS}tool_safe.py {DO}open_calls.py",
    ),
    Mutation(
        "a late result is lost",
        "log/repairs.py",
        'said = "\\n".join(text for part in chosen for text in part.texts)',
        'said = ""',
        f"{LAWS}tool_safe.py",
    ),
    Mutation(
        "half a character is sent",
        "log/repairs.py",
        "shown: Message = encodable(message)",
        "shown: Message = message",
        f"{DO}messages_at_the_door.py",
    ),
    Mutation(
        "messages that differ count as repeats",
        "log/repairs.py",
        "return canonical_json(_sent(message)) == canonical_json(_sent(before))",
        'return message.get("role") == before.get("role")',
        f"{LAWS}repeats.py",
    ),
    Mutation(
        "repeats are counted wrong",
        "log/repairs.py",
        "return self.stop - self.start\n",
        "return self.stop - self.start + 1\n",
        f"{LAWS}repeats.py",
    ),
    Mutation(
        "a result goes to the oldest call of its id",
        "log/segments.py",
        "latest = waiting[-1][0]",
        "latest = waiting[0][0]",
        f"{LAWS}tool_safe.py",
    ),
    Mutation(
        "results do not join the group of their call",
        "log/segments.py",
        "return open_calls.waits_for(answers) or (bool(calls)",
        "return (bool(calls)",
        f"{LAWS}tool_safe.py",
    ),
    Mutation(
        "segments end by size alone",
        "log/segments.py",
        "return group.digest[-1] % one_in == 0",
        "return False",
        f"{PAID}an_edit_is_paid_for_near_the_change_only {LAWS}prefix_stable_segments.py",
    ),
    Mutation(
        "the last message of a range is not read",
        "log/segments.py",
        "return render_entries(entries, self._redact, numbered",
        "return render_entries(entries[:-1], self._redact, numbered",
        f"{LAWS}nothing_unseen.py",
    ),
    Mutation(
        "summarizers read what redact takes out",
        "log/segments.py",
        "self._redact = redact",
        "self._redact = None",
        "tests/test_context.py::test_redact_runs_over_what_a_summarizer_reads_and_not_over_the_log",
    ),
    Mutation(
        "words do not enter the key",
        "log/entries.py",
        "(part.kind, part.name, part.failed, part.texts, part.media)",
        "(part.kind, part.name, part.failed, part.media)",
        f"{SAME}other_words_another_role_or_another_pairing_give_another_key",
    ),
    Mutation(
        "ids enter the key",
        "log/entries.py",
        "(part.kind, part.name, part.failed, part.texts, part.media)",
        "(part.kind, part.id, part.name, part.failed, part.texts, part.media)",
        f"{SAME}ids_times_and_usage_do_not_enter_the_key",
    ),
    Mutation(
        "which call is answered does not enter the key",
        "log/entries.py",
        "return hashlib.sha256(content + places.encode()).digest()",
        "return content",
        f"{SAME}other_words_another_role_or_another_pairing_give_another_key",
    ),
    Mutation(
        "each process has keys of its own",
        "log/entries.py",
        "hashlib.sha256(_RANGE + place",
        'hashlib.sha256(str(hash("a")).encode() + place',
        f"{SAME}keys_are_equal_across_processes_hash_seeds_and_token_counters",
    ),
    Mutation(
        "another recipe has the same key",
        "log/entries.py",
        "hashlib.sha256(_RECIPE + canonical_json(dict(recipe)).encode())",
        "hashlib.sha256(_RECIPE)",
        f"{PAID}another_recipe_is_paid_for_and_a_summarizer_without_one_shares_nothing",
    ),
    Mutation(
        "merges of other texts have the same key",
        "log/entries.py",
        "f\"{rank}:{','.join(children)}\"",
        'f"{rank}"',
        f"{LAWS}paid_once.py {LAWS}nothing_unseen.py {LAWS}bounded_passes.py",
    ),
    Mutation(
        "rules are taken from files that a client attached",
        "log/entries.py",
        "self._extractor.rules(entry.read(0).reading.typed)",
        "self._extractor.rules([t for p in entry.read(0).reading.parts for t in p.texts])",
        f"{DO}attached_files_give_no_orders.py",
    ),
    Mutation(
        "two that need one summary pay for both",
        "worker/jobs.py",
        "single_flight((store.name if is_shared else id(owner), key))",
        "single_flight((id(owner), object()))",
        f"{PAID}two_contexts_at_once_pay_each_key_once",
    ),
    Mutation(
        "summaries of the store are not used",
        "worker/worker.py",
        "found = await self._guarded(self._store.find_summaries(self._session_id, list(keys), places))",
        "found = {}",
        f"{PAID}a_finished_session_costs_nothing_when_it_is_reopened",
    ),
    Mutation(
        "summaries are not kept in the store",
        "worker/worker.py",
        "kept = await self._guarded(self._store.save_summary(self._session_id, key, mine, places))",
        "kept = mine",
        f"{PAID}a_finished_session_costs_nothing_when_it_is_reopened",
    ),
    Mutation(
        "a piece that becomes a segment is paid twice",
        "worker/worker.py",
        "if not (await self._find([want]) or self._take_made(want)):",
        "if not await self._find([want]):",
        f"{PAID}a_piece_that_becomes_a_segment_is_paid_once",
    ),
    Mutation(
        "stand-ins count as summaries",
        "worker/summary_cache.py",
        'own = by == "thorough" and self._maker == "extractive"',
        "own = True",
        f"{LAWS}summarizer_faults.py {TOLD}waiting_says_whether_anything_is_missing tests/test_max_wait.py",
    ),
    Mutation(
        "the breaker never opens",
        "summarizers/resilience/limits.py",
        "or self._failures >= self._failures_allowed:",
        "or self._failures < 0:",
        f"{LAWS}summarizer_faults.py::test_failures_open_the_breaker_and_calls_stop {TOLD}an_outage_is_warned_of_once_and_again_only_after_a_recovery",
    ),
    Mutation(
        "the breaker never closes",
        "summarizers/resilience/limits.py",
        "self._failures, self._tripped, self._probe = 0, False, None",
        "self._failures, self._probe = 0, None",
        f"{TOLD}an_outage_is_warned_of_once_and_again_only_after_a_recovery",
    ),
    Mutation(
        "a wrong key is tried again and again",
        "summarizers/resilience/limits.py",
        "if self._tripped or at_once or",
        "if self._tripped or",
        f"{TOLD}a_wrong_key_or_model_is_one_warning_and_ends_the_calls",
    ),
    Mutation(
        "caps hold nothing back",
        "summarizers/resilience/limits.py",
        "if self.room_in(now, tokens) != 0.0:",
        "if False:",
        f"{TOLD}a_reached_cap_is_warned_of_once_and_views_go_on",
    ),
    Mutation(
        "invented values pass",
        "summarizers/verification/gate.py",
        "if not bad:\n        return Verified(reply",
        "if True:\n        return Verified(reply",
        f"{TOLD}replies_that_make_things_up_stop_the_calls",
    ),
    Mutation(
        "a model's words stand as the user's",
        "summarizers/verification/replies.py",
        "said = attribute(text, job.content, job.kind)",
        "said = text",
        "tests/providers/test_injections.py::test_what_a_model_copies_under_constraints_is_no_constraint_for_all_fifty",
    ),
    Mutation(
        "replies of any size and kind pass",
        "summarizers/verification/replies.py",
        "fault = _fault_of_words(text) or _fault_of_size(text, job, count)",
        "fault = None",
        f"{LAWS}summarizer_faults.py::test_a_reply_that_cannot_serve_is_refused_and_never_shown",
    ),
    Mutation(
        "a text can close its fence",
        "messages/fences.py",
        "{neutral(text, _GAPS.sub('', tag))}",
        "{text}",
        f"{DO}fenced_text.py tests/test_focus.py::test_neither_topic_nor_lines_can_leave_the_fence",
    ),
    Mutation(
        "what is acknowledged is not committed",
        "stores/relational/writer.py",
        "            connection.commit_work()\n",
        "",
        f"{STORE}.py",
    ),
    Mutation(
        "writes to a file that is gone are acknowledged",
        "stores/relational/writer.py",
        "            operation.error = self._gone\n        self._tell",
        "            pass\n        self._tell",
        f"{STORE}_faults.py::test_nothing_is_acknowledged_once_a_file_of_the_store_is_gone",
    ),
    Mutation(
        "a session has two writers",
        "stores/sqlite/store.py",
        "if not self._claims.take(session_id):",
        "if self._claims.take(session_id) is None:",
        f"{STORE}.py::test_a_session_has_one_writer {DO}one_writer.py",
    ),
    Mutation(
        "who lost a session writes on",
        "stores/sqlite/store.py",
        "if log.noted_writer(connection, session_id) != os.getpid():",
        "if False:",
        f"{DO}one_writer.py",
    ),
    Mutation(
        "a replaced log keeps its end",
        "stores/relational/log.py",
        "_begin_branch(connection, session_id, parent=head.branch, stop=keep)",
        "_begin_branch(connection, session_id, parent=head.branch, stop=head.stop)",
        f"{STORE}.py::test_a_log_is_what_a_list_would_be",
    ),
    Mutation(
        "a fork begins without pins and views",
        "stores/relational/checkpoints.py",
        "            _show_again(connection, new_id, kept)\n",
        "",
        "tests/test_pinning.py::test_pins_go_along_with_checkpoints_and_forks tests/test_checkpoints.py",
    ),
    Mutation(
        "a restore leaves the log in the store",
        "stores/relational/checkpoints.py",
        "            log.move(connection, session_id, found.kept.branch, found.kept.stop)\n",
        "",
        "tests/test_checkpoints.py",
    ),
    Mutation(
        "a restore forgets the pins of then",
        "sessions/session.py",
        "        self.log.take_pins(decode_pins(there.pins))\n",
        "",
        "tests/test_pinning.py::test_pins_go_along_with_checkpoints_and_forks",
    ),
    Mutation(
        "an activation is not kept",
        "sessions/session.py",
        "            await self._save_state(change.provider_view.key, change.provider_view.encode(change.state), form)\n",
        "",
        f"{LAWS}crash_safe.py::test_a_copy_of_the_file_at_any_moment_gives_the_same_view tests/test_kept_views.py",
    ),
    Mutation(
        "requests wait for summaries",
        "sessions/session.py",
        "anyio.current_time() + self.settings.max_wait",
        "anyio.current_time() + 60",
        f"{LAWS}never_waits.py tests/test_max_wait.py",
    ),
    Mutation(
        "`max_wait` is not heeded",
        "sessions/session.py",
        "anyio.current_time() + self.settings.max_wait",
        "anyio.current_time() - 1",
        "tests/test_max_wait.py",
    ),
    Mutation(
        "activations are not counted",
        "sessions/session.py",
        "self.activations[change.report.reason] += 1",
        "pass",
        "tests/test_context.py::test_the_figures_add_up",
    ),
    Mutation(
        "calls given up are forgotten with the process",
        "sessions/session.py",
        "await self._save_state(shown.key, shown.encode(shown.state))  #",
        "pass  #",
        f"{DO}open_calls.py",
    ),
    Mutation(
        "pins end with the process",
        "sessions/checkpoints.py",
        "await self._store.save_pins(session.id, encode_pins(changed), committed)",
        "committed()",
        "tests/test_pinning.py::test_pins_survive_reopening_with_the_bytes_of_the_view",
    ),
    Mutation(
        "no checkpoint is made at intervals",
        "sessions/checkpoints.py",
        "len(log) // self._every > noted // self._every",
        "len(log) < 0",
        "tests/test_checkpoints.py::test_checkpoints_are_made_at_intervals",
    ),
]


def caught(mutation: Mutation, tests: list[str]) -> str:
    """What became of a mutation: `caught`, `MISSED`, or why it could not be tried."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for path in ROOT.iterdir():
            if path.name not in ("summarizing_context", "tests", ".git", ".venv"):
                (copy / path.name).symlink_to(path)
        for name in ("summarizing_context", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        changed = copy / "summarizing_context" / mutation.file
        text = changed.read_text(encoding="utf8")
        if text.count(mutation.old) != 1:
            return f"CANNOT BE MADE: its place stands {text.count(mutation.old)} times in {mutation.file}"
        changed.write_text(text.replace(mutation.old, mutation.new), encoding="utf8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-k", "not postgres", *tests]
        run = subprocess.run(
            command, cwd=copy, env=os.environ | {"PYTHONPATH": folder}, capture_output=True, text=True, check=False
        )
        failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if run.returncode == 1:
            return f"caught by {failed[0].split()[1] if failed else 'a test'}"
        return "MISSED" if run.returncode == 0 else f"CANNOT BE TRIED: {run.stdout[-300:]}{run.stderr[-300:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Break the package on purpose and tell whether the net notices.")
    parser.add_argument("numbers", nargs="*", metavar="N", help="numbers of mutations, such as 3 or 17-20")
    parser.add_argument("--whole", action="store_true", help="ask the whole net where its own tests miss one")
    parser.add_argument("--jobs", type=int, default=2, help="mutations at a time")
    options = parser.parse_args()
    spans = [tuple(map(int, number.split("-"))) for number in options.numbers] or [(1, len(MUTATIONS))]
    chosen = [at for span in spans for at in range(span[0], span[-1] + 1)]

    def tried(at: int) -> bool:
        mutation = MUTATIONS[at - 1]
        outcome = caught(mutation, mutation.tests.split())
        if outcome == "MISSED" and options.whole:
            outcome = caught(mutation, ["@tests/net.txt"])
        print(f"{at:3} {mutation.file}: {mutation.breaks}: {outcome}", flush=True)
        return outcome.startswith("caught")

    with ThreadPoolExecutor(options.jobs) as pool:
        return 0 if all(list(pool.map(tried, chosen))) else 1


if __name__ == "__main__":
    raise SystemExit(main())
