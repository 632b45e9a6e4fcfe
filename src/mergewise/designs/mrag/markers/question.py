"""Conversion of an English sentence into a question, by rules. Two forms keep the words of the sentence:

- The first auxiliary moves before the subject: "The mill was built in 1850." becomes "Was the mill built in 1850?".
- A verb of a short list gets "do": "`retries` sets how often ..." becomes "Does `retries` set how often ...?".

The subject must be short and simple: no comma, no clause, no other known verb, and no ambiguous pronoun. For other sentences the
rules would often give wrong questions, so keys use salient phrases instead.
"""

from __future__ import annotations

import re

from mergewise.text.spans import one_line

LONGEST = 400  # maximum characters of a sentence
_SUBJECT = 9  # maximum words of a subject

_AUXILIARIES = "is are was were has have had can could may might must shall should will would does do did"
_HELPERS = frozenset(_AUXILIARIES.split())
_PRESENT = (
    "adds allows applies blocks builds calls causes changes checks closes combines connects consists contains controls "
    "converts copies covers creates defines deletes describes determines disables drops enables ends ensures exists expects "
    "extends finds follows forms gives handles helps holds implements imports improves includes increases indicates keeps lets "
    "lies limits links lists lives loads maintains makes manages means measures needs occurs offers opens owns passes performs "
    "plays points prevents prints produces protects provides raises reads receives reduces refers remains removes replaces "
    "represents requires returns runs saves selects sends separates sets shows specifies stands starts stores supports takes "
    "tells turns uses waits works writes"
).split()
_PAST = {
    **dict(pair.split(":") for pair in (
        "became:become began:begin bought:buy broke:break brought:bring built:build came:come caught:catch chose:choose "
        "drew:draw drove:drive fell:fall felt:feel fought:fight gave:give got:get grew:grow held:hold kept:keep knew:know "
        "led:lead left:leave lost:lose made:make met:meet paid:pay ran:run rose:rise sang:sing sold:sell sent:send spent:spend "
        "stood:stand swam:swim taught:teach threw:throw took:take went:go won:win wrote:write"
    ).split()),
    **{verb + "ed": verb for verb in (
        "act add adopt appear appoint attack attend award belong call claim complet confirm construct contain defeat design "
        "develop direct discover earn elect employ end enter establish expand follow form found gain happen help inform invent "
        "join kill land last launch mark mention move obtain open perform play predict present produc publish reach receiv "
        "record releas remain report represent return reveal scor serv show sign start succeed support train translat visit work"
    ).split()},
}  # fmt: skip
_SILENT_E = frozenset("complet produc receiv releas scor serv translat".split())
_BASES = {
    **{form: base + "e" * (base in _SILENT_E) for form, base in _PAST.items()},
    **{form: form[:-3] + "y" if form.endswith("ies") and len(form) > 4 else form[:-1] for form in _PRESENT},
    "passes": "pass", "does": "do", "lies": "lie",
}  # fmt: skip
_MAIN = re.compile(
    rf"(?P<subject>[^\n]{{1,160}}?)[ ]+(?P<verb>{'|'.join([*sorted(_HELPERS), *_BASES])})[ ]+(?P<rest>\S[^\n]*)\Z"
)
_DETERMINERS = (
    "a an the this that these those each every both all some most many several few no his her its their our your two three four "
    "five six seven eight nine ten"
).split()
_OPEN = frozenset("it he she they we you i this that these those there who which what one such so then here".split())
_UNPLAIN = frozenset(
    "that which who whom whose when where while because if although though since unless until whether as than said say says "
    "think thinks believe believes found find finds show shows showed suggest suggests report reports reported reveals revealed "
    "claim claims claimed know knows state states stated note notes argued according but not never to".split()
)
_FRONTED = frozenset(
    "in on at by for from with without after before during under over through among between within despite like unlike since "
    "until when while if although though because as once to however moreover also thus therefore then today yesterday here "
    "there first finally later instead meanwhile still yet and but or so not only see note".split()
)
_WORD = re.compile(r"[\w'’.+-]+")


def as_question(sentence: str) -> str | None:
    """Turn the sentence into a question with the same words, or return None."""
    flat = one_line(sentence)
    if flat.endswith("?"):
        return flat
    match = _MAIN.match(flat.rstrip(" .")) if flat.endswith(".") and len(flat) <= LONGEST else None
    if match is None or not _is_plain_subject(match["subject"]):
        return None
    subject, verb, rest = match["subject"], match["verb"], match["rest"]
    # In the middle of a sentence, the subject has a lowercase determiner.
    opens, _, named = subject.partition(" ")
    if named and opens.lower() in _DETERMINERS:
        subject = f"{opens.lower()} {named}"
    # "has", "had" or "did" can move before the subject only as an auxiliary of the next verb.
    after = rest.split(maxsplit=1)[0].lower() if rest.strip() else ""
    helps = after in ("been", "not", "become", "made", "had") or after.endswith("ed")
    if rest.startswith(("-", "'", "’", ":", "(")) or (
        verb in ("does", "do", "did", "had", "have", "has") and not helps
    ):
        return None
    if verb in _BASES and verb not in _HELPERS:
        helper = "Does" if verb in _PRESENT else "Did"
        return f"{helper} {subject} {_BASES[verb]} {rest}?"
    return f"{verb.capitalize()} {subject} {rest}?"


def _is_plain_subject(subject: str) -> bool:
    words = [word.lower() for word in _WORD.findall(subject)]
    if not words or len(words) > _SUBJECT or words[0] in _FRONTED or re.search(r"[,;:()\[\]|“”\"#>]|\.\s", subject):
        return False
    if len(words) == 1 and words[0] in _OPEN:
        return False
    return _UNPLAIN.isdisjoint(words) and _BASES.keys().isdisjoint(words) and _HELPERS.isdisjoint(words)
