"""The shipped embedder against vectors of the original model, which `scripts/export_minilm.py` stored."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import token_vectors

import mergewise.models.minilm as minilm
from mergewise.models.minilm import MAX_TOKENS, MiniLM, plan_batches, truncate
from mergewise.models.tokens import count_tokens

MIXED = [
    "A river.",
    "",
    "The committee rejected the proposal. " * 40,
    "Mitochondria",
    "How long does the ferry take?",
    "x " * 90,
]


@pytest.fixture(scope="module")
def embedder() -> MiniLM:
    return MiniLM()


def test_vectors_match_the_original_model(embedder: MiniLM) -> None:
    reference = np.load(Path(__file__).parent / "minilm_reference.npz")
    texts = reference["texts"].tolist()
    cosines = (embedder.embed_documents(texts) * reference["vectors"]).sum(axis=1)
    assert cosines.mean() >= 0.99
    assert min(c for c, tokens in zip(cosines, count_tokens(texts), strict=True) if tokens >= 10) >= 0.98
    assert cosines.min() >= 0.95


def test_rows_are_unit_float32(embedder: MiniLM) -> None:
    vectors = embedder.embed_documents(MIXED)
    assert vectors.shape == (len(MIXED), embedder.dimension) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_the_vector_of_a_text_does_not_depend_on_its_batch(embedder: MiniLM) -> None:
    alone = np.concatenate([embedder.embed_queries([text]) for text in MIXED])
    np.testing.assert_allclose(embedder.embed_documents(MIXED), alone, atol=1e-5)
    np.testing.assert_allclose(embedder.embed_documents(MIXED[::-1])[::-1], alone, atol=1e-5)


def test_order_is_restored_across_slabs_and_batches(embedder: MiniLM, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "SLAB", 7)
    monkeypatch.setattr(minilm, "BATCH_TOKENS", 40)
    monkeypatch.setattr(minilm, "cores", lambda: 3)
    texts = [f"{'word ' * (i * 7 % 11)}number {i}" for i in range(30)]
    many = embedder.embed_documents(texts)
    np.testing.assert_allclose(many, np.concatenate([embedder.embed_documents([t]) for t in texts]), atol=1e-5)


def test_no_texts(embedder: MiniLM) -> None:
    assert embedder.embed_documents([]).shape == embedder.embed_queries([]).shape == (0, 384)
    rows, parts = embedder.embed_parts([], [])
    assert rows.shape == (0, 384) and parts == []


@pytest.mark.parametrize("text", ["", " \n", "\0", "\ud800", "[SEP][PAD][CLS]", "x" * 5000, "🚀" * 600])
def test_odd_texts_have_finite_unit_vectors(embedder: MiniLM, text: str) -> None:
    (vector,) = embedder.embed_documents([text])
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-6)


def test_a_long_text_is_truncated(embedder: MiniLM) -> None:
    start = "river " * (MAX_TOKENS - 2)
    np.testing.assert_array_equal(embedder.embed_documents([start]), embedder.embed_documents([start + "city"]))
    assert truncate([101, 5, 6, 7, 102], 4) == [101, 5, 6, 102]
    assert truncate([101, 5, 102], 3) == [101, 5, 102]


def test_a_vector_is_the_mean_of_the_vectors_of_its_word_pieces(embedder: MiniLM) -> None:
    alone = [slow_mean(token_vectors(text)[0]) for text in MIXED]
    np.testing.assert_allclose(embedder.embed_documents(MIXED), alone, atol=1e-5)
    one_by_one = [embedder.embed_queries([text])[0] for text in MIXED]
    np.testing.assert_allclose(one_by_one, alone, atol=1e-6)


PARTS = [
    [(0, 2), (2, 8), (0, 8), (8, 8)],
    [(0, 0), (0, 40)],
    [(0, 36), (36, 73), (5000, 6000), (0, 1480)],
    [],
    [(4, 8)],  # inside a word
    [(0, 180), (178, 180)],
]


@pytest.mark.parametrize("slab", [1, 4, 2048])
def test_the_vector_of_a_part_is_the_mean_of_the_pieces_that_start_in_it(
    embedder: MiniLM, slab: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minilm, "SLAB", slab)
    rows, part_rows = embedder.embed_parts(MIXED, PARTS)
    np.testing.assert_allclose(rows, embedder.embed_documents(MIXED), atol=1e-5)
    for text, row, parts, own in zip(MIXED, rows, PARTS, part_rows, strict=True):
        assert own.shape == (len(parts), 384) and own.dtype == np.float32
        vectors, offsets = token_vectors(text)
        for (start, end), found in zip(parts, own, strict=True):
            inside = [i for i, (at, to) in enumerate(offsets) if start <= at < end and at < to]
            expected = slow_mean(vectors[inside]) if inside else row
            np.testing.assert_allclose(found, expected, atol=1e-5)


def slow_mean(vectors: np.ndarray) -> np.ndarray:
    mean = vectors.astype(np.float64).mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def test_threads_share_one_embedder() -> None:
    embedder = MiniLM()
    expected = MiniLM().embed_documents(MIXED)
    with ThreadPoolExecutor(8) as pool:
        for vectors in pool.map(lambda _: embedder.embed_documents(MIXED), range(24)):
            np.testing.assert_allclose(vectors, expected, atol=1e-5)


@given(st.lists(st.integers(2, 256), max_size=60), st.integers(1, 8))
@settings(deadline=None)
def test_batches_hold_every_text_once_and_keep_the_budget(lengths: list[int], workers: int) -> None:
    batches = list(plan_batches(lengths, workers))
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= minilm.BATCH_TOKENS
    in_turn = [lengths[i] for batch in batches for i in batch]
    assert in_turn == sorted(lengths, reverse=True), "the longest first, and similar ones together"


def test_importing_loads_no_runtime() -> None:
    code = "import sys, mergewise.models.minilm; print({'onnxruntime', 'tokenizers', 'torch'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_truncated_texts_are_counted() -> None:
    whole, longer = "rain " * (MAX_TOKENS - 2), "rain " * (MAX_TOKENS - 1)
    model = MiniLM()
    assert model.count_cut("q", [whole, longer, "rain", longer + "snow"]) == 2
