"""Conversion of an answer to a message with annotations, complete or in chunks.

The answer has the form of the native API (`Answer`). There is an annotation for each mark from 1 to the highest cited one, cited
or not, because chat programs number sources in their order. Each has a different address, because programs merge sources with
the same address.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, field
from typing import NamedTuple
from urllib.parse import quote

from mergewise.server.answers import supported_citations, unsupported_remark
from mergewise.server.collection_query import QuestionEvent
from mergewise.server.collections import key_of
from mergewise.server.logs import log
from mergewise.server.openai.markup import ImageEscaper, literal, position_without_images, without_images
from mergewise.types import Json, JsonDict, Usage, frozen

_CHUNK = "chat.completion.chunk"
_WEB = re.compile(r"https?://(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d+)?(?=[/?#]|\Z)", re.ASCII | re.IGNORECASE)


@frozen
class CompletionStyle:
    """Style of answers.

    Attributes:
        footer: Append the sources as text.
        open_webui: Send the sources as events of Open WebUI.
        remark: Append a remark that quotes unsupported sentences.
        is_markdown: Escape images, and the Markdown in titles and quotes.
    """

    footer: bool = False
    open_webui: bool = False
    remark: bool = True
    is_markdown: bool = True

    def end_of(self, answer: Json, sources: Sequence[MarkedSource]) -> str:
        """Return the text below the answer: a remark on unsupported sentences, a notice, the sources."""
        remark = literal(unsupported_remark(answer), self.is_markdown) if self.remark else ""
        indexing = answer.get("indexing")
        # programs show no other field
        notice = f"{indexing['notice']}." if indexing and not answer["found"] else ""
        parts = remark, notice, footer(sources, self.is_markdown) if self.footer else ""
        return "".join(f"\n\n{part}" for part in parts if part)


class MarkedSource(NamedTuple):
    """The source of a mark. `answer_span` is its first citation in the sent text, or (0, 0). `doc` is the document's id."""

    mark: int
    url: str
    title: str
    page: int | None
    excerpt: str
    place: str
    answer_span: tuple[int, ...] = (0, 0)
    doc: str = ""

    @property
    def label(self) -> str:
        return self.title if self.page is None else f"{self.title}, p. {self.page}"

    @property
    def web_url(self) -> str | None:
        """The address, if a browser can open it."""
        return self.url if self.url.startswith("http") else None

    @property
    def citation(self) -> JsonDict:
        """The address, the title and the place in the sent text."""
        start, end = self.answer_span
        return {"url": self.url, "title": self.label, "start_index": start, "end_index": end}


def marked_sources(
    answer: Json, passages: Sequence[Json], base: str = "", is_markdown: bool = True
) -> list[MarkedSource]:
    """Return the sources of the marks from 1 to the highest one that is cited by a supported sentence.

    `base` completes addresses of this server.
    """
    cited: dict[int, Json] = {}
    for one in supported_citations(answer):
        cited.setdefault(one["mark"], one)
    by_mark = {passage["mark"]: passage for passage in passages}
    taken: set[str] = set()
    sources = []
    for mark in range(1, max(cited, default=0) + 1):
        citation, passage = cited.get(mark), by_mark.get(mark)
        place: Json = citation or passage or {"spans": []}
        spans = [place["span"]] if "span" in place else place["spans"]
        if not spans:
            sources.append(MarkedSource(mark, f"urn:mergewise:source:{mark}", f"source {mark}", None, "", f"mw:{mark}"))
            continue
        doc_id = spans[0]["doc"]
        anchor = f"{key_of(doc_id)}#{spans[0]['start']}-{spans[-1]['end']}"
        url = web_address(place["url"], base) or f"urn:mergewise:document:{anchor}"
        if url in taken or f"mw:{anchor}" in taken:
            # two marks have the same place, or the same document with its own address
            url, anchor = f"{url}{'&' if '#' in url else '#'}mark={mark}", f"{anchor}/{mark}"
        taken |= {url, f"mw:{anchor}"}
        title = " ".join((place["title"] or doc_id).split())
        excerpt = without_images((passage or place)["text"][:2_000], is_markdown)
        first = next(iter(citation["answer_spans"] if citation else ()), {"start": 0, "end": 0})
        at = [position_without_images(answer["answer"], first[side], is_markdown) for side in ("start", "end")]
        sources.append(MarkedSource(mark, url, title, place["page"], excerpt, f"mw:{anchor}", tuple(at), doc_id))
    return sources


def file_of(passage: Json) -> JsonDict:
    """Return the document of a found passage as a file, with the score."""
    doc = passage["doc"] or ""
    return {"file_id": key_of(doc), "filename": passage["title"] or doc, "score": passage["score"]}


def web_address(url: object, base: str = "") -> str | None:
    """Return a web address, or a path of the server at `base` as a web address. Return None for any other address.

    Characters with a meaning in mark-up are percent-encoded, so that the address is safe in Markdown.
    """
    if not isinstance(url, str):
        return None
    if url.startswith("/") and not url.startswith("//"):
        url = base.rstrip("/") + url
    found = _WEB.match(url)
    return (
        None
        if found is None or not url.isprintable()
        else found[0] + quote(url[found.end() :], safe="/?#%&=+,;:@~$-._")
    )


