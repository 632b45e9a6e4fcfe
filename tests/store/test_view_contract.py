"""One contract for all views in all stores, also for a view that is defined only here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import SMALL, HashEmbedder, new_store, reader_of, rows_of

import mergewise
from mergewise.designs import VIEWS
from mergewise.designs.aed.triplets import Triplet, TripletSettings
from mergewise.designs.macrag.slices import SliceSettings
from mergewise.designs.mrag.chunks import FixedSettings, PICSettings, SemanticSettings
from mergewise.designs.mrag.markers import MarkerSettings
from mergewise.designs.raptor.chunks import RaptorSettings
from mergewise.designs.tree_rag.outline import OutlineSettings
from mergewise.errors import UsageError
from mergewise.index import pipeline
from mergewise.index.tree.tables import KEY
from mergewise.models.record import Models
from mergewise.models.tokens import count_tokens
from mergewise.protocols import RowReader, Store
from mergewise.store.lance import LanceStore
from mergewise.store.tables import Table
from mergewise.store.views import View, ViewRows
from mergewise.types import AddReport, Document, DocumentRows, LeafId, RowId, Rows, Span

# -- a custom view: one row per document, found by its title and its longest sentence


@dataclass(frozen=True, slots=True)
class Headline:
    id: RowId
    doc_id: str
    leaf: LeafId
    title: str
    headings: tuple[str, ...]
    text: str
    parts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class HeadlineSettings:
    least: int = 1  # characters


HEADLINE = Table("headline", Headline, (KEY,), vectors=("vector",), text="key", mapped=True)


def build(documents: Sequence[DocumentRows], settings: HeadlineSettings, models: Models) -> list[ViewRows]:
    built: list[ViewRows] = []
    for rows in documents:
        said = [(s, number) for number, leaf in enumerate(rows["leaf"]) for s in leaf.sentences]
        best, leaf = max(said, key=lambda pair: pair[0].end - pair[0].start)
        text = rows.document.text[best.start : best.end]
        row = Headline(0, rows.document.id, leaf, rows.document.title, (), text, ((best.start, best.end),))
        rows_ = (row,) if len(text) >= settings.least else ()
        embedder = models.embedder
        vectors = {} if embedder is None else {"vector": embedder.embed_documents([r.text for r in rows_])}
        built.append({"headline": Rows(rows_, vectors)})
    return built


def problems(rows: DocumentRows, settings: HeadlineSettings, dimension: int) -> Iterator[str]:
    for row in rows["headline"]:
        if row.text not in rows.document.text or row.leaf not in {leaf.id for leaf in rows["leaf"]}:
            yield "the headline is not a sentence of the document"


class Headlines:
    def __init__(self, rows: RowReader) -> None:
        self._rows = rows

    def search(self, question: str, k: int) -> list[Headline]:
        found = self._rows.rank_rows(question, k, "headline")
        return list(self._rows.rows("headline", Headline, [row for row, _ in found]).values())


OWN = View("headline", HeadlineSettings, lambda settings: (HEADLINE,), build, problems, Headlines, batch=2)

# -- the contract

EMBEDDER = HashEmbedder()
MAKERS = Models(count_tokens, EMBEDDER)
SLICES = SliceSettings(chunk=160, overlap=40, slice=80, slice_overlap=40, vectors=("slice", "chunk", "summary"))
TALE = Document(
    "tale", "A dog of Brook barked at noon, as ever. " + "A dog of Brook barked. " * 12, "Tale", {"year": 1990}
)
CATS = Document("cats", "Cats eat fish and sleep all day long.", "Cats", {"year": 2020})
DOGS = Document("it's", "Wolves howl at the pale moon of winter.", "Wolves", {"year": 2021})
DOCUMENTS = [TALE, CATS, DOGS]


@dataclass(frozen=True)
class Case:
    """A view with its settings, its searched tables, and the column of vectors of each.

    `table` is one of its tables, by default the last searched one, and values of rows that no document has.
    """

    view: View
    settings: Any
    searched: tuple[tuple[str, str], ...]
    wrong: Mapping[str, Any] = field(default_factory=lambda: {"text": "Not there."})
    own_table: str = ""

    @property
    def table(self) -> str:
        return self.own_table or self.searched[-1][0]


CASES = {
    "slice": Case(VIEWS["slice"], SLICES, (("slice", "vector"), ("chunk", "vector"), ("chunk", "summary_vector"))),
    "fixed": Case(VIEWS["fixed"], FixedSettings(size=12), (("fixed", "vector"),)),
    "semantic": Case(VIEWS["semantic"], SemanticSettings(percentile=50, most=12), (("semantic", "vector"),)),
    "pic": Case(VIEWS["pic"], PICSettings(sentences=2), (("pic", "vector"),)),
    "marker": Case(VIEWS["marker"], MarkerSettings(segment=16), (("marker", "vector"),), {"value": "Not there."}),
    "triplet": Case(
        VIEWS["triplet"],
        TripletSettings(longest=30),
        (),  # triplets are not found by a search
        {"triplets": (Triplet("Cats", "are", "not there", 0, 5),)},
        "triplet",
    ),
    "outline": Case(VIEWS["outline"], OutlineSettings(), (("outline", "vector"),)),
    "raptor": Case(VIEWS["raptor"], RaptorSettings(chunk=20), (("raptor", "vector"),)),
    "headline": Case(OWN, HeadlineSettings(), (("headline", "vector"),)),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Case:
    chosen = CASES[request.param]
    monkeypatch.setitem(VIEWS, chosen.view.name, replace(chosen.view, batch=2))
    return chosen


@pytest.fixture(params=["memory", "lance"])
def kind(request: pytest.FixtureRequest) -> str:
    case = request.getfixturevalue("case") if "case" in request.fixturenames else None
    if request.param == "lance" and case in (CASES["semantic"], CASES["pic"]):
        pytest.skip("their rows are those of fixed chunks")
    return str(request.param)


def built_rows(case: Case, documents: Sequence[Document] = DOCUMENTS, digest: str = "1") -> list[DocumentRows]:
    return rows_of(documents, EMBEDDER, digest=digest, **{case.view.name: case.settings})


def empty(kind: str, directory: Path, case: Case) -> Store:
    return new_store(kind, directory / "index", VIEWS, EMBEDDER, {"leaf": SMALL, case.view.name: case.settings})


def begin(kind: str, directory: Path, case: Case) -> Store:
    """Create a store with documents, and begin the view without its rows."""
    store = new_store(kind, directory, VIEWS, EMBEDDER, {"leaf": SMALL})
    store.write(rows_of(DOCUMENTS, EMBEDDER))
    store.begin_view(case.view.name, case.view.dump(case.settings))
    return store


def without_ids(rows: DocumentRows, case: Case) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the view without their ids, which differ between indexes."""
    names = [table.name for table in case.view.tables(case.settings)]
    left = ("id", "chunk", "leaf", "first_leaf")
    return {
        name: [{f: getattr(r, f) for f in type(r).__dataclass_fields__ if f not in left} for r in rows[name]]
        for name in names
    }


