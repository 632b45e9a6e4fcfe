"""JSON Lines and JSON: a record is a unit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.readers.documents import Read, Refusal, titles, units

from mergewise.readers import records


def lines(*values: Any) -> str:
    return "\n".join(json.dumps(value, ensure_ascii=False) for value in values) + "\n"


def test_records_with_a_text(read_bytes: Read) -> None:
    first = {
        "id": 1,
        "Title": "Von Enten",
        "text": "Enten  schwimmen.\n\nGänse auch.",
        "tags": ["a", "b"],
        "vector": [0.1] * 300,
    }
    document = read_bytes(
        "a.jsonl", lines(first, {"content": "Plain.", "meta": {"author": {"name": "Ann"}, "ok": True}})
    )
    assert document.text == (
        "Von Enten\n\nid: 1; tags: a, b\nEnten schwimmen.\nGänse auch.\n\nmeta.author.name: Ann; meta.ok: true\nPlain."
    )
    assert units(document) == document.text.split("\n\n")[1:]
    assert titles(document) == ["Von Enten"]
    assert document.title == "a"


def test_records_without_a_text(read_bytes: Read) -> None:
    source = lines({"name": "Mallard", "size": 3.5, "none": None, "places": [{"x": 1}, {"x": 2}]}, "word", [1, 2], 7)
    assert units(read_bytes("a.ndjson", source)) == [
        "name: Mallard; size: 3.5; places.x: 1; places.x: 2",
        "word",
        "1, 2",
        "7",
    ]


def test_long_text_is_not_a_unit(read_bytes: Read) -> None:
    text = "Ducks swim in the pond. " * 100
    document = read_bytes("a.jsonl", lines({"title": "Ducks", "url": "x", "text": text}))
    assert document.units == ()
    assert document.text.startswith("Ducks\n\nurl: x\n\nDucks swim")


def test_parts_of_a_long_record_begin_with_its_first_field(read_bytes: Read) -> None:
    document = read_bytes("a.jsonl", lines({f"key{n}": "value" for n in range(400)}))
    assert document.units == ()
    parts = document.text.split("\n\n")
    assert all(len(part) <= 1_200 and part.startswith("key0: value; ") and part.endswith("value") for part in parts)
    assert "; ".join(parts).count("key") == 400 + len(parts) - 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([{"text": "a"}, {"text": "b"}], ["a", "b"]),
        ({"source": "x", "data": [{"text": "a"}]}, ["source: x", "a"]),
        ({"data": [{"text": "a"}], "other": [{"b": 1}]}, ["other.b: 1", "a"]),
        ({"name": "duck", "deps": {"a": "1", "b": "2"}}, ["name: duck", "deps.a: 1; deps.b: 2"]),
        ("word", ["word"]),
    ],
)
def test_json(read_bytes: Read, value: Any, expected: list[str]) -> None:
    assert units(read_bytes("a.json", json.dumps(value, indent=2))) == expected


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", '\n\n{"a": \n', "invalid JSON in line 3: Expecting value"),
        ("a.json", '{"a": 1}\n{"b": 2}', "invalid JSON in line 2: Extra data"),
        ("a.json", "{}", "no text"),
        ("a.jsonl", "[" * 100_000, "nested too deeply"),
        ("a.jsonl", "null\n", "no text"),
    ],
)
def test_unreadable_files(refusal: Refusal, name: str, content: str, reason: str) -> None:
    assert refusal(name, content) == reason


def test_too_many_records(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_ROWS", 3)
    assert refusal("a.jsonl", "1\n" * 4) == "more than 3 records: split it"


def test_nested_values_are_read_up_to_a_depth(read_bytes: Read) -> None:
    deep: Any = "end"
    for _ in range(50):
        deep = {"k": deep}
    assert read_bytes("a.jsonl", lines({"text": "a", "deep": deep})).text == "a"


def test_a_bad_line_loses_only_itself(read_bytes: Read, caplog: pytest.LogCaptureFixture) -> None:
    document = read_bytes("a.jsonl", '{"text": "Owls."}\n{"text": oops\n{"text": "Ducks."}\n')
    assert document.text == "Owls.\n\nDucks."
    assert "a.jsonl: left out: invalid JSON in line 2" in caplog.text
