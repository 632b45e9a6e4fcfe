from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from unicodedata import normalize

import pytest

from mergewise.errors import ReadError, UsageError
from mergewise.inputs import Input, inputs_of, matching
from mergewise.types import Document, Heading

DOCUMENT = Document(id="d", text="Cats eat fish.", title="Cats", metadata={"a": 1, "b": 2})


def test_nested_sources_are_listed_once(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "a.md").write_text("a")
    inputs = inputs_of([tmp_path, [str(tmp_path / "b.txt"), DOCUMENT], replace(DOCUMENT, text="later")])
    assert [Path(item.name).name for item in inputs] == ["a.md", "b.txt", "d"]
    assert inputs[-1].source is DOCUMENT


def test_file_is_named_in_a_deleted_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("a")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    (item,) = inputs_of([tmp_path / "a.md"], tmp_path)
    assert (item.name, item.read()[0].text) == ("a.md", "a")


@pytest.mark.parametrize("wrong", [b"docs", 5, None])
def test_invalid_nested_source_is_refused(wrong: object) -> None:
    for given in ([DOCUMENT, wrong], [[DOCUMENT], wrong]):
        with pytest.raises(UsageError, match="invalid source"):
            inputs_of(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changed",
    [
        replace(DOCUMENT, text="Cats eat mice."),
        replace(DOCUMENT, title="Dogs"),
        replace(DOCUMENT, metadata={"a": 1, "b": 3}),
        replace(DOCUMENT, outline=(Heading(1, "Cats", 0, 4),)),
    ],
)
def test_digest_depends_on_every_stored_field(changed: Document) -> None:
    assert Input("d", changed).digest() != Input("d", DOCUMENT).digest()


def test_the_digest_does_not_depend_on_the_order_of_metadata() -> None:
    turned = replace(DOCUMENT, metadata={"b": 2, "a": 1})
    assert Input("d", turned).digest() == Input("d", DOCUMENT).digest()


def test_digest_of_a_file_is_the_digest_of_its_bytes(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    before = Input("a", file).digest()
    file.write_text("two")
    assert before != Input("a", file).digest() != ""
    assert Input("gone", tmp_path / "gone.txt").digest() == ""


@pytest.mark.parametrize(("text", "reason"), [(" \n", "empty"), ("half \ud83d", "surrogate")])
def test_invalid_text_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(ReadError, match=reason):
        Input("d", Document(id="d", text=text)).read()


@pytest.mark.parametrize("units", [((0, 4), (5, 8)), [[0, 4], [5, 8]], [(0, 4), [5, 8]]])
def test_units_come_as_lists_or_tuples(units: tuple[tuple[int, int], ...]) -> None:
    assert Input("d", replace(DOCUMENT, units=units)).read().document.units == ((0, 4), (5, 8))


def test_a_unit_may_have_a_kind() -> None:
    units: Any = [(0, 4, "row"), [5, 8, "code"]]
    assert Input("d", replace(DOCUMENT, units=units)).read().document.units == ((0, 4, "row"), (5, 8, "code"))


@pytest.mark.parametrize(
    ("units", "reason"),
    [
        ([(0, 4), (3, 8)], r"unit 2 \(3, 8\) begins before the end of unit 1 at 4"),
        ([(5, 8), (0, 4)], r"unit 2 \(0, 4\) begins before the end of unit 1"),
        ([(0, 99)], r"unit 1 \(0, 99\) is empty or outside the text of 14 characters"),
        ([(-3, 4)], "outside the text"),
        ([(4, 4)], "is empty"),
        ([(4, 5)], "only white space"),
        ([(0, 4, 8)], "is not a pair"),
        ([(0, 4, "rows")], "is not a pair"),
        ([(0, 4.0)], "is not a pair"),
        ([(False, True)], "is not a pair"),
        (["04"], "unit 1 '04' is not a pair"),
        ([4], "is not a pair"),
    ],
)
def test_invalid_units_are_reported(units: tuple[tuple[int, int], ...], reason: str) -> None:
    with pytest.raises(ReadError, match=reason):
        Input("d", replace(DOCUMENT, units=units)).read()


@pytest.mark.parametrize("wanted", ["docs/café.md", "café*", "docs/ca*"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_match_in_every_unicode_form(wanted: str, form: Literal["NFC", "NFD"]) -> None:
    sources = dict.fromkeys([f"docs/{normalize('NFD', 'café.md')}", "docs/thé.md"])
    pattern = normalize(form, wanted if wanted.startswith("docs") else f"docs/{wanted}")
    assert matching(pattern, sources) == [normalize("NFD", "docs/café.md")]
