"""Markers by a chat model over real HTTP. For any answer, coverage ends at 1.0, spans are right and counts add up."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mergewise
from mergewise.designs.mrag.markers import Marker, MarkerExtraction, MarkerSettings
from mergewise.engine import Index
from mergewise.errors import UsageError
from mergewise.models.record import Models
from mergewise.models.scripted import ScriptedChat, Turn
from mergewise.types import Document, Message
from tests.conftest import examples
from tests.designs.mrag.marking import BRIDGES, UnevenWriter, answer, asked, good, markers, shown
from tests.support import HashEmbedder, memory_store, reader_of

SETTINGS = MarkerSettings(made="model", segment=48, window=400, overlap=1)


def opened(path: Path, chat: Any, settings: MarkerSettings = SETTINGS, embedder: Any = "none") -> Index:
    return mergewise.open(path, embedder=embedder, settings={"marker": settings}, chat=chat)


def rows_of(index: Index, doc_id: str) -> tuple[Sequence[Marker], MarkerExtraction]:
    (rows,) = index.store.reader().document_rows([doc_id])
    (extraction,) = rows["marking"]
    return rows["marker"], extraction


def assert_sound(index: Index) -> None:
    """Assert that `check` finds no problems, that coverage is 1.0, and that the spans tile the text."""
    assert index.check() == []
    for info in index.documents():
        text = index.document(info.id).text
        found, extraction = rows_of(index, info.id)
        assert {n for marker in found for n in marker.paragraphs} == set(range(extraction.segments))
        spans = sorted({span for marker in found for span in marker.spans})
        assert "".join(text[a:b] for a, b in spans) == text
        assert sum(len(marker.paragraphs) for marker in found if marker.made == "copy") == extraction.uncovered


# -- answers of every kind


def uneven_writer() -> UnevenWriter:
    def spoil(one: dict[str, object]) -> dict[str, dict[str, object]]:
        return {
            "paragraph out of range": {**one, "paragraphs": [10_000]},
            "no key": {**one, "key": ""},
            "too many paragraphs": {**one, "paragraphs": [0, 1, 2, 3, 4]},
        }

    def cut(whole: str) -> str:
        return whole[: whole.rindex('"value": "', 0, len(whole) * 2 // 3) + 12]

    return UnevenWriter(markers, answer, {"value": "Zebedee Quux sold 77123 camels in Atlantis."}, spoil, cut)


def test_answers_of_every_kind(serve: Any, tmp_path: Path) -> None:
    writer = uneven_writer()
    server, chat = serve(writer)
    index = opened(tmp_path / "i", chat)
    report = index.add([Document(f"d{n}", f"# Part {n}\n\n{BRIDGES[n * 40 :]}", f"Bridges {n}") for n in range(6)])
    assert report.added == 6 and not report.failed
    assert_sound(index)
    assert set(writer.kind_of.values()) == set(writer.KINDS), "every kind of answer is covered"
    extractions = [rows_of(index, info.id)[1] for info in index.documents()]
    rejects: Counter[str] = Counter()
    for one in extractions:
        rejects.update(dict(zip(one.rejects, one.reject_counts, strict=True)))
    assert {kind: rejects[kind] for kind in writer.rejects} == dict(writer.rejects)
    assert rejects["ungrounded"] > 0 and all(one.failure == "" for one in extractions)
    assert sum(one.unsupported for one in extractions) > 0
    everything = " ".join(marker.value for info in index.documents() for marker in rows_of(index, info.id)[0])
    assert "Zebedee" not in everything and "camels" not in everything
    paid = sum(one.calls for one in extractions)
    assert paid == len(server.asked) - len(writer.failed), "retries are not billed"


def test_many_formats_and_a_long_paper(serve: Any, tmp_path: Path, formats: Path, bench: Path) -> None:
    writer = uneven_writer()
    server, chat = serve(writer)
    index = opened(tmp_path / "i", chat, MarkerSettings(made="model", window=1024))
    by_suffix = {
        path.suffix: path
        for path in sorted(formats.parent.rglob("*"))
        if path.is_file() and path.stat().st_size < 60_000
    }
    with gzip.open(bench / "covidqa/corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        papers = [json.loads(line) for line in lines]
    paper = max(papers[:40], key=lambda row: len(row["text"]))
    index.add(list(by_suffix.values()), Document("paper", paper["text"], paper["title"]))
    assert len(index) > 3 and len(server.asked) > 20
    assert_sound(index)


paragraph = st.text(st.sampled_from("ab cdé.\n#-| 猫。1[]\"'{}"), min_size=1, max_size=200)


@settings(deadline=None, max_examples=examples(60))
@given(
    st.lists(paragraph, min_size=1, max_size=8).map("\n\n".join),
    st.integers(0, 2**32),
    st.sampled_from(["replace", "drop", "keep"]),
    st.sampled_from(["sentence", "token"]),
    st.sampled_from(["checked", "given"]),
)
def test_spans_are_right_for_any_text_and_any_answer(
    text: str, seed: int, ungrounded: Any, ends: Any, numbering: Any
) -> None:
    draw = random.Random(seed)

    def turn(messages: Sequence[Message]) -> Turn:
        texts = shown(messages)
        made: list[Any] = []
        for number in asked(messages):
            whole = texts[number]
            cut = draw.randrange(len(whole) + 1)
            value = draw.choice([whole, whole[:cut], whole[cut:], "It cost 99 crowns. " + whole[:cut], "", whole[::-1]])
            numbers = draw.choice([[number], [number, number + 1], [number, 99], [], list(range(number, number + 4))])
            made.append({"value": value, "key": draw.choice(["What?", whole[:20], ""]), "paragraphs": numbers})
        listed = answer(made)
        return Turn(draw.choice([listed, listed[: draw.randrange(len(listed) + 1)], listed.replace(",", ",,")]))

    chat = ScriptedChat(turn)
    sizes: dict[str, Any] = {"segment": 16, "window": 64, "overlap": 1}
    own = MarkerSettings(made="model", ungrounded=ungrounded, ends=ends, numbers=numbering, **sizes)
    from mergewise.designs import VIEWS
    from mergewise.index.pipeline import rows_of as made_rows
    from mergewise.models.tokens import count_tokens

    stored = {"leaf": VIEWS["leaf"].dump(), "marker": VIEWS["marker"].dump(own)}
    (rows,) = made_rows([(Document("d", text, "T"), "1")], VIEWS, stored, Models(count_tokens, None, chat))
    if rows["leaf"]:
        assert list(VIEWS["marker"].problems(rows, own, 0)) == []
        assert {n for marker in rows["marker"] for n in marker.paragraphs} == set(range(rows["marking"][0].segments))


# -- failures


def test_failed_document_is_searched_and_retried(serve: Any, tmp_path: Path) -> None:
    down = {"on": True}

    def turn(messages: Sequence[Message]) -> Turn:
        bad = down["on"] and "Brook7 " in messages[-1].text
        return Turn(status=400) if bad else Turn(good(messages))

    server, chat = serve(turn, retries=0)
    index = opened(tmp_path / "i", chat)
    texts = {"a": BRIDGES.replace("Brook7 ", "Brook5 "), "b": BRIDGES, "c": "Cats eat fish. " * 30}
    assert index.add([Document(name, text, name) for name, text in texts.items()]).added == 3
    assert len({repr(request) for request in server.asked}) == len(server.asked), "failed calls are not repeated now"
    assert_sound(index)
    assert rows_of(index, "b")[1].failure and not rows_of(index, "a")[1].failure and not rows_of(index, "c")[1].failure
    assert reader_of(index.store).view("marker").search("bridge of Brook7", 3)
    report = reader_of(index.store).view("marker").report()
    assert list(report.unfinished) == ["b"] and report.fallback_documents == 1
    down["on"] = False
    before = len(server.asked)
    index.add([Document("new", "Dogs bark at the moon. " * 10, "new")])
    assert not rows_of(index, "b")[1].failure and rows_of(index, "b")[1].uncovered == 0
    assert_sound(index)
    again = server.asked[before:]
    assert 2 <= len(again) <= 4, "the new document, and the failed part of the other"
    index.add([Document("new", "Dogs bark at the moon. " * 10, "new")])
    assert len(server.asked) == before + len(again)


# -- searches


def test_search_reads_keys_and_obeys_filters() -> None:
    embedder = HashEmbedder()
    documents = [
        Document("a", "The tower of Arden fell in 1514. " * 3, "A", {"year": 1990}),
        Document("b", "The tower of Arden fell in 1514. Nothing else. " * 3, "B", {"year": 2020}),
    ]
    store = memory_store(documents, embedder, marker=MarkerSettings(segment=16))
    reader = reader_of(store, embedder).view("marker")
    assert {marker.doc_id for marker, _ in reader.search("tower of Arden", 20)} == {"a", "b"}
    some = reader_of(store, embedder, "year > 2000").view("marker").search("tower of Arden", 20)
    assert {marker.doc_id for marker, _ in some} == {"b"}
    assert all(marker.supports and marker.value_tokens > 0 for marker, _ in some)


# -- reports


def test_report_counts_match_the_answers(tmp_path: Path) -> None:
    numbers = count()
    lie = {"value": "Zebedee sold 99 camels in Atlantis.", "key": "Who sold camels?", "paragraphs": [0]}

    def turn(messages: Sequence[Message]) -> Turn:
        next(numbers)
        made = markers(messages)
        return Turn(answer([*made[:-1], lie, {"value": "v"}]))

    own = MarkerSettings(made="model", segment=48, attempts=1, window=100_000)
    index = opened(tmp_path / "i", ScriptedChat(turn, window=32_768), own)
    index.add([Document("a", BRIDGES, "A"), Document("b", BRIDGES[:600], "B")])
    report = reader_of(index.store).view("marker").report()
    extractions = {one.doc_id: one for one in reader_of(index.store).view("marker").extractions()}
    shares = [1 - 1 / extractions[name].segments for name in ("a", "b")]
    assert report.documents == 2 and report.coverage["mean"] == pytest.approx(sum(shares) / 2)
    assert report.coverage["least"] == pytest.approx(min(shares))
    assert report.coverage["variance"] == pytest.approx((shares[0] - shares[1]) ** 2 / 4)
    assert report.fallback_share == pytest.approx(2 / sum(one.segments for one in extractions.values()))
    assert report.rejected == {"no key": 2, "ungrounded": 2} and report.attempts == 1
    assert 0 < report.unsupported_share < 0.2 and report.unsupported_left == 0
    counts = report.as_dict()
    names = "documents coverage fallback_share attempts rejected unsupported_share key_tokens value_tokens".split()
    assert list(counts)[: len(names)] == names and sum(counts["rejected"].values()) == 4 and "rejects" not in counts
    assert counts["coverage"].keys() == {"mean", "variance", "least"}
    assert re.search(r"\d", str(counts["key_tokens"])) and counts["value_tokens"] > counts["key_tokens"]


@pytest.mark.parametrize(("ungrounded", "left"), [("replace", False), ("drop", False), ("keep", True)])
def test_sentences_without_support(ungrounded: Any, left: bool, tmp_path: Path) -> None:
    text = "The bridge of Brook was built in 1901 by Anna Stone. It cost three thousand crowns."
    value = "The bridge of Brook was built in 1901 by Anna Stone. The bridge of Brook was burnt in 1977 by Otto Kern."
    chat = ScriptedChat([answer([{"value": value, "key": "When was the bridge of Brook built?", "paragraphs": [0]}])])
    index = opened(tmp_path / "i", chat, MarkerSettings(made="model", ungrounded=ungrounded))
    index.add(Document("d", text, "D"))
    (marker,), extraction = rows_of(index, "d")
    assert (extraction.sentences, extraction.unsupported) == (2, 1)
    assert ("Otto Kern" in marker.value) is left
    if left:
        assert [s.supported for s in marker.sentences] == [True, False]
        assert any("1977" in flag for flag in marker.sentences[1].flags)
    assert index.check() == []


EXAMPLE = {"key": "Whose is the sloop?", "value": "The sloop is Ada's.", "paragraphs": [3]}


def test_examples_are_stored_as_data(tmp_path: Path) -> None:
    path = tmp_path / "examples.json"
    path.write_text(json.dumps([EXAMPLE]))
    chosen = replace(SETTINGS, examples=str(path))
    with opened(tmp_path / "x", ScriptedChat([]), chosen) as index:
        stored = index.manifest.views["marker"].settings["examples"]
        assert json.loads(stored) == [EXAMPLE]
    # the same file may be named again
    opened(tmp_path / "x", ScriptedChat([]), chosen).close()
    path.unlink()
    chat = ScriptedChat(good)
    with mergewise.open(tmp_path / "x", chat=chat) as index:
        index.add(Document("d", BRIDGES))
        assert "The sloop is Ada's." in chat.asked[0].text
        assert index.check() == []
    with pytest.raises(UsageError, match="cannot read the examples of markers"):
        opened(tmp_path / "y", chat, chosen)
    with pytest.raises(UsageError, match="other settings"):
        opened(tmp_path / "x", chat, replace(SETTINGS, examples="built-in"))


@pytest.mark.parametrize("paragraphs", [[1, "2"], "1", None])
def test_examples_without_paragraphs_are_rejected(tmp_path: Path, paragraphs: object) -> None:
    path = tmp_path / "examples.json"
    path.write_text(
        json.dumps([{"key": "Whose?", "value": "Ada's.", "text": "It is Ada's.", "paragraphs": paragraphs}])
    )
    with pytest.raises(UsageError, match="invalid examples of markers"):
        index = opened(tmp_path / "x", ScriptedChat([]), replace(SETTINGS, examples=str(path)))
        index.add(Document("d", BRIDGES))
