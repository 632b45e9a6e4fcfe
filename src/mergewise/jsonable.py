"""JSON form of the records of `types`, as the command line prints it and servers and reports send it.

Other programs read these keys: a key may be added, but never renamed. Text for people is written in `cli`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from mergewise.types import (
    AddReport,
    Answer,
    Citation,
    Context,
    DocumentInfo,
    Evidence,
    Json,
    JsonDict,
    Location,
    Passage,
    Problem,
    Span,
    Step,
)


def span_json(span: Span) -> JsonDict:
    return {"doc": span.doc_id, "start": span.start, "end": span.end}


def step_json(step: Step) -> JsonDict:
    note = {} if step.note is None else {step.note.kind: step.note.as_dict()}
    return {
        "action": step.action,
        "cause": step.cause.value,
        "reason": step.reason,
        "inputs": list(map(span_json, step.inputs)),
        "output": span_json(step.output) if step.output else None,
        "score": step.score,
        **note,
    }


def context_json(context: Context, places: Mapping[Span, Location] | None = None) -> JsonDict:
    """Describe a context. Offsets are in code points.

    With `places` (`Index.locations`), a passage includes the place of its first span.
    """
    return {
        "question": context.question,
        "strategy": context.strategy,
        "budget": context.budget,
        "tokens": context.tokens,
        "text": context.text,
        "passages": [passage_json(mark, p, places or {}) for mark, p in enumerate(context.passages, 1)],
        "trace": list(map(step_json, context.trace)),
        "usage": asdict(context.usage),
        "snapshot": context.snapshot,
        "complete": context.complete,
        "may_lack": context.may_lack,
    }


def passage_json(mark: int, passage: Passage, places: Mapping[Span, Location]) -> JsonDict:
    """Describe a passage. Answers cite it by the number `mark`."""
    first = passage.spans[0] if passage.spans else None
    place = Location() if first is None else places.get(first, Location())
    return {
        "mark": mark,
        "doc": None if first is None else first.doc_id,
        "title": passage.title,
        "headings": list(passage.headings),
        **asdict(place),
        "text": passage.text,
        "score": passage.score,
        "verbatim": passage.verbatim,
        "spans": list(map(span_json, passage.spans)),
    }


def evidence_json(evidence: Evidence) -> JsonDict:
    return {
        "span": span_json(evidence.span),
        "text": evidence.text,
        "needed": list(map(span_json, evidence.needed)),
        "relevance": evidence.relevance,
        "kind": evidence.kind,
    }


def comparison_json(
    contexts: Sequence[tuple[Context, float]], only: Sequence[Sequence[Span]] | None = None
) -> list[JsonDict]:
    """Describe contexts of several strategies, with their time in seconds. `only` has the spans that no other strategy shows."""
    rows = [{**context_json(context), "ms": milliseconds(seconds)} for context, seconds in contexts]
    for row, spans in zip(rows, only or (), strict=only is not None):
        row["only"] = list(map(span_json, spans))
    return rows


def milliseconds(seconds: float) -> float:
    return round(1000 * seconds, 1)


def answer_json(
    answer: Answer, price_in: float = 0.0, price_out: float = 0.0, places: Mapping[Span, Location] | None = None
) -> JsonDict:
    """Describe an answer with its context. Prices are per million tokens. Without prices, the cost is null."""
    return {**reply_json(answer, price_in, price_out), "context": context_json(answer.context, places)}


def reply_json(answer: Answer, price_in: float = 0.0, price_out: float = 0.0) -> JsonDict:
    """Describe an answer without its context.

    "instead_of" is the mode that the strategy prefers, if its model was missing. "estimated" marks token counts that an endpoint
    did not report.
    """
    usage = answer.usage
    return {
        "question": answer.question,
        "answer": answer.text,
        "found": answer.found,
        "sure": answer.sure,
        "complete": answer.complete,
        "mode": answer.mode,
        "instead_of": answer.instead_of or None,
        "citations": list(map(citation_json, answer.citations)),
        "removed_marks": answer.removed_marks,
        "unsupported": answer.unsupported,
        "unverified": list(answer.unverified),
        "unsupported_extract": answer.unsupported_extract,
        "usage": asdict(usage) | {"cost": usage.cost(price_in, price_out) if price_in or price_out else None},
        "trace": list(map(step_json, answer.trace)),
        **({} if answer.streams is None else {"streams": answer.streams.as_dict()}),
    }


def citation_json(citation: Citation) -> JsonDict:
    return {
        "mark": citation.number,
        "text": citation.text,
        "span": span_json(citation.span),
        "title": citation.title,
        "headings": list(citation.headings),
        "page": citation.page,
        "line": citation.line,
        "kind": citation.kind,
        "quoted": citation.quoted and dict(zip(("start", "end"), citation.quoted, strict=True)),
        "commit": citation.commit,
    }


def report_json(report: AddReport) -> JsonDict:
    rows = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(report).items()}
    return rows | {"left_out": dict(report.left_out)}


def info_json(
    documents: int,
    views: Mapping[str, int],
    embedder: str,
    format: int,
    listed: Sequence[DocumentInfo] | None = None,
    contents: Json | None = None,
) -> JsonDict:
    """Describe an index: number of documents, rows of each view, `listed` documents, and further figures (`contents`)."""
    return {
        "documents": documents,
        "views": dict(views),
        "embedder": embedder,
        "format": format,
        **(contents or {}),
        **({} if listed is None else {"list": list(map(document_json, listed))}),
    }


def document_json(document: DocumentInfo) -> JsonDict:
    return {
        "id": document.id,
        "title": document.title,
        "metadata": dict(document.metadata),
        "characters": document.characters,
        "leaves": document.leaves,
        **({"language": document.language} if document.language else {}),
        **({} if document.origin is None else asdict(document.origin)),
    }


def problem_json(problem: Problem) -> JsonDict:
    return {"what": problem.what, "document": problem.doc_id}
