"""LongRAG: the whole documents of the best chunks if they fit, else the chunks themselves."""

from __future__ import annotations

import pytest

from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.types import Context
from tests.designs.towns import DOCUMENTS, QUESTION, STORE, Marks, ask, reader

TEXTS = {document.id: document.text for document in DOCUMENTS}


def held(context: Context) -> dict[str, set[int]]:
    """Return the characters of each document that the context shows."""
    shown: dict[str, set[int]] = {}
    for passage in context.passages:
        for span, text in passage.parts():
            assert TEXTS[span.doc_id][span.start : span.end] == text
            fresh = set(range(span.start, span.end))
            assert not fresh & shown.setdefault(span.doc_id, set()), "a character was given twice"
            shown[span.doc_id] |= fresh
    return shown


def body(doc_id: str) -> set[int]:
    """Return the characters of a document without white space and headings."""
    lines, start = set(), 0
    for line in TEXTS[doc_id].splitlines(keepends=True):
        if not line.startswith("##"):
            lines |= {start + i for i, character in enumerate(line) if not character.isspace()}
        start += len(line)
    return lines


def best_chunks(k2: int) -> list[int]:
    """Score each chunk by its best slice, best first."""
    scores: dict[int, float] = {}
    for hit, score in reader().view("slice").search(QUESTION, 100):
        scores[hit.chunk] = max(score, scores.get(hit.chunk, 0.0))
    return sorted(scores, key=lambda chunk: (-scores[chunk], chunk))[:k2]


@pytest.mark.parametrize("k2", [1, 3, 7])
def test_documents_that_fit_are_given_whole_and_no_others(k2: int) -> None:
    shown = held(ask(f"longrag(k2={k2})", 9000))
    wanted = {chunk.doc_id for chunk in reader().view("slice").chunks(best_chunks(k2)).values()}
    assert shown.keys() == wanted
    assert all(body(doc_id) <= shown[doc_id] for doc_id in wanted)


@pytest.mark.parametrize("k2", [1, 3, 7])
def test_chunks_are_given_as_they_are(k2: int) -> None:
    context = ask(f"longrag(k2={k2}, unit=chunk)", 9000)
    wanted: dict[str, set[int]] = {}
    for chunk in reader().view("slice").chunks(best_chunks(k2)).values():
        wanted.setdefault(chunk.doc_id, set()).update(range(chunk.start, chunk.end))
    shown = held(context)
    assert shown.keys() == wanted.keys()
    assert all(body(doc_id) & wanted[doc_id] <= shown[doc_id] <= wanted[doc_id] for doc_id in wanted)


def test_a_document_above_the_budget_gives_its_chunks_instead() -> None:
    tokens = {rows.document.id: rows["section"][0].tokens for rows in STORE.document_rows([*TEXTS])}
    budget = min(tokens.values()) - 40
    context = ask("longrag(k2=2)", budget)
    chunks = list(reader().view("slice").chunks(best_chunks(2)).values())
    assert any("0 within the budget" in step.reason for step in context.trace if step.action == "parents")
    inside = {(chunk.doc_id, at) for chunk in chunks for at in range(chunk.start, chunk.end)}
    shown = {(doc_id, at) for doc_id, characters in held(context).items() for at in characters}
    assert shown and shown <= inside and "tower 2 of Corin was built in 1514" in context.text


def test_a_document_that_fits_the_budget_but_not_the_rest_of_it_gives_its_chunks_instead() -> None:
    """Two documents, and a budget for one and a half: only the found chunks of the second are shown."""
    chunks = reader().view("slice").chunks(best_chunks(40))
    first, second = list(dict.fromkeys(chunks[i].doc_id for i in best_chunks(40)))[:2]
    k2 = next(n for n in range(1, 41) if any(chunks[i].doc_id == second for i in best_chunks(n)))
    alone = ask("longrag(k2=1)", 9000).tokens
    context = ask(f"longrag(k2={k2})", alone * 3 // 2)
    shown = held(context)
    assert any(step.action == "skip" for step in context.trace)
    assert body(first) <= shown[first] and not body(second) <= shown[second]
    (part,) = (chunks[i] for i in best_chunks(k2) if chunks[i].doc_id == second)
    assert body(second) & set(range(part.start, part.end)) <= shown[second]


def test_a_reranker_decides_which_document_comes_first() -> None:
    chunks = list(dict.fromkeys(hit.chunk for hit, _ in reader().view("slice").search(QUESTION, 100)))
    last = reader().view("slice").chunks(chunks)[chunks[-1]].doc_id
    marks = Marks([0.0] * (len(chunks) - 1) + [1.0])
    context = ask("longrag(k2=1)", 9000, Models(count_tokens, reranker=marks))
    assert held(context).keys() == {last}
