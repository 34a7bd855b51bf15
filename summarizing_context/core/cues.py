"""Words and phrases that tell what kind of statement a sentence makes.

Pure. Cues are looked up among a sentence's words (lower case, without apostrophes: `don't` is `dont`), which is
many times quicker than a pattern over its text.
"""

from __future__ import annotations

from typing import NamedTuple

from summarizing_context.core.words import Words


class Cues(NamedTuple):
    """Single words and phrases, any of which is enough."""

    words: frozenset[bytes]
    phrases: tuple[bytes, ...]  # with a space on either side
    starts: frozenset[bytes]  # the first words of the phrases

    def found_in(self, words: Words) -> bool:
        """Whether one of the cues is among a sentence's words."""
        if not self.words.isdisjoint(words):
            return True
        if self.starts.isdisjoint(words):
            return False
        joined = b" %b " % b" ".join(words)
        return any(phrase in joined for phrase in self.phrases)


def _cues(words: str, *phrases: str) -> Cues:
    return Cues(
        frozenset(words.encode().split()),
        tuple(f" {phrase} ".encode() for phrase in phrases),
        frozenset(phrase.split()[0].encode() for phrase in phrases),
    )


STRICT = _cues(
    "never always must mustnt dont shall forbidden required require requires ensure niemals immer jamais toujours "
    "nunca siempre allergic allergy",
    "do not",
    "not to be",
    "may not",
    "may only",
    "very important",
    "from now on",
    "no longer",
    "not any more",
    "not anymore",
    "under no circumstances",
    "in no case",
    "at all times",
    "not allowed",
    "nothing but",
    "make sure",
    "remember to",
    "it is important",
    "bitte nicht",
)
STANDING = _cues(  # of rules that are quoted in views; summaries go by the others
    "henceforth refrain nie",
    *("hands off", "stay away from", "keep out of", "under all circumstances", "without exception", "no exceptions"),
    *("until i say", "unless i say", "until told", "until further notice", "nothing may", "nobody may", "no one may"),
    *("ask me before", "ask before", "check with me before", "make no", "each time you", "every time you"),
    "whenever you",
)
LASTING = _cues(
    "nur",
    *("has to be", "have to be", "for the rest of", "going forward", "in future", "its important", "important that"),
)
NOT_A_BAN = frozenset(
    b"""thanks worries problems issues errors differences results matches tests failures questions regrets plans news
    less this yes its was is has does nothing anything something kidding warnings files hits""".split()
)
MILD = _cues(
    "instead should shouldnt avoid only without prefer unless except maximum minimum meant stattdessen sempre",
    *("rather than", "no more than", "at most", "at least", "stop using", "stop doing", "you cannot", "you cant"),
    *("we cannot", "we cant", "you may", "may now", "can now", "now may", "now can", "thats wrong", "is wrong"),
)
LIMITS = _cues(
    "maximum minimum", "no more than", "not more than", "at most", "at least", "no later than", "no less than"
)
DEFERRED = _cues(
    "later afterwards",
    *("at the end", "at the very end", "in the end", "when all", "when everything", "once all", "once everything"),
    *(
        "when we are done",
        "when you are done",
        "once we are done",
        "when it is done",
        "before we finish",
        "the last thing",
    ),
    *("remind me", "dont forget", "keep in mind", "still have to", "still need to", "zum schluss", "am ende"),
)
TO_SOMEONE = _cues("please you your should prefer want like lets need we rather use meant")
ORDERS = _cues("use set keep call name put never always only dont avoid stop ensure leave stick switch revert")
LEADS = _cues("please also and but so then now ok okay no just yes hey actually important note")
PROHIBITION = _cues("never dont mustnt forbidden avoid", "do not", "must not", "not allowed", "should not")
NEEDLESS = _cues("neednt", "dont have to", "dont need", "do not have to", "do not need", "not needed", "not required")
BAN = _cues(  # of what is forbidden, in any words
    "never dont not no mustnt forbidden avoid refrain stop hate dislike nothing nobody prohibited banned "
    "zero untouched unchanged alone only frozen",
    *("off limits", "hands off", "stay away", "keep out"),
)
DEMAND = _cues("always only every each instead")  # of what is forbidden and demanded at once
LIFTING = _cues(  # without which no sentence lifts a rule
    "forget ignore disregard scratch drop scrap cancel lift revoke withdraw remove waive undo nevermind abandon "
    "retract optional skip stop quit neednt anymore",
    *("take back", "never mind", "changed my mind", "no longer", "any more", "any longer", "after all", "fine to"),
    *("ok to", "okay to", "right to", "alright to", "allowed to", "permitted to", "free to", "welcome to", "need to"),
    *("have to", "need for", "need not", "acceptable to", "you may", "we may", "you can", "we can", "you could"),
    *("we could", "now fine", "now ok", "now okay", "now allowed", "fine now", "ok now", "okay now", "allowed now"),
    *("fine again", "ok again", "okay again", "allowed again", "are allowed", "is allowed", "fine from", "ok from"),
    *("again fine", "again allowed", "is lifted", "are lifted", "been lifted", "fine with", "ok with", "okay with"),
    *("is gone", "is void", "is obsolete", "is off", "is over", "permitted again", "permitted now", "are permitted"),
)
CORRECTION = _cues(
    "instead actually switch change changed replace revert forget scratch meant",
    *("rather than", "now use", "use now"),  # and what ends by "no longer" is for `lifting`
)
REQUEST = _cues(
    "please want need lets help implement fix add create write build make update remove refactor change find check "
    "investigate review explain book cancel continue test run show",
    *("can you", "could you", "would you", "id like", "would like", "your task", "the goal", "the task"),
)

CHOICE = _cues(
    "chose chosen choosing",
    *(
        "decided to",
        "decided on",
        "decided that",
        "decided against",
        "going with",
        "lets go with",
        "ill go with",
        "opt for",
        "opted for",
    ),
    *("opting for", "settled on", "agreed to", "agreed on", "agreed that", "decision is", "decision was"),
    *("switched to", "switching to"),
)
REASON = _cues(
    "because prefer",
    *("instead of", "rather than", "will use", "ill use", "lets use", "best approach", "right approach", "best option"),
    *(
        "simplest approach",
        "simplest fix",
        "better approach",
        "cleanest approach",
        "right fix",
        "right way",
        "best way",
    ),
)
OUTCOME_WORDS = _cues(
    "fixed added implemented created removed updated committed pushed merged renamed refactored replaced completed "
    "done pass passes passed works working resolved finished booked cancelled canceled sent installed verified "
    "confirmed successfully succeeded complete green been moved wrote deleted changed"
)
FIX = _cues(
    "fix fixed fixes fixing caused resolved solved forgot missing mistake correct corrected because",
    *("the issue is", "the issue was", "the problem is", "the problem was", "the cause is", "root cause", "the bug is"),
    *("the error is", "the reason is", "need to", "needs to"),
)
OPEN = _cues(
    "remaining remains todo still waiting blocked pending unfinished failing",
    *("left to", "to do", "not yet", "yet to", "next step", "next steps", "open question", "need to", "needs to"),
    *("would you like", "do you want", "shall i", "please confirm"),
)
NEXT = _cues("next now ill lets should ready", "let me", "i will", "i need", "im going", "going to")
PLEASANTRY = _cues(
    "welcome",
    *("feel free", "let me know if", "anything else", "happy to help", "glad to help", "happy to assist"),
    *("further assistance", "have a great", "have a good", "have a nice"),
)
