"""Embedders by onnxruntime: `minilm` and `e5`, which ship with the package, and `onnx:PATH`, any folder with an ONNX file.

A folder holds `model.onnx` or `onnx/model.onnx`, and `tokenizer.json`. `embedder.json` says how they are used, see `Settings`.
Without it, the files that sentence-transformers writes say it.

- `minilm` is sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0) as int8 ONNX, 23 MB. `scripts/export_minilm.py` makes it. It
  reads English, and as in the original, texts are truncated to 256 word pieces, with the marks of beginning and end.
- `e5` is intfloat/multilingual-e5-small (MIT), 80 MB: int8 layers, and the words in 4 bits. `scripts/export_e5.py` makes it. It
  reads a hundred languages and 512 word pieces. A text takes 1.7 times the time of `minilm`.
- Vectors of shipped models depend only on the text, up to float32 rounding, because their int8 ranges are fixed and not taken
  from the batch.
- Threads: one thread runs one batch, with one batch per core at a time. The nodes between the matrix products are too small to
  parallelise, and a core slowed down by other programs delays only its own batch. `benchmarks/embedder.py` measures this.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields
from itertools import accumulate, pairwise
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from mergewise.errors import ModelError, UsageError, first_line
from mergewise.files import regular_bytes
from mergewise.lazy import of_process
from mergewise.models.tokens import encode, load_tokenizer
from mergewise.models.unigram import Tokens, vocabulary
from mergewise.protocols import IntArray, TokenRows
from mergewise.ranges import CheckedFields, Range
from mergewise.types import JsonDict, Part, frozen

if TYPE_CHECKING:
    from onnxruntime import InferenceSession, NodeArg
    from tokenizers import Encoding

    from mergewise.protocols import FloatArray

Piece = TypeVar("Piece")

MINILM, E5 = (Path(__file__).parent / name for name in ("minilm", "e5"))
MODELS = ("model.onnx", "onnx/model.onnx")

BATCH_TOKENS = 384
"""Maximum of tokens in a batch, with padding: small enough for CPU caches, large enough for full matrix products."""

SLAB = 2048
"""Number of texts that are tokenised at a time. Three slabs are in memory."""


@frozen
class Settings(CheckedFields):
    """How a folder's model is used: the fields of its `embedder.json`.

    Attributes:
        query: text before each question, such as "query: ".
        passage: text before each document.
        pooling: `mean` of all token vectors, or `cls`, the first one.
        longest: maximum of tokens of a text, with its prefix and the marks of beginning and end.
        languages: codes of the languages that the model knows. None are all languages.
        dimension: length of the vectors. 0 stands for reading it from the model when it is loaded.
        fuse: let onnxruntime fuse nodes. It would replace those of the shipped models by slower ones.
    """

    query: str = ""
    passage: str = ""
    pooling: Literal["mean", "cls"] = "mean"
    longest: Annotated[int, Range(8, 1_000_000)] = 512
    languages: tuple[str, ...] = ()
    dimension: Annotated[int, Range(0, 100_000)] = 0
    fuse: bool = True


class Pieces(NamedTuple):
    """The tokens of a text, and the ranges to average: first the whole text, then each part."""

    ids: Sequence[int]
    ranges: list[tuple[int, int]]


Running: TypeAlias = "tuple[list[int], Future[list[FloatArray]]]"
"""The numbers of a batch's texts, and the future of their rows."""


