"""Results of tools as texts. Texts of documents are fenced, and no result is longer than `MOST_TOKENS`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import mergewise as mw
from mergewise.extend import code_for, heading_path, on_one_line, quotation, warning
from mergewise.server.answers import supported_citations, unsupported_remark
from mergewise.server.openai.markup import without_images
from mergewise.server.records import Json

MOST_TOKENS = 8000
# tokens of the warning and of the final note
_FRAME = 300
# tokens of the two lines around a quotation
_LINES = 40
ROOM = MOST_TOKENS - _FRAME
# maximum characters per token: longer texts are cut before their tokens are counted
_REACH = 8
# characters at the end in which a line or word end is searched
_SEAM = 200
_LONGEST_TITLE = 200


class Quoted(NamedTuple):
    """An untrusted text, with a name that we give it."""

    name: str
    text: str


def fence_texts(texts: Sequence[Quoted], note: str = "") -> str:
    """Fence each text between two lines with a code, with a warning before the texts and our own note after them."""
    code = code_for([part for one in texts for part in (one.name, one.text)])
    return "\n\n".join([warning(code), *(quotation(one.name, one.text, code) for one in texts), *filter(None, [note])])


def beginning(text: str, most: int) -> str:
    """Cut the text to `most` tokens, at the end of a line or word if one is near."""
    kept = text[: _REACH * most]
    while (tokens := mw.count_tokens([kept])[0]) > most:
        kept = kept[: min(len(kept) - 1, len(kept) * most * 19 // (tokens * 20))]
    if len(kept) == len(text):
        return kept
    seam = max(kept.rfind("\n", len(kept) - _SEAM), kept.rfind(" ", len(kept) - _SEAM))
    return kept[: seam + 1] if seam > 0 else kept


def first_that_fit(texts: Sequence[Quoted]) -> list[Quoted]:
    """Return the first texts that fit into `ROOM` tokens together, or the beginning of the first one if it does not fit."""
    kept: list[Quoted] = []
    left = ROOM
    for one, tokens in zip(texts, mw.count_tokens([one.text for one in texts]), strict=True):
        left -= tokens + _LINES
        if left < 0:
            break
        kept.append(one)
    if texts and not kept:
        return [Quoted(texts[0].name, beginning(texts[0].text, ROOM - _LINES))]
    return kept


def short_title(title: str) -> str:
    line = on_one_line(title)
    return line if len(line) <= _LONGEST_TITLE else line[: _LONGEST_TITLE - 1] + "…"


def context_text(context: Json, collection: str) -> str:
    """Write the passages, each with its mark, its headings and its place."""
    passages = []
    for one in context["passages"]:
        written = "" if one["verbatim"] else " (written, not quoted)"
        passages.append(Quoted(f"passage [{one['mark']}]", f"{place_line(one)}{written}\n{one['text']}"))
    if not passages:
        return "No passage was found. Ask in other words, or see list_documents."
    shown = first_that_fit(passages)
    note = [f"{len(shown)} passages from the collection {collection}. Cite them by their numbers."]
    if len(shown) < len(passages):
        note.append(f"{len(passages) - len(shown)} more did not fit: ask with a smaller budget, or for less at once.")
    note.append("To read on around a passage, call read_document with its id, and with start.")
    return fence_texts(shown, " ".join(note))


def answer_text(answer: Json, collection: str) -> str:
    """Write the answer with its marks, and the places that it cites."""
    text = without_images(answer["answer"])
    said = beginning(text, ROOM - _LINES)
    remark = unsupported_remark(answer)
    cited = [Quoted("remark", without_images(remark))] if remark else []
    cited += [
        Quoted(f"source [{one['mark']}]", f"{place_line(one)}\n{one['text']}") for one in supported_citations(answer)
    ]
    shown = first_that_fit([Quoted("answer", said), *cited])
    note = [f"The answer is from the collection {collection}."]
    if len(said) < len(text):
        note.append("It is cut here.")
    if left_out := len(cited) + 1 - len(shown):
        note.append(f"{left_out} more places that it cites did not fit; build_context shows passages.")
    if not answer["found"]:
        note.append("It is probably not in the documents; the places, if any, are the nearest ones.")
    elif not answer["sure"]:
        note.append("It is not sure that this answers the question.")
    if answer["unverified"]:
        note.append(f"{len(answer['unverified'])} of its sentences are not supported by what they cite.")
    if not answer["complete"]:
        note.append("The model stopped at its limit of tokens.")
    return fence_texts(shown, " ".join(note))


def fitting_documents(documents: Sequence[Json]) -> int:
    """Count the first documents that fit into a list, at least one."""
    costs = accumulate(tokens + 1 for tokens in mw.count_tokens([_document_line(document) for document in documents]))
    return max(1, sum(cost <= ROOM - _LINES for cost in costs))


def documents_text(documents: Sequence[Json], collection: str, note: str) -> str:
    """Write one line per document."""
    lines = "\n".join(_document_line(document) for document in documents)
    return fence_texts([Quoted(f"documents of {collection}", lines)], note)


def _document_line(document: Json) -> str:
    title = "" if document["title"] in ("", document["id"]) else f" ({short_title(document['title'])})"
    return f"- id {on_one_line(document['id'])}{title}, {document['characters']:,} characters"


def place_line(place: Json) -> str:
    """Write the headings and the place of a passage or a citation on one line."""
    spans = [place["span"]] if "span" in place else place["spans"]
    if not spans:
        # a passage that a model wrote may have no place
        return on_one_line(heading_path("", place["headings"]))
    parts = [f"id {on_one_line(spans[0]['doc'])}", f"characters {spans[0]['start']} to {spans[-1]['end']}"]
    parts += [] if place["page"] is None else [f"page {place['page']}"]
    path = on_one_line(heading_path(place["title"], place["headings"]))
    return f"{path} ({', '.join(parts)})"
