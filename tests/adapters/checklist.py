"""What a context under Amplifier must do, in fifty points, and the tests that show it.

A test is named by its file, from `tests/`, and its function.
"""

from __future__ import annotations

POINTS: dict[int, tuple[str, tuple[str, ...]]] = {}


def _point(number: int, claim: str, *tests: str) -> None:
    assert number not in POINTS, number
    POINTS[number] = (claim, tests)


_A, _L, _S = "adapters/test_amplifier_", "laws/test_", "summarizers/test_"

_point(1, "mounts at `context` on the real coordinator", f"{_A}doors.py::test_the_entry_point")
_point(
    2,
    "the host's validator passes, its 11 tests run and none is skipped",
    f"{_A}doors.py::test_the_hosts_validator_passes",
    f"{_A}conformance.py::test_the_hosts_own_suites_pass_and_none_is_skipped",
)
_point(
    3,
    "mounting twice has no effect but values; cleanup may be called twice",
    f"{_A}mount.py::test_mounting_twice_makes_no_file_task_or_thread",
    f"{_A}mount.py::test_cleanup_may_come_before_the_first_use_and_twice",
)
_point(
    4,
    "the whole history after any number of compactions",
    f"{_A}long_session.py::test_up_to_two_hundred_turns",
    f"{_L}log_is_untouched.py::test_the_log_is_untouched_by_compaction_and_by_careless_callers",
)
_point(
    5,
    "oversized text stays in the history, only the view shrinks",
    f"{_A}limits.py::test_one_huge_message_fits_at_once_and_stays_whole_in_the_log",
)
_point(
    6,
    "a view may be changed deeply without touching the history",
    f"{_L}log_is_untouched.py::test_ruining_the_last_view_changes_neither_log_nor_next_view",
)
_point(
    7,
    "every row is a `Message`, also where the log had no content",
    f"{_A}rows.py::test_every_row_of_a_view_is_accepted_after_shrinking_and_repairs",
    f"{_A}rows.py::test_odd_rows_are_accepted_too",
)
_point(
    8,
    "calls are answered right behind them, ids are used once, no result stands alone",
    f"{_A}transcripts.py::test_every_request_of_a_real_conversation_is_one_that_both_providers_take",
    f"{_A}wire.py::test_an_id_that_was_used_before_gets_a_name_of_its_own",
    f"{_L}tool_safe.py::test_views_are_tool_safe_while_the_past_is_covered",
)
_point(
    9,
    "calls in flight are never removed or summarized",
    f"{_L}tool_safe.py::test_a_call_in_flight_at_the_end_is_shown_as_it_is",
    f"{_A}wire.py::test_a_call_in_flight_is_shown_with_a_result_that_says_so",
)
_point(
    10,
    "results inside a user's row are paired",
    f"{_A}wire.py::test_results_inside_a_users_row_become_rows_behind_their_calls",
)
_point(
    11,
    "the first and the last human message are in every view",
    f"{_L}conversation_order.py::test_the_first_human_rows_and_covered_system_rows_stay_in_every_view",
    "log/test_pins.py::test_the_first_human_message_stands_before_and_the_latest_after",
)
_point(
    12,
    "old instructions survive word for word or in a summary",
    f"{_L}nothing_unseen.py::test_every_marker_that_left_the_view_was_read_by_a_summarizer",
    f"{_L}nothing_unseen.py::test_with_a_dead_summarizer_stand_ins_cover_what_no_model_read",
)
_point(
    13,
    "summaries stand where the past stood, oldest first, in a fenced user row",
    f"{_L}conversation_order.py::test_the_order_of_a_view_is_rules_first_ask_header_tail",
    "behaviour/test_order_of_a_view.py::"
    "test_the_first_request_stands_before_the_summaries_and_the_newest_message_at_the_end",
)
_point(
    14,
    "one header message, its blocks bounded by the tree; nothing is summarized twice",
    "test_merged_header.py::test_after_two_hundred_segments_one_merge_stands_before_the_newest",
    f"{_L}paid_once.py::test_no_key_is_asked_for_twice_within_a_session",
)
_point(
    15,
    "the prompt asks for goal, constraints, decisions, errors, state, facts; a focus can be given",
    "summarizers/test_prompt_library.py::test_a_prompt_names_the_fixed_sections_in_their_order",
    "test_focus.py::test_a_focus_is_noted_at_once_and_without_a_model",
)
_point(
    16,
    "a summary that fails in any way leaves a deterministic one, and no turn fails",
    f"{_L}summarizer_faults.py::test_views_stay_lawful_with_a_summarizer_that_is",
    f"{_A}long_session.py::test_up_to_two_hundred_turns",
)
_point(
    17,
    "a view changes only with what is ready and committed; cancelling changes nothing by halves",
    "test_context.py::test_should_compact_tells_before_the_view_activates",
    "test_context.py::test_a_cancelled_replacement_has_happened_in_both_places_or_in_neither",
)
_point(
    18,
    "any span is summarized in pieces; a transcript of three windows works at its first request",
    f"{_A}long_session.py::test_a_transcript_of_three_windows_is_resumed_and_a_child_gets_a_slice",
    f"{_L}nothing_unseen.py::test_a_job_holds_its_whole_range_and_ranges_have_no_gap",
)
_point(
    19,
    "no storm: an activation frees a minimum or does not happen",
    f"{_L}no_storm.py::test_many_requests_after_a_huge_message_cause_no_storm",
    f"{_L}no_storm.py::test_views_without_new_messages_never_activate_again",
)
_point(
    20,
    "what cannot shrink further is not tried again and again; large messages shrink in the view",
    f"{_L}no_storm.py::test_requests_after_a_huge_first_message_cause_no_storm",
    f"{_L}no_storm.py::test_views_without_new_messages_never_activate_again",
)
_point(
    21,
    "one huge message, result or prompt gives a request that fits, or a clear error",
    f"{_A}limits.py::test_one_huge_message_fits_at_once_and_stays_whole_in_the_log",
    f"{_A}limits.py::test_a_huge_system_prompt_is_the_hosts_own_error",
)
_point(
    22,
    "between activations a view is the last one and what was added",
    f"{_A}session.py::test_between_activations_a_request_begins_with_the_one_before",
    f"{_L}append_only_between_activations.py::test_views_only_grow_between_activations",
)
_point(
    23,
    "after an activation the prefix stays until the next",
    f"{_A}long_session.py::test_up_to_two_hundred_turns",
    f"{_L}append_only_between_activations.py::test_the_stable_prefix_is_what_the_next_view_begins_with",
)
_point(
    24,
    "no summary and no notice has the role system, none stands inside a group",
    f"{_A}requests.py::test_the_prompt_factory_is_called_once_a_request_and_stays_out_of_the_log",
    f"{_L}tool_safe.py::test_views_are_tool_safe_while_the_past_is_covered",
)
_point(
    25,
    "usage calibrates, other calls do not mislead",
    f"{_A}host_summarizer.py::test_a_real_session_is_summarized_by_its_own_provider_and_usage_is_not_misled",
    f"{_A}requests.py::test_only_the_answer_to_the_newest_view_counts",
    f"{_A}requests.py::test_a_child_that_shares_the_hooks_does_not_teach_its_parent",
)
_point(
    26,
    "what a context does not see, such as tool schemas, is covered by the calibration",
    f"{_A}host_summarizer.py::test_a_real_session_is_summarized_by_its_own_provider_and_usage_is_not_misled",
)
_point(
    27,
    "images have a price, base64 is no text",
    f"{_L}within_budget.py::test_images_are_priced_and_base64_is_not_text",
)
_point(
    28,
    "other scripts and code are not estimated a quarter too low",
    f"{_A}limits.py::test_other_scripts_and_code_are_not_estimated_a_quarter_too_low",
)
_point(
    29,
    "the budget comes from the provider, sane for tiny windows",
    "test_context.py::test_a_providers_window_gives_the_budget",
    "views/test_budget.py::test_a_tiny_window_keeps_half_for_the_view",
)
_point(
    30,
    "works with no provider passed and none mounted",
    f"{_A}limits.py::test_without_a_provider_and_without_options_there_is_a_budget",
)
_point(
    31,
    "the prompt factory is called once a request; rows of hooks stay",
    f"{_A}requests.py::test_the_prompt_factory_is_called_once_a_request_and_stays_out_of_the_log",
    "views/test_system_prompt.py::test_it_leads_in_the_place_of_the_logs_own_and_stays_out_of_the_log",
)
_point(
    32,
    "developer rows stay",
    "views/test_system_prompt.py::test_it_leads_in_the_place_of_the_logs_own_and_stays_out_of_the_log",
    f"{_L}conversation_order.py::test_the_first_human_rows_and_covered_system_rows_stay_in_every_view",
)
_point(
    33,
    "signed thinking goes with the prefix that it was signed under, but stays in an unfinished turn",
    "test_bound_thinking.py::test_finished_turns_lose_it_at_the_activation_and_the_unfinished_one_when_it_ends",
    f"{_A}long_session.py::test_signed_thinking_and_chains_never_outlive_the_beginning_that_they_belong_to",
)
_point(
    34,
    "chains of responses end at an activation; loaded tools survive it",
    f"{_A}long_session.py::test_signed_thinking_and_chains_never_outlive_the_beginning_that_they_belong_to",
    "test_bound_thinking.py::test_tools_that_were_loaded_stay_loaded_when_the_message_is_covered",
)
_point(
    35,
    "the time is stamped; no other metadata is touched and no key of ours leaks",
    f"{_A}requests.py::test_the_time_is_stamped_and_nothing_else_is_touched",
)
_point(
    36,
    "a known transcript changes nothing, twice too; another prefix replaces the log",
    f"{_A}transcript_rule.py::test_the_hosts_transcript_is_known_in_every_form_and_costs_nothing",
    f"{_A}transcript_rule.py::test_anything_else_replaces_the_log",
    "test_context.py::test_a_replaced_log_keeps_the_summaries_of_what_stays",
)
_point(
    37,
    "resuming summarizes nothing again",
    f"{_A}transcript_rule.py::test_a_session_in_a_file_keeps_its_system_rows_and_its_summaries_on_resume",
    f"{_L}paid_once.py::test_a_finished_session_costs_nothing_when_it_is_reopened",
)
_point(
    38,
    "the host's events with finite payloads, announced",
    f"{_A}requests.py::test_every_event_is_announced_finite_and_without_text",
    f"{_A}session.py::test_events_reach_hooks_and_are_announced",
)
_point(
    39,
    "what summaries cost is told: calls, tokens, money, failures",
    f"{_A}host_summarizer.py::test_a_real_session_is_summarized_by_its_own_provider_and_usage_is_not_misled",
    "summarizers/test_prices.py::test_the_cost_of_a_session_is_that_of_the_tokens_it_counted",
)
_point(
    40,
    "hooks that fail or hang, and values that are no JSON, never break a request",
    f"{_A}session.py::test_hooks_that_fail_or_hang_neither_break_nor_delay_a_request",
    f"{_A}events.py::test_payloads_are_finite_json_with_the_fields_of_the_documents",
)
_point(
    41,
    "the host's cancellation ends a summary; no task outlives cleanup",
    f"{_A}host_summarizer.py::test_the_hosts_cancellation_ends_a_call_and_holds_back_the_next",
    f"{_A}session.py::test_no_task_and_no_thread_survives_cleanup",
)
_point(
    42,
    "many tasks at once: one summary for each range, views that agree",
    "test_context.py::test_many_tasks_may_use_one_context",
    f"{_L}paid_once.py::test_many_tasks_of_one_context_pay_each_key_once",
)
_point(
    43,
    "provider and model of the summaries can be chosen; no thinking, no streaming",
    f"{_A}host_summarizer.py::test_the_request_is_plain_and_names_the_model_both_ways",
    f"{_A}host_summarizer.py::test_providers_are_chosen_by_name_or_by_priority",
)
_point(
    44,
    "each block of the header names the messages that it stands for, which the log keeps",
    "cli/test_view.py::test_explain_says_which_past_each_node_stands_for",
)
_point(
    45,
    "compact now, with a focus; figures at any time",
    "test_context.py::test_compact_activates_once_and_then_says_that_nothing_is_to_free",
    "test_focus.py::test_a_focus_is_noted_at_once_and_without_a_model",
    "test_context.py::test_the_figures_add_up",
)
_point(
    46,
    "adding costs the new message, a view what is new in it",
    f"{_A}limits.py::test_a_thousand_turns_are_counted_once",
)
_point(
    47,
    "a summary is fenced as history, not instructions",
    "behaviour/test_fenced_text.py::test_no_mark_of_unicode_hides_a_tag_that_would_close_the_fence",
    "providers/test_injections.py::test_in_extractive_views_none_gets_into_constraints_pins_or_out_of_the_fence",
)
_point(
    48,
    "critical messages stay, ephemeral ones are neither kept nor summarized",
    "test_context.py::test_a_critical_message_stays_in_every_view",
    "test_context.py::test_ephemeral_messages_are_shown_kept_in_memory_and_lost_at_reopening",
)
_point(
    49,
    "sub-agents with one user message work to their end",
    f"{_A}long_session.py::test_a_child_with_one_huge_message_works_to_its_end",
)
_point(
    50,
    "less of each request is new than under truncation at the same budget (the host's own module, which is in no "
    "package registry, cannot be installed in the tests)",
    f"{_A}limits.py::test_a_session_reuses_more_of_each_request_than_truncation_does",
)