def found_documents(store: Store, case: Case, question: str, where: str | None = None) -> list[set[str]]:
    """Return the documents that each search of the view finds first."""
    reader = store.reader()
    vector = EMBEDDER.embed_queries([question])[0]
    found: list[set[str]] = []
    for table, column in case.searched:
        record: type[Any] = next(t.record for t in case.view.tables(case.settings) if t.name == table)
        for ranking in (
            reader.text_search(question, 1, where, table).result(),
            reader.vector_search(vector, 1, where, table, column).result(),
        ):
            found.append({row.doc_id for row in reader.rows(table, record, [row for row, _ in ranking]).values()})
    return found


def test_rows_survive_a_round_trip_and_are_found(kind: str, case: Case, tmp_path: Path) -> None:
    store = empty(kind, tmp_path, case)
    rows = built_rows(case)
    tables = case.view.tables(case.settings)
    assert store.write(rows) == AddReport(3)
    for _ in range(2):
        stored = store.reader().document_rows([d.id for d in DOCUMENTS])
        assert [without_ids(row, case) for row in stored] == [without_ids(row, case) for row in rows]
        for row in stored:
            # ids in other views are shifted too
            ids = [record.id for table in tables for record in row[table.name]]
            assert ids == list(range(ids[0], ids[0] + len(ids))) and not {leaf.id for leaf in row["leaf"]} & set(ids)
        assert store.check() == []
        counts = store.reader().row_counts()
        for table in tables:
            assert counts[table.name] == sum(len(row[table.name]) for row in rows)
        assert all(found == {"tale"} for found in found_documents(store, case, "a dog of Brook barked at noon"))
        assert all(found == {"cats"} for found in found_documents(store, case, "cats eat fish"))
        assert all(found == {"it's"} for found in found_documents(store, case, "wolves howl", "year > 2020"))
        assert all("tale" not in found for found in found_documents(store, case, "dog of Brook", "year > 2000"))
        store.optimize()


