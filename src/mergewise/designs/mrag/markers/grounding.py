"""Grounding: a value that a model wrote from some paragraphs is held to them, sentence by sentence (`mergewise.text.support`).

    grounder = Grounder(judge, [3, 4], document.text, "replace")
    grounded = grounder.ground(value)
    grounded.value, grounded.unsupported_before, grounded.unsupported

What is not supported is replaced by the sentence of the paragraphs that is nearest, is dropped, or stays, marked.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from mergewise.text.sentences import split_sentences
from mergewise.text.spans import Part
from mergewise.text.support.judge import Flag, Judge
from mergewise.text.support.names import forms, in_order

Ungrounded: TypeAlias = Literal["replace", "drop", "keep"]
"""What becomes of a sentence that its paragraphs do not support: the nearest sentence of theirs, nothing, or it stays."""

Key = TypeVar("Key", bound=Hashable)

_ROUNDS = 6
MOST_SENTENCES = 400  # of a value that are judged; what comes after them counts as unsupported


@dataclass(frozen=True, slots=True)
class GroundedSentence:
    """A sentence `value[start:end]`. `support` are the sentences of the document (start, end) that it rests on, none where it has
    no support.

    `flagged` is what was wrong with it, or with the sentence of the model that it `replaced`.
    """

    start: int
    end: int
    support: tuple[Part, ...]
    flagged: tuple[Flag, ...] = ()
    replaced: bool = False

    @property
    def supported(self) -> bool:
        return bool(self.support)


@dataclass(frozen=True, slots=True)
class GroundedValue:
    """A value after grounding. `unsupported_before` is the share of its sentences that had no support, `unsupported` that of
    those without any now. `dropped` are sentences that nothing stands for."""

    value: str
    sentences: tuple[GroundedSentence, ...]
    unsupported_before: float
    unsupported: float
    dropped: tuple[str, ...] = ()


class _ValuePart(NamedTuple):
    """A sentence of the new value, and what stood between the sentence before it and its place."""

    text: str
    between: str
    judged: GroundedSentence


@dataclass(frozen=True, slots=True)
class Grounder(Generic[Key]):
    """Grounds a value in the paragraphs of a document that have these keys."""

    judge: Judge[Key]
    keys: Sequence[Key]
    text: str
    ungrounded: Ungrounded = "replace"

    def ground(self, value: str, judged: Sequence[GroundedSentence] | None = None) -> GroundedValue:
        """The value, held to the paragraphs; `judged` are its sentences where they are judged already.

        With "replace" and "drop" no sentence without support is left, and no sentence of the document is put in twice; the value
        is empty where nothing of it has support.
        """
        judged = self.sentences(value) if judged is None else judged
        before = _unsupported_share(judged)
        if self.ungrounded == "keep" or before == 0:
            return GroundedValue(value, tuple(judged), before, before)
        parts, dropped = self._mend(value, judged, replacing=self.ungrounded == "replace")
        return self._settle(parts, dropped, before)

    def sentences(self, value: str) -> list[GroundedSentence]:
        """The sentences of the value as they are judged."""
        spans = split_sentences(value)
        first = [
            GroundedSentence(start, end, *self.judge.judge(value[start:end], self.keys))
            for start, end in spans[:MOST_SENTENCES]
        ]
        return first + [GroundedSentence(start, end, ()) for start, end in spans[MOST_SENTENCES:]]

    def _mend(
        self, value: str, judged: Sequence[GroundedSentence], *, replacing: bool
    ) -> tuple[list[_ValuePart], tuple[str, ...]]:
        """The sentences with support, and those of the paragraphs that stand for the others."""
        standing = {_words_in_order(value[s.start : s.end]) for s in judged if s.supported}
        parts: list[_ValuePart] = []
        dropped: list[str] = []
        end = 0
        for sentence in judged:
            between, end = value[end : sentence.start], sentence.end
            stated = value[sentence.start : sentence.end]
            if sentence.supported:
                parts.append(_ValuePart(stated, between, sentence))
                continue
            near = self.judge.nearest(stated, self.keys) if replacing else None
            nearest = "" if near is None else self.text[slice(*near)]
            if near is None or _words_in_order(nearest) in standing:
                dropped.append(stated)
                continue
            standing.add(_words_in_order(nearest))
            parts.append(_ValuePart(nearest, between, replace(sentence, support=(near,), replaced=True)))
        return parts, tuple(dropped)

    def _settle(self, parts: Sequence[_ValuePart], dropped: tuple[str, ...], before: float) -> GroundedValue:
        """The parts as one text. Read as a whole it may fall into other sentences: those without support go."""
        for number in range(_ROUNDS):
            value, placed = _in_one_text(parts, apart=number > 1)
            again = placed if [(s.start, s.end) for s in placed] == split_sentences(value) else self.sentences(value)
            judged = [_with_history(sentence, placed) for sentence in again]
            if all(sentence.supported for sentence in judged):
                return GroundedValue(value, tuple(judged), before, 0.0, dropped)
            parts, more = self._mend(value, judged, replacing=False)
            dropped = (*dropped, *more)
        return GroundedValue("", (), before, 0.0, (*dropped, *(part.text for part in parts)))


def _unsupported_share(judged: Sequence[GroundedSentence]) -> float:
    return sum(not sentence.supported for sentence in judged) / len(judged) if judged else 0.0


def _in_one_text(parts: Sequence[_ValuePart], apart: bool) -> tuple[str, list[GroundedSentence]]:
    """The parts one after the other, as they stood or as paragraphs, and where they stand now."""
    texts: list[str] = []
    placed: list[GroundedSentence] = []
    end = 0
    for part in parts:
        between = ("\n\n" if apart else part.between or " ") if texts else ""
        texts += [between, part.text]
        start, end = end + len(between), end + len(between) + len(part.text)
        placed.append(replace(part.judged, start=start, end=end))
    return "".join(texts), placed


def _with_history(sentence: GroundedSentence, placed: Sequence[GroundedSentence]) -> GroundedSentence:
    """The sentence with what is known of those that it is made of."""
    inside = [other for other in placed if other.start < sentence.end and sentence.start < other.end]
    flagged = dict.fromkeys(flag for other in inside for flag in other.flagged)
    flagged |= dict.fromkeys(sentence.flagged)
    return replace(sentence, replaced=any(other.replaced for other in inside), flagged=tuple(flagged))


def _words_in_order(sentence: str) -> str:
    return in_order(forms(sentence))
