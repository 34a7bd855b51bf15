"""Pieces that the patterns of `phrasings` are put together from: what may stand before an order, and lists of words.

Pure.
"""

from __future__ import annotations

LEAD = (  # what may stand before an order
    r"(?:(?:please|also|and|but|so|ok|okay|yes|no|then|now|hey|actually|just|important|note|ps|in general|generally|"
    r"by default|where possible|if possible|for (?:this|the) (?:project|repo|session)|here)[,:]? ){0,3}"
)
THINGS = (
    r"(?:(?:unit |integration |new |public |private |all |commit |branch |pull |test |file |variable |function |class |"
    r"error |log |release ){0,2}"
    r"(?:commits?|messages?|branch(?:es)?|requests?|prs?|mrs?|names?|titles?|functions?|methods?|class(?:es)?|modules?|"
    r"files?|tests?|docs?|docstrings?|comments?|types?|answers?|replies|responses?|reports?|summaries|prices?|amounts?|"
    r"dates?|times?|timestamps?|variables?|constants?|endpoints?|migrations?|changes?|releases?|deploys?|deployments?|"
    r"queries|schemas?|imports?|lines?|logs?|errors?|ids?|strings?|components?|bookings?|payments?|refunds?|flights?))"
)
SHORT = (  # how something is to be kept
    r"(?:short|shorter|brief|concise|terse|small|minimal|simple|compact|formal|informal|polite|neutral|plain|technical|"
    r"up to date|up-to-date|in sync|backwards?[ -]compatible|stable|private|secret|confidential|anonymous|green|"
    r"passing|alphabetical|sorted)"
)
TONGUES = (  # in what something is to be written
    r"(?:english|german|french|spanish|italian|portuguese|dutch|polish|russian|ukrainian|turkish|arabic|hebrew|hindi|"
    r"chinese|japanese|korean|swedish|danish|norwegian|finnish|czech|greek|latin|british|american|us|uk|plain|simple|"
    r"full|complete|short|bullet|bullets|markdown|json|yaml|xml|html|prose|lower ?case|upper ?case|one|two|three|\d+|"
    r"metric|imperial|utc|iso|eur|euros?|usd|dollars?|present|past|imperative|first|third|snake_case|camelcase)"
)
RISKY = (  # what somebody may want to be asked before
    r"(?:commit|push|merg|deploy|releas|publish|delet|remov|drop|instal|send|pay|book|cancel|purchas|buy|refactor|"
    r"migrat|renam|upgrad|restart|rebas|charg|chang|touch|edit|writ|add|creat)\w*"
)
OTHER = (  # than a case that comes again, after "if you"
    r"(?:think|want|can|need|have|could|feel|like|look|see|know|agree|get|would|wish|prefer|are|were)\b"
)
STATES = (
    r"(?:strictly |completely |absolutely |totally |still )?(?:off[ -]limits|prohibited|banned|taboo|sacred|"
    r"not an option|out of bounds|untouchable|unacceptable|not acceptable)\b"
)
HEALTH = (
    r"(?:(?:strict )?(?:vegetarian|vegan|diabetic|dyslexic|deaf|blind|celiac|coeliac|kosher|halal)|left-handed|"
    r"colou?r-?blind|(?:lactose|gluten)[ -]intolerant)\b"
)
FOREIGN = (  # beside the single words among the cues
    r".{0,80}\b(?:auf keinen fall|in keinem fall|ab (?:jetzt|sofort)|verboten|unbedingt|darf(?:st)? nicht|dürfen nicht|"
    r"keine \w+ (?:benutzen|verwenden|einbauen)|d[eé]sormais|interdit|il (?:ne )?faut|prohibido|proibido|vietato|"
    r"d'ora in poi|a partir d[ei] (?:ahora|agora)|à partir de maintenant|non (?:usare|toccare|modificare))\b"
)