def url_citations(sources: Sequence[MarkedSource]) -> list[JsonDict]:
    return [{"type": "url_citation", "url_citation": source.citation} for source in sources]


def footer(sources: Sequence[MarkedSource], is_markdown: bool = True) -> str:
    """Format the sources as a line. Return an empty string without sources."""
    if not sources:
        return ""
    lines = [
        f"[{source.mark}] {literal(source.label, is_markdown)}" + (f" ({source.web_url})" if source.web_url else "")
        for source in sources
    ]
    return "Sources: " + "; ".join(lines)


def open_webui_events(sources: Sequence[MarkedSource]) -> Iterator[JsonDict]:
    """Yield the sources as events of Open WebUI.

    Their ids and names are not addresses, so that it loads no icons from other servers. The address is a link in the details of
    the source. They have no distances, which it would show as percentages.
    """
    for source in sources:
        link = {"url": source.web_url} if source.web_url else {}
        data = {
            "source": {"id": source.place, "name": source.label, **link},
            "document": [source.excerpt],
            "metadata": [{"source": source.place, "name": source.label}],
        }
        yield {"event": {"type": "source", "data": data}}


@frozen
class Completion:
    """The frame of a completion. `ignored` lists the parameters that were accepted without effect."""

    id: str
    model: str
    style: CompletionStyle = CompletionStyle()
    base: str = ""
    ignored: Sequence[str] = ()
    # the names of the given limits of tokens
    limits: Sequence[str] = ()
    includes_usage: bool = False
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, answer: Json) -> JsonDict:
        """Return the complete completion of an answer with its context."""
        sources = self.sources(answer, answer["context"]["passages"])
        message = {
            "role": "assistant",
            "content": self.text(answer, sources),
            "refusal": None,
            "annotations": url_citations(sources),
        }
        return {
            **self._frame("chat.completion"),
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason(answer)}],
            "usage": usage(answer),
            "mergewise": self.body(answer),
        }

    def sources(self, answer: Json, passages: Sequence[Json]) -> list[MarkedSource]:
        return marked_sources(answer, passages, self.base, self.style.is_markdown)

    def text(self, answer: Json, sources: Sequence[MarkedSource]) -> str:
        return without_images(answer["answer"], self.style.is_markdown) + self.style.end_of(answer, sources)

    def body(self, answer: Json) -> JsonDict:
        """Return the answer for the field `mergewise`, with the names of the parameters without effect. Log them, too."""
        limits = () if answer["usage"]["output_tokens"] else self.limits
        if ignored := sorted({*self.ignored, *limits, *answer.get("ignored", ())}):
            # a chat program shows no fields of the answer
            log.info("parameters without effect on %s: %s", self.model, ", ".join(ignored)[:200])
        return {**answer, "ignored": ignored}

    async def chunks(self, events: AsyncGenerator[QuestionEvent, None]) -> AsyncGenerator[Json, None]:
        """Yield the chunks of a stream, from the events of a question."""
        escaper = ImageEscaper(self.style.is_markdown)
        passages: Sequence[Json] = ()
        async with aclosing(events):
            async for event in events:
                match event.name:
                    case "started":
                        yield self._chunk({"role": "assistant", "content": ""}, mergewise=event.data)
                    case "context":
                        passages = event.data["passages"]
                    case "delta":
                        if text := escaper.feed(event.data["text"]):
                            yield self._chunk({"content": text})
                    case "done":
                        answer = event.data
                        sources = self.sources(answer, passages)
                        if text := escaper.rest() + self.style.end_of(answer, sources):
                            yield self._chunk({"content": text})
                        if self.style.open_webui:
                            for shown in open_webui_events(sources):
                                yield shown
                        elif sources:
                            yield self._chunk({"annotations": url_citations(sources)})
                        yield self._chunk({}, finish_reason(answer), mergewise=self.body(answer))
                        if self.includes_usage:
                            yield {**self._frame(_CHUNK), "choices": [], "usage": usage(answer)}

    def _chunk(self, delta: Json, finish: str | None = None, mergewise: Json | None = None) -> JsonDict:
        return {
            **self._frame(_CHUNK),
            "choices": [{"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish}],
            **({"usage": None} if self.includes_usage else {}),
            **({} if mergewise is None else {"mergewise": dict(mergewise)}),
        }

    def _frame(self, kind: str) -> JsonDict:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


def task_answer(text: str, tokens: Usage) -> JsonDict:
    """Make the answer to a program's task, which has no sources."""
    return {"answer": text, "citations": [], "complete": True, "usage": asdict(tokens)}


async def task_events(answer: Json) -> AsyncGenerator[QuestionEvent, None]:
    yield QuestionEvent("started", {})
    yield QuestionEvent("delta", {"text": answer["answer"]})
    yield QuestionEvent("done", answer)


def finish_reason(answer: Json) -> str:
    return "stop" if answer["complete"] else "length"


def usage(answer: Json) -> dict[str, int]:
    read, written = answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
