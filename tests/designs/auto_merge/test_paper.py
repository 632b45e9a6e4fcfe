"""The preset `paper` of auto-merge, with cosines that are chosen by the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import mergewise
from mergewise.designs.strategies import view_settings
from mergewise.index.tree import build_trees
from mergewise.models.tokens import count_tokens
from mergewise.protocols import FloatArray
from mergewise.types import Document

# sections of two and of four leaves; each sentence has its cosine with the question
SENTENCES = {"Rivers": (0.9, 0.8), "Lakes": (0.95, 0.85, 0.1, 0.05), "Seas": (0.7, 0.02, 0.01, 0.6, 0.0)}


class Cosines:
    """An embedder whose vectors have the cosine with the question that the text names."""

    spec, dimension = "cosines", 2

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        named = [
            float(text.rsplit("cosine ", 1)[1].split()[0].rstrip(".")) if "cosine " in text else 0.0 for text in texts
        ]
        return np.array([[cosine, np.sqrt(1 - cosine**2)] for cosine in named], np.float32)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return np.array([[1.0, 0.0]] * len(texts), np.float32)


def sentence(title: str, cosine: float) -> str:
    start = f"This sentence is about {title.lower()} and has the cosine {cosine}"
    return start + " so it is long".ljust(150 - len(start), "g") + "."


def index(folder: Path, sentences: Mapping[str, Sequence[float]] = SENTENCES) -> mergewise.Index:
    text = "\n\n".join(
        f"# {title}\n\n" + " ".join(sentence(title, cosine) for cosine in cosines)
        for title, cosines in sentences.items()
    )
    own = view_settings((), ["leaf.preset=paper"], "extractive")
    opened = mergewise.open(folder, embedder=Cosines(), settings=own)
    opened.add([Document("waters.md", text, "Waters")])
    return opened


def test_sections_and_leaves_have_the_sizes_of_the_text() -> None:
    settings = view_settings((), ["leaf.preset=paper"], "extractive")["leaf"]
    parts = [f"# Part {n}\n\n{'A sentence of forty characters in a leaf. ' * 6}\n\n" for n in range(4)]
    (tree,) = build_trees([Document("a.md", "".join(parts))], count_tokens, settings)
    # four sentences of 41 characters and three blanks are 167, five are 209
    assert [len(leaf.text.replace(f"# Part {leaf.text[7:8]}", "").strip()) // 42 for leaf in tree.leaves] == [3, 1] * 4
    # a part has 262 characters, so two have more than 500
    assert [section.headings for section in tree.sections[1:]] == [(f"Part {n}",) for n in range(4)]
    (joined,) = build_trees([Document("a.md", "".join(part[:120] + "\n\n" for part in parts))], count_tokens, settings)
    assert len(joined.sections) == 1


def test_the_three_best_results_have_labels(tmp_path: Path) -> None:
    found = index(tmp_path).context("Which water is it?", strategy="auto-merge(preset=paper)", budget=4000)
    labels = [passage.headings[-1] for passage in found.passages]
    # Rivers: 2 of 2 with a mean of 0.85. Lakes: 4 of 4, with a mean of 0.49. Seas: 3 of 5 of nine hits with a mean of 0.44
    assert labels == ["[merged, 2 chunks]", "[merged, 4 chunks]", "[merged, 3 chunks]"]
    assert "[merged, 2 chunks]" in found.text
    assert [round(passage.score, 2) for passage in found.passages] == [0.85, 0.49, 0.44]


def literal_always(opened: mergewise.Index, most: int) -> list[tuple[tuple[str, ...], float]]:
    """Transcribe `always` of the text: results of `auto` for twice as many, then the parent of each result, each once."""
    reader = opened.state().reader(None)
    leaves = [leaf for leaf in reader.leaves(range(100)).values() if leaf.sentences]
    cosines = {leaf.id: float(leaf.text.rsplit("cosine ", 1)[1].split()[0].rstrip(".")) for leaf in leaves}
    parent = {leaf.id: leaf.ancestors[-1] for leaf in leaves}
    sections = reader.sections(sorted(set(parent.values())))
    best = sorted(leaves, key=lambda leaf: -cosines[leaf.id])[: 2 * most * 3]
    families: dict[int, list[int]] = {}
    for leaf in best:
        families.setdefault(parent[leaf.id], []).append(leaf.id)
    results = []
    for section, family in families.items():
        mean = sum(cosines[one] for one in family) / len(family)
        if len(family) > 1 and len(family) / sections[section].children >= 0.5 and mean > 0.3:
            results.append((mean, section))
            continue
        run: list[int] = []
        for one in sorted(family):
            if run and one != run[-1] + 1:
                results.append((sum(cosines[x] for x in run) / len(run), section))
                run = []
            run.append(one)
        results.append((sum(cosines[x] for x in run) / len(run), section))
    # ties and means at the threshold are decided by rounding
    assume(len({round(score, 2) for score, _ in results}) == len(results))
    assume(all(abs(score - 0.3) > 0.01 for score, _ in results))
    found: dict[int, float] = {}
    for score, section in sorted(results, reverse=True)[: 2 * most]:
        found.setdefault(section, score)
    return [(sections[one].headings, score) for one, score in list(found.items())[:most]]


@given(st.lists(st.integers(0, 99), min_size=1, max_size=30, unique=True), st.lists(st.integers(1, 6), min_size=12))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_always_is_that_of_the_text(drawn: list[int], sizes: list[int]) -> None:
    cosines: dict[str, list[float]] = {}
    rest = [value / 100 for value in drawn]
    for number, size in enumerate(sizes):
        if rest:
            cosines[f"Part {number}"], rest = rest[:size], rest[size:]
    with TemporaryDirectory() as folder:
        opened = index(Path(folder) / "i", cosines)
        found = opened.context("Which water?", strategy="auto-merge(preset=paper, mode=always)", budget=8000)
        wanted = literal_always(opened, 3)
        assert [one.headings[:-1] for one in found.passages] == [path for path, _ in wanted]
        assert [one.score for one in found.passages] == pytest.approx([score for _, score in wanted], abs=2e-3)


def test_other_modes_keep_three_results_too(tmp_path: Path) -> None:
    opened = index(tmp_path)

    def labels(spec: str) -> list[str]:
        found = opened.context("Which water is it?", strategy=f"auto-merge(preset=paper, {spec})", budget=4000)
        return [passage.headings[-1] for passage in found.passages]

    # five hits: two of two leaves of Rivers, two of four of Lakes (a share of 0.5), one of five of Seas
    assert labels("k=5") == ["[merged, 2 chunks]", "[merged, 2 chunks]", "[leaf, 1 chunk]"]
    assert labels("k=5, merge_threshold=0.6") == [
        "[merged neighbours, 2 chunks]",
        "[merged, 2 chunks]",
        "[leaf, 1 chunk]",
    ]
    assert labels("mode=never") == ["[leaf, 1 chunk]"] * 3
    # cosines between the leaves: the six high ones are alike, and the three low ones
    assert set(labels("mode=semantic")) == {"[merged by meaning, 6 chunks]", "[merged by meaning, 3 chunks]"}
