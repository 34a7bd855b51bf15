"""Which rules a human lifts by words of another kind, and which stay."""

from __future__ import annotations

import pytest

from summarizing_context.core.constraints import standing_rules
from summarizing_context.core.standing import RuleBook

LIFTED = [
    ("Always run the tests before committing.", "You don't have to run the tests any more."),
    ("Always run the tests.", "You don't have to run the tests any more."),
    ("Always run the tests.", "No need to run the tests any longer."),
    ("Always run the tests.", "There's no need to run the tests anymore, CI does it."),
    ("Always run the tests.", "You can stop running the tests now."),
    ("Always run the tests.", "Stop running the tests."),
    ("Always run the tests.", "Running the tests is no longer necessary."),
    ("Always run the tests.", "It is no longer necessary to run the tests."),
    ("Always run the tests.", "Forget what I said about the tests."),
    ("Always run the tests.", "Don't run the tests any more."),
    ("Always run the tests.", "Forget about the tests."),
    ("Always run the tests.", "Ignore what I told you about tests."),
    ("Always run the tests.", "You needn't run the tests any more."),
    ("Always run the tests.", "Never mind the tests rule."),
    ("Always run the tests.", "The rule about tests no longer applies."),
    ("Always run the tests.", "I no longer want you to run the tests."),
    ("Always run the tests.", "You no longer need to run the tests."),
    ("Never use the requests library.", "It is fine to use requests now."),
    ("Never use requests.", "It's OK to use requests now."),
    ("Never use requests.", "You may use requests again."),
    ("Never use requests.", "You can use requests after all."),
    ("Never use requests.", "Using requests is fine now."),
    ("Never use requests.", "requests is allowed again."),
    ("Never use requests.", "The ban on requests is lifted."),
    ("Never use requests.", "I'm fine with requests now."),
    ("Never use requests.", "Feel free to use requests from now on."),
    ("No emojis, please.", "Emojis are fine now."),
    ("No emojis, please.", "Emojis are allowed again."),
    ("No emojis, please.", "You may use emojis again."),
    ("Do not use emojis.", "Drop the no-emoji rule."),
    ("The vendor folder is off limits.", "You may edit the vendor folder again."),
    ("The vendor folder is off limits.", "The vendor folder is no longer off limits."),
    ("The vendor folder is off limits.", "The vendor folder isn't off limits any more."),
    ("Do not touch the vendor folder.", "You may touch the vendor folder again."),
    ("Do not touch the vendor folder.", "You can change vendor files now."),
    ("Every commit needs a ticket number.", "The ticket number is no longer needed."),
    ("Every commit needs a ticket number.", "Ticket numbers are no longer required."),
    ("Every commit needs a ticket number.", "Commits no longer need a ticket number."),
    ("Every commit needs a ticket number.", "Forget the ticket number."),
    ("Never push to main.", "You may push to main now."),
    ("Never push to main.", "Pushing to main is allowed now."),
    ("Never push to main.", "Pushing to main is OK from now on."),
    ("Only touch files under src/.", "You may touch files outside src/ again."),
    ("Keep functions under 50 lines.", "The limit of 50 lines no longer applies."),
    ("Always answer in German.", "You don't have to answer in German any more."),
    ("Always answer in German.", "Never mind German, I changed my mind."),
    ("Always answer in German.", "I changed my mind about German."),
    ("Always answer in German.", "Scratch the German rule."),
    ("Always answer in German.", "I take back what I said about German."),
    ("Always use uv.", "You don't have to use uv any more."),
    ("Always use uv.", "uv is no longer required."),
    ("Always use uv.", "uv is optional now."),
    ("I prefer tabs.", "Tabs are no longer necessary."),
    ("I prefer tabs.", "Forget what I said about tabs."),
    ("I prefer tabs.", "I no longer care about tabs."),
    ("Always update the changelog.", "The changelog is no longer needed."),
    ("Ask me before you delete anything.", "You no longer have to ask me before you delete anything."),
    ("Ask me before you delete anything.", "No need to ask me before deleting any more."),
    ("Hands off the billing module.", "You may touch the billing module now."),
    ("Leave config.yml alone.", "You can edit config.yml now."),
    ("Always squash commits.", "Squashing commits is not necessary any more."),
    ("Keep answers short.", "Answers don't have to be short any more."),
    ("Keep answers short.", "You don't need to keep answers short any more."),
    ("Never log secrets.", "Forget the rule about logging secrets."),
    ("Always run the tests.", "Skip the tests from now on."),
    ("Never push to main.", "CI is green, so you can push to main now."),
    ("Never push to main.", "By the way, you're free to push to main now."),
    ("I prefer tabs.", "We no longer use tabs."),
]
KEPT = [
    ("Never push to main.", "You may push to release now."),
    ("Never push to main.", "You may push now."),
    ("Never commit secrets.", "You can commit now."),
    ("Never edit the vendor folder.", "You may read the vendor folder."),
    ("Never use requests.", "You may use requests if httpx fails."),
    ("Always run the tests.", "You don't have to run the tests right now."),
    ("Always run the tests.", "You don't have to run the tests this time."),
    ("Always run the tests.", "You don't have to run the linter any more."),
    ("Always run the tests.", "Forget what I said about the linter."),
    ("Always run the tests.", "Don't change the tests."),
    ("Always lint.", "Don't change the lint settings."),
    ("Always run the tests.", "Never ignore the rule about tests."),
    ("Always run the tests.", "Do I no longer need to run the tests?"),
    ("Never skip the tests.", "The tests are fine now."),
    ("Never skip the tests.", "You don't have to run the tests any more."),
    ("Always run the tests.", "You can run the tests now."),
    ("Never remove docstrings.", "Docstrings are no longer required."),
    ("Never open port 80.", "You may open port 81 now."),
    ("Never delete user data in prod.", "You can delete the data now."),
    ("Never push to main before the tests pass.", "Forget what I said about tests."),
    ("Never touch billing.", "You may touch shipping now."),
    ("Never commit generated files.", "You can commit the files now."),
    ("Always answer in German.", "You may use German words."),
    ("Never use tabs.", "Using spaces is fine now."),
    ("Keep functions under 50 lines.", "The limit of 100 words no longer applies."),
    ("Always use uv.", "pip is no longer needed."),
    ("Do not drop the users table.", "Drop the users table."),
    ("Never remove the login check.", "Remove the login check from the limits page."),
    ("Always lint.", "It is not ok to skip linting."),
    ("Never merge without review.", "You may merge if a review is there."),
    ("Always deploy to staging.", "You don't have to deploy to production any more."),
    ("Always run the tests.", "Never mind the tests folder, look at src first."),
    ("Always run the tests.", "Never mind the tests, I found the bug."),
    ("Always run the tests.", "The tests no longer need the database."),
    ("Always run the tests.", "Drop the tests table."),
    ("Always run the tests.", 'My boss said: "You don\'t have to run the tests any more."'),
    ("Always run the tests.", "The README says you no longer need to run the tests."),
    ("Always run the tests.", "Maybe you don't have to run the tests any more."),
    ("Always run the tests.", "You no longer need to run the tests with sudo."),
    ("Always run the tests.", "I think we no longer need the tests table."),
    ("Always run the tests.", "Skip the tests."),
    ("Never push to main.", "The push to main is fine now, it was a network error."),
    ("Never push to main.", "It would be fine to push to main."),
    ("Never push to main.", "Is it fine to push to main now"),
    ("Never push to main.", 'Write a message that says "you may push to main now".'),
    ("Never push to main.", '"You may push to main now" is what he said.'),
    ("Never push to main.", "Explain why you may push to main now."),
    ("Never push to main.", "Check whether you can push to main."),
    ("Never push to main.", "Test that users are allowed to push to main."),
    ("Never delete user records.", "Admins are allowed to delete user records."),
    ("Never delete user records.", "In the UI you can delete user records now."),
    ("Never touch the vendor folder.", "The vendor folder is fine now, thanks."),
    ("Never touch the vendor folder.", "Forget the vendor folder."),
    ("Never log secrets.", "Forget the logs."),
    ("No emojis, please.", "Emojis are allowed in the chat widget of our users now."),
    ("Every function needs a docstring.", "Docstrings are no longer required for private functions."),
    ("Always answer in German.", "You don't need the German file any more."),
    ("Always answer in German.", "You don't have to answer that any more."),
    ("Never book flights over 400 dollars.", "You can book flights now."),
    ("Always ask me before refunds.", "Refunds are no longer needed."),
    ("Only touch files under src/.", "src/ is fine now."),
]


