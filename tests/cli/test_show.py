"""The command `show`, and the saved last answer."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests import command

import mergewise
from mergewise.cli import last
from mergewise.types import Answer, Citation, Context, Document, Page, Passage, Span

run = command.run_in

CATS = "# Cats\n\n## Food\n\nCats eat fish.\nThey drink milk.\n\n## Sleep\n\nCats sleep sixteen hours a day.\n"
PAGED = "First page.\nSecond page says more.\n"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "docs").mkdir()
    (folder / "docs/cats.md").write_text(CATS)
    index = mergewise.open(folder / "mergewise.index", embedder="none")
    index.add(Document(id="docs/cats.md", text=CATS, title="Cats"))
    index.add(Document(id="a.pdf", text=PAGED, pages=(Page(1, 0, 12), Page(2, 12, len(PAGED)))))
    index.add(Document(id="7", text="A document whose id is a number.\n"))
    return folder


def test_a_number_opens_the_citation_of_the_last_answer(home: Path) -> None:
    answered = run(home, "ask", "How long do cats sleep?")
    assert "(docs/cats.md:10)" in answered.stdout, answered.stderr
    number = answered.stdout.split("[")[1].split("]")[0]
    shown = run(home, "show", number, "--around", "1")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [
        "docs/cats.md:10  Cats › Sleep",
        "   9 │ ",
        "> 10 │ Cats sleep sixteen hours a day.",
        "  11 │ ",
    ]


def test_a_number_of_a_context_opens_its_passage_as_json(home: Path) -> None:
    context = json.loads(run(home, "context", "What do cats eat and drink?", "--json", "-b", "60").stdout)
    shown = json.loads(run(home, "show", "[1]", "--json").stdout)
    assert (shown["number"], shown["question"]) == (1, "What do cats eat and drink?")
    spans = [(s["start"], s["end"]) for place in shown["places"] for s in place["spans"]]
    assert spans == [(s["start"], s["end"]) for s in context["passages"][0]["spans"]]
    for place in shown["places"]:
        assert all(span["text"] == CATS[span["start"] : span["end"]] for span in place["spans"])
        assert place["text"] in CATS and place["line"] >= place["first_line"]


@pytest.mark.parametrize(
    ("what", "numbers", "marked"),
    [
        ("docs/cats.md:5", [4, 5, 6], [5]),
        ("docs/cats.md:5-6", [4, 5, 6, 7], [5, 6]),
        ("docs/cats.md:10-99", [9, 10, 11], [10]),
        ("docs/cats.md#Sleep", [7, 8, 9, 10, 11], [8, 10]),
        ("docs/cats.md", list(range(1, 12)), []),
        ("7", [1, 2], []),
    ],
)
def test_an_id_opens_a_document_or_lines_of_it(home: Path, what: str, numbers: list[int], marked: list[int]) -> None:
    done = run(home, "show", what, "-a", "1", XDG_STATE_HOME=str(home / "none"))
    assert done.returncode == 0, done.stderr
    lines = [line.split("│")[0].split() for line in done.stdout.splitlines()[1:]]
    assert [int(line[-1]) for line in lines] == numbers
    assert [int(line[-1]) for line in lines if line[0] == ">"] == marked


def test_a_part_of_a_line_is_marked(home: Path) -> None:
    answered = run(home, "ask", "Which page says more?", "--where", "id = 'a.pdf'")
    assert answered.returncode == 0, answered.stdout
    (home / "long.md").write_text("Birds eat seeds. Fish drink water. Snails carry houses.\n")
    assert run(home, "index", "long.md").returncode == 0
    assert run(home, "context", "What do fish drink?", "--where", "id = 'long.md'", "-b", "17").returncode == 0
    shown = run(home, "show", "1", "-a", "0")
    assert "│ Birds eat seeds. ⟦Fish drink water.⟧ Snails carry houses." in shown.stdout


def test_a_page_is_named(home: Path) -> None:
    assert run(home, "show", "a.pdf:2", "-a", "0").stdout.splitlines()[0].startswith("a.pdf p. 2")


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("99", "no number 99"),
        ("nope.md", "unknown document: nope.md"),
        ("docs/cat.md:3", "did you mean docs/cats.md?"),
        ("kats.md", "did you mean docs/cats.md?"),
        ("docs/cats.md:400", "has 11 lines"),
        ("docs/cats.md:9-x", "unknown document"),
    ],
)
def test_unknown_names_are_errors(home: Path, what: str, says: str) -> None:
    run(home, "ask", "How long do cats sleep?")
    done = run(home, "show", what)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr


def test_without_a_last_answer(home: Path, tmp_path: Path) -> None:
    done = run(home, "show", "3", XDG_STATE_HOME=str(tmp_path))
    assert done.returncode == 2 and "no last answer of this index" in done.stderr


def test_a_changed_document_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Cats eat fish.\n")
    for text in ("Cats eat fish.\n", "Dogs eat meat. Cats eat fish.\n"):
        (tmp_path / "a.md").write_text(text)
        assert run(tmp_path, "index", "a.md", "--embedder", "none").returncode == 0
        if text.startswith("Cats"):
            assert run(tmp_path, "context", "What do cats eat?").returncode == 0
    done = run(tmp_path, "show", "1")
    assert done.returncode == 2 and "a.md has changed since the last answer" in done.stderr


# -- the memory


SPAN = Span("d", 0, 4)
CONTEXT = Context(
    "q", "topk", 9, "text", 3, (Passage("Cats", 0.5, (SPAN,)), Passage("x", 0.5, (SPAN,), verbatim=False))
)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_citations_override_passages(state: Path, tmp_path: Path) -> None:
    cited = Answer(
        "q", "a", (Citation(1, "t", Span("d", 1, 2), "T"), Citation(1, "long", Span("d", 3, 4), "T")), CONTEXT
    )
    last.save(tmp_path, last.of_answer(cited))
    kept = last.load(tmp_path)
    assert kept is not None
    assert {n: [span for span, _ in spans] for n, spans in kept.numbers.items()} == {
        1: [Span("d", 1, 2), Span("d", 3, 4)],
        2: [SPAN],
    }
    assert [check is None for _, check in kept.numbers[1]] == [False, True]
    assert last.load(tmp_path / "other") is None


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_the_last_answer_is_private(state: Path, tmp_path: Path) -> None:
    last.save(tmp_path, last.of_context(CONTEXT))
    (file,) = (state / "mergewise/last").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_concurrent_saves_leave_one_complete_answer(state: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: last.save(tmp_path, last.Last(f"q{i}", {1: [(SPAN, None)] * i})), range(40)))
    kept = last.load(tmp_path)
    assert kept is not None and len(kept.numbers[1]) == int(kept.question[1:])
    assert len(list((state / "mergewise/last").iterdir())) == 1


def test_unreadable_or_unwritable_state_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: Path
) -> None:
    last.save(tmp_path, last.of_context(CONTEXT))
    (file,) = (state / "mergewise/last").iterdir()
    for damaged in (
        "",
        "[]",
        '{"question": 1}',
        '{"question": "q", "numbers": {"x": []}}',
        '{"numbers": {"1": [[1]]}}',
    ):
        file.write_text(damaged)
        assert last.load(tmp_path) is None
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    last.save(tmp_path, last.of_context(CONTEXT))
    assert last.load(tmp_path) is None


@pytest.mark.parametrize(
    "what",
    ["docs/cats.md:²", "docs/cats.md:5-²", f"docs/cats.md:{'9' * 5000}", "9" * 5000, f"docs/cats.md:1-{'9' * 5000}"],
)
def test_invalid_and_long_line_numbers_are_unknown_documents(home: Path, what: str) -> None:
    shown = run(home, "show", what)
    assert shown.returncode == 2 and shown.stderr.startswith("mergewise: unknown document: ")
    assert len(shown.stderr) < 400
