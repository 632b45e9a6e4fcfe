"""The library as a user sees it: open, add, ask, change, remove, check."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.models.scripted import ScriptedChat
from mergewise.store.lance import LanceStore
from tests.support import lance_connection

CATS = "# Cats\n\n## Food\n\nCats eat fish. They drink milk.\n\n## Sleep\n\nCats sleep sixteen hours a day.\n"
DOGS = "# Dogs\n\nDogs bark at night. Dogs eat meat.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "cats.md").write_text(CATS)
    (docs / "sub" / "dogs.md").write_text(DOGS)
    return docs


@pytest.fixture
def index(tmp_path: Path, folder: Path) -> mw.Index:
    made = mw.open(tmp_path / "index", embedder="none")
    made.add(folder)
    return made


def test_add_reports_its_changes(tmp_path: Path, folder: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    assert index.add(folder) == mw.AddReport(added=2)
    assert index.add(folder) == mw.AddReport(unchanged=2)
    (folder / "cats.md").write_text(CATS + "\nThey purr.\n")
    assert index.add(folder, folder / "cats.md") == mw.AddReport(replaced=1, unchanged=1)
    assert len(index) == 2
    assert index.document("docs/cats.md").text.endswith("They purr.\n")
    assert index.check() == []


def test_documents_of_the_caller(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    made = [mw.Document(id=str(i), title=f"T{i}", text=f"Text of {i}.", metadata={"year": 2000 + i}) for i in range(5)]
    assert index.add(made[:4], made[4]).added == 5
    assert [info.id for info in index.documents()] == list("01234")
    assert index.document("3") == made[3]
    assert index.context("text", where="year >= 2003").text.count("Text of") == 2
    changed = mw.Document(id="3", title="T3", text="Text of 3.", metadata={"year": 1999})
    assert index.add(changed).replaced == 1
    assert index.remove(["3", "nope", "3"]) == 1
    with pytest.raises(mw.UsageError, match="unknown document: '3'"):
        index.document("3")


def test_answer_has_exact_spans(index: mw.Index, folder: Path) -> None:
    context = index.context("How long do cats sleep?", budget=60)
    assert 0 < context.tokens <= 60
    for passage in context.passages:
        for span, text in passage.parts():
            assert index.document(span.doc_id).text[span.start : span.end] == text
    answer = index.ask("How long do cats sleep?")
    assert answer.found
    assert answer.citations[0].text == "Cats sleep sixteen hours a day."
    assert answer.citations[0].span.doc_id == "docs/cats.md"


def test_default_budget_depends_on_the_language(tmp_path: Path) -> None:
    russian = "Река берёт начало в горах и впадает в озеро, которое известно своей чистой водой. "
    english = "The river rises in the mountains and flows into the lake, known for its clear water. "
    index = mw.open(tmp_path / "index", embedder="none")
    index.add(mw.Document("en", english * 9))
    assert index.context("Где озеро?").budget == 640  # the index is only in English
    index.add(mw.Document("ru", russian * 9))
    in_russian = "Где берёт начало река, которая впадает в озеро?"
    in_english = "Where does the river rise that is known?"
    numbers = "Where does the river 8172364817236481 rise, at 51.23847, 4.98172 or 51.23846, 4.98173?"
    assert index.context(numbers).budget == 640
    assert index.context(in_english).budget == 640 and index.context(in_english, budget="auto").budget == 1024
    assert 3 * 640 < index.context(in_russian).budget < 5 * 640
    assert 3 * 1024 < index.context(in_russian, budget="auto").budget < 5 * 1024
    assert index.context(in_russian, budget=640).budget == 640
    letters = mw.open(tmp_path / "index", tokens=lambda texts: [len(text.split()) for text in texts])
    assert letters.context(in_russian).budget == 640


def test_questions_of_any_kind_are_answered(index: mw.Index) -> None:
    for question in (
        "?",
        "the of",
        "'\"); drop table leaf; --",
        "cats " * 3000,
        "\ud800 cats",
        "猫は何を食べる?",
        "🐈",
    ):
        assert index.context(question, budget=50).tokens <= 50


def test_an_empty_index_answers(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    assert index.context("cats").text == ""
    assert not index.ask("cats").found
    assert (len(index), index.documents(), index.remove(["x"]), index.check()) == (0, [], 0, [])


def test_open_refuses_invalid_arguments(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, error in (
        (tmp_path, mw.errors.NotAnIndex),
        (tmp_path / "file", mw.errors.NotAnIndex),
        (tmp_path / "file" / "x", mw.MergewiseError),
    ):
        with pytest.raises(error):
            mw.open(path, embedder="none")
    with pytest.raises(mw.UsageError, match="index not found"):
        mw.open(tmp_path / "absent", create=False)
    assert not (tmp_path / "absent").exists()
    with pytest.raises(mw.UsageError, match="unknown view"):
        mw.open(tmp_path / "absent", views=("nope",))
    with pytest.raises(mw.UsageError, match="unknown embedder"):
        mw.open(tmp_path / "absent", embedder="nope")
    with pytest.raises(mw.UsageError, match="not a directory"):
        mw.open("ftp://bucket/prefix")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_budgets_are_exact_under_another_counter(tmp_path: Path, folder: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none", tokens=lambda texts: [len(text) for text in texts])
    index.add(folder)
    for budget in (30, 60, 100):
        context = index.context("cats eat", budget=budget)
        assert context.tokens == len(context.text) <= budget


def test_minilm_finds_text_without_common_words(tmp_path: Path, folder: Path) -> None:
    index = mw.open(tmp_path / "index")
    index.add(folder)
    context = index.context("felines slumber", strategy="topk(k=1)", budget=60)
    assert "Cats sleep" in context.text
    assert index.check() == []
    assert mw.open(tmp_path / "index", embedder="minilm").manifest.dimension == 384


def test_repair_builds_the_rows_of_a_damaged_document_again(index: mw.Index) -> None:
    store = index.store
    assert isinstance(store, LanceStore)
    before = index.context("cats eat fish", strategy="auto-merge", budget=60).text
    table = lance_connection(store.directory).open_table("section")
    table.delete("true")
    manifest = store.manifest
    from dataclasses import replace

    from mergewise.store.manifest import write_manifest

    mapped = {name: files for name, files in manifest.mapped.items() if name != "section"}
    tables = {**manifest.tables, "section": table.version}
    write_manifest(store.directory, replace(manifest, tables=tables, mapped=mapped))
    assert index.check() != []
    damaged = index.context("cats eat fish", strategy="auto-merge", budget=60)
    assert "fish" in damaged.text
    assert any(step.action == "missing" for step in damaged.trace)
    assert index.check(repair=True) == []
    assert index.context("cats eat fish", strategy="auto-merge", budget=60).text == before


def add_documents(path: str, first: int, count: int) -> None:
    index = mw.open(path)
    for i in range(first, first + count):
        index.add(mw.Document(id=f"d{i}", text=f"Text number {i}. It says {i}."))


def test_two_processes_that_add_at_once_both_succeed(tmp_path: Path) -> None:
    path = tmp_path / "index"
    index = mw.open(path, embedder="none")
    spawn = multiprocessing.get_context("spawn")
    # both processes add half of the documents
    writers = [spawn.Process(target=add_documents, args=(str(path), first, 8)) for first in (0, 4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    assert sorted(info.id for info in index.documents()) == sorted(f"d{i}" for i in range(12))
    assert index.check() == []


BRIDGE = {
    "lamp.md": "# The Quonset lamp\n\nThe inventor of the Quonset lamp was Ada Brix.\n",
    "brix.md": "# Ada Brix\n\nAda Brix was born in Delft.\n",
    "other.md": "# Carl Thorn\n\nCarl Thorn was born near the sea, and sold lamps.\n",
}


def test_second_round_finds_names_of_the_first(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    index.add(mw.Document(name, text) for name, text in BRIDGE.items())
    question = "Where was the inventor of the Quonset lamp born?"
    once = index.context(question, strategy="topk(k=1)", budget=100)
    twice = index.context(question, strategy="topk(k=1)", budget=100, rounds=2)
    assert [p.spans[0].doc_id for p in once.passages] == ["lamp.md"]
    assert {p.spans[0].doc_id for p in twice.passages} == {"lamp.md", "brix.md"}
    assert [step.reason for step in twice.trace if step.action == "round"] == ["Ada Brix born"]
    assert twice.tokens <= 100 and twice.question == question
    assert index.ask(question, strategy="topk(k=1)", budget=100, rounds=2).found
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(mw.UsageError, match="rounds"):
            index.context(question, rounds=wrong)  # type: ignore[arg-type]


def test_replies_of_a_chat_model_object_are_cached(tmp_path: Path) -> None:
    chat = ScriptedChat(["Ada Brix was born in Delft [1]."])
    index = mw.open(tmp_path / "index", embedder="none", chat=chat, cache=tmp_path / "cache")
    index.add(mw.Document(name, text) for name, text in BRIDGE.items())
    first, second = (index.ask("Where was Ada Brix born?") for _ in range(2))
    assert first.text == second.text and first.citations == second.citations
    assert (first.usage.paid.calls, second.usage.paid.calls, len(chat.asked)) == (1, 0, 1)
    assert first.usage.cost(1e6, 0) == first.usage.input_tokens > 0
    (citation,) = first.citations
    assert (citation.text, citation.title) == ("Ada Brix was born in Delft.", "")
    with pytest.raises(mw.UsageError, match="unknown mode"):
        index.ask("q", mode="quick")


def test_budget_auto_stops_early_and_reports_the_rest(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    ships = (
        "Ships carry rain coats to the silent harbour of town {}. Its pumps are loud, and {} people hear them each day."
    )
    others = [mw.Document(id=f"s{n}", title=f"Town {n}", text=ships.format(n, 7 * n)) for n in range(60)]
    index.add([mw.Document(id="d", title="Films", text="Ada Moor directed Silent Rain."), *others])
    found = index.context("Who directed Silent Rain?", budget="auto")
    full = index.context("Who directed Silent Rain?", budget=found.budget)
    assert "Ada Moor directed" in found.text and found.tokens < full.tokens
    (stop,) = (step for step in found.trace if step.action == "stop")
    assert stop.inputs and "left out" in stop.reason
    with pytest.raises(mw.UsageError, match="cannot stop by itself"):
        index.context("Who?", strategy="topk", budget="auto")
    with pytest.raises(mw.UsageError, match="invalid budget: 'much'"):
        index.context("Who?", budget="much")  # type: ignore[call-overload]
    assert index.ask("Who directed Silent Rain?", budget="auto").found