def test_replacing_and_removing_documents_drops_their_rows(kind: str, case: Case, tmp_path: Path) -> None:
    store = empty(kind, tmp_path, case)
    store.write(built_rows(case))
    store.optimize()
    changed = built_rows(case, [Document("tale", "A short tale of owls.", "Owls")], digest="2")
    assert store.write(changed) == AddReport(0, 1)
    assert store.check() == []
    assert all(found == {"tale"} for found in found_documents(store, case, "tale of owls"))
    for table, _ in case.searched[:1]:
        assert store.reader().text_search("barked", 5, None, table).result() == []
    store.remove([d.id for d in DOCUMENTS])
    assert store.check() == []
    assert set(store.reader().row_counts().values()) == {0}


def test_a_view_added_later_equals_one_built_at_first(kind: str, case: Case, tmp_path: Path) -> None:
    first = empty(kind, tmp_path / "a", case)
    first.write(built_rows(case))
    later = new_store(kind, tmp_path / "b", VIEWS, EMBEDDER, {"leaf": SMALL})
    later.write(rows_of([*DOCUMENTS, Document("gone", "It goes.")], EMBEDDER))
    later.optimize()
    later.begin_view(case.view.name, case.view.dump(case.settings))
    assert case.view.name not in later.reader().views and case.view.name in later.settings
    assert later.missing(case.view.name) == ["tale", "cats", "it's", "gone"]
    # written without the view: it also lacks the view
    later.write(rows_of([Document("new", "Too few rows.")], EMBEDDER))
    assert later.missing(case.view.name) == ["tale", "cats", "it's", "gone", "new"]
    later.write(built_rows(case, [Document("new", "This one brings its own.", "New")], digest="2"))
    later.remove(["gone"])
    seen: list[tuple[int, int]] = []
    pipeline.add_view(later, VIEWS[case.view.name], MAKERS, lambda done, total, name: seen.append((done, total)))
    characters = sum(info.characters for info in later.reader().documents() if info.id not in ("gone", "new"))
    assert seen[0] == (0, characters) and seen[-1] == (characters, characters) and seen == sorted(seen)
    assert later.missing(case.view.name) == [] and case.view.name in later.reader().views
    ids = [d.id for d in DOCUMENTS]
    stored = [[without_ids(row, case) for row in s.reader().document_rows(ids)] for s in (later, first)]
    assert stored[0] == stored[1]
    assert later.check() == []
    assert found_documents(later, case, "a dog of Brook barked") == found_documents(
        first, case, "a dog of Brook barked"
    )


def test_a_complete_view_stays_in_use_while_new_documents_lack_it(kind: str, case: Case, tmp_path: Path) -> None:
    store = empty(kind, tmp_path, case)
    store.write(built_rows(case))
    found = found_documents(store, case, "a dog of Brook barked")
    new = Document("new", "A dog of Brook barked at the wolves.", "New")
    store.write(rows_of([new]))
    assert case.view.name in store.reader().views and store.missing(case.view.name) == ["new"]
    assert store.check() == [] and found_documents(store, case, "a dog of Brook barked") == found
    pipeline.go_on(store, VIEWS, MAKERS, None)
    assert store.missing(case.view.name) == [] and store.check() == [] and store.finish_vectors()
    (stored,), (expected,) = store.reader().document_rows(["new"]), built_rows(case, [new])
    assert without_ids(stored, case) == without_ids(expected, case)


def test_an_interrupted_build_is_continued(kind: str, case: Case, tmp_path: Path) -> None:
    """A failing builder loses only its batch, and the next call does the rest."""
    store = begin(kind, tmp_path, case)

    def failing(documents: Sequence[DocumentRows], settings: Any, models: Models) -> Sequence[ViewRows]:
        if any(rows.document.id == "it's" for rows in documents):
            raise KeyboardInterrupt
        return case.view.build(documents, settings, models)

    with pytest.raises(KeyboardInterrupt):
        pipeline.add_view(store, replace(VIEWS[case.view.name], build=failing), MAKERS)
    assert store.missing(case.view.name) == ["it's"]
    assert store.check() == [] and case.view.name not in store.reader().views
    pipeline.add_view(store, VIEWS[case.view.name], MAKERS)
    assert store.check() == [] and store.missing(case.view.name) == []
    assert all(found == {"it's"} for found in found_documents(store, case, "wolves howl at the moon"))


