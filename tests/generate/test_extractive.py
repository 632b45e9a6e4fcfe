from __future__ import annotations

from tests.support import HashEmbedder, ScriptedReader, memory_store

from mergewise.assemble import Models, assemble
from mergewise.generate.extractive import NOT_FOUND, SENTENCES, answer
from mergewise.generate.mode import Request
from mergewise.models.tokens import count_tokens
from mergewise.types import Answer, Document, Page

TEXT = """## Timeouts

The default timeout is five seconds. It applies to every request.

## Retries

A request is tried again three times. To turn retries off:

```
client(retries=0)
```
"""
DOCUMENT = Document(id="m", title="Manual", text=TEXT, pages=(Page(1, 0, 80), Page(2, 80, len(TEXT))))


def ask(question: str, embedder: HashEmbedder | None = None) -> Answer:
    store = memory_store([DOCUMENT], embedder)
    reader = ScriptedReader(store, {leaf.id: 0.5 for leaf in store.stored(["m"])[0]["leaf"]})
    context = assemble("topk", question, reader, 300, Models(count_tokens))
    return answer(Request(context, store.document, count_tokens, embedder))


def test_the_best_sentence_is_quoted_and_cited() -> None:
    for embedder in (None, HashEmbedder()):
        found = ask("What is the default timeout?", embedder)
        assert found.found
        first = found.citations[0]
        assert first.text == "The default timeout is five seconds."
        assert TEXT[first.span.start : first.span.end] == first.text
        assert (first.title, first.headings, first.page) == ("Manual", ("Timeouts",), 1)
        assert f"“{first.text}” [{first.number}]" in found.text
        assert found.context.passages[first.number - 1].headings == ("Timeouts",)
        assert 1 <= len(found.citations) <= SENTENCES


def test_what_a_sentence_announces_is_quoted_with_it() -> None:
    quoted = ask("How do I turn retries off?").citations
    assert any("To turn retries off:" in c.text and "client(retries=0)" in c.text for c in quoted)
    assert quoted[0].page == 2


def test_nothing_relevant_is_said_plainly() -> None:
    found = ask("Who painted the ceiling of the chapel?")
    assert (found.found, found.text, found.citations) == (False, NOT_FOUND, ())


def test_an_empty_context_finds_nothing() -> None:
    store = memory_store([DOCUMENT])
    context = assemble("topk", "q", ScriptedReader(store, {}), 300, Models(count_tokens))
    assert not answer(Request(context, store.document, count_tokens)).found
