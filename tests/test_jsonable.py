"""JSON for other programs, compared byte for byte."""

from __future__ import annotations

import json
from dataclasses import replace
from types import MappingProxyType

import pytest

from mergewise.jsonable import (
    answer_json,
    comparison_json,
    context_json,
    document_json,
    info_json,
    problem_json,
    report_json,
)
from mergewise.types import (
    AddReport,
    Answer,
    Citation,
    Context,
    DocumentChange,
    DocumentInfo,
    Duplicate,
    Failure,
    Location,
    Origin,
    Passage,
    Problem,
    Span,
    Step,
    Usage,
)

SPAN = Span("d", 2, 9)
CONTEXT = Context(
    "q", "topk", 99, "text", 3, (Passage("text", 0.5, (SPAN,)),), (Step("take", "fits", (SPAN,), SPAN, 0.5),)
)
CONTEXT_JSON = (
    '{"question": "q", "strategy": "topk", "budget": 99, "tokens": 3, "text": "text", "passages": [{"mark": 1, '
    '"doc": "d", "title": "", "headings": [], "page": null, "line": null, "url": null, "text": "text", '
    '"score": 0.5, "verbatim": true, "spans": [{"doc": "d", "start": 2, "end": 9}]}], "trace": ['
    '{"action": "take", "cause": "take", "reason": "fits", "inputs": [{"doc": "d", "start": 2, "end": 9}], '
    '"output": {"doc": "d", "start": 2, "end": 9}, "score": 0.5}], '
    '"usage": {"calls": 0, "input_tokens": 0, "output_tokens": 0, "estimated": false, "unread": 0, '
    '"cached_calls": 0, "cached_input_tokens": 0, "cached_output_tokens": 0}, "snapshot": "", '
    '"complete": null, "may_lack": false}'
)


def test_a_context() -> None:
    assert json.dumps(context_json(CONTEXT)) == CONTEXT_JSON
    assert json.dumps(comparison_json([(CONTEXT, 0.01234)])) == f'[{CONTEXT_JSON[:-1]}, "ms": 12.3}}]'


def test_context_with_places_of_passages() -> None:
    second = Passage("more", 0.25, (Span("e", 0, 4), Span("e", 9, 12)), False, "Title", ("One", "Two"))
    context = replace(CONTEXT, passages=(*CONTEXT.passages, second, Passage("none", 0.1, ())), snapshot="abc")
    places = {SPAN: Location(3, None, "https://example.org"), Span("e", 0, 4): Location(line=7)}
    first, other, written = context_json(context, places)["passages"]
    assert (first["mark"], first["page"], first["line"], first["url"]) == (1, 3, None, "https://example.org")
    assert (other["mark"], other["doc"], other["line"], other["headings"]) == (2, "e", 7, ["One", "Two"])
    assert (written["mark"], written["doc"], written["page"], written["spans"]) == (3, None, None, [])
    answer = Answer("q", "text [1]", (), context)
    assert answer_json(answer, places=places)["context"] == context_json(context, places)
    assert context_json(context)["passages"][0] == {**first, "page": None, "url": None}
    assert context_json(context)["snapshot"] == "abc"
    unsure = context_json(replace(context, complete=0.25))
    assert unsure["complete"] == 0.25 and unsure["may_lack"]
    assert not replace(context, complete=0.9).may_lack and not replace(context, complete=0.1, passages=()).may_lack


def test_an_answer() -> None:
    citation = Citation(1, "text", SPAN, "Title", ("One",), 4)
    answer = Answer("q", "text [1]", (citation,), CONTEXT, Usage(1, 10, 2), mode="fil", unsupported=0.5)
    answer = replace(answer, unverified=("text",), unsupported_extract=0.25)
    start = (
        '{"question": "q", "answer": "text [1]", "found": true, "sure": false, "complete": true, "mode": "fil", '
        '"instead_of": null, '
        '"citations": [{"mark": 1, '
        '"text": "text", "span": {"doc": "d", "start": 2, "end": 9}, "title": "Title", "headings": ["One"], "page": 4, '
        '"line": null, "kind": null, "quoted": null, "commit": null}], '
        '"removed_marks": 0, "unsupported": 0.5, "unverified": ["text"], "unsupported_extract": 0.25, '
        '"usage": {"calls": 1, "input_tokens": 10, "output_tokens": 2, "estimated": false, "unread": 0, '
        '"cached_calls": 0, "cached_input_tokens": 0, "cached_output_tokens": 0, '
    )
    assert json.dumps(answer_json(answer)) == f'{start}"cost": null}}, "trace": [], "context": {CONTEXT_JSON}}}'
    assert answer_json(answer, 100_000.0, 0.0)["usage"]["cost"] == 1.0
    assert answer_json(answer, 0.0, 500_000.0)["usage"]["cost"] == 1.0


def test_info_and_report_of_an_index() -> None:
    document = DocumentInfo("d", "T", {"year": 2020}, 100, 3)
    assert json.dumps(document_json(replace(document, metadata=MappingProxyType({"year": 2020})))) == (
        json.dumps(document_json(document))
    ), "metadata may be any mapping"
    assert json.dumps(info_json(1, {"leaf": 3}, "minilm", 2)) == (
        '{"documents": 1, "views": {"leaf": 3}, "embedder": "minilm", "format": 2}'
    )
    assert json.dumps(info_json(1, {}, "none", 2, [document])) == (
        '{"documents": 1, "views": {}, "embedder": "none", "format": 2, "list": [{"id": "d", "title": "T", '
        '"metadata": {"year": 2020}, "characters": 100, "leaves": 3}]}'
    )
    assert json.dumps(report_json(AddReport(1, 2, 3, (Failure("f", "empty"),)))) == (
        '{"added": 1, "replaced": 2, "unchanged": 3, "failed": [{"source": "f", "reason": "empty"}], '
        '"removed": 0, "moved": 0, "duplicates": [], "left_out": {}, "changes": [], "updated": 0, "gone": [], "excluded": 0, '
        '"outward": [], "textless": []}'
    )
    changed = AddReport(
        removed=1,
        moved=1,
        duplicates=(Duplicate("b", "a"),),
        left_out=((".png", 2),),
        changes=(DocumentChange("moved", "new", "old"), DocumentChange("removed", "gone")),
    )
    told = report_json(changed)
    assert (told["removed"], told["moved"], told["left_out"]) == (1, 1, {".png": 2})
    assert told["duplicates"] == [{"id": "b", "same_as": "a"}]
    assert told["changes"][0] == {"action": "moved", "id": "new", "was": "old"}
    from_file = DocumentInfo("d", "T", {}, 100, 3, Origin("docs/d.md", 120, 1_700_000_000))
    assert document_json(from_file) == {
        "id": "d", "title": "T", "metadata": {}, "characters": 100, "leaves": 3,
        "source": "docs/d.md", "bytes": 120, "modified": 1_700_000_000,
    }  # fmt: skip
    assert info_json(1, {}, "none", 3, None, {"formats": {".md": 1}})["formats"] == {".md": 1}
    assert json.dumps(problem_json(Problem("lost", "d"))) == '{"what": "lost", "document": "d"}'


def test_each_context_of_a_comparison_has_its_own_spans() -> None:
    with pytest.raises(ValueError, match="shorter"):
        comparison_json([(CONTEXT, 0.1), (CONTEXT, 0.2)], [[SPAN]])
