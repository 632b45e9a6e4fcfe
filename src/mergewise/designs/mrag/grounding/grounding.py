"""Grounding: a text that a model wrote from some paragraphs is held to them, sentence by sentence.

    grounded = ground(value, [(0, 512)], document.text)
    grounded.value, grounded.unsupported_before, grounded.unsupported

A sentence that stands in the paragraphs word for word is supported. Any other one is supported where up to four of their
sentences hold half of its content words together, and nothing in it is flagged:

- `number`, `date`: the paragraphs do not hold it in any form (`text.figures`);
- `name`: a word with a capital that they do not hold, or two of their names that no sentence of theirs has together;
- `quotation`: three words or more in quotation marks that they do not have in this order;
- `negation`: it says no where its support does not, or leaves out the no of the clause that it repeats;
- `opposite`: it says "increased" where its support says "decreased";
- `clause`: two content words or more between commas and conjunctions, of which they hold none.

What is not supported is replaced by the sentence of the paragraphs that is nearest, is dropped, or stays, marked. Words are
compared, not meaning: who did what to whom may be turned around with the same words, and a true sentence in words of its own
counts as unsupported. Names are told by their capitals. In German, where all nouns have one, only two that stand side by side
are; scripts without capitals have none that could be told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal, NamedTuple, TypeAlias

from mergewise.designs.mrag.grounding.paragraphs import Flag, Paragraphs
from mergewise.designs.mrag.grounding.written import forms
from mergewise.text.sentences import split_sentences
from mergewise.text.spans import Part
from mergewise.text.statements import in_order

Ungrounded: TypeAlias = Annotated[
    Literal["replace", "drop", "keep"],
    "what becomes of a sentence that its paragraphs do not support: the nearest sentence of theirs, nothing, or it stays",
]

_ROUNDS = 6
MOST_SENTENCES = 400  # of a value that are judged; what comes after them counts as unsupported


@dataclass(frozen=True, slots=True)
class Grounding:
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
class Grounded:
    """A value after grounding. `unsupported_before` is the share of its sentences that had no support, `unsupported` that of
    those without any now. `dropped` are sentences that nothing stands for."""

    value: str
    sentences: tuple[Grounding, ...]
    unsupported_before: float
    unsupported: float
    dropped: tuple[str, ...] = ()


def ground(
    value: str, paragraphs: Sequence[Part], text: str, ungrounded: Ungrounded = "replace", path: str = ""
) -> Grounded:
    """The value, held to these paragraphs of `text`. Names and numbers in `path`, the title and headings, count as held.

    With "replace" and "drop" no sentence without support is left, and no sentence of the document is put in twice; the value is
    empty where nothing of it has support.
    """
    source = Paragraphs(paragraphs, text, path)
    judged = _judged(value, source)
    before = _share(judged)
    if ungrounded == "keep" or before == 0:
        return Grounded(value, tuple(judged), before, before)
    pieces, dropped = _mended(value, judged, source if ungrounded == "replace" else None)
    return _settled(pieces, dropped, source, before)


def _judged(value: str, source: Paragraphs) -> list[Grounding]:
    spans = split_sentences(value)
    first = [Grounding(start, end, *source.judge(value[start:end])) for start, end in spans[:MOST_SENTENCES]]
    return first + [Grounding(start, end, ()) for start, end in spans[MOST_SENTENCES:]]


def _share(judged: Sequence[Grounding]) -> float:
    return sum(not sentence.supported for sentence in judged) / len(judged) if judged else 0.0


class _Piece(NamedTuple):
    """A sentence of the new value, and what stood between the sentence before it and its place."""

    text: str
    between: str
    judged: Grounding


def _mended(value: str, judged: Sequence[Grounding], source: Paragraphs | None) -> tuple[list[_Piece], tuple[str, ...]]:
    """The sentences with support, and those of the source that stand for the others."""
    said = {_key(value[s.start : s.end]) for s in judged if s.supported}
    pieces: list[_Piece] = []
    dropped: list[str] = []
    end = 0
    for sentence in judged:
        between, end = value[end : sentence.start], sentence.end
        stated = value[sentence.start : sentence.end]
        if sentence.supported:
            pieces.append(_Piece(stated, between, sentence))
            continue
        near = None if source is None else source.nearest(stated)
        written = "" if near is None or source is None else source.text[slice(*near)]
        if near is None or _key(written) in said:
            dropped.append(stated)
            continue
        said.add(_key(written))
        pieces.append(_Piece(written, between, replace(sentence, support=(near,), replaced=True)))
    return pieces, tuple(dropped)


def _settled(pieces: Sequence[_Piece], dropped: tuple[str, ...], source: Paragraphs, before: float) -> Grounded:
    """The pieces as one text. Read as a whole it may fall into other sentences: those without support go, until none is left."""
    for number in range(_ROUNDS):
        value, made = _joined(pieces, apart=number > 1)
        again = made if _spans_of(made) == split_sentences(value) else _judged(value, source)
        judged = [_with_history(sentence, made) for sentence in again]
        if all(sentence.supported for sentence in judged):
            return Grounded(value, tuple(judged), before, 0.0, dropped)
        pieces, more = _mended(value, judged, None)
        dropped = (*dropped, *more)
    return Grounded("", (), before, 0.0, (*dropped, *(piece.text for piece in pieces)))


def _joined(pieces: Sequence[_Piece], apart: bool) -> tuple[str, list[Grounding]]:
    """The pieces one after the other, as they stood or as paragraphs, and where they stand now."""
    written: list[str] = []
    made: list[Grounding] = []
    end = 0
    for piece in pieces:
        between = ("\n\n" if apart else piece.between or " ") if written else ""
        written += [between, piece.text]
        start, end = end + len(between), end + len(between) + len(piece.text)
        made.append(replace(piece.judged, start=start, end=end))
    return "".join(written), made


def _spans_of(sentences: Sequence[Grounding]) -> list[Part]:
    return [(sentence.start, sentence.end) for sentence in sentences]


def _with_history(sentence: Grounding, made: Sequence[Grounding]) -> Grounding:
    """The sentence with what is known of those that it is made of."""
    inside = [other for other in made if other.start < sentence.end and sentence.start < other.end]
    flagged = dict.fromkeys(flag for other in inside for flag in other.flagged)
    flagged |= dict.fromkeys(sentence.flagged)
    return replace(sentence, replaced=any(other.replaced for other in inside), flagged=tuple(flagged))


def _key(sentence: str) -> str:
    return in_order(forms(sentence))
