"""The calls that `eval --table` makes for each table of the papers, next to those that the papers state.

An endpoint counts prompts by kind. The causal model, the reranker, the scorer and UMAP are substitutes of the test.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.chat_server import ChatServer
from tests.designs.aed import tripling
from tests.designs.mrag import marking
from tests.evaluate.towns import QUESTIONS as ASKED
from tests.evaluate.towns import Reader, WordReranker, saved_task
from tests.support import HashEmbedder
from typer.testing import CliRunner

import mergewise
import mergewise.models
from mergewise.cli.main import app
from mergewise.designs.raptor import clusters
from mergewise.designs.raptor.mixture import principal, soft_shares
from mergewise.errors import UsageError
from mergewise.evaluate import methods
from mergewise.evaluate.presets import preset, preset_names
from mergewise.evaluate.runs.run_folder import open_run
from mergewise.extend import PROMPTS, write_prompts
from mergewise.generate.mode import Need
from mergewise.models.scripted import Turn
from mergewise.protocols import FloatArray
from mergewise.types import Document, Message

TOWNS = ("Arden", "Brook", "Corin", "Delos", "Elmet", "Farne", "Gorse", "Hythe", "Islay", "Jarrow", "Kelso", "Lorne")
QUESTIONS = 2
OWN, WARNED = "Own words. ", "between lines that carry"
KINDS = {
    "You compress passages": "slice",
    "You prepare documents": "marker",
    "You say what documents": "pic",
    "You take the facts": "triplet",
    "You write one node": "cluster",
    "You merge two chunks": "merge",
    "You enrich chunk A": "merge",
    "You answer a question from numbered": "answer",
    "Answer the question": "answer",
    "You read documents": "extract",
    "You work out how": "think",
    "You decide whether": "judge",
    "Sum up": "summary",
}
OF_INDEXES = {"slice", "marker", "pic", "triplet", "cluster"}


def town(name: str) -> Document:
    streets = " ".join(f"Street {number} of {name} is lined with {number} old trees." for number in range(6))
    body = f"The tower of {name} was built by Mason {name}y. It is old.\n\n## Streets\n\n{streets}"
    return Document(f"{name}.md", f"# {name}\n\n{body}", name)


def kind(messages: Sequence[Message]) -> str:
    # the prompts of summaries begin with the warning
    text = (
        messages[0].text.rsplit("described here.\n\n", 1)[-1] if WARNED in messages[0].text[:80] else messages[0].text
    )
    text = text.removeprefix(OWN)
    return next((kind for start, kind in KINDS.items() if text.startswith(start)), text[:60])


def play(messages: Sequence[Message]) -> Turn:
    said = {
        "marker": marking.good,
        "triplet": tripling.good,
        "judge": lambda _: '{"relevant": true}',
        "merge": lambda asked: asked[-1].text.split("\n")[5][:200],
    }
    return Turn(said.get(kind(messages), lambda _: "The tower was built by Mason Ardeny.")(messages))


class Embedder(HashEmbedder):
    spec = "st:hash"


class Scorer:
    spec = "hf:scorer"

    def nll(self, sources: Sequence[str], anchors: Sequence[str]) -> FloatArray:
        return np.array([[abs(len(one) - len(other)) / 100 for other in anchors] for one in sources], np.float32)


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Provide all models, and return the folder of the question set."""
    specs = mergewise.models
    monkeypatch.setitem(specs.EMBEDDERS, "st:NAME_OR_PATH", lambda name: Embedder())
    monkeypatch.setitem(specs.RERANKERS, "cross-encoder:PATH_OR_NAME", lambda name: WordReranker())
    monkeypatch.setitem(specs.SCORERS, "hf:PATH", lambda name: Scorer())
    monkeypatch.setitem(specs.CAUSALS, "hf:PATH", lambda name: Reader())
    monkeypatch.setitem(methods.NEEDS, "umap", Need("umap", lambda models: models, "umap-learn", ""))
    pca = clusters.Clustering(lambda vectors, to, _: principal(vectors, to), soft_shares, "pca")
    monkeypatch.setattr(clusters, "_umap", lambda: pca)
    return saved_task(tmp_path / "towns", [town(name) for name in TOWNS])


class Run(NamedTuple):
    """The prompts of the endpoint by kind, its repeated ones, and the calls of each method for one question."""

    prompts: Counter[str]
    repeated: int
    calls: dict[str, set[int]]
    judges: dict[str, str]