class OnnxEmbedder:
    """An `Embedder` by the ONNX model of a folder, loaded on first use. Thread-safe.

    It runs in `threads` threads, by default one for each core.
    """

    def __init__(self, folder: Path, spec: str, threads: int | None = None) -> None:
        self.spec = spec
        self.folder = folder
        self.settings = read_settings(folder)
        self.languages = frozenset(self.settings.languages) or None
        self._threads = threads
        self._lock = Lock()
        self._loaded: InferenceSession | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a single-threaded model, because worker processes already use all cores."""
        return of_process, (type(self), self.folder, self.spec, 1)

    @property
    def dimension(self) -> int:
        return self.settings.dimension or int(_output(self._session()).shape[-1])

    def embed_documents(self, texts: Sequence[str]) -> FloatArray:
        """Return unit vectors, shape (len(texts), dimension). Only the first tokens of a text are read, up to `longest`."""
        return self._stack(self._pool(self.settings.passage, texts, None))

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        return self._stack(self._pool(self.settings.query, texts, None))

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        """Count the texts that are truncated. The question takes no room, because it is read separately."""
        given = [self.settings.passage + text for text in texts]
        encodings = self._encoded(given, offsets=False)
        return sum(len(encoding.ids) > self.settings.longest for encoding in encodings)

    def _stack(self, rows: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate(rows) if rows else np.empty((0, self.dimension), dtype=np.float32)

    def _pool(self, prefix: str, texts: Sequence[str], parts: Sequence[Sequence[Part]] | None) -> list[FloatArray]:
        """Return for each text with the prefix the row of the whole, then the rows of its parts.

        The next slab is tokenised while one slab runs, so that no core waits for tokens.
        """
        if not texts:
            return []
        slabs = [slice(start, start + SLAB) for start in range(0, len(texts), SLAB)]

        def read(slab: slice) -> list[Pieces]:
            """Return the word pieces of each text with marks, truncated, and the ranges of its parts."""
            encodings = self._encoded([prefix + text for text in texts[slab]], offsets=parts is not None)
            ids = [truncate(encoding.ids, self.settings.longest) for encoding in encodings]
            if parts is None:
                return [Pieces(text, [(0, 1 if self.settings.pooling == "cls" else len(text))]) for text in ids]
            pieces = []
            for given, tokens, spans, encoding in zip(texts[slab], ids, parts[slab], encodings, strict=True):
                starts = [start - len(prefix) for start, _ in encoding.offsets[1 : len(tokens) - 1]]
                # some tokenizers count the space before a word to the word
                starts = [start + (start >= 0 and given[start : start + 1].isspace()) for start in starts]
                pieces.append(Pieces(tokens, ranges_of(spans, starts)))
            return pieces

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

    def gives_tokens(self) -> bool:
        """Try the model on a text. Return whether its output has a vector for each token."""
        try:
            self.embed_queries(["a"])
        except UsageError:
            raise
        # onnxruntime raises bare exceptions
        except Exception as error:
            raise ModelError(
                f"cannot load {self.spec}: {first_line(error)}", "export the model for feature extraction"
            ) from error
        return len(_output(self._session()).shape) == 3

    def _encoded(self, texts: Sequence[str], offsets: bool) -> Sequence[Encoding | Tokens]:
        if (self.folder / "pieces.txt").is_file():
            return vocabulary(self.folder).encode(texts)
        return encode(texts, marks=True, offsets=offsets, tokenizer=load_tokenizer(self.folder / "tokenizer.json"))

    def _session(self) -> InferenceSession:
        with self._lock:
            if self._loaded is None:
                self._loaded = load_session(self.folder, self.settings.fuse)
            return self._loaded

    def _run(self, pieces: Sequence[Pieces]) -> list[FloatArray]:
        session = self._session()
        ids, mask = pad([text.ids for text in pieces])
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        names = [one.name for one in session.get_inputs()]
        (vectors,) = session.run([_output(session).name], {name: given[name] for name in names})
        if vectors.ndim == 2:
            # the model pools the tokens itself
            vectors = vectors[:, None]
        # for each text, the mean vector of each of its ranges, scaled to unit length
        ranges = [text.ranges for text in pieces]
        sums = np.array(
            [np.add.reduce(text[a:b], axis=0) for text, spans in zip(vectors, ranges, strict=True) for a, b in spans]
        )
        sums /= np.sqrt(np.add.reduce(sums * sums, axis=1, keepdims=True))
        ends = list(accumulate(map(len, ranges)))
        return [sums[a:b] for a, b in pairwise([0, *ends])]


class OnnxPartEmbedder(OnnxEmbedder):
    """An `OnnxEmbedder` whose model returns token vectors, and whose vector of a text is their mean."""

    def embed_parts(self, texts: Sequence[str], parts: Sequence[Sequence[Part]]) -> tuple[FloatArray, list[FloatArray]]:
        """Return the vectors of `embed_documents` and, from the same pass, unit vectors of the `parts` of each text.

        A part is a span of characters. Its vector is the mean of the vectors of its word pieces, in the context of the whole
        text. A part without the start of a word piece, such as a truncated one, gets the vector of the text.
        """
        pooled = self._pool(self.settings.passage, texts, parts)
        return self._stack([rows[:1] for rows in pooled]), [rows[1:] for rows in pooled]


def minilm() -> OnnxPartEmbedder:
    return OnnxPartEmbedder(MINILM, "minilm")


def e5() -> OnnxPartEmbedder:
    return OnnxPartEmbedder(E5, "e5")


def load_folder(path: str) -> OnnxEmbedder:
    """Load the model of a folder.

    Raises:
        UsageError: if the folder, its settings or its tokenizer are missing or invalid.
        ModelError: if onnxruntime cannot run the model.
    """
    folder = Path(path).expanduser()
    embedder = OnnxPartEmbedder(folder, f"onnx:{path}")
    has_parts = embedder.gives_tokens() and embedder.settings.pooling == "mean"
    return embedder if has_parts else OnnxEmbedder(folder, embedder.spec)


def read_settings(folder: Path) -> Settings:
    """Return the settings of a folder, from `embedder.json` or else from the files of sentence-transformers."""
    given = _json(folder / "embedder.json")
    if given is None:
        pooling = _json(folder / "1_Pooling/config.json") or {}
        kinds = [name.removeprefix("pooling_mode_") for name, is_on in pooling.items() if is_on is True]
        kind = {"cls_token": "cls", "mean_tokens": "mean"}.get(kinds[0] if kinds else "mean_tokens")
        if kind is None or len(kinds) > 1:
            raise UsageError(f"unknown pooling of {folder}: {', '.join(kinds)}", "use a model with mean or CLS pooling")
        prompts = (_json(folder / "config_sentence_transformers.json") or {}).get("prompts") or {}
        longest = (_json(folder / "sentence_bert_config.json") or {}).get("max_seq_length")
        longest = longest or min((_json(folder / "tokenizer_config.json") or {}).get("model_max_length", 512), 8192)
        passage = prompts.get("document") or prompts.get("passage") or ""
        given = {"pooling": kind, "longest": longest, "query": prompts.get("query") or "", "passage": passage}
    known = [field.name for field in fields(Settings)]
    if unknown := given.keys() - set(known):
        raise UsageError(
            f"unknown in {folder / 'embedder.json'}: {', '.join(sorted(unknown))}", f"it has: {', '.join(known)}"
        )
    return Settings(**given)


def _json(path: Path) -> JsonDict | None:
    try:
        read = json.loads(regular_bytes(path, 1 << 20, follow=True))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"invalid {path}: {error}", "write a JSON object") from None
    if not isinstance(read, dict):
        raise UsageError(f"invalid {path}", "write a JSON object")
    return read


def load_session(folder: Path, fuse: bool) -> InferenceSession:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    levels = ort.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if fuse else levels.ORT_ENABLE_BASIC
    model = next((path for name in MODELS if (path := folder / name).is_file()), None)
    if model is None:
        raise UsageError(f"no {' or '.join(MODELS)} in {folder}", "export the model to ONNX")
    return ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _output(session: InferenceSession) -> NodeArg:
    """Return the output with the token vectors of shape (texts, tokens, width), or else with one vector a text."""
    return max(session.get_outputs(), key=lambda output: len(output.shape) == 3)


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def truncate(pieces: Sequence[Piece], limit: int) -> Sequence[Piece]:
    """Return the first pieces and the end mark, `limit` in total."""
    return pieces if len(pieces) <= limit else [*pieces[: limit - 1], pieces[-1]]


def ranges_of(parts: Sequence[Part], starts: Sequence[int]) -> list[Part]:
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


def pad(pieces: TokenRows) -> tuple[IntArray, IntArray]:
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
