"""Follow-up questions: rewrite a question that depends on a conversation so that it can be searched alone.

A chat model rewrites the question in one call. Its reply is used if it is one line about the topics of the conversation. A line
that looks like the frame of a prompt is rejected, since the question becomes part of prompts.

Without a chat model or a usable reply, rules decide. A question is a follow-up if it is short with a pronoun, begins with "and"
or "what about", or has no content word ("Why?"). A part that takes the place of another is put there: after "How long do cats
sleep in May?", "And in June?" is "How long do cats sleep in June?". Other follow-ups are searched together with the words of the
question before them. The rules read English.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mergewise.concurrency import run
from mergewise.errors import ModelError, UsageError
from mergewise.log import log
from mergewise.models.record import Models
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.protocols import ChatModel, TokenCounter
from mergewise.ranges import as_list
from mergewise.text.terms import content_terms, spelled_terms
from mergewise.types import Answer, Message, Turn, Usage

_PROMPT = """\
You rewrite the last question of a conversation so that it can be understood alone. Put names in the place of pronouns and add
what the question leaves out, from the conversation and from nothing else. Do not answer it. Keep its language. If it already
stands alone, repeat it as it is. Write the question and nothing else, on one line.

{data}"""
_TOKENS = 512  # a question is short, but a model may think first
_LONGEST = 4  # times the total length of the question and the longest question before it
_KNOWN = 0.5  # share of a rewritten question's terms that must come from the conversation
_MARGIN = 0.95  # of the window, since tokens are seldom counted by the model's own tokenizer

_OPENS = re.compile(
    r"^\W*(?:and|but|or|so|then|also|else|what else|what about|how about|why not|who else)\b", re.IGNORECASE
)
_PRONOUN = re.compile(
    r"\b(?:it|its|they|their|theirs|them|he|him|his|she|her|hers|this|these|those|there|the (?:former|latter|same))\b|"
    r"\b(?:is|was|does|did|do|can|could|will|would|about|of|for|with|like|after|before|than)\s+that\b",
    re.IGNORECASE,
)
_FRAME = re.compile(r"---|#[0-9a-f]{8}|[\x00-\x1f\x7f-\x9f]", re.IGNORECASE)  # lines around quotations, controls
_HOW = re.compile(r"\bhow\s+(?:long|many|much|often|far|old|big|large|tall|high|deep|fast|soon)\b", re.IGNORECASE)
_ASKS = re.compile(
    r"\b(?:who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|can|could|will|would|should|has|have)\b",
    re.IGNORECASE,
)
_LEADS = re.compile(r"^\s*(?:(?:of|for|from|with|to|the|an?)\s+)*")
_TIME = (
    r"\b(?:(?:on|in|at|by|every|each|during|before|after|since|until)\s+)?(?:(?:the|an?|quarter|half|of|\d+)\s+)*"
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun|week|holi)?days?|weekends?|january|february|march|april|june|july|august"
    r"|september|october|november|december|hours?|minutes?|weeks?|months?|years?|mornings?|evenings?|nights?|noon|May)\b"
)
# parts of one form take each other's place: times, versions, options, snake_case, camelCase, JSON, Groq
_FORMS = [re.compile(_TIME, re.IGNORECASE)] + [
    re.compile(rf"(?<![^\s`]){form}(?![\w-])")
    for form in (r"v?\d[\w.-]*\b", r"-[\w-]+", r"\w+_\w+", r"\w*[a-z][A-Z]\w*", "[A-Z]{2,}", r"[A-Z]\w+")
]
_MOST_TERMS = 5  # own terms of a question with a pronoun that still counts as a follow-up


def standalone_question(question: str, history: Sequence[Turn], models: Models) -> tuple[str, Usage]:
    """Return the question in a form that can be searched alone, and the cost of finding it.

    Raises UsageError if the history is not a conversation.
    """
    turns = messages_of(history)
    if not turns or not question.strip():
        return question, Usage()
    if models.chat is None:
        return by_rules(question, turns), Usage()
    try:
        rewritten, spent = _by_model(question, turns, models.chat, models.count_tokens)
    except ModelError as error:
        log.warning("follow-up question not rewritten: %s failed", models.chat.spec)
        log.debug("%s", error)
        return by_rules(question, turns), Usage()
    return by_rules(question, turns) if rewritten is None else rewritten, spent


def messages_of(history: Sequence[Turn]) -> list[Message]:
    """Return the conversation as messages of the user and the assistant, in order."""
    if isinstance(history, str | Answer | Message):
        raise UsageError(
            "the history is not a list", "give a list of answers, messages, or pairs of question and answer"
        )
    messages: list[Message] = []
    for one in as_list("history", history, "give a list of answers, messages or pairs"):
        match one:
            case Answer():
                messages += [Message("user", one.question), Message("assistant", one.text)]
            case Message():
                messages += [one] if one.role != "system" else []
            case (str() as asked, str() as answered):
                messages += [Message("user", asked), Message("assistant", answered)]
            case _:
                raise UsageError(
                    f"invalid turn of the history: {type(one).__name__}",
                    "give answers, messages, or pairs of question and answer",
                )
    return [message for message in messages if message.text.strip()]


def by_rules(question: str, turns: Sequence[Message]) -> str:
    """Add the words of the question before it to a follow-up question."""
    whole = ""
    for asked in [*(message.text for message in turns if message.role == "user"), question]:
        if whole and is_follow_up(asked):
            fragment = _LEADS.sub("", _OPENS.sub("", asked)).strip(" ?!.,")
            if place := _place_of(fragment, whole):
                is_part = not _ASKS.search(fragment)
                whole = whole[: place.start()] + fragment * is_part + whole[place.end() :]
                if is_part:
                    continue
            own = content_terms(asked)
            words = [word for stem, word in spelled_terms(_HOW.sub(" ", whole)).items() if stem not in own]
            # the stems come last word first
            whole = " ".join([asked, *reversed(words)])
        else:
            whole = asked
    return whole


def _place_of(fragment: str, question: str) -> re.Match[str] | None:
    """Return the part of a question whose place a fragment takes: a time, a name of the same form, or a modifier."""
    if _PRONOUN.search(fragment):
        return None
    for form in _FORMS:
        if form.search(fragment):
            return max(form.finditer(question, 1), key=re.Match.start, default=None)
    # "the read timeout" after "the connect timeout"
    *modifiers, head = fragment.split() or [""]
    return re.search(rf"[\w-]+ {re.escape(head)}\b", question) if modifiers else None


def is_follow_up(question: str) -> bool:
    """Tell whether the words of the question show that it depends on the question before it."""
    own = content_terms(question)
    return not own or bool(_OPENS.match(question)) or bool(len(own) <= _MOST_TERMS and _PRONOUN.search(question))


def _by_model(
    question: str, turns: Sequence[Message], chat: ChatModel, count_tokens: TokenCounter
) -> tuple[str | None, Usage]:
    """Return the model's rewritten question, or None if it is unusable, and its cost."""
    limit = min(_TOKENS, chat.window // 4)
    code = code_for([question, *(message.text for message in turns)])
    system = _PROMPT.format(data=warning("turns of the conversation"))
    last = f"Last question: {question}"
    room = int(_MARGIN * chat.window) - limit - sum(count_tokens([m.text for m in turn(system, [last], code)]))
    texts = [quotation("question" if one.role == "user" else "answer", one.text, code) for one in turns]
    # the last texts that fit, in order
    shown: list[str] = []
    for text, tokens in zip(reversed(texts), reversed(count_tokens([text + "\n\n" for text in texts])), strict=True):
        room -= tokens
        if room < 0:
            break
        shown.insert(0, text)
    reply = run(chat.complete(turn(system, [*shown, last], code), max_tokens=limit))
    lines = [line.strip(' \t-*"“”') for line in reply.text.strip().splitlines() if line.strip()]
    rewritten = lines[0] if reply.complete and len(lines) == 1 else ""
    # the conversation can lead to this question: it is not much longer, and mostly made of its words
    longest = max([len(message.text) for message in turns if message.role == "user"], default=0)
    terms = content_terms(rewritten)
    known = content_terms(" ".join([question, *(message.text for message in turns)]))
    fits = bool(terms) and len(rewritten) <= _LONGEST * (len(question) + longest)
    good = fits and len(terms & known) >= _KNOWN * len(terms) and not _FRAME.search(rewritten)
    return (rewritten, reply.usage) if good else (None, reply.usage + Usage(unread=1))
