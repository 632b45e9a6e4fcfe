"""Embedder `minilm`: all-MiniLM-L6-v2 as int8 ONNX, 23 MB, which ships with the package and runs by onnxruntime.

- Model: sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), the mean of the token vectors of a six-layer BERT, scaled to unit
  length. `scripts/export_minilm.py` makes and documents the file.
- Texts: English. As in the original, they are truncated to 256 word pieces, including the marks of beginning and end.
- Vectors depend only on the text, up to float32 rounding, because the int8 ranges are fixed and not taken from the batch.
- Threads: one thread runs one batch, with one batch per core at a time. The nodes between the matrix products are too small to
  parallelise, and a core slowed down by other programs delays only its own batch. `benchmarks/embedder.py` measures this.
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
"""Maximum of tokens of a text, as in the original model."""

MARKS = 2
"""Number of tokens for the beginning and the end of a text."""

BATCH_TOKENS = 384
"""Maximum of tokens in a batch, with padding: small enough for CPU caches, large enough for full matrix products."""

SLAB = 2048
"""Number of texts that are tokenised at a time. Three slabs are in memory."""


class Pieces(NamedTuple):
    """The word pieces of a text, and the ranges to average: first the whole text, then each part."""

    ids: Sequence[int]
    ranges: list[tuple[int, int]]


Running: TypeAlias = "tuple[list[int], Future[list[FloatArray]]]"
"""The numbers of a batch's texts, and the future of their rows."""


class MiniLM:
    """An `Embedder` by the shipped model, loaded on first use. Thread-safe.

    It runs in `threads` threads, by default one for each core.
    """

    spec = "minilm"
    dimension = 384
    languages = frozenset({"en"})

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._lock = Lock()
        self._loaded: InferenceSession | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a single-threaded model, because worker processes already use all cores."""
        return _of_one_thread, ()

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Return unit vectors, shape (len(texts), 384). Only the first 254 word pieces of a text are read."""
        return self._stack(self._pool(texts, None))

    def embed_parts(
        self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]]
    ) -> tuple[FloatArray, list[FloatArray]]:
        """Return the vectors of `embed_documents` and, from the same pass, unit vectors of the `parts` of each text.

        A part is a span of characters. Its vector is the mean of the vectors of its word pieces, in the context of the whole
        text. A part without the start of a word piece, such as a truncated one, gets the vector of the text.
        """
        pooled = self._pool(texts, parts)
        return self._stack([rows[:1] for rows in pooled]), [rows[1:] for rows in pooled]

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Embed questions in the same way as documents, because the model was trained without prompts."""
        return self.embed_documents(texts)

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        """Count the texts that are truncated. The question takes no room, because it is read separately."""
        return sum(tokens + MARKS > MAX_TOKENS for tokens in count_tokens(texts))

    def _stack(self, rows: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate(rows) if rows else np.empty((0, self.dimension), dtype=np.float32)

    def _pool(self, texts: Sequence[str], parts: Sequence[Sequence[tuple[int, int]]] | None) -> list[FloatArray]:
        """Return for each text the row of the whole, then the rows of its parts.

        The next slab is tokenised while one slab runs, so that no core waits for tokens.
        """
        if not texts:
            return []
        slabs = [slice(start, start + SLAB) for start in range(0, len(texts), SLAB)]

        def read(slab: slice) -> list[Pieces]:
            """Return the word pieces of each text with marks, truncated, and the ranges of its parts."""
            encodings = encode(texts[slab], marks=True, offsets=parts is not None)
            ids = [truncate(encoding.ids, MAX_TOKENS) for encoding in encodings]
            if parts is None:
                return [Pieces(text, [(0, len(text))]) for text in ids]
            return [
                Pieces(text, ranges_of(spans, [start for start, _ in encoding.offsets[1 : len(text) - 1]]))
                for text, spans, encoding in zip(ids, parts[slab], encodings, strict=True)
            ]

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
                results += text_order(running)
                running = started
                if ahead:
                    pieces = ahead.result()
                    batches = list(plan_batches([len(text.ids) for text in pieces], workers))
            results += text_order(running)
        return results

    def _run(self, pieces: Sequence[Pieces]) -> list[FloatArray]:
        ids, mask = pad([text.ids for text in pieces])
        with self._lock:
            if self._loaded is None:
                self._loaded = load_session()
        (vectors,) = self._loaded.run(["token_vectors"], {"input_ids": ids, "attention_mask": mask})
        # for each text, the mean vector of each of its ranges, scaled to unit length
        ranges = [text.ranges for text in pieces]
        sums = np.array(
            [np.add.reduce(text[a:b], axis=0) for text, spans in zip(vectors, ranges, strict=True) for a, b in spans]
        )
        sums /= np.sqrt(np.add.reduce(sums * sums, axis=1, keepdims=True))
        ends = list(accumulate(map(len, ranges)))
        return [sums[a:b] for a, b in pairwise([0, *ends])]


@cache
def _of_one_thread() -> MiniLM:
    return MiniLM(threads=1)


def load_session() -> InferenceSession:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    # onnxruntime's extended fusions would replace the file's nodes by slower ones
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return ort.InferenceSession(str(MODEL), options, providers=["CPUExecutionProvider"])


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def truncate(pieces: Sequence[Piece], limit: int) -> Sequence[Piece]:
    """Return the first pieces and the end mark, `limit` in total."""
    return pieces if len(pieces) <= limit else [*pieces[: limit - 1], pieces[-1]]


def ranges_of(parts: Sequence[tuple[int, int]], starts: Sequence[int]) -> list[tuple[int, int]]:
    """Return the range of all word pieces, then the range of the pieces that start in each part.

    `starts` holds the character offset of each word piece.
    """
    whole = (0, len(starts) + 2)
    ranges = [(bisect_left(starts, start) + 1, bisect_left(starts, end) + 1) for start, end in parts]
    return [whole, *((first, end) if first < end else whole for first, end in ranges)]


def plan_batches(lengths: Sequence[int], workers: int) -> Iterator[list[int]]:
    """Group texts of similar length to reduce padding, longest first, so that a long batch does not run last.

    A small number of texts is divided among the workers instead of forming one batch.
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
    """Return ids and attention mask, each of shape (texts, longest)."""
    ids = np.zeros((len(pieces), max(map(len, pieces))), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, piece in enumerate(pieces):
        ids[row, : len(piece)] = piece
        mask[row, : len(piece)] = 1
    return ids, mask


def text_order(running: Sequence[Running]) -> list[FloatArray]:
    """Return the rows of all batches in the order of their texts."""
    rows = {i: row for batch, result in running for i, row in zip(batch, result.result(), strict=True)}
    return [rows[i] for i in range(len(rows))]