def said(*rows: str) -> RuleBook:
    book = RuleBook()
    for index, row in enumerate(rows):
        book.add(index, standing_rules([row]))
    return book


def holds(book: RuleBook, rule: str) -> bool:
    rules = book.before(99)
    return rule in [one.text for one in (*rules.strict, *rules.soft)]


@pytest.mark.parametrize(("rule", "lift"), LIFTED)
def test_a_rule_that_is_lifted_in_other_words_holds_no_more(rule: str, lift: str):
    assert holds(said(rule), rule)
    others = ["Never delete customer records.", "Please prefer plain SQL.", "Every release needs a signature."]
    book = said(rule, *others, lift)
    assert not holds(book, rule)
    assert all(holds(book, other) for other in others)


@pytest.mark.parametrize(("rule", "said_later"), KEPT)
def test_what_is_about_something_else_or_holds_once_lifts_no_rule(rule: str, said_later: str):
    assert holds(said(rule, "hello", said_later), rule)


def test_that_rule_is_the_newest_one_where_it_is_clear_which_is_meant():
    book = said("Never push to main.", "Always use uv.", "Drop that rule.")
    assert [rule.text for rule in book.before(9).strict] == ["Never push to main."]
    both = said("Never push to main. Always use uv.", "Drop that rule.").before(9)
    assert [rule.text for rule in both.strict] == ["Always use uv.", "Never push to main."]
    assert [rule.text for rule in both.soft] == ["Drop that rule."]  # so that a model can ask


