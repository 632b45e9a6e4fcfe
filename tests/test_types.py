"""Records in a notebook: a repr is one short line, and comparison uses all fields."""

from __future__ import annotations

import ast
import pydoc
import re
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import mergewise as mw
from mergewise.types import Cause, HopNote, Span, Step

ROOT = Path(__file__).parents[1]
LAZY_PACKAGES = [
    path for path in Path(mw.__file__).parent.rglob("__init__.py") if "lazy_names(" in path.read_text(encoding="utf-8")
]
SHALLOW = {
    "mergewise",
    *(f"mergewise.{room}" for room in ("designs", "errors", "evaluate", "extend", "integrations", "page", "types")),
    "mergewise.protocols",
}
SUFFIXES = ("toml", "index")
LONG = "Cats eat fish.\n\nThey sleep. " * 400


def test_reprs_are_one_short_line(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    document = mw.Document("cats", "# Cats\n\n" + LONG, title="All about cats\nand more", metadata={"year": 2024})
    report = index.add(document, mw.Document("empty", " "))
    context, answer = index.context("What do cats\neat?"), index.ask("What do cats eat?")
    shown = [index, document, report, context, context.passages[0], answer, answer.citations[0]]
    for record in shown:
        assert "\n" not in repr(record) and len(repr(record)) < 200, repr(record)
    assert repr(index) == f"Index({str(tmp_path / 'index')!r}, 1 documents, embedder none)"
    assert repr(document) == f"Document('cats', title='All about cats and more', {len(document.text):,} characters)"
    assert repr(report) == "AddReport(added=1, failed=1)"
    assert repr(mw.AddReport()) == "AddReport()"
    assert repr(context).startswith("Context('What do cats eat?', weave, ")
    assert repr(context).endswith(f"{context.tokens} of 640 tokens)")
    assert repr(answer).startswith("Answer('“Cats eat fish. They sleep. Cats eat fish. They sleep. Cats…', 3 citations")
    assert repr(answer).endswith(", extractive)")
    assert repr(answer.citations[0]).startswith(
        "Citation([1] 'Cats eat fish. They sleep. Cats eat fish. They sleep. Cats…', cats:"
    )
    assert repr(index.ask("Who won the match?")).endswith(", nothing found, extractive)")


def test_reprs_of_passages_show_their_place() -> None:
    passage = mw.Passage("One two.", 0.51234, (Span("a", 3, 11),))
    assert repr(passage) == "Passage('One two.', a:3-11, score=0.512)"
    more = replace(passage, text=LONG, spans=(Span("a", 3, 11), Span("a", 20, 30), Span("a", 40, 50)))
    assert "… and 2 more" not in repr(more) and "…', a:3-11 and 2 more, score=0.512)" in repr(more)
    assert repr(mw.Passage("", 0.0, (), verbatim=False)).startswith("Passage(''")


def test_spaces_do_not_count_in_a_repr() -> None:
    assert repr(mw.Document("d", "", title=f"one{' ' * 200}two")) == "Document('d', title='one two', 0 characters)"


def test_records_are_compared_as_before() -> None:
    one = mw.Document("cats", "Cats.", metadata={"year": 1})
    assert one == mw.Document("cats", "Cats.", metadata={"year": 1}) != replace(one, metadata={"year": 2})
    assert mw.AddReport(added=1) + mw.AddReport(failed=(mw.types.Failure("x", "y"),)) == mw.AddReport(
        1, 0, 0, (mw.types.Failure("x", "y"),)
    )
    assert hash(mw.Passage("a", 1.0, ())) == hash(mw.Passage("a", 1.0, ()))


def test_span_contains() -> None:
    span = Span("a", 3, 11)
    assert span.contains(span) and span.contains(Span("a", 3, 4)) and span.contains(Span("a", 10, 11))
    assert not any(span.contains(Span("a", start, end)) for start, end in ((2, 11), (3, 12), (0, 2), (12, 14)))
    assert not span.contains(Span("b", 3, 11))


def test_broken_index_has_a_repr(tmp_path: Path) -> None:
    index = mw.open(tmp_path / "index", embedder="none")
    (tmp_path / "index" / "manifest.json").write_text("{")
    assert repr(index) == f"Index({str(tmp_path / 'index')!r}, NotAnIndex)"


def test_a_text_of_sixty_characters_is_shown_whole() -> None:
    assert repr(mw.Document("d", "text", title="i" * 60)).count("i" * 60) == 1
    cut = repr(mw.Document("d", "text", title="i" * 61))
    assert "i" * 59 + "…" in cut and "i" * 60 not in cut


def test_dir_and_help_list_the_public_names() -> None:
    code = "import sys, mergewise; names = dir(mergewise); assert 'lancedb' not in sys.modules; print(*names)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"open", "Index", *mw.__all__} <= set(done.stdout.split())
    text = pydoc.render_doc(mw, renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    for shown in ("    class Index(", "    open(path", "with mw.open(", "aask(self, question", "Raises:"):
        assert shown in text, shown


def test_the_public_surface_is_one_sorted_list() -> None:
    """Constants, then classes, then functions, as ruff sorts them. Each name appears once."""
    assert sorted(mw.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name)) == mw.__all__
    assert len(set(mw.__all__)) == len(mw.__all__) <= 60
    for name in mw.__all__:
        assert getattr(mw, name) is not None
    assert {"open", "Document", "Index", "Span", "Context", "Answer"} <= set(mw.__all__)


@pytest.mark.parametrize("path", LAZY_PACKAGES, ids=lambda path: path.parent.name)
def test_lazy_names_match_type_checking_imports(path: Path) -> None:
    package = ".".join(("mergewise", *path.parent.relative_to(Path(mw.__file__).parent).parts))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    checked = {
        alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    tables = [
        ast.literal_eval(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        and node.keys
        and all(isinstance(part, ast.Constant) for part in (*node.keys, *node.values))
    ]
    tables.append(getattr(import_module(package), "_HOMES", {}))
    for module, names in (pair for table in tables for pair in table.items()):
        whole = module if module.startswith("mergewise.") else f"{package}.{module}"
        for name in names.split():
            assert checked[name] == whole
            assert package == "mergewise.integrations" or hasattr(import_module(package), name)


def test_package_has_only_its_public_names() -> None:
    assert mw.open is not None and mw.Index.__module__ == "mergewise.engine"
    with pytest.raises(AttributeError, match="'opened'"):
        _ = mw.opened


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]
)
def test_imports_of_the_guide_are_one_level_deep(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    modules = {name.rstrip(".") for name in re.findall(r"(?:from|import) (mergewise[\w.]*)", text)}
    named = {name for name in re.findall(r"`(mergewise(?:\.\w+)+)", text) if name.rpartition(".")[2] not in SUFFIXES}
    deep = modules - SHALLOW | {name for name in named - SHALLOW if name.rpartition(".")[0] not in SHALLOW}
    assert not deep, f"export these at the top: {sorted(deep)}"
    for name in named:
        assert find(name) is not None, name


def find(name: str) -> object:
    """Find a module or a name in one. Return None if it does not exist."""
    module, _, last = name.rpartition(".")
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return getattr(import_module(module), last, None) if module else None


def test_public_methods_document_their_errors() -> None:
    """An awaited or streamed method refers to its original. The class documents errors of reading the disk."""
    reading = {"close", "duplicates", "outdated_documents", "state", "vectors"}
    methods = [
        m for name, m in vars(mw.Index).items() if callable(m) and not name.startswith("_") and name not in reading
    ]
    assert len(methods) >= 12
    for function in [mw.open, mw.estimate, *methods]:
        doc = function.__doc__ or ""
        refers = any(f"`{name}`" in doc for name in ("ask", "ask_many", "ask_stream", "context", "prepare"))
        assert "Raises:" in doc or refers, function.__name__
    assert "raises UsageError once the index is closed" in (mw.Index.__doc__ or "")


def test_step_has_a_given_or_default_cause() -> None:
    assert {cause: Step(cause.value, "").cause for cause in Cause} == {cause: cause for cause in Cause}
    assert Step("conjure", "by magic").cause is Cause.OTHER
    assert Step("take", "", cause=Cause.HOP).cause is Cause.HOP


def test_step_covers_its_output_or_its_inputs() -> None:
    whole, part = Span("d", 0, 9), Span("d", 0, 4)
    assert Step("search", "", (whole, part)).covers == (whole, part)
    assert Step("cut", "", (whole,), part).covers == (part,)
    assert Step("hop", "", (whole,), part, note=HopNote(1, "name")).covers == (part,)
