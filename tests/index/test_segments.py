"""Segments of documents: no text is lost or repeated, and sentences stay whole."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.support import rows_of

from mergewise.index.tree import TreeSettings
from mergewise.index.writing.segments import segments_of
from mergewise.types import Document

WORDS = st.sampled_from(
    ["cat", "Rome", "ate.", "\n\n", "# Head\n\n", "It was 1990.", "猫は魚。", "- item\n", "the", "and so"]
)


@given(st.lists(WORDS, min_size=1, max_size=120).map(" ".join), st.integers(16, 64))
def test_segments_tile_the_text_and_hold_whole_sentences(text: str, size: int) -> None:
    (rows,) = rows_of([Document("d", text)], settings=TreeSettings())
    segments = segments_of(rows, size)
    assert [segment.number for segment in segments] == list(range(len(segments)))
    assert "".join(text[s.start : s.end] for s in segments) == (text if text.strip() else "")
    assert all(a.end == b.start for a, b in pairwise(segments))
    for segment in segments:
        assert all(segment.start <= s.start < s.end <= segment.end for s in segment.sentences)
        assert segment.tokens <= size or len(segment.sentences) <= 1
    said = [s for segment in segments for s in segment.sentences]
    assert said == [s for leaf in rows["leaf"] for s in leaf.sentences]


def test_a_heading_begins_a_segment_if_the_current_one_is_half_full() -> None:
    text = "# A\n\n" + "One two three four five six. " * 8 + "\n\n# B\n\n" + "Seven eight nine ten. " * 8
    (rows,) = rows_of([Document("d", text)], settings=TreeSettings(min_section_tokens=0))
    segments = segments_of(rows, 80)
    assert any(text[s.start :].startswith("# B") for s in segments)
    assert segments[-1].headings[-1:] == ("B",)
