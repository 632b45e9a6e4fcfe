"""Follow-up questions: a question that leans on a conversation is made to stand alone, so that it can be searched for.

A chat model rewrites it in one call. Its answer is taken if it is one line about what the conversation is about, without
anything that looks like the frame of a prompt, since it will stand in prompts as the question. Else, and without a chat model,
rules decide: a short question with a pronoun, one that begins with "and" or "what about", or one that has no word of its own
("Why?") is searched for together with the words of the question before it. The rules read English.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from mergewise.concurrency import run
from mergewise.errors import ModelError, UsageError
from mergewise.models.record import Models
from mergewise.prompting.quoting import code_for, quotation, turn, warning
from mergewise.protocols import ChatModel, TokenCounter
from mergewise.ranges import as_list
from mergewise.text.terms import content_terms, spelled_terms
from mergewise.types import Answer, Message, Turn, Usage

log = logging.getLogger("mergewise")

_PROMPT = """\
You rewrite the last question of a conversation so that it can be understood alone. Put names in the place of pronouns and add
what the question leaves out, from the conversation and from nothing else. Do not answer it. Keep its language. If it already
stands alone, repeat it as it is. Write the question and nothing else, on one line.

{data}"""
_TOKENS = 512  # a question is short, but a model may think first
_LONGEST = 4  # times the length of the question and of the longest question before it together
_KNOWN = 0.5  # the share of the terms of a rewritten question that must come from the conversation
_MARGIN = 0.95  # of the window: tokens are seldom counted by the model's own tokenizer

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
_MOST_TERMS = 5  # of its own that a question with a pronoun may have and still lean on the one before


def standalone_question(question: str, history: Sequence[Turn], models: Models) -> tuple[str, Usage]:
    """The question as it can be searched for, and what finding it cost.

    Raises UsageError for a history that is no conversation.
    """
    turns = messages_of(history)
    if not turns or not question.strip():
        return question, Usage()
    if models.chat is None:
        return by_rules(question, turns), Usage()
    try:
        rewritten, spent = _by_model(question, turns, models.chat, models.count_tokens)
    except ModelError as error:
        log.warning("the follow-up question was not rewritten: %s failed", models.chat.spec)
        log.debug("%s", error)
        return by_rules(question, turns), Usage()
    return by_rules(question, turns) if rewritten is None else rewritten, spent


def messages_of(history: Sequence[Turn]) -> list[Message]:
    """The conversation as messages of its two sides, in order."""
    if isinstance(history, str | Answer | Message):
        raise UsageError(
            "the history is a single thing", "give a list: answers, messages, or pairs of question and answer"
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
                    f"the history holds a {type(one).__name__}",
                    "give answers, messages, or pairs of question and answer",
                )
    return [message for message in messages if message.text.strip()]


def by_rules(question: str, turns: Sequence[Message]) -> str:
    """The question with the words of the question before it, where it leans on that one."""
    whole = ""
    for asked in [*(message.text for message in turns if message.role == "user"), question]:
        whole = _with_words(asked, whole) if whole and leans(asked) else asked
    return whole


def leans(question: str) -> bool:
    """Whether the question cannot be understood without the one before it, as far as its words tell."""
    own = content_terms(question)
    return not own or bool(_OPENS.match(question)) or bool(len(own) <= _MOST_TERMS and _PRONOUN.search(question))


def _with_words(question: str, before: str) -> str:
    own = content_terms(question)
    words = [word for stem, word in spelled_terms(_HOW.sub(" ", before)).items() if stem not in own]
    # the stems come last word first
    return " ".join([question, *reversed(words)])


def _by_model(
    question: str, turns: Sequence[Message], chat: ChatModel, count_tokens: TokenCounter
) -> tuple[str | None, Usage]:
    """The model's question, or None where it gave none that can be trusted; and what it cost."""
    limit = min(_TOKENS, chat.window // 4)
    code = code_for([question, *(message.text for message in turns)])
    room = int(_MARGIN * chat.window) - limit - sum(count_tokens([m.text for m in _prompt(question, [], code)]))
    shown = _newest([_quoted_turn(message, code) for message in turns], room, count_tokens)
    reply = run(chat.complete(_prompt(question, shown, code), max_tokens=limit))
    lines = [line.strip(' \t-*"“”') for line in reply.text.strip().splitlines() if line.strip()]
    good = reply.complete and len(lines) == 1 and not _FRAME.search(lines[0]) and _is_about(lines[0], question, turns)
    return (lines[0], reply.usage) if good else (None, reply.usage + Usage(unread=1))


def _prompt(question: str, shown: Sequence[str], code: str) -> list[Message]:
    system = _PROMPT.format(data=warning(code, "turns of the conversation"))
    return turn(system, [*shown, f"Last question: {question}"])


def _quoted_turn(message: Message, code: str) -> str:
    return quotation("question" if message.role == "user" else "answer", message.text, code)


def _newest(texts: Sequence[str], room: int, count_tokens: TokenCounter) -> list[str]:
    """The last texts of those that fit, in order."""
    kept: list[str] = []
    for text, tokens in zip(reversed(texts), reversed(count_tokens([text + "\n\n" for text in texts])), strict=True):
        room -= tokens
        if room < 0:
            break
        kept.insert(0, text)
    return kept


def _is_about(rewritten: str, question: str, turns: Sequence[Message]) -> bool:
    """Whether a question is one that the conversation can lead to: not much longer, and mostly made of its words."""
    longest = max([len(message.text) for message in turns if message.role == "user"], default=0)
    terms = content_terms(rewritten)
    known = content_terms(" ".join([question, *(message.text for message in turns)]))
    fits = len(rewritten) <= _LONGEST * (len(question) + longest)
    return fits and bool(terms) and len(terms & known) >= _KNOWN * len(terms)
