"""Patterns for extracting triplets from a sentence. Named groups hold the extracted parts."""

from __future__ import annotations

import re

from mergewise.designs.aed.triplets.phrases import DATE, NAME, NATION, PLACE

BRACKETS = re.compile(r"\s*[(（]([^()（）]{0,400})[)）]")
TITLE_BRACKETS = re.compile(r"\s*\([^()]*\)\s*\Z")
PRONOUN = re.compile(r"(?:he|she|it|they|this|these)\b", re.IGNORECASE)
PART = re.compile(
    r"(?:(?:[Tt]he|[Ii]ts|[Hh]is|[Hh]er|[Tt]heir)\s+(?P<noun>[a-z][\w-]*(?:\s+[a-z][\w-]*)?)|(?P<bare>Music|Lyrics|Story|Screenplay|Production))\Z"
)
GENERIC = frozenset(
    "film movie song single album book novel story play opera musical series episode show game band group company organisation "
    "organization firm newspaper magazine journal village town city municipality district county river lake mountain island "
    "railway station airport school college university church building bridge museum team club league tournament party ship "
    "aircraft engine language species genus plant family software library program website protocol painting poem".split()
)
NO_SUBJECT = frozenset("and also which who that there what then but or where when while here both".split())
OWN = re.compile(r"(?:his|her|its|their)\s+", re.IGNORECASE)
PERSONAL = re.compile(r"\b(?:[Hh]e|[Ss]he|[Hh]is|[Hh]er|born|died)\b")