def test_rows_of_another_version_of_a_document_are_not_written(kind: str, case: Case, tmp_path: Path) -> None:
    """The document was replaced while its rows were built: it still lacks the view, and the next call builds the right rows."""
    store = begin(kind, tmp_path, case)
    older = built_rows(case, [Document("cats", "Cats slept on the mat of old.", "Cats")], digest="0")
    store.write_view(case.view.name, older)
    assert store.missing(case.view.name) == ["tale", "cats", "it's"]
    store.write_view(case.view.name, built_rows(case, [Document("unknown", "Nobody has it.")]))
    store.write_view(case.view.name, built_rows(case, [CATS]))
    assert store.missing(case.view.name) == ["tale", "it's"]
    pipeline.add_view(store, VIEWS[case.view.name], MAKERS)
    assert store.check() == []
    assert all(found == {"cats"} for found in found_documents(store, case, "cats eat fish"))


def test_damage_is_found_and_repaired(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ("engine", "opening"):
        monkeypatch.setattr(f"mergewise.{room}.load_embedder", lambda spec: EMBEDDER)
    index = mergewise.open(tmp_path, embedder="hash", settings={"leaf": SMALL, case.view.name: case.settings})
    index.add(DOCUMENTS)
    table = case.table
    (rows,) = built_rows(case, [CATS])
    damage = tuple(replace(row, **case.wrong) for row in rows[table])
    rows = replace(rows, digest="", tables={**rows.tables, table: Rows(damage, rows.tables[table].columns)})
    index.store.write([rows], force=True)
    assert {problem.doc_id for problem in index.check()} == {"cats"}
    assert index.check(repair=True) == []
    assert isinstance(index.store, LanceStore)
    with index.store._writing() as change:
        opened = change.tables.open("documents")
        opened.delete("id = 'tale'")
        change.tables.commit()
    assert any("have no document" in problem.what for problem in index.check())
    assert index.check(repair=True) == []
    assert [info.id for info in index.documents()] == ["it's", "cats"]


def test_the_views_own_reader_is_available(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VIEWS, "headline", OWN)
    store = empty(kind, tmp_path, CASES["headline"])
    store.write(built_rows(CASES["headline"]))
    headlines: Headlines = reader_of(store, EMBEDDER).view("headline")
    best = headlines.search("Who barked at noon?", 1)[0]
    span = Span(best.doc_id, *best.parts[0])
    assert TALE.text[span.start : span.end] == best.text == "A dog of Brook barked at noon, as ever."
    late: Headlines = reader_of(store, EMBEDDER, "year > 2020").view("headline")
    assert [row.doc_id for row in late.search("dog", 5)] == ["it's"]
    bare = new_store(kind, tmp_path / "bare", VIEWS, EMBEDDER, {"leaf": SMALL})
    with pytest.raises(UsageError, match="--views leaf,headline"):
        reader_of(bare, EMBEDDER).view("headline")


def test_a_document_without_rows_in_the_view_is_still_served(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VIEWS, "headline", OWN)
    store = new_store(kind, tmp_path, VIEWS, None, {"leaf": SMALL})
    store.write(rows_of(DOCUMENTS))
    store.begin_view("headline", {"least": 10_000})
    pipeline.add_view(store, OWN, Models(count_tokens))
    assert store.missing("headline") == [] and store.check() == []
    assert store.reader().row_counts()["headline"] == 0


def test_a_view_works_through_the_public_api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`open` with a view's name builds it, keeps it up to date, adds it to an existing index, and refuses other settings."""
    monkeypatch.setitem(VIEWS, "headline", OWN)
    mergewise.open(tmp_path / "i", embedder="none").add(DOCUMENTS)
    index = mergewise.open(tmp_path / "i", views=("leaf", "headline"))
    assert index.store.reader().row_counts()["headline"] == 3
    index.add(Document("new", "A new one."))
    index.remove(["cats"])
    assert index.store.reader().row_counts()["headline"] == 3 and index.check() == []
    with pytest.raises(UsageError, match="other settings"):
        mergewise.open(tmp_path / "i", settings={"headline": HeadlineSettings(least=2)})
    monkeypatch.delitem(VIEWS, "headline")
    with pytest.raises(UsageError, match="unknown view in the index"):
        mergewise.open(tmp_path / "i").documents()
