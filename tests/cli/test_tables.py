"""The calls that `eval --table` makes for each table of the papers, next to those that the papers state.

An endpoint counts prompts by kind. The causal model, the reranker, the scorer and UMAP are substitutes of the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

import mergewise.models
from mergewise.cli.main import app
from mergewise.designs.raptor import clusters
from mergewise.designs.raptor.mixture import principal, soft_shares
from mergewise.evaluate import methods
from mergewise.evaluate.presets import preset, preset_names
from mergewise.evaluate.runs.folder import open_run
from mergewise.generate.mode import Need
from mergewise.models.scripted import ChatServer, Turn
from mergewise.protocols import FloatArray
from mergewise.types import Document, Message
from tests.designs.aed import tripling
from tests.designs.mrag import marking
from tests.evaluate.towns import Reader, WordReranker, saved_task
from tests.support import HashEmbedder

TOWNS = ("Arden", "Brook", "Corin", "Delos", "Elmet", "Farne", "Gorse", "Hythe", "Islay", "Jarrow", "Kelso", "Lorne")
QUESTIONS = 2
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


def town(name: str) -> Document:
    streets = " ".join(f"Street {number} of {name} is lined with {number} old trees." for number in range(6))
    body = f"The tower of {name} was built by Mason {name}y. It is old.\n\n## Streets\n\n{streets}"
    return Document(f"{name}.md", f"# {name}\n\n{body}", name)


def kind(messages: Sequence[Message]) -> str:
    return next((kind for start, kind in KINDS.items() if messages[0].text.startswith(start)), messages[0].text[:60])


def play(messages: Sequence[Message]) -> Turn:
    said = {
        "marker": marking.good,
        "triplet": tripling.good,
        "judge": lambda _: '{"relevant": true}',
        "merge": lambda asked: asked[-1].text.split("\n")[3][:200],
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
    """The prompts of the endpoint by kind, and the calls of each method for one question."""

    prompts: Counter[str]
    calls: dict[str, set[int]]
    judges: dict[str, str]


def run_table(name: str, questions: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    words = [str(questions), "--table", name, "-n", str(QUESTIONS), "--embedder", "st:hash", "--out", str(folder)]
    words += ["--chat", "openai:scripted", "--scorer", "hf:scorer"]
    words += ["--reranker", "cross-encoder:marco"]
    with ChatServer(play) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "any")
        environment = {"MERGEWISE_CAUSAL": "hf:reader", "MERGEWISE_UTILITY": "cross-encoder:utility", "MERGEWISE_REPEATS": "1"}
        done = CliRunner().invoke(app, ["eval", *words], env=environment, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    rows = open_run(folder).rows().to_pylist()
    assert {row["error"] for row in rows} == {""}, done.output
    calls: dict[str, set[int]] = {}
    for row in rows:
        calls.setdefault(row["method"], set()).add(row["calls"])
    return Run(Counter(map(kind, (one.messages for one in server.asked))), calls, {r["method"]: r["judge"] for r in rows})


@pytest.mark.parametrize("name", preset_names())
def test_show(name: str, system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if preset(name).by != "questions":
        return
    import time
    t = time.time()
    done = run_table(name, system, tmp_path / "run", monkeypatch)
    print("@@", name, round(time.time() - t, 1), dict(done.prompts))
    for method, calls in done.calls.items():
        print("@@   ", method, calls, done.judges[method])
