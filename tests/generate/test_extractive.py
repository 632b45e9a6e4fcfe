from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import HashEmbedder, ScriptedReader, memory_store

from mergewise.designs.strategies import assemble
from mergewise.designs.weave.quotable import evidence_in
from mergewise.generate import extractive
from mergewise.generate.confidence import Signals
from mergewise.generate.extractive import LIKELY, NEAREST, SENTENCES, answer, probability
from mergewise.generate.mode import Request
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.types import Answer, Context, Document, Evidence, Page, Span

TEXT = """## Timeouts

The default timeout is five seconds. It applies to every request.

## Retries

A request is tried again three times. To turn retries off:

```
client(retries=0)
```
"""
DOCUMENT = Document(id="m", title="Manual", text=TEXT, pages=(Page(1, 0, 80), Page(2, 80, len(TEXT))))


def context_of(
    document: Document, question: str, strategy: str, embedder: HashEmbedder | None = None
) -> tuple[Context, ScriptedReader]:
    """Assemble the context of one document whose leaves all have the same score."""
    store = memory_store([document], embedder)
    reader = ScriptedReader(store, {leaf.id: 0.5 for leaf in store.document_rows([document.id])[0]["leaf"]})
    return assemble(strategy, question, reader, 300, Models(count_tokens)), reader


def answer_of(document: Document, context: Context) -> Answer:
    models = Models(count_tokens)
    return answer(Request(context, {document.id: document}.get, models), models)


def ask(
    question: str, embedder: HashEmbedder | None = None, document: Document = DOCUMENT, strategy: str = "weave"
) -> Answer:
    context, reader = context_of(document, question, strategy, embedder)
    if context.evidence is None:
        context = replace(context, evidence=evidence_in(context, reader))
    models = Models(count_tokens, embedder)
    return answer(Request(context, {document.id: document}.get, models), models)


@pytest.mark.parametrize("strategy", ["weave", "topk", "auto-merge"])
def test_the_best_sentence_is_quoted_and_cited(strategy: str) -> None:
    for embedder in (None, HashEmbedder()):
        found = ask("What is the default timeout?", embedder, strategy=strategy)
        assert found.found
        first = found.citations[0]
        assert first.text.startswith("The default timeout is five seconds.")
        assert TEXT[first.span.start : first.span.end] == first.text
        assert (first.title, first.headings, first.page) == ("Manual", ("Timeouts",), 1)
        line = next(line for line in found.text.splitlines() if line.startswith("“"))
        assert line == f"“{first.text}” [{first.number}]"
        assert found.context.passages[first.number - 1].headings == (() if strategy == "auto-merge" else ("Timeouts",))
        assert 1 <= len(found.citations) <= SENTENCES


def test_quotations_of_several_lines_are_separate_paragraphs() -> None:
    found = ask("What is the default timeout, and how often is a request tried again?")
    first, second = found.text.removeprefix(f"{LIKELY}\n\n").split("\n\n")
    assert first == "“The default timeout is five seconds. It applies to every request.” [1]"
    assert second.splitlines()[-1] == "    client(retries=0)” [2]", "code keeps its lines"


def test_a_sentence_is_quoted_with_the_code_that_it_announces() -> None:
    found = ask("How do I turn retries off?")
    assert any("To turn retries off:" in c.text and "client(retries=0)" in c.text for c in found.citations)
    assert found.citations[0].page == 2
    assert (
        "\n    client(retries=0)" in found.text and "```" not in found.text
    )  # code keeps its lines, without its fences


def test_a_quotation_of_code_ends_with_the_code() -> None:
    code = "   Opens a session so::\n\n       with open_session() as it:\n           it.run()\n"
    text = (
        f"Client\n======\n\n.. function:: open_session()\n\n{code}\n   .. note::\n\n      It is not safe for threads.\n"
    )
    found = ask("How do I open a session?", document=Document(id="c", title="", text=text))
    quoted = next(citation.text for citation in found.citations if "it.run()" in citation.text)
    assert quoted.endswith("it.run()")