def run_table(
    name: str,
    questions: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int = QUESTIONS,
    server: ChatServer | None = None,
    causal: str = "hf:reader",
    *more: str,
) -> Run:
    words = [str(questions), "--table", name, "-n", str(count), "--embedder", "st:hash", "--out", str(folder)]
    words += ["--chat", "openai:scripted", *more]
    monkeypatch.setenv("MERGEWISE_SCORER", "hf:scorer")
    words += ["--reranker", "cross-encoder:marco"]
    with ChatServer(play) if server is None else nullcontext(server) as server:
        before = len(server.asked)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        environment = {
            "MERGEWISE_CAUSAL": causal,
            "MERGEWISE_UTILITY": "cross-encoder:utility",
            "MERGEWISE_REPEATS": "1",
        }
        done = CliRunner().invoke(app, ["eval", *words], env=environment, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    # a table fits a terminal, but for a name without spaces
    assert [line for line in done.stdout.splitlines() if len(line) > 120 and " " in line.strip()] == []
    rows = open_run(folder).rows().to_pylist()
    assert {row["error"] for row in rows} == {""}, done.output
    calls: dict[str, set[int]] = {}
    for row in rows:
        calls.setdefault(row["method"], set()).add(row["calls"])
    asked = server.asked[before:]
    distinct = {str((one.messages, one.max_tokens, one.schema)) for one in asked}
    return Run(
        Counter(kind(one.messages) for one in asked),
        len(asked) - len(distinct),
        calls,
        {row["method"]: row["judge"] for row in rows},
    )


MODES = {"short": 1, "r&b": 1, "r&l": 1, "full-ext": 2, "fil": 2, "full-e&f": 3, "r&b-ext": 2, "r&b-e&f": 3}
"""MacRAG, Table 4: an extract, a thought, an answer. The filter adds a call for each merged chunk."""
AED = {
    "aed-1": 2, "aed-2": 2, "aed-no-triplets": 2, "aed-no-memory": 1, "aed-no-ensemble": 1, "aed-passages": 1,
    "gainrag-1": 2, "gainrag-5": 2, "recomp-abstractive": 2, "aed-2-reranker": 2,
}  # fmt: skip
"""AED-RAG, section 3: a passage from memory, and one decoding of all streams. RECOMP: a summary, and an answer."""
MERGED = 12 + 6 + 1
"""MergeRAG, Algorithm 1: 24 chunks become 12, then 6, which fit. Each pair is one call, and the answer is another."""

PER_DOCUMENT: dict[str, dict[str, int]] = {
    "macrag": {"slice": 1},  # A.5: a summary for each chunk; these documents have one
    "aed": {"triplet": 1},  # section 3.1: the triplets of each passage; these documents have one
    "mrag-2": {"pic": 1, "marker": 2},  # section 2.1: a call for each document, zero-shot and few-shot
    "mrag-order": {"marker": 2},
    "mrag-prompts": {"marker": 3},  # C.4: three orders of the prompt
    "mrag-speed": {"pic": 1, "marker": 1},
    "mrag-coverage": {"marker": 2},
    "systems": {"slice": 1, "marker": 1},
    "mergerag": {},
}
CLUSTERS = {"systems": 3, "macrag-1": 3, "mergerag-1": 3, "mergerag-2": 3, "mergerag-curve": 3}
"""RAPTOR: a summary for each cluster. 24 chunks form three clusters, the last layer."""
PROBED = ("aed-sources", "mergerag-pairs", "mrag-markers", "mrag-few-shot-markers")
"""Rows that no model answers."""
SLOW = ("macrag-modes", "macrag-ablation", "macrag-lengths", "macrag-2", "mergerag-curve")


def expected_calls(method: str) -> set[int]:
    """Return the numbers of calls for a question, by the paper."""
    if method in PROBED:
        return {0}
    if method.startswith(("macrag", "longrag")):
        mode = method.rsplit(" ", 1)[1]
        k2 = 12 if "k2=12" in method else 7
        return {MODES[mode] + (k2 if mode in ("fil", "full-e&f", "r&b-e&f") else 0)}
    if method.startswith("mergerag"):
        # sequential merges end as soon as the rest fits
        return {8, 9} if "sequential" in method else {MERGED}
    if method == "self-rag":
        # to retrieve or not; alone: an answer; otherwise an answer and three grades for each of five passages
        return {1 + 1, 1 + 5 * 4}
    return {2} if method.startswith("beta") else {AED.get(method, 1)}


@pytest.mark.parametrize("name", preset_names())
def test_a_table_makes_the_calls_of_its_paper(
    name: str, system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_table(name, system, tmp_path / "run", monkeypatch, 1 if name in SLOW else QUESTIONS)
    asked = 1 if name in SLOW else QUESTIONS
    per_document = next(calls for start, calls in PER_DOCUMENT.items() if name.startswith(start))
    written = {kind: calls * len(TOWNS) for kind, calls in per_document.items()}
    written |= {"cluster": CLUSTERS[name]} if name in CLUSTERS else {}
    assert {one: count for one, count in done.prompts.items() if one in OF_INDEXES} == written
    for method, calls in done.calls.items():
        assert calls <= expected_calls(method), method
    ours = [method for method in done.calls if method.startswith(("macrag", "longrag"))]
    extracting = [method for method in ours if method.endswith(("ext", "e&f"))]
    filtering = [method for method in ours if method.endswith(("fil", "e&f"))]
    # methods share calls, and each is paid for once
    assert done.repeated == 0
    assert done.prompts["extract"] <= asked * len(extracting) and done.prompts["think"] <= asked * len(filtering)
    assert done.prompts["judge"] <= asked * sum(12 if "k2=12" in method else 7 for method in filtering)
    budgets = len(preset(name).budgets)
    merging = [calls for method, calls in done.calls.items() if method.startswith("mergerag") and method not in PROBED]
    assert done.prompts["merge"] <= asked * budgets * sum(calls - 1 for (calls,) in merging)


@pytest.mark.parametrize("name", ["systems", "macrag-lengths"])
def test_cached_replies_cost_what_the_system_needs(
    name: str, system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MERGEWISE_CACHE", str(tmp_path / "cache"))
    with ChatServer(play) as server:
        run_table(name, system, tmp_path / "first", monkeypatch, 1, server, "")
        assert not run_table(name, system, tmp_path / "second", monkeypatch, 1, server, "").prompts
    costs = ("calls", "input_tokens", "output_tokens")
    first, second = (open_run(tmp_path / place).rows().to_pylist() for place in ("first", "second"))
    for row, again in zip(first, second, strict=True):
        assert [row[cost] for cost in costs] == [again[cost] for cost in costs] and row["input_tokens"] > 0
        assert [again[f"paid_{cost}"] for cost in costs] == [0, 0, 0]
    shared = sum(row["calls"] - row["paid_calls"] for row in first)
    assert shared > 0 if name == "macrag-lengths" else shared == 0


def test_a_set_fills_the_column_of_its_name(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = f"longbench-hotpotqa={system}"
    run_table("macrag-alpha", Path(named), tmp_path / "run", monkeypatch, 1)
    done = CliRunner().invoke(app, ["report", str(tmp_path / "run"), "--md", str(tmp_path / "t.md")])
    assert "HotpotQA: filled by the set longbench-hotpotqa, 1 questions." in (tmp_path / "t.md").read_text()
    done = CliRunner().invoke(app, ["eval", "--as", named, "-s", "topk", "-b", "60", "-n", "1", "-e", "none"])
    assert done.exit_code == 0 and done.output.startswith("longbench-hotpotqa:"), done.output
    assert isinstance(CliRunner().invoke(app, ["eval"]).exception, UsageError)


@pytest.mark.parametrize("name", ["systems", "macrag-2", "mergerag-2", "mrag-2"])
def test_every_prompt_of_a_design_is_a_file(
    name: str, system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "prompts"
    for path in write_prompts(folder, PROMPTS):
        path.write_text(OWN + path.read_text())
    with ChatServer(play) as server:
        run_table(name, system, tmp_path / "run", monkeypatch, 1, server, "", "--prompts", str(folder))
    assert server.asked and all(OWN in one.messages[0].text for one in server.asked)
    models = open_run(tmp_path / "run").plan.models
    assert models["prompts"] and models["prompts.answer"] != models["prompts.merge"]


def test_rows_of_other_systems_have_other_indexes_and_name_their_judges(
    system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    run_table("mrag-2", system, run, monkeypatch)
    # rows by a chat model stay, and markers with and without examples are in two indexes
    assert sorted(path.name for path in (run / "indexes").iterdir()) == ["towns", "towns.2"]
    first, second = (mergewise.open(run / "indexes" / name, embedder=Embedder()) for name in ("towns", "towns.2"))
    assert first.manifest.views["marker"].settings["examples"] == "none"
    assert first.manifest.views["pic"].settings["summary"] == "abstractive"
    assert second.manifest.views["marker"].settings["examples"] != "none" and "pic" not in second.manifest.views
    again = run_table("mrag-order", system, run, monkeypatch)
    assert not again.prompts, "another table of the same systems asks nothing for its indexes, and no row twice"
    judged = run_table("macrag-1", system, tmp_path / "other", monkeypatch)
    assert judged.judges["raptor-reranked"] == judged.judges["macrag(preset=paper) r&b"] == "words"
    plan = open_run(tmp_path / "other").plan
    (row,) = (row for row in plan.rows if row.method == "macrag(preset=paper) full-e&f")
    assert (row.judge, row.views) == ("words", "slice.preset=paper")
    csv, text = tmp_path / "t.csv", tmp_path / "t.md"
    CliRunner().invoke(app, ["report", str(tmp_path / "other"), "--csv", str(csv), "--md", str(text)])
    assert "judge: words" in csv.read_text() and "(judge: words)" in text.read_text()


def test_figures_of_markers_are_those_of_the_index(
    system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_table("mrag-coverage", system, tmp_path / "run", monkeypatch)
    with mergewise.open(tmp_path / "run" / "indexes" / "towns", embedder=Embedder()) as index:
        reader = index.state().reader(None)
        report: Any = reader.view("marker").report()
        keys = reader.vectors(reader.whole("marker", ["id"])["id"].to_pylist(), "marker").values()
    rows = [row for row in open_run(tmp_path / "run").rows().to_pylist() if row["method"] == "mrag-markers"]
    assert len(rows) == QUESTIONS
    for row in rows:
        assert row["coverage"] == 100 * report.coverage["mean"] and row["key_tokens"] == report.key_tokens > 0
        low, middle, high = report.value_lengths.quartiles
        lengths = [row[f"value_tokens_{quarter}"] for quarter in (0, 25, 50, 75, 100)]
        assert lengths == [report.value_lengths.least, low, middle, high, report.value_lengths.most]
        asked = Embedder().embed_queries([ASKED[int(row["question"])].text])[0]
        assert row["nearest_marker"] == pytest.approx(max(float(key @ asked) for key in keys), abs=1e-6)
        assert -1 <= row["nearest_fixed"] <= 1


def test_a_figure_of_pairs_needs_only_a_scorer(system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [str(system), "--table", "mergerag-pairs", "--embedder", "st:hash"]
    monkeypatch.setenv("MERGEWISE_SCORER", "hf:scorer")
    done = CliRunner().invoke(app, ["eval", *words, "--out", str(tmp_path / "run")], catch_exceptions=False)
    assert done.exit_code == 0 and done.output.count("MergeRAG, Figure 2") == 1, done.output
    row = done.output[done.output.index("MergeRAG, Figure 2") :]
    rho, same = re.findall(r"-?0?\.\d\d", row)[:2]
    assert -1 < float(rho) < 1 and 0 <= float(same) <= 1


def test_a_dry_run_prices_the_views_and_writes_nothing(
    system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    words = [str(system), "--table", "macrag-1", "-n", "1", "--embedder", "st:hash", "--out", str(run), "--dry-run"]
    words += ["--chat", "openai:scripted", "--reranker", "cross-encoder:marco"]
    with ChatServer(play) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        done = CliRunner().invoke(app, ["eval", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert not server.asked and not run.exists()
    assert "the view slice:\n12 documents: 12 calls" in done.output
    assert "view raptor 0: 0 rows, 0 s, 3 calls" in done.output
    assert "macrag(preset=paper) full-e&f 32768: 1 rows" in done.output and "self-rag: needs" not in done.output


def test_settings_of_a_view_are_options(system: Path, tmp_path: Path) -> None:
    words = [
        str(system),
        "-s",
        "macrag",
        "-b",
        "200",
        "-n",
        "1",
        "--embedder",
        "st:hash",
        "--out",
        str(tmp_path / "run"),
    ]
    words += ["--index", str(tmp_path / "indexes")]
    for settings in (["slice.chunk=60", "slice.overlap=10"], [], ["slice.chunk=60", "slice.overlap=10"]):
        sets = [word for one in settings for word in ("--set", one)]
        done = CliRunner().invoke(app, ["eval", *words, *sets], catch_exceptions=False)
        assert done.exit_code == 0, done.output
    sizes = [
        mergewise.open(tmp_path / "indexes" / name, embedder=Embedder()).manifest.views["slice"].settings["chunk"]
        for name in sorted(path.name for path in (tmp_path / "indexes").iterdir())
    ]
    assert sizes == [60]
    done = CliRunner().invoke(
        app, ["eval", *words, "--set", "slice.chunk=90", "--set", "slice.overlap=10"], catch_exceptions=False
    )
    assert done.exit_code == 0 and (tmp_path / "indexes" / "towns.2").exists()
    # a file of questions has no documents: the index must have the settings
    file = tmp_path / "towns.jsonl"
    file.write_text('{"question": "Who built the tower of Arden?", "answer": "Mason Ardeny"}\n')
    words = [
        str(file),
        "-s",
        "macrag",
        "-b",
        "200",
        "--index",
        str(tmp_path / "indexes" / "towns"),
        "--embedder",
        "st:hash",
    ]
    done = CliRunner().invoke(app, ["eval", *words, "--set", "slice.chunk=90", "--set", "slice.overlap=10"])
    assert "needs an index with slice.chunk=90" in str(done.exception or done.output)
