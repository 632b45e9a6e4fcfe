"""Handmade contexts, and a parser of pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser

from mergewise.types import Answer, Cause, Citation, Context, Document, HopNote, Passage, Span, Step

VOID = {"meta", "link", "input"}

CATS = Document(
    "docs/cats.md",
    "# Cats\n\n## Sleep\n\nCats sleep a lot. They sleep sixteen hours a day. Kittens sleep more.\n\n"
    "## Food\n\nCats eat Kibble. Kibble is dry. It keeps.\n",
    title="Cats",
)
KIBBLE = Document("docs/kibble.md", "# Kibble\n\nKibble was invented in 1860. It was made in London.\n", title="Kibble")


def lookup(doc_id: str) -> Document | None:
    return {document.id: document for document in (CATS, KIBBLE)}.get(doc_id)


def at(document: Document, words: str) -> Span:
    """Return the span of the words in a document."""
    start = document.text.index(words)
    return Span(document.id, start, start + len(words))


def passage(document: Document, *words: str, headings: tuple[str, ...] = (), score: float = 0.5) -> Passage:
    return Passage(" …\n".join(words), score, tuple(at(document, w) for w in words), True, document.title, headings)


def context(
    passages: Sequence[Passage], trace: Sequence[Step] = (), strategy: str = "weave", **more: object
) -> Context:
    values = {"question": "When was kibble invented?", "budget": 100, "tokens": 60, "text": "", **more}
    return Context(strategy=strategy, passages=tuple(passages), trace=tuple(trace), **values)  # type: ignore[arg-type]


def hop(number: int, name: str, evidence: Span, target: Span, score: float) -> Step:
    """Return a step from evidence over a name to a section."""
    reason = f"{number}: the evidence names “{name}”"
    return Step("hop", reason, (evidence,), target, score, HopNote(number, name), Cause.LINK)


def hopping() -> Context:
    """Return a context with a hop from a sentence on cats to the page on kibble, and with left-out candidates."""
    eaten, made = at(CATS, "Cats eat Kibble."), at(KIBBLE, "Kibble was invented in 1860.")
    return context(
        [passage(CATS, "Cats eat Kibble.", headings=("Food",)), passage(KIBBLE, "Kibble was invented in 1860.")],
        [
            Step("search", "3 leaves, 7 sentences"),
            hop(1, "kibble", eaten, at(KIBBLE, KIBBLE.text[10:-1]), 0.7),
            Step("take", "it holds kibble", (eaten,), score=0.61),
            Step("take", "a hop by “kibble”; it holds invented", (made,), score=0.83, cause=Cause.HOP),
            Step("left", "12 tokens, 4 left", (at(KIBBLE, "It was made in London."),), score=0.4),
            Step("left", "repeats", (at(CATS, "Kittens sleep more."),), score=0.2),
        ],
    )


def answered() -> Answer:
    made = at(KIBBLE, "Kibble was invented in 1860.")
    citation = Citation(2, "Kibble was invented in 1860.", made, "Kibble")
    return Answer("When was kibble invented?", "“Kibble was invented in 1860.” [2]", (citation,), hopping())


@dataclass
class Element:
    name: str
    attributes: dict[str, str | None]
    text: str = ""


class Page(HTMLParser):
    """The elements of a page, each with all text inside it. Raises AssertionError for tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(page)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().name == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, name: str, class_: str | None = None) -> list[Element]:
        return [e for e in self.elements if e.name == name and (class_ is None or class_ in _classes(e))]

    def one(self, name: str, class_: str | None = None) -> Element:
        (found,) = self.all(name, class_)
        return found

    def ids(self) -> list[str]:
        return [value for e in self.elements if (value := e.attributes.get("id"))]

    def targets(self) -> list[str]:
        links = [e.attributes.get("href") or "" for e in self.all("a")]
        return [link.removeprefix("#") for link in links if link.startswith("#")]


def _classes(element: Element) -> list[str]:
    return (element.attributes.get("class") or "").split()