def test_citations_tell_where_the_answer_quotes_them() -> None:
    for question in (
        "How do I turn retries off?",
        "What is the default timeout, and how often is a request tried again?",
    ):
        found = ask(question)
        assert all(found.text[slice(*one.quoted)] for one in found.citations if one.quoted)
        rest = found.text
        for start, end in sorted((one.quoted for one in found.citations if one.quoted), reverse=True):
            rest = rest[:start] + rest[end:]
        words = found.text.count("“")
        assert rest.count("“” [") == words == len(found.citations)


def test_a_row_is_quoted_with_its_header() -> None:
    rows = "\n".join(f"| opt{i} | {i} | a setting that few people ever need to change, number {i} |" for i in range(12))
    table = Document(id="t", title="Options", text=f"| name | default | about |\n|---|---|---|\n{rows}")
    found = ask("What is the default of opt7?", document=table)
    row = next(citation for citation in found.citations if "opt7" in citation.text)
    assert "| name | default | about |" in found.citations[0].text
    assert found.text.index("name | default") < found.text.index("opt7") and row.number == found.citations[0].number


def test_quotations_omit_mark_up_and_citations_keep_it() -> None:
    text = "The **default** timeout is [five seconds](https://example.org/timeouts)."
    found = ask("What is the default timeout?", document=Document(id="d", title="", text=text))
    assert "“The default timeout is five seconds .”" in found.text.replace("seconds.", "seconds .")
    assert found.citations[0].text == text


def test_marks_of_a_document_are_escaped() -> None:
    prose = "The default timeout is five seconds [1], as in the standard [12]. See [1984]. Set:"
    text = f"# Timeouts [1]\n\n{prose}\n\n    limits[1] = 5\n"
    found = ask("What is the default timeout in seconds?", document=Document(id="d", title="", text=text))
    assert r"five seconds \[1], as in the standard \[12]. See [1984]." in found.text
    assert found.text.endswith("” [1]") and "    limits[1] = 5" in found.text
    cited = found.citations[0]
    assert "seconds [1], as" in cited.text and text[cited.span.start : cited.span.end] == cited.text


def test_an_unlikely_answer_shows_the_nearest_places() -> None:
    for embedder in (None, HashEmbedder()):
        found = ask("Who painted the ceiling of the Sistine Chapel?", embedder)
        assert (found.found, found.sure) == (False, False)
        assert found.text.startswith(f"{NEAREST}\n\n“") and found.citations


def test_an_empty_context_finds_nothing() -> None:
    store = memory_store([DOCUMENT])
    context = assemble("topk", "q", ScriptedReader(store, {}), 300, Models(count_tokens))
    models = Models(count_tokens)
    assert not answer(Request(context, store.document, models), models).found


def evidence(span: tuple[int, int], relevance: float, terms: float, cosine: float | None = 0.5) -> Evidence:
    at = Span("m", *span)
    return Evidence(at, TEXT[at.start : at.end], (at,), relevance, cosine, terms, terms)


def with_evidence(*given: Evidence) -> Answer:
    context, _ = context_of(DOCUMENT, "What is the default timeout?", "topk")
    return answer_of(DOCUMENT, replace(context, evidence=given))


TIMEOUT = (TEXT.index("The default"), TEXT.index(" It applies"))
APPLIES = (TEXT.index("It applies"), TEXT.index("\n\n## Retries"))


