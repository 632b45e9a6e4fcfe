"""The embedder that ships with the package: all-MiniLM-L6-v2 as int8 ONNX, 23 MB, run by onnxruntime.

Model: sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0): the mean of the token vectors of a
six-layer BERT, scaled to unit length. `scripts/export_minilm.py` makes the file and says how. Texts are English and,
like the original's, cut after 256 word pieces, of which two are the marks of beginning and end.

A text's vector depends on the text alone, up to the rounding of float32: the integers' ranges are fixed, not taken from
the batch.

One thread runs one batch, as many batches at once as there are cores: the nodes between the matrix products are too
small to be divided, and a core that other programs slow down holds nobody up. `benchmarks/embedder.py` measures it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mergewise.errors import UsageError
from mergewise.models.tokens import encode

if TYPE_CHECKING:
    import numpy.typing as npt
    from onnxruntime import InferenceSession

    from mergewise.models.tokens import OffsetArray
    from mergewise.protocols import FloatArray

Piece = TypeVar("Piece")
Result = TypeVar("Result")

MODEL = Path(__file__).parent / "minilm" / "model.onnx"

MAX_TOKENS = 256
"""Where the original model cuts a text."""

POSITIONS = 512
"""How many word pieces the network can take at all."""

BATCH_TOKENS = 384
"""Tokens that one run takes, padding included: small enough for the caches, large enough for full matrix products."""

SLAB = 2048
"""Texts that are in memory as word pieces at a time."""


class MiniLM:
    """An `Embedder`. The model is loaded by the first text, and may be shared between threads."""

    spec = "minilm"
    dimension = 384

    def __init__(self) -> None:
        self._lock = Lock()
        self._loaded: InferenceSession | None = None

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Unit rows, shape (len(texts), 384). What lies behind the first 254 word pieces of a text is not seen."""
        result = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), SLAB):
            encodings = encode(texts[start : start + SLAB], marks=True, offsets=False)
            rows = self._run([cut(encoding.ids, MAX_TOKENS) for encoding in encodings], lambda _, rows: unit_mean(rows))
            result[start : start + len(rows)] = rows
        return result

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        """The rows of `embed_documents` and, in the same pass, unit rows for the `parts` of each text.

        A part is a span of characters; its row is the mean of the vectors of its word pieces, which have seen the whole
        text. A part without a word piece of its own (it lies behind the cut) gets the row of the text.
        """
        rows = np.empty((len(texts), self.dimension), dtype=np.float32)
        part_rows: list[FloatArray] = []
        for start in range(0, len(texts), SLAB):
            encodings = encode(texts[start : start + SLAB], marks=True, offsets=True)
            starts = [np.array([at for at, _ in cut(encoding.offsets, MAX_TOKENS)[1:-1]]) for encoding in encodings]
            asked = parts[start : start + SLAB]

            def pooled(
                i: int,
                vectors: FloatArray,
                starts: list[npt.NDArray[np.int64]] = starts,
                asked: Sequence[Sequence[tuple[int, int]]] = asked,
            ) -> tuple[FloatArray, FloatArray]:
                whole = unit_mean(vectors)
                return whole, part_means(vectors[1:-1], starts[i], asked[i], whole)

            pairs = self._run([cut(encoding.ids, MAX_TOKENS) for encoding in encodings], pooled)
            rows[start : start + len(pairs)] = [whole for whole, _ in pairs]
            part_rows += [of_parts for _, of_parts in pairs]
        return rows, part_rows

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """The same as `embed_documents`: the model was trained without prompts."""
        return self.embed_documents(texts)

    def token_vectors(self, texts: Sequence[str], max_tokens: int = MAX_TOKENS) -> list[tuple[FloatArray, OffsetArray]]:
        """Of each text the vectors of its word pieces, (T, 384), and where they stand in it, (T, 2), in characters.

        The first and the last piece are the marks of beginning and end, with the empty span (0, 0). With the default
        `max_tokens` the mean of all T vectors, scaled to unit length, is the row of `embed_documents`. `max_tokens` may
        be 2 to 512; the original stops at 256.
        """
        if not 2 <= max_tokens <= POSITIONS:
            raise UsageError(f"max_tokens is {max_tokens}", f"minilm takes 2 to {POSITIONS}")
        encodings = encode(texts, marks=True, offsets=True)
        vectors = self._run([cut(encoding.ids, max_tokens) for encoding in encodings], lambda _, rows: np.copy(rows))
        offsets = [np.array(cut(encoding.offsets, max_tokens), dtype=np.int32) for encoding in encodings]
        return list(zip(vectors, offsets, strict=True))

    def _run(self, pieces: Sequence[Sequence[int]], finish: Callable[[int, FloatArray], Result]) -> list[Result]:
        """`finish` of each text's number and token vectors, in order."""
        if not pieces:
            return []
        session = self._session()
        results: dict[int, Result] = {}

        def run(batch: Sequence[int]) -> None:
            ids, mask = pad([pieces[i] for i in batch])
            (vectors,) = session.run(["token_vectors"], {"input_ids": ids, "attention_mask": mask})
            for i, rows in zip(batch, vectors, strict=True):
                results[i] = finish(i, rows[: len(pieces[i])])

        workers = cores()
        batches = list(plan_batches([len(ids) for ids in pieces], workers))
        if len(batches) == 1:
            run(batches[0])
        else:
            with ThreadPoolExecutor(min(workers, len(batches))) as pool:
                list(pool.map(run, batches))
        return [results[i] for i in range(len(pieces))]

    def _session(self) -> InferenceSession:
        with self._lock:
            if self._loaded is None:
                self._loaded = load_session()
            return self._loaded


def load_session() -> InferenceSession:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # The file holds the nodes that run fastest; onnxruntime's extended fusions would put slower ones in their place.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return ort.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cut(pieces: Sequence[Piece], limit: int) -> Sequence[Piece]:
    """The first pieces and the mark of the end, `limit` in all."""
    return pieces if len(pieces) <= limit else [*pieces[: limit - 1], pieces[-1]]


def plan_batches(lengths: Sequence[int], workers: int) -> Iterator[list[int]]:
    """Groups texts of similar length, the longest first, so that little is padded and the last to end are short.

    A few texts are divided among the workers rather than filling one batch.
    """
    budget = min(BATCH_TOKENS, -(-sum(lengths) // workers))
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > budget:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def pad(pieces: Sequence[Sequence[int]]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ids and attention mask, each (texts, longest)."""
    ids = np.zeros((len(pieces), max(map(len, pieces))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, piece in enumerate(pieces):
        ids[row, : len(piece)] = piece
        mask[row, : len(piece)] = 1
    return ids, mask


def part_means(
    vectors: FloatArray, starts: npt.NDArray[np.int64], parts: Sequence[tuple[int, int]], whole: FloatArray
) -> FloatArray:
    """The unit mean of the vectors whose word pieces start in each part, shape (parts, dimension)."""
    rows = np.empty((len(parts), len(whole)), dtype=np.float32)
    for row, (first, last) in enumerate(np.searchsorted(starts, np.array(parts, dtype=np.int64).reshape(-1, 2))):
        rows[row] = unit_mean(vectors[first:last]) if first < last else whole
    return rows


def unit_mean(vectors: FloatArray) -> FloatArray:
    mean: FloatArray = vectors.mean(axis=0)
    return mean / np.float32(np.linalg.norm(mean))
