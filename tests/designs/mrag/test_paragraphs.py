"""Numbered paragraphs with a token limit, against a slow transcription of the rule."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mergewise.designs.mrag.markers import VIEW, MarkerSettings
from mergewise.index.tree import TreeSettings
from mergewise.models.tokens import count_tokens
from mergewise.types import Document
from tests.support import rows_of

WORDS = st.sampled_from(["cat", "Rome", "ate.", "\n\n", "# Head\n\n", "It was 1990.", "- item\n", "and so"])


def words_by_rule(text: str, size: int) -> list[str]:
    """Apply M-RAG section 2.1: a new paragraph every `size` tokens. Ours ends before the word that would exceed the limit."""
    parts: list[str] = []
    held = ""
    for word in text.split():
        longer = f"{held} {word}".strip()
        if held and sum(count_tokens(longer.split())) > size:
            parts.append(held)
            longer = word
        held = longer
    return [*parts, held] if held else parts


@given(st.lists(WORDS, min_size=1, max_size=120).map(" ".join), st.integers(16, 64))
def test_paragraphs_tile_the_text_and_match_the_rule(text: str, size: int) -> None:
    (rows,) = rows_of([Document("d", text)], settings=TreeSettings())
    paragraphs = MarkerSettings(made="model", segment=size, ends="token").paragraphs(rows)
    assert [paragraph.number for paragraph in paragraphs] == list(range(len(paragraphs)))
    assert all(a.end == b.start for a, b in pairwise(paragraphs))
    if rows["leaf"]:
        assert (paragraphs[0].start, paragraphs[-1].end) == (0, len(text))
    assert [" ".join(text[p.start : p.end].split()) for p in paragraphs] == words_by_rule(text, size)
    for paragraph in paragraphs:
        assert all(paragraph.start <= s.start < s.end <= paragraph.end for s in paragraph.sentences)
    whole = "".join(text[s.start : s.end] for leaf in rows["leaf"] for s in leaf.sentences)
    clipped = "".join(text[s.start : s.end] for paragraph in paragraphs for s in paragraph.sentences)
    assert "".join(clipped.split()) == "".join(whole.split())


def test_rules_always_use_whole_sentences() -> None:
    text = "\n\n".join(f"# Part {n}\n\n" + f"The tower {n} of Corin was built in {1500 + n}. " * 9 for n in range(6))
    settings = MarkerSettings(segment=40, ends="token")
    (rows,) = rows_of([Document("d", text, "Corin")], settings=TreeSettings(), marker=settings)
    assert not list(VIEW.problems(rows, settings, 0))
    by_model = replace(settings, made="model").paragraphs(rows)
    assert settings.paragraphs(rows) == MarkerSettings(segment=40).paragraphs(rows) != by_model
    assert all(paragraph.tokens <= 40 for paragraph in by_model)
