"""Grounding: check a value by a model against its paragraphs, sentence by sentence (`mergewise.text.support`).

    grounder = Grounder(judge, [3, 4], document.text, "replace")
    grounded = grounder.ground(value)
    grounded.value, grounded.sentences

A sentence without support is replaced by the nearest sentence of the paragraphs, dropped, or kept and marked.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from mergewise.text.sentences import split_sentences
from mergewise.text.support.judge import Judge
from mergewise.text.support.names import forms, in_order
from mergewise.types import Part, frozen

Ungrounded: TypeAlias = Literal["replace", "drop", "keep"]
"""Treatment of a sentence without support in its paragraphs: replace it by their nearest sentence, drop it, or keep it."""

_ROUNDS = 6
MOST_SENTENCES = 400  # maximum number of sentences of a value to judge; later ones count as unsupported


class ValueSentence(NamedTuple):
    """A sentence of a value, `value[start:end]`.

    `support` are the supporting sentences of the document as (start, end). `replaced` is true if the model's sentence had no
    support and was replaced by a sentence of the document. `flags` are the problems of the sentence (before it was replaced),
    such as "number 1990".
    """

    start: int
    end: int
    support: tuple[Part, ...]
    replaced: bool = False
    flags: tuple[str, ...] = ()

    @property
    def supported(self) -> bool:
        return bool(self.support)


class GroundedValue(NamedTuple):
    """A value after grounding. The model wrote `judged` sentences, and `unsupported` of them had no support."""

    value: str
    sentences: tuple[ValueSentence, ...]
    judged: int
    unsupported: int


class _ValuePart(NamedTuple):
    """A sentence of the new value, and the text between it and the sentence before."""

    text: str
    between: str
    judged: ValueSentence


@frozen
class Grounder:
    """Grounder of values in the paragraphs of a document with these keys."""

    judge: Judge
    keys: Sequence[Hashable]
    text: str
    ungrounded: Ungrounded = "replace"

    def ground(self, value: str, judged: Sequence[ValueSentence] | None = None) -> GroundedValue:
        """Ground the value in the paragraphs.

        With "replace" and "drop", every remaining sentence has support, and no sentence of the document is inserted twice.

        Args:
            value: The value to ground.
            judged: Its judged sentences, if known.

        Returns:
            The grounded value. It is empty if no sentence has support.
        """
        judged = self.sentences(value) if judged is None else judged
        unsupported = sum(not sentence.supported for sentence in judged)
        if self.ungrounded == "keep" or not unsupported:
            return GroundedValue(value, tuple(judged), len(judged), unsupported)
        mended, sentences = self._settle(self._mend(value, judged, replacing=self.ungrounded == "replace"))
        return GroundedValue(mended, sentences, len(judged), unsupported)

    def sentences(self, value: str) -> list[ValueSentence]:
        """Judge each sentence of the value."""
        spans = split_sentences(value)
        judged = []
        for start, end in spans[:MOST_SENTENCES]:
            judgement = self.judge.judge(value[start:end], self.keys)
            flags = tuple(map(" ".join, judgement.flagged))
            judged.append(ValueSentence(start, end, judgement.support, flags=flags))
        return judged + [ValueSentence(start, end, ()) for start, end in spans[MOST_SENTENCES:]]

    def _mend(self, value: str, judged: Sequence[ValueSentence], *, replacing: bool) -> list[_ValuePart]:
        """Return the sentences with support, and if `replacing`, the replacements of the others."""
        present = {_words_in_order(value[s.start : s.end]) for s in judged if s.supported}
        parts: list[_ValuePart] = []
        end = 0
        for sentence in judged:
            between, end = value[end : sentence.start], sentence.end
            stated = value[sentence.start : sentence.end]
            if sentence.supported:
                parts.append(_ValuePart(stated, between, sentence))
                continue
            near = self.judge.nearest(stated, self.keys) if replacing else None
            nearest = "" if near is None else self.text[slice(*near)]
            if near is not None and _words_in_order(nearest) not in present:
                present.add(_words_in_order(nearest))
                parts.append(_ValuePart(nearest, between, sentence._replace(support=(near,), replaced=True)))
        return parts

    def _settle(self, parts: Sequence[_ValuePart]) -> tuple[str, tuple[ValueSentence, ...]]:
        """Join the parts. The joined text may split into other sentences, so drop the ones without support and repeat."""
        for number in range(_ROUNDS):
            # The parts have their original gaps at first, and then become separate paragraphs.
            value, placed = "", list[ValueSentence]()
            for part in parts:
                value += ("\n\n" if number > 1 else part.between or " ") if placed else ""
                placed.append(part.judged._replace(start=len(value), end=len(value) + len(part.text)))
                value += part.text
            again = placed if [(s.start, s.end) for s in placed] == split_sentences(value) else self.sentences(value)
            judged = []
            for sentence in again:
                # A sentence has the flags of the placed sentences that it overlaps with.
                inside = [other for other in placed if other.start < sentence.end and sentence.start < other.end]
                flags = tuple(dict.fromkeys(flag for one in (*inside, sentence) for flag in one.flags))
                judged.append(sentence._replace(replaced=any(other.replaced for other in inside), flags=flags))
            if all(sentence.supported for sentence in judged):
                return value, tuple(judged)
            parts = self._mend(value, judged, replacing=False)
        return "", ()


def _words_in_order(sentence: str) -> str:
    return in_order(forms(sentence))