COPULA = r"(?:is|was|are|were)"
ADVERB = r"(?:\s+(?:also|now|then|currently|originally|formerly|best|first|later|mainly|mostly|officially|still|only|\w+ly))*"
IRREGULAR = (
    "became|began|bought|built|came|chose|drew|fell|fought|gave|got|grew|held|kept|knew|led|left|lost|made|met|ran|rose|sang|sold|"
    "sent|spent|stood|swam|taught|took|went|won|wrote|has|had|have|lies|stars|contains|includes|consists|features|serves|"
    "represents|plays|played|lives|works|uses|provides|supports|sets|returns|allows|requires|means|defines|specifies|runs|shows|"
    "begins|ends|starts|stands|comes|follows|offers|covers|belongs|connects|flows|marks|depicts|tells|gives|takes|makes"
)
VERB = rf"(?:{COPULA}|{IRREGULAR}|[a-z]{{2,}}ed)"
PARTICIPLE = (
    r"(?:[a-z]{2,}ed|written|sung|built|born|held|made|shot|led|won|known|set|drawn|given|taken|sold|run|chosen|begun|found|spoken|"
    r"broken|buried|bred|fought|seen|shown|thrown|grown)"
)
PREPOSITIONS = r"(?:by|in|at|on|from|as|for|to|with|near|under|during|between|into|of|after|through)"
PASSIVE = re.compile(
    rf"\b(?P<verbs>(?:re-|co-|well-)?{PARTICIPLE}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+)(?:re-|co-)?{PARTICIPLE})*)"
    rf"{ADVERB}\s+(?P<prep>{PREPOSITIONS})\s+"
)
WITH = re.compile(r"\b(?P<verb>starring|featuring|stars|starred)\s+(?!in\b|as\b)")
CLAUSE = re.compile(
    rf"\s*;\s+|\s*,?\s+(?:and|but|while|whereas)\s+(?=(?:[Tt]he|[Hh]e|[Ss]he|[Ii]t|[Tt]hey|{NAME})\s+(?:[a-z]+\s+){{0,3}}{VERB}\b)"
)
RELATIVE = re.compile(r"(?P<comma>\s*,)?\s+(?:who|which)\s+(?=[a-z])")
FRONTED = re.compile(
    r"(?:In|On|At|After|Before|During|From|Since|Until|By|For|With|As|While|When|Although|Following|Under|However|Later|"
    r"[A-Z][a-z]+(?:ed|ing)|Born)\b[^,]{0,80},\s+"
)
LEAD = re.compile(
    rf"(?P<lead>(?:The|An?|This|Both)?\s*{NAME}|(?:[Hh]e|[Ss]he|[Ii]t|[Tt]hey|[Tt]his|[Tt]hese)\b"
    rf"|(?:[Tt]he|[Tt]his|[Aa]n?|[Hh]is|[Hh]er|[Ii]ts|[Tt]heir)\s+(?:[\w’'-]+\s+){{0,4}}?[\w’'-]+?|[A-Za-z][\w’'-]*)"
    rf"(?P<aside>\s*,[^,]{{1,120}},)?(?P<adverb>{ADVERB})\s+(?P<verb>{VERB})\b"
)
DEFINED = re.compile(
    r"(?P<lead>[A-Z\"“¿¡][^,;]{0,80}?)(?P<aside>)(?P<adverb>)\s+(?P<verb>is|was|are|were)\b(?=\s+(?:an?|the)\s)"
)
SAYS_WHAT = re.compile(rf"\b{COPULA}\s+(?:an?|the|one of the)\s+[\w\s,'’-]{{1,80}}\Z")
KINDS = re.compile(rf"\A(?:not\s+)?{ADVERB}\s*(?:(?P<article>the|an?|one of the)\s+)?(?P<rest>\S.*)\Z", re.DOTALL)
ENDS_KIND = re.compile(
    rf"\s(?:in|on|at|by|from|to|for|with|as|near|about)\s|,?\s+(?:{PARTICIPLE}|starring|featuring|\w+ing)\s+(?:{PREPOSITIONS}\s|[A-Z])"
    rf"|,?\s+(?:{PARTICIPLE})(?:\s+and\s+{PARTICIPLE})?\s+{PREPOSITIONS}\s|,\s+(?:an?|the)\s|,?\s+not\s|\s(?:famous|known|noted|due)\s"
    r"|\s+and\s+the\s"
)
OF_KIND = re.compile(
    rf"(?<!\w)(?P<noun>[a-z][\w-]+)\s+(?P<prep>in|by|of|from|at|for|on)\s+(?:the\s+)?(?=[A-Z\"“]|[a-z]+\s+{NAME})"
)
YEAR = re.compile(r"(?P<year>[12]\d{3})\s+")
ORIGINS = re.compile(
    rf"(?P<origin>{NATION}(?:(?:\s*-\s*|\s+and\s+|\s+){NATION})*)(?!\s*-\s*(?:born|language))(?=\s+[\w-])"
)
LANGUAGE = re.compile(r"(?P<language>[A-Z][a-z]+)\s*-\s*language\b")
PERSONS = re.compile(
    r"\b(?:actor|actress|singer|writer|author|poet|politician|player|footballer|director|producer|composer|musician|painter|artist|"
    r"scientist|physicist|chemist|lawyer|journalist|historian|officer|soldier|general|king|queen|prince|princess|emperor|empress|"
    r"duke|bishop|priest|athlete|swimmer|cyclist|wrestler|boxer|filmmaker|screenwriter|photographer|architect|engineer|teacher|"
    r"professor|philosopher|businessman|businesswoman|model|rapper|songwriter|guitarist|drummer|dancer|comedian|novelist|editor|"
    r"judge|coach|cricketer|golfer|skier|fencer|runner|racer|person|man|woman|nobleman|noblewoman|\w+ist|\w+er)\b"
)
LIFE = re.compile(
    rf"(?:(?:born|b\.|\*|geb\.|geboren|né|née|nacido|nacida|nato|nata)\s*[^;\d]{{0,60}}?(?:on\s+|in\s+|am\s+|le\s+|el\s+)?)?"
    rf"(?P<date>{DATE})(?:(?:\s*(?:,|in|,\s*in|à|en|a))?\s+(?P<place>{PLACE}))?"
)
BORN_IN = re.compile(rf"born\s+(?:in|at)\s+(?P<place>{PLACE})")
DASH = re.compile(r"\s*(?:[–—]|\s-\s|†|;\s*†|\bdied\b|\bd\.)\s*")
ALIAS = re.compile(
    r"\b(?P<how>(?:also|better|best|formerly|professionally|commonly|previously|originally|sometimes|simply)?\s*"
    rf"(?:known|called|nicknamed|titled|named|[Rr]omani[sz]ed))\s+(?:(?:simply|professionally|mononymously|also)\s+)?(?:as\s+)?(?P<name>{NAME})"
)
FOREIGN = re.compile(r"(?:\A|;\s*|,\s*)(?P<language>[A-Z][a-z]+(?: [A-Z][a-z]+)?)\s*[:：]\s*(?P<name>[^;,:]{1,60})")
KIN = (
    "son|daughter|father|mother|brother|sister|wife|husband|widow|child|grandson|granddaughter|nephew|niece|cousin|consort|heir|"
    "uncle|aunt|grandfather|grandmother|parent|spouse|half-brother|half-sister|stepson|stepdaughter|descendant"
)
KIN_OF = re.compile(rf"\b(?P<kin>{KIN})s?\s+of\s+")
OWN_KIN = re.compile(
    rf"\b(?:[Hh]is|[Hh]er|[Ii]ts|[Tt]heir)\s+(?P<kin>(?:[a-z-]+\s+)?(?:{KIN}|parents|partner|teacher|capital|founder))\s*,?\s+"
)
APPOSED = re.compile(
    rf"(?P<name>{NAME}),\s+(?:an?|the)\s+(?P<kind>(?:[A-Z][\w-]+\s+)?[a-z][^,.;:()]{{2,60}}?)(?=\s*[,.;]|\s+(?:who|which|and|in|from|by)\b)"
)
KEY = re.compile(r"\A[\s>*+•‣-]*(?P<key>[^\s:=|][^:=|\n]{0,48}?)\s*(?::|：|=)\s+(?P<value>\S[^\n]{0,300})\Z")
ROW = re.compile(r"\A\s*\|.*\|\s*\Z")

OTHER_LANGUAGES = re.compile(
    r"\A(?P<head>[^\s,.;:][^,.;:]{0,80}?)\s+(?P<is>ist|war|sind|waren|est|était|sont|es|fue|era|son|è|fu|é|foi|är|var|er)\s+"
    r"(?P<rest>(?:eine?r?s?|une?|una|uno|um|uma|ett|en|een|et|der|die|das|le|la|les|il|el|o|a|los|las)\s+[^,.;:]{2,120})"
)
CHINESE = re.compile(r"\A(?P<head>[^，。；,;\s]{1,24}?)是(?P<rest>[^，。；]{2,60})")
JAPANESE = re.compile(r"\A(?P<head>[^、。\s]{1,24}?)は、?(?P<rest>[^。]{2,60}?)(?:である|です|であった|だった|であり)")
RUSSIAN = re.compile(r"\A(?P<head>[А-ЯЁ][^,.;—]{1,60}?)\s+—\s+(?P<rest>[^,.;]{2,100})")