def test_confidence_selects_the_introduction(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [evidence(TIMEOUT, 0.05, 0.2), evidence(APPLIES, 0.0001, 0)]
    found, sure = 0.4, 0.58
    monkeypatch.setattr(Signals, "found", lambda self: found)
    monkeypatch.setattr(Signals, "sure", lambda self: sure)
    assert (with_evidence(*given).found, with_evidence(*given).sure) == (True, True)
    assert with_evidence(*given).text.startswith("“")
    sure = 0.57
    likely = with_evidence(*given)
    assert (likely.found, likely.sure) == (True, False) and likely.text.startswith(f"{LIKELY}\n\n“")
    found, sure = 0.39, 0.9
    nothing = with_evidence(*given)
    assert (nothing.found, nothing.sure) == (False, False) and nothing.text.startswith(f"{NEAREST}\n\n“")
    assert [one.span for one in likely.citations] == [one.span for one in nothing.citations]


def test_a_sure_sentence_grows_by_its_neighbours() -> None:
    found = with_evidence(evidence(TIMEOUT, 0.999, 1.0, 0.9), evidence(APPLIES, 0.0001, 0))
    assert found.sure
    assert [c.text for c in found.citations] == ["The default timeout is five seconds. It applies to every request."]


def test_evidence_outside_of_the_context_is_not_quoted() -> None:
    outside = Evidence(Span("other", 0, 5), "Other", (Span("other", 0, 5),), 0.999, 0.9, 1.0, 1.0)
    assert [c.span.doc_id for c in with_evidence(outside, evidence(TIMEOUT, 0.9, 1.0)).citations] == ["m"]
    assert not with_evidence(outside).found


@given(st.floats(0, 1), st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_more_relevant_sentence_answers_more_probably(
    relevance: float, cosine: float, terms: float, more: float
) -> None:
    def p(relevance: float, terms: float) -> float:
        known = extractive.features(evidence(TIMEOUT, relevance, terms, cosine), frozenset({"default"}))
        return probability(known)

    assert 0 <= p(relevance, terms) <= p(max(relevance, more), max(terms, more)) <= 1


def test_a_heading_introduces_a_quotation_that_lacks_its_number() -> None:
    text = "# Changes\n\n## 4.2\n\nWidgets can be painted.\n\n## 4.1\n\nGadgets can be sold.\n"
    document = Document(id="c.md", title="Changes", text=text)
    span = Span("c.md", text.index("## 4.2"), text.index("\n\n## 4.1"))
    heading = Span("c.md", text.index("## 4.1"), text.index("\n\nGadgets"))
    context, _ = context_of(document, "In which release can widgets be painted?", "auto-merge")
    context = replace(context, passages=(replace(context.passages[0], spans=(Span("c.md", 0, len(text)),)),))
    given = [Evidence(at, text[at.start : at.end], (at,), 0.9, 0.5, 0.9, 0.9) for at in (heading, span)]
    found = answer_of(document, replace(context, evidence=tuple(given)))
    assert [citation.text for citation in found.citations] == ["Widgets can be painted."]
    assert "4.2: “Widgets can be painted.” [1]" in found.text


def test_code_is_quoted_completely_or_with_an_ellipsis() -> None:
    code = "```\n" + "".join(f"line_{i} = {i}\n" for i in range(12)) + "```"
    text = f"Set the widget:\n\n{code}\n"
    document = Document(id="w.md", title="", text=text)
    middle = Span("w.md", text.index("line_3"), text.index("\nline_5"))
    context, _ = context_of(document, "How is the widget line_3 set?", "auto-merge")
    given = (Evidence(middle, text[middle.start : middle.end], (middle,), 0.9, 0.5, 0.9, 0.9),)
    whole, cut = (
        answer_of(document, replace(context, passages=(replace(context.passages[0], spans=(span,)),), evidence=given))
        for span in (Span("w.md", 0, len(text)), middle)
    )
    assert [citation.text for citation in whole.citations] == [code]
    assert "…\n    line_3 = 3\n    line_4 = 4\n…”" in cut.text


def test_an_unsure_answer_begins_with_the_quotation_that_has_the_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sentences of the same rank: the one with more of the question's terms, by itself or by its headings, comes first."""
    monkeypatch.setattr(Signals, "sure", lambda self: 0.0)
    text = "## Values\n\nOthers are pruned.\n\n## Backends of graphs\n\nEither is fine: rdbms.\n"
    document = Document("g", text)
    spans = [
        Span("g", text.index(said), text.index(said) + len(said)) for said in ("Others are", "Either is fine: rdbms.")
    ]
    evidence = tuple(Evidence(span, text[span.start : span.end], (span,), 0.5, None, 0.5, 0.5) for span in spans)
    context, _ = context_of(document, "Which backends may graphs have?", "weave")
    said = answer_of(document, replace(context, evidence=evidence))
    assert [citation.span for citation in said.citations] == spans[::-1]
