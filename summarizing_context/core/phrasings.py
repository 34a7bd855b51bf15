"""Orders and preferences that bind by how a sentence is built, with none of the words that `cues` knows rules by.

Pure. "Keep answers short." and "Every commit needs a ticket number." bind for good; "Keep going." and "Every test
passes." do not, so each pattern says what must stand beside its words. The pieces they share are in `phrases`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from summarizing_context.core.phrases import FOREIGN, HEALTH, LEAD, OTHER, RISKY, SHORT, STATES, THINGS, TONGUES
from summarizing_context.core.words import Words

_LONGEST = 160  # characters


class Phrasing(NamedTuple):
    """A way of putting a rule, and whether it binds as strictly as "never" does."""

    strict: bool
    words: frozenset[bytes]  # without any of which no sentence is of this kind
    pattern: re.Pattern[str]


def _binds(words: str, pattern: str) -> Phrasing:
    return Phrasing(True, frozenset(words.encode().split()), re.compile(rf"(?i){pattern}"))


def _wishes(words: str, pattern: str) -> Phrasing:
    return _binds(words, pattern)._replace(strict=False)


_MY = r"my (?:explicit |prior |written )?(?:approval|ok|okay|permission|consent|confirmation|go-ahead|sign-?off)\b"
_DO = (
    r"(?:add|write|run|use|ask|tell|update|check|include|keep|make|leave|mention|give|quote|stop|call|cite|wait|show|"
    r"report|revert|log|note|reply|answer|open|create|commit|bump|test|lint|format)\b"
)
_NO_ORDER = r"(?!(?:i|it|the|there|this|that|we|a|an|my|he|she|they|you)\b)\w+"
_NO_NEW = (
    r"(?:no|zero) (?:new|more|extra|additional|further|external|third-party|direct|force|manual) "
    r"(?!errors|issues|problems|results|warnings|failures|changes|tests (?:fail|are))[\w-]+(?:s|ing)\b"
)
_DUTIES = r"(?:crucial|critical|essential|vital|imperative|paramount|mandatory)"
PHRASINGS = (
    # whatever happens, from some time on
    _binds(
        "circumstances circumstance conditions condition event",
        r".{0,80}\b(?:under|in) no (?:circumstances?|conditions?|event)\b",
    ),
    _binds("account matter", r".{0,80}\bon no account\b|no matter what\b"),
    _binds(
        "starting from as",
        rf"{LEAD}(?:starting (?:now|today)|(?:as of|from) (?:now|today|here on|this (?:point|moment) on)|"
        r"from here on(?: out)?),? \w+",
    ),
    _binds(
        "future further coming subsequent following later",
        r".{0,80}\bfor (?:all|any|every|each) (?:future|further|coming|subsequent|following|later) ",
    ),
    _binds(
        "throughout whole entire",
        r".{0,80}\b(?:throughout|(?:for|during) the (?:whole|entire)) (?:of )?(?:this |the )?"
        r"(?:session|conversation|project|chat|work|task|trip)\b",
    ),
    _binds(
        "rule rules constraint constraints requirement policy convention restriction guideline limit",
        rf"{LEAD}(?:(?:ground |house |hard |golden |one |main )?rules?|constraints?|requirement|policy|convention|"
        r"restriction|guideline|hard limit)(?: \d+)?: \S",
    ),
    _binds("rule matter", r"as a (?:rule|matter of policy|general rule),? \S"),
    _binds(
        "verboten keinen sofort jetzt desormais poi partir prohibido proibido vietato interdit unbedingt "
        "faut keine darf darfst dürfen désormais non",
        FOREIGN,
    ),
    # what may not be touched or done
    _binds(
        "limits taboo sacred option bounds untouchable unacceptable prohibited banned",
        rf".{{1,80}}\b(?:is|are|stays?|remains?) {STATES}",
    ),
    _binds(
        "frozen",
        r"(?:the |our |my )?(?:[\w-]+ )?(?:api|schema|code|codebase|branch|interface|spec|format|database|"
        r"main|release)s? (?:is|are) (?:now )?frozen\b",
    ),
    _binds(
        "mandatory compulsory obligatory negotiable",
        r".{1,60}\b(?:is|are) (?:strictly |absolutely )?(?:mandatory|compulsory|obligatory|non-negotiable)\b",
    ),
    _binds(
        "crucial critical essential vital imperative paramount", rf"{LEAD}it(?:'s| is) {_DUTIES} (?:that|to|for|you)\b"
    ),
    _binds(
        "not",
        r"(?:you|we|it|they)(?: are|'re| is) not to \w+|(?:it|that)(?:'s| is) not (?:ok|okay|acceptable|fine) to \w+",
    ),
    _binds("absolutely", r".{0,80}\babsolutely no \w+"),
    _binds(
        "no zero",
        rf"{LEAD}{_NO_NEW}|.{{3,90}}[,:;] (?:but |and |with )?{_NO_NEW}|until [^,]{{3,50}}, no \w+(?:s|ing)\b",
    ),
    _binds(
        "only",
        rf"{LEAD}only (?:ever )?(?:use|touch|edit|change|modify|write|read|run|push|commit|deploy|answer|work|add)\b"
        r"|(?:you|we)(?: are|'re) only (?:allowed|permitted) to \w+",
    ),
    _binds("no", rf"{LEAD}no [\w-]+(?: [\w-]+){{0,3}},? (?:please|anywhere|whatsoever|at all|ever)\W*$"),
    _binds("clear away out", rf"{LEAD}(?:steer clear of|keep away from|stay out of) \S"),
    _binds(
        "insist demand forbid accept tolerate",
        rf"{LEAD}i (?:insist|demand|forbid|(?:won't|will not) (?:accept|tolerate)) \S",
    ),
    # ask first
    _binds("my", rf".{{0,60}}\b(?:get|need|wait for|require|have|without) {_MY}"),
    _binds(
        "before",
        r".{0,60}\b(?:ask|check with|confirm with|tell|warn|consult|clear it with|let) (?:me|us)\b(?: "
        r"know)?(?: first| again)?,? "
        rf"before (?:you |we |any |each |every |the )?{RISKY}",
    ),
    _binds("first", r".{0,60}\b(?:you|we) (?:have|need) to (?:ask|check with|confirm with|tell) me first\b"),
    _binds("first", r"(?:you|we) (?:have|need) to [^,]{3,60} first\W*$"),
    # each time
    _binds(
        "whenever time anytime",
        rf"{LEAD}(?:whenever|each time|every time|any ?time)\b(?! i\b| you need\b)[^,]{{3,90}}, (?:please |"
        rf"then |first )?{_NO_ORDER}",
    ),
    _binds("when if", rf"{LEAD}(?:when|if) (?:you|we) (?!{OTHER})[^,]{{3,70}}, (?:please |then |first )?{_DO}"),
    _binds("if when", rf"{LEAD}(?:if|when) (?:a|an|any|some) [^,]{{3,60}}, (?:please |then |first )?{_DO}"),
    _binds("if whenever", rf"{LEAD}(?:if|whenever|when) you [^,]{{3,60}}, (?:please )?(?:ask|tell) (?:me|us) first\b"),
    _binds("keep", rf"{LEAD}keep [^,.]{{1,40}} (?:in sync|up to date|consistent|compatible) with \S"),
    _binds(
        "when before after while",
        rf"{LEAD}(?:when|before|after|while) (?:{RISKY}(?<=ing)|answering|replying|coding|testing|naming|"
        r"reviewing)\b[^,]{0,60}, "
        rf"(?:please |first |then )?{_NO_ORDER}",
    ),
    _wishes("before", rf"(?:please )?{_DO}[^,]{{3,60}} before (?:you|we) {RISKY}"),
    _binds(
        "before after",
        rf"(?:please )?{_DO}[^,]{{2,80}}\b(?:before|after) (?:each|every|any) (?:commit|push|merge|deploy|"
        r"deployment|release|"
        r"change|edit|step|payment|booking|pr|pull request|migration|answer|reply|task)\b",
    ),
    _binds(
        "every each any all",
        rf"{LEAD}(?:before|after|for|with|on|in) (?:each|every|any|all) [\w-]+(?: [\w-]+){{0,4}}?,? (?:please |"
        rf"first )?{_DO}",
    ),
    # all of a kind
    _binds(
        "every each all",
        rf"{LEAD}(?:every|each|all) (?:of (?:the|our|my) )?(?:[\w./*-]+ ){{1,4}}(?:needs?(?! (?:about|around|"
        r"some|more|to be \w+ed)\b)|gets?|starts? with|"
        r"ends? with|begins? with|"
        r"goes? (?:in|into|through|to|under)|lives? in|belongs? (?:in|under)|carry|carries|follows?|requires?|"
        r"shall|ought to|"
        r"comes? with) ?\S",
    ),
    _binds(
        "start begin end go live belong follow written named stay need",
        rf"(?:(?:the|our|my) )?{THINGS} (?:start with|begin with|end with|go (?:in|into|through|under)|live in|"
        r"belong (?:in|under)|"
        r"follow|are (?:always )?(?:written in|named)|stay (?:under|below|within|in)|"
        r"need(?! (?:about|around|some|more|to be)\b)) \S",
    ),
    _binds(
        "everything",
        r"everything (?:goes|runs|stays|belongs|lives|needs|gets) (?!well|fine|wrong|smoothly|ok)\S.{3,60}",
    ),
    _binds(
        "nothing nobody",
        r"nothing (?:goes|gets|leaves|ships|is (?:deployed|merged|pushed|deleted|published)) \S.{3,60}|nobody "
        r"(?:touches|edits|pushes|deploys) \S",
    ),
    _wishes(
        "to",
        r"(?!.{0,40}\bi(?:'ll| will|'d)? have to)\w.{2,60}\b(?:has|have) to (?:stay|remain|keep|support|follow) \S",
    ),
    # how to write and work
    _binds(
        "keep", rf"{LEAD}keep (?!going|working|trying|looking|waiting|in mind)[^,.]{{1,60}}? {SHORT}\W*(?:please\W*)?$"
    ),
    _binds("keep", rf"{LEAD}keep [^,.]{{1,50}} (?:under|below|within|out of) \S[^,]{{1,40}}$"),
    _binds(
        "keep be stay make", rf"{LEAD}(?:keep it|be|stay|make it|keep things) (?:very |as |more |extra )?{SHORT}\W*$"
    ),
    _wishes(
        "be",
        rf"{LEAD}be (?:very |extra |more )?(?:careful|honest|precise|thorough|direct|specific|explicit|"
        r"friendly)(?: with | about |\W*$)",
    ),
    _wishes("sure care", rf"{LEAD}(?:be sure|take care|see to it) (?:to|that|not) \S"),
    _binds(
        "answer reply respond write speak talk explain report comment quote show format give "
        "answers replies responses prices dates",
        rf"{LEAD}(?:answer|reply|respond|write|speak|talk|explain|report|comment|quote|show|format|give|"
        r"answers|replies|responses|"
        rf"prices|dates)(?: to| me| us| it| them| all| \w+s?){{0,3}} (?:in|as|with) (?:only )?{TONGUES}\b",
    ),
    _binds("under below within", rf"(?:{THINGS}|[\w-]+s) (?:under|below|within) \d+ \w+,? please\W*$"),
    _binds(
        "call address refer treat default",
        rf"{LEAD}(?:call me|address me as|refer to [\w ]{{2,40}} as|treat [\w ]{{2,40}} as|default to) \S",
    ),
    _binds(
        "stick limit restrict confine stay",
        rf"{LEAD}(?:(?:let's )?stick (?:to|with)|(?:limit|restrict|confine) (?:yourself|your|changes|the changes|all)|"
        r"stay (?:on|within|inside|under|in) (?!the line|touch))\S*.{2,60}$",
    ),
    _wishes(
        "favor favour prioritize prioritise prefer choose",
        rf"{LEAD}(?:favou?r|prioriti[sz]e|choose) \S.{{1,50}} over \S",
    ),
    _binds(
        "wrap indent prefix suffix sign cite spell",
        rf"{LEAD}(?:wrap|indent|prefix|suffix|sign|cite|spell) \S.{{1,40}} (?:with|at|in|by|off|as|from|to|like) \S",
    ),
    _binds(
        "every each all everything",
        rf"{LEAD}(?:document|annotate|type|escape|validate|sign|version|sani?ti[sz]e|log|lint) (?:every|each|"
        r"all|everything)\b",
    ),
    _binds("stop", rf"{LEAD}stop (?!it|here|there|that|now|the|all|this|everything)\w+ing \S"),
    _wishes(
        "use write target support",
        rf"{LEAD}(?:use|write|target|support) (?!(?:it|this|that|these|those|the|a|an|your?|both|one|same|them|"
        r"my|case|of)\b)"
        r"[\w.+#'-]+(?: [\w.+#'-]+){0,2}(?: (?:for|in) [\w .-]{2,30})?\W*$",
    ),
    _wishes("ignore skip", rf"{LEAD}(?:ignore|skip) (?:[\w./-]+ ){{1,3}}(?:folder|directory|dir|files|warnings)\W*$"),
    # what somebody likes, has, or lives with
    _wishes(
        "hate dislike stand",
        r"i (?:really |strongly |absolutely |personally )?(?:hate|dislike|can't stand|cannot stand) "
        r"(?!(?:that|it|this|when|to|how|the way)\b)\S",
    ),
    _wishes(
        "like love",
        r"i (?:really |much )?(?:like|love) (?!(?:it|that|this|the|your|how|what|where|to|a|an|them|these|"
        r"those|both|all)\b)\w+ \w+s\W*$",
    ),
    _wishes("rather sooner", r"i(?:'d| would) (?:much )?(?:rather|sooner) (?!(?:know|see|hear|understand)\b)\S.{3,}"),
    _wishes("want", r"i want (?:all|every|each|only|no|zero) \S.{2,}"),
    _wishes(
        "preference style convention policy rule standard limit budget deadline",
        r"(?:my|our) (?:[\w-]+ ){0,2}(?:preference|style|convention|policy|rule|standard|limit|budget|"
        r"deadline) (?:is|are|says?)\b",
    ),
    _binds(
        "deadline budget limit maximum cap freeze",
        r"the (?:deadline|budget|limit|maximum|cap|freeze) (?:is|was set|stays|ends|begins|starts|for [\w "
        r"]{2,30} is)\b",
    ),
    _wishes("capped limited", r".{1,60}\b(?:is|are) (?:capped|limited) (?:at|to) \S*\d"),
    _wishes("max maximum most up more", r"(?:max|maximum|at most|up to|no more than)\.? \d+ \w+(?: [\w ]{2,30})?\W*$"),
    _wishes(
        "we",
        r"(?:here |in this (?:project|repo|repository|codebase|team),? |at [\w]+,? )?we (?:use|follow|write|"
        r"target|support|name|"
        r"format|deploy) (?!(?:to|it|this|that|the (?:same|following))\b)\S+(?: \S+){0,8}\W*$",
    ),
    _wishes(
        "remember mind important reminder nb",
        r"(?:please )?(?:remember|bear in mind|important|nb|reminder)(?::| that) (?!the container)\S.{4,}",
    ),
    _binds(
        "vegetarian vegan diabetic intolerant blind dyslexic deaf kosher halal handed celiac coeliac",
        rf"(?:i(?: am|'m)|my \w+ is) (?:a |an |strictly )?{HEALTH}",
    ),
    _wishes("cant cannot", r"i (?:can't|cannot) (?:fly|travel|eat|drink|meet|sit|depart|arrive|attend) \S"),
)
GATE = frozenset[bytes]().union(*(way.words for way in PHRASINGS))


def phrased(text: str, words: Words) -> Phrasing | None:
    """The way in which a sentence puts a rule, the strictest that fits; None if in none."""
    if len(text) > _LONGEST or GATE.isdisjoint(words):
        return None
    text = text.lstrip("*_`\"'([ ")
    fits = (way for way in PHRASINGS if not way.words.isdisjoint(words) and way.pattern.match(text))
    return max(fits, key=lambda way: way.strict, default=None)
