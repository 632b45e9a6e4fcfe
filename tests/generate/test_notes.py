from __future__ import annotations

from collections.abc import Sequence

from mergewise.generate.notes import take_notes
from mergewise.generate.sources import Source
from mergewise.types import Span

TEXT = "The timeout is five seconds. A retry waits longer."
SOURCES = [Source(1, "Manual", (), TEXT, ((Span("d", 0, len(TEXT)), TEXT),), 1.0)]


def words(texts: Sequence[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def test_supported_sentences_are_numbered_and_have_sources() -> None:
    notes = take_notes(["- The timeout is five seconds. [1]\n- Bears like honey."], SOURCES, 7, 99, words)
    assert notes.text == "[7] The timeout is five seconds.\n- Bears like honey."
    (source,) = notes.sources
    assert (source.number, source.parts) == (7, ((Span("d", 0, 28), "The timeout is five seconds."),))
    assert notes.unsupported == 0.5
    assert [step.reason.startswith("unsupported") for step in notes.steps] == [False, True]


def test_a_repeated_sentence_appears_once() -> None:
    notes = take_notes(["A retry waits longer.", "NONE", "A retry waits longer."], SOURCES, 2, 99, words)
    assert notes.text == "[2] A retry waits longer." and notes.unsupported == 0.0


def test_notes_over_the_room_are_left_out_and_traced() -> None:
    notes = take_notes([TEXT], SOURCES, 1, 6, words)
    assert notes.text == "[1] The timeout is five seconds." and len(notes.sources) == 1
    assert notes.steps[-1].reason == "no room for further notes"


def test_no_sentences_have_no_share() -> None:
    assert take_notes(["NONE"], SOURCES, 1, 99, words).unsupported is None