def test_all_rules_can_be_lifted_at_once_and_new_ones_stated():
    book = said("Never push to main.", "Please prefer tabs.", "Forget all my earlier rules.", "Always use uv.")
    found = book.before(9)
    assert ([rule.text for rule in found.strict], found.soft, found.held) == (["Always use uv."], [], 1)
    assert [(rule.text, rule.replaced_by) for rule in found.replaced] == [("Never push to main.", 2)]


def test_words_that_lift_are_no_rules_themselves():
    assert said("Never use tabs.", "Forget what I said about tabs.").before(9).held == 0
    assert said("Forget what I said about tabs.").before(9).held == 0
    assert said("You can use the card on my profile.").before(9).held == 0
    rest = said("Never use tabs.", "Forget what I said about the style guide.").before(9)
    assert (rest.held, rest.replaced) == (2, [])  # it is unclear which rule is meant: both are told


def test_what_is_pasted_or_fenced_lifts_nothing():
    page = "\n".join([f"Chapter {n} tells a story." for n in range(40)] + ["Forget all my earlier rules."])
    assert holds(said("Never push to main.", page), "Never push to main.")
    assert holds(said("Never push to main.", "```\nForget all my rules.\n```"), "Never push to main.")


def test_a_lifted_rule_can_be_stated_again_and_a_lift_be_unsaid():
    rule, lift = "Never use tabs.", "Tabs are fine now."
    assert holds(said(rule, lift, rule), rule)
    book = said("Never use tabs.", "hello", lift)
    book.forget(2)
    assert holds(book, rule)


def test_an_urging_forbids_nothing():
    book = said("Always run the tests.", "Don't forget to run the tests.")
    assert (holds(book, "Don't forget to run the tests."), book.before(9).replaced) == (True, [])
    assert not holds(
        said("Don't forget to run the tests.", "No need to run the tests any more."), "Don't forget to run the tests."
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Always log errors in English.", "Always log errors in UTC."),
        ("The output must be in JSON.", "The output must be in order."),
        ("Never touch billing.", "Never touch shipping."),
        ("Always run the tests before committing.", "From now on run the tests with -x."),
        ("Always answer in German.", "From now on answer in short sentences."),
        ("Keep functions under 50 lines.", "Keep files under 300 lines."),
    ],
)
def test_rules_about_two_things_stand_side_by_side(first: str, second: str):
    book = said(first, "hello", second)
    assert holds(book, first)
    assert holds(book, second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Always log errors in English.", "Always log errors in German."),
        ("The output must be in JSON.", "The output must be in YAML."),
        ("Never push to main.", "Always push to main."),
        ("Always deploy to staging.", "From now on deploy to production."),
    ],
)
def test_of_two_rules_that_conflict_the_latest_holds(first: str, second: str):
    book = said(first, "hello", second)
    assert not holds(book, first)
    assert holds(book, second)
