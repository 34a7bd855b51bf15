"""Words by which a human lifts a rule: "you may now ...", "no need to ...", "forget what I said about ...".

Pure. Careful rather than clever: a rule that is lifted by mistake is a rule forgotten. So what is lifted once, for a
part or only under a condition, is not lifted; all that the lifting words name must be in the rule. Reports of what
others say, suppositions and questions are told by `asides`.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from summarizing_context.core.asides import is_aside
from summarizing_context.core.topics import Topic, read_topic
from summarizing_context.core.words import words_of

_LONGEST = 200  # characters of a sentence that lifts
_RULE = r"(?:rules?|constraints?|restrictions?|requirements?|bans?|prohibitions?|limits?|freeze|policy|preferences?)"
_END = (
    r"(?=[,;()–—]|[.:!?](?:\s|$)|\s-\s|\s(?:because|since|so|but|as|now|again|after all|from (?:now|here) on|please|"
    r"any ?more|any longer|either|at all|for good)\b|$)"
)
_TOPIC = rf"(?P<topic>\S.{{0,90}}?){_END}"
_LEAD = (
    r"^\W*(?:(?:ok|okay|so|and|but|actually|please|no|well|hey|sorry|oh|wait|just|also|now|lets|let's|yes|right|then|"
    r"(?:you|we) (?:can|may|should)|i want you to)\W+){0,4}"
)
_AGAIN = r"(?: (?:now|again|also|already|perfectly|totally|for you)){0,3}"
_LASTS = re.compile(r"\b(?:now|again|after all|from (?:now|here) on|any ?more|any longer|no longer)\b")
_PARTLY = re.compile(
    r"\b(?:this (?:once|time|one|case)|that (?:case|one)|just once|once|for (?:now|this|that|the moment|today)|"
    r"right now|just now|yet|if|when|whenever|unless|until|except|only|but not|here|today|as long as|provided)\b"
)
_NEGATED = re.compile(r"(?:\bnot|n't|\bnever|\bnor|\bcannot) (?:\w+ )?$")


class Kind(Enum):
    """How a rule is lifted."""

    ABOUT = "about"  # whatever is ruled about this
    ALLOWED = "allowed"  # what was forbidden
    NEEDLESS = "needless"  # what was demanded
    STOPPED = "stopped"  # the same, and it is forbidden now
    LAST = "last"  # the rule before
    ALL = "all"


class Lift(NamedTuple):
    """What a sentence lifts. `verb` names what may be, or need not be, done; b"" where it names a thing."""

    kind: Kind
    topic: Topic
    verb: bytes = b""


_ALLOWED_TO = (
    rf"\b(?:you|we) (?:may|can|could)\b(?! not\b|'t){_AGAIN} {_TOPIC}",
    rf"(?:\b(?:it|that|you|we)(?:'s|'re| is| are)|\bfeel|{_LEAD}){_AGAIN} ?\b(?:ok|okay|fine|all right|alright|allowed|"
    rf"permitted|acceptable|free|welcome){_AGAIN} to {_TOPIC}",
)
_ADJECTIVE = r"(?:fine|ok|okay|allowed|permitted|welcome|acceptable)"
_FORBIDDEN = r"(?:off[ -]limits|forbidden|banned|prohibited|frozen|not allowed)"
_ALLOWED = (
    rf"^(?P<topic>.{{2,80}}?) (?:is|are){_AGAIN} {_ADJECTIVE}\b(?! to\b)",
    rf"^(?P<topic>.{{2,80}}?) (?:is|are) no longer {_FORBIDDEN}",
    rf"^(?P<topic>.{{2,80}}?) (?:isn't|is not|aren't|are not) {_FORBIDDEN}",
    rf"\bi(?:'m| am){_AGAIN} (?:ok|okay|fine) with {_TOPIC}",
)
_NEEDLESS_TO = (
    rf"\b(?:you|we) (?:don't|do not|won't|no longer|never) (?:really |ever )?(?:have|need) to {_TOPIC}",
    rf"\b(?:you|we) (?:needn't|need not) {_TOPIC}",
    rf"\bno (?:more |longer any )?need to {_TOPIC}",
    rf"\bno longer (?:necessary|needed|required|mandatory) to {_TOPIC}",
)
_DUTY = r"(?:needed|required|necessary|mandatory|compulsory|wanted|a must)"
_NEEDLESS = (
    rf"^(?P<topic>.{{2,80}}?) (?:is|are) no longer {_DUTY}\b(?! to\b)",
    rf"^(?P<topic>.{{2,80}}?) (?:isn't|is not|aren't|are not) {_DUTY} (?:any ?more|any longer|now)",
    r"^(?P<topic>.{2,80}?) (?:is|are)(?: now)? optional\b",
    rf"\b(?:i|we|you) no longer (?:need|want|require|insist on|care about) {_TOPIC}",
    r"\b(?:i|we|you) (?:don't|do not) (?:need|want|require|insist on|care about) "
    r"(?P<topic>\S.{0,90}?) (?:any ?more|any longer)\b",
    rf"\bno (?:more |longer a )?need for {_TOPIC}",
    rf"^(?!\W*(?:you|we|i)\b)(?P<topic>.{{2,60}}? no longer (?:needs?|ha(?:ve|s) to|requires?) \S.{{0,60}}?){_END}",
    r"^(?!\W*(?:you|we|i)\b)(?P<topic>.{2,60}? (?:don't|doesn't|do not|does not) (?:need|have to|require) \S.{0,60}?) "
    r"(?:any ?more|any longer)\b",
    rf"{_LEAD}(?:skip|drop) (?=.*{_LASTS.pattern}){_TOPIC}",
    rf"{_LEAD}(?:never ?mind (?!the\b|this\b|that\b|these\b|those\b)|(?:forget|scratch) (?:about )?){_TOPIC}",
)
_STOPPED = (
    rf"{_LEAD}(?:stop|quit) (?P<topic>\w+ing\b.{{0,90}}?){_END}",
    rf"{_LEAD}(?:don't|do not|never) (?P<topic>\S.{{0,90}}?) (?:any ?more|any longer|again)\b",
    rf"{_LEAD}(?:we )?no longer {_TOPIC}",
)
_UNDO = (
    r"(?:forget|ignore|disregard|scratch|drop|scrap|cancel|lift|revoke|withdraw|remove|waive|undo|take back|"
    r"never ?mind|abandon|retract|i (?:take back|lift|withdraw|revoke))"
)
_SAID = r"(?:what|everything|anything|all) (?:that )?i(?:'ve| have)? (?:said|told you|asked|wrote|wanted)(?: \w+)?"
_ABOUT = (
    rf"{_LEAD}{_UNDO} (?=[^,;]{{0,90}}\b{_RULE}\b){_TOPIC}",
    rf"{_LEAD}{_UNDO} {_SAID} (?:about|on|regarding|concerning) {_TOPIC}",
    rf"\bi(?:'ve| have)? changed my mind (?:about|on) {_TOPIC}",
    r"^(?P<topic>.{2,80}?) no longer (?:appl(?:y|ies)|holds?|counts?|stands?|matters?)\b",
    r"^(?P<topic>.{2,80}?) (?:doesn't|does not|don't|do not) (?:apply|hold|count|stand|matter) "
    r"(?:any ?more|any longer)",
    rf"^(?P<topic>.{{2,80}}?\b{_RULE}\b.{{0,40}}?) (?:is|are|has been|have been)(?: hereby| now)? "
    r"(?:lifted|gone|void|obsolete|cancell?ed|withdrawn|revoked|dropped|waived|off|over)\b",
)
_OLD = r"(?:my |the |these |those |that |this |your |of )*(?:earlier |previous |old |standing |former |last |latest )?"
_LAST = (rf"{_LEAD}{_UNDO} (?!all\b){_OLD}(?:rule|constraint|restriction|requirement|ban)(?: again| please)?\W*$",)
_ALL = (rf"{_LEAD}{_UNDO} (?:all|every one|everyone) {_OLD}(?:rules|constraints|restrictions|preferences)\b[\w ]*\W*$",)
_WAYS = [
    (kind, verbs, re.compile(pattern))
    for kind, verbs, patterns in (
        (Kind.ALL, False, _ALL),
        (Kind.LAST, False, _LAST),
        (Kind.ABOUT, False, _ABOUT),
        (Kind.STOPPED, True, _STOPPED),
        (Kind.NEEDLESS, True, _NEEDLESS_TO),
        (Kind.NEEDLESS, False, _NEEDLESS),
        (Kind.ALLOWED, True, _ALLOWED_TO),
        (Kind.ALLOWED, False, _ALLOWED),
    )
    for pattern in patterns
]
_SPOKEN_OF = re.compile(rf"\b(?:{_RULE}|{_SAID})\b")
_LISTED = re.compile(r",? (?:and|or|nor) |, ")
_ONE_THING = re.compile(r"\W*(?:the|this|that|these|those|my|our|your|his|her|their|its?)\b")
_STATE = re.compile(r"(?:fine|ok|okay|acceptable)\Z")
_LASTING_WORDS = re.compile(r"(?: (?:now|again|either|any ?more|any longer|from (?:now|here) on|after all))*")
_REST = re.compile(rf".*?{_END}")
_NOTHING = read_topic([])


def read_lifts(text: str) -> tuple[Lift, ...]:
    """What a sentence lifts, for good and without a condition."""
    said = _unquoted(text.replace("’", "'").lower())
    if len(said) > _LONGEST or said.rstrip("\"')* ").endswith("?") or _PARTLY.search(said):
        return ()
    found: list[Lift] = []
    for kind, verbs, pattern in _WAYS:
        match = pattern.search(said)
        if match is None or _NEGATED.search(said[: match.start()]) or is_aside(said[: match.start()]):
            continue
        if kind in (Kind.ALL, Kind.LAST):
            return (Lift(kind, _NOTHING),)
        if kind is Kind.ALLOWED and not verbs and _is_state(match, said):
            continue
        found += _read(kind, verbs, match["topic"], _rest(match, said))
    return tuple(found)


def _unquoted(said: str) -> str:
    """A sentence that stands in quotes as a whole, without them."""
    inner = said[1:-1]
    return inner if said[:1] == said[-1:] == '"' and '"' not in inner else said


def speaks_of_rules(text: str) -> bool:
    """Whether a sentence names rules, or what was said, as such."""
    return _SPOKEN_OF.search(text.replace("’", "'").lower()) is not None


def _is_state(match: re.Match[str], said: str) -> bool:
    """Whether it is told how something is, not what may be: "The build is fine now"."""
    if "allowed" not in match[0] and not _LASTS.search(said):
        return True
    return _STATE.search(match[0]) is not None and _ONE_THING.match(match["topic"]) is not None


def _rest(match: re.Match[str], said: str) -> str:
    """What stands behind the words that lift: `in the docs`, where a ban ends for the docs alone."""
    if match.end("topic") == match.end():
        return ""
    start = _LASTING_WORDS.match(said, match.end())
    rest = _REST.match(said, start.end() if start else match.end())
    return rest[0] if rest else ""


def _read(kind: Kind, verbs: bool, topic: str, rest: str) -> list[Lift]:
    """The lifts of a list of things, of which the first begins with the verb."""
    lifts = []
    for at, part in enumerate(_LISTED.split(topic)):
        words = words_of(part)
        read = read_topic([*words, *words_of(rest)])
        if read.names:
            verb = next(iter(read_topic(words[:1]).names), b"") if verbs and at == 0 else b""
            lifts.append(Lift(kind, read, verb))
    return lifts


def lifts(lift: Lift, rule: Topic) -> bool:
    """Whether a lift is about a rule of this topic, and the rule is of the sort that it ends."""
    topic = lift.topic
    if not topic.names or not topic.names <= rule.names or not topic.numbers <= rule.numbers:
        return False
    allowed = lift.kind is Kind.ALLOWED
    if topic.places and not (allowed or rule.places):
        return False  # "forget the tests folder" is about another thing than the tests
    if lift.kind is Kind.ABOUT:
        return 3 * len(topic.names) >= len(rule.names)
    if allowed and (rule.numbers - topic.numbers or (rule.only and not topic.beyond)):
        return False  # up to another limit only; or what was allowed already
    if not lift.verb and topic.names <= rule.conditions:
        return False
    if not (rule.forbids if allowed else rule.demands) or (topic.verbs and rule.verbs and not topic.verbs & rule.verbs):
        return False
    if allowed and not lift.verb and rule.banned and rule.banned not in topic.names:
        return False  # "the tests are fine now" allows nobody to skip them
    things, ruled = topic.names - {lift.verb}, rule.names - {lift.verb}
    return not ruled or (bool(things) and 2 * len(things) >= len(ruled))
