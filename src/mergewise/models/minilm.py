"""The embedder that ships with the package: all-MiniLM-L6-v2 as int8 ONNX, 23 MB, run by onnxruntime.

Model: sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0): the mean of the token vectors of a
six-layer BERT, scaled to unit length. `scripts/export_minilm.py` makes the file and says how. Texts are English and,
like the original's, cut after 256 word pieces, of which two are the marks of beginning and end.

A text's vector depends on the text alone, up to the rounding of float32: the ranges of the int8 numbers are fixed, not
taken from the batch.

One thread runs one batch, as many batches at once as there are cores: the nodes between the matrix products are too
small to be divided, and a core that other programs slow down delays its own batch alone. `benchmarks/embedder.py` measures it.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from mergewise.models.tokens import count_tokens, encode

if TYPE_CHECKING:
    import numpy.typing as npt
    from onnxruntime import InferenceSession

    from mergewise.protocols import FloatArray

Piece = TypeVar("Piece")

MODEL = Path(__file__).parent / "minilm" / "model.onnx"

MAX_TOKENS = 256
"""Where the original model cuts a text."""

MARKS = 2
"""Of the beginning and the end of a text, which are tokens, too."""

BATCH_TOKENS = 384
"""Tokens that one run takes, padding included: small enough for the caches, large enough for full matrix products."""

SLAB = 2048
"""Texts that are made word pieces at a time; those of three slabs are in memory."""


class Pieces(NamedTuple):
    """A text's word pieces, and which of them are averaged: first all of them, then those of each part."""

    ids: Sequence[int]
    ranges: list[tuple[int, int]]


Running: TypeAlias = "tuple[list[int], Future[list[FloatArray]]]"
"""The numbers of a batch's texts, and their rows to come."""


class MiniLM:
    """An `Embedder`. The model is loaded by the first text, and may be shared between threads.

    It runs in so many `threads`, or in as many as there are cores.
    """

    spec = "minilm"
    dimension = 384
    languages = frozenset({"en"})

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._lock = Lock()
        self._loaded: InferenceSession | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A worker that is sent one takes its own, of one thread: there are as many workers as cores are to be busy."""
        return _of_one_thread, ()

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Unit rows, shape (len(texts), 384). What lies behind the first 254 word pieces of a text is not seen."""
        return self._stack(self._pool(texts, None))

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        """The rows of `embed_documents` and, in the same pass, unit rows for the `parts` of each text.

        A part is a span of characters; its row is the mean of the vectors of its word pieces, which have seen the whole
        text. A part in which no word piece starts (it may lie behind the cut) gets the row of the text.
        """
        pooled = self._pool(texts, parts)
        return self._stack([rows[:1] for rows in pooled]), [rows[1:] for rows in pooled]

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """The same as `embed_documents`: the model was trained without prompts."""
        return self.embed_documents(texts)

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        """How many of the texts have something behind the cut; the question is read apart from them."""
        return sum(tokens + MARKS > MAX_TOKENS for tokens in count_tokens(texts))

    def _stack(self, rows: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate(rows) if rows else np.empty((0, self.dimension), dtype=np.float32)

    def _pool(self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]] | None) -> list[FloatArray]:
        """For each text the row of the whole, then the rows of its parts.

        While one slab is run, the next one is made word pieces, so that no core waits for them.
        """
        if not texts:
            return []
        slabs = [slice(start, start + SLAB) for start in range(0, len(texts), SLAB)]

        def read(slab: slice) -> list[Pieces]:
            return word_pieces(texts[slab], None if parts is None else parts[slab])

        workers = self._threads or cores()
        pieces = read(slabs[0])
        batches = list(plan_batches([len(text.ids) for text in pieces], workers))
        if len(slabs) == len(batches) == 1:
            return self._run(pieces)
        results: list[FloatArray] = []
        running: list[Running] = []
        with ThreadPoolExecutor(min(workers, len(texts))) as pool:
            for following in [*slabs[1:], None]:
                ahead = pool.submit(read, following) if following else None
                started = [(batch, pool.submit(self._run, [pieces[i] for i in batch])) for batch in batches]
                results += in_order(running)
                running = started
                if ahead:
                    pieces = ahead.result()
                    batches = list(plan_batches([len(text.ids) for text in pieces], workers))
            results += in_order(running)
        return results

    def _run(self, pieces: Sequence[Pieces]) -> list[FloatArray]:
        ids, mask = pad([text.ids for text in pieces])
        (vectors,) = self._session().run(["token_vectors"], {"input_ids": ids, "attention_mask": mask})
        return unit_means(vectors, [text.ranges for text in pieces])

    def _session(self) -> InferenceSession:
        with self._lock:
            if self._loaded is None:
                self._loaded = load_session()
            return self._loaded


@cache
def _of_one_thread() -> MiniLM:
    return MiniLM(threads=1)


def load_session() -> InferenceSession:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # The file holds the nodes that run fastest; onnxruntime's extended fusions would replace them by slower ones.
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return ort.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def truncate(pieces: Sequence[Piece], limit: int) -> Sequence[Piece]:
    """The first pieces and the mark of the end, `limit` in all."""
    return pieces if len(pieces) <= limit else [*pieces[: limit - 1], pieces[-1]]


def word_pieces(texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]] | None) -> list[Pieces]:
    """The word pieces of each text, between the marks and cut; `parts` are spans of characters of each."""
    encodings = encode(texts, marks=True, offsets=parts is not None)
    ids = [truncate(encoding.ids, MAX_TOKENS) for encoding in encodings]
    if parts is None:
        return [Pieces(text, [(0, len(text))]) for text in ids]
    return [
        Pieces(text, ranges_of(spans, [start for start, _ in encoding.offsets[1 : len(text) - 1]]))
        for text, spans, encoding in zip(ids, parts, encodings, strict=True)
    ]


def ranges_of(parts: Sequence[tuple[int, int]], starts: Sequence[int]) -> list[tuple[int, int]]:
    """The range of all word pieces, then of those that start in each part. `starts`: where the pieces between the marks start."""
    whole = (0, len(starts) + 2)
    ranges = [(bisect_left(starts, start) + 1, bisect_left(starts, end) + 1) for start, end in parts]
    return [whole, *((first, end) if first < end else whole for first, end in ranges)]


def plan_batches(lengths: Sequence[int], workers: int) -> Iterator[list[int]]:
    """Groups texts of similar length, so that little is padded; the longest first, so that no long batch ends alone.

    Few texts are divided among the workers rather than put into one batch.
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


def in_order(running: Sequence[Running]) -> list[FloatArray]:
    """The rows of all batches, in the order of their texts."""
    rows = {i: row for batch, result in running for i, row in zip(batch, result.result(), strict=True)}
    return [rows[i] for i in range(len(rows))]


def unit_means(vectors: FloatArray, ranges: Sequence[Sequence[tuple[int, int]]]) -> list[FloatArray]:
    """For each text of a batch the means of the vectors in each of its ranges, scaled to unit length."""
    sums = np.array(
        [np.add.reduce(text[a:b], axis=0) for text, spans in zip(vectors, ranges, strict=True) for a, b in spans]
    )
    sums /= np.sqrt(np.add.reduce(sums * sums, axis=1, keepdims=True))
    ends = list(accumulate(map(len, ranges)))
    return [sums[a:b] for a, b in pairwise([0, *ends])]
