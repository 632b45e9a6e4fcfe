"""RAPTOR's tree over all chunks of an index (Sarthi et al. 2024, section 3): clusters are summarised, the summaries clustered.

A tree covers all documents. So the first question after a change of the documents computes it, from all chunks in the order of
their ids. It is stored in the folder `raptor` of the index, under a digest of these chunks and the settings. The same chunks
give the same tree. A chat model's summaries are stored there too, so that an unfinished tree requests none twice.

A summary is written by the chat model (`summary=abstractive`), or consists of sentences of its cluster: those nearest to the
mean of the cluster's vectors, chosen one after the other by 0.7 times this cosine minus 0.3 times the highest cosine with a
sentence that is already chosen (MMR).

Where we differ, and why:
- Extractive summaries are not part of RAPTOR. Without a model there would be no tree.
- Chunks that repeat the text of an earlier one are left out, since copies would form clusters of their own.
- A layer with at least as many nodes as the one below it is not built, since it would add nothing.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from filelock import FileLock

from mergewise.concurrency import check_time
from mergewise.designs.raptor.chunks import CHUNKS, PRESETS, RaptorChunk, RaptorSettings, build, problems
from mergewise.designs.raptor.clusters import FEW, clustering_by, clusters
from mergewise.designs.raptor.summaries import summaries
from mergewise.errors import UsageError
from mergewise.files import regular_bytes, write_whole
from mergewise.index.tree import TreeReader
from mergewise.models.record import Models
from mergewise.protocols import FloatArray, RowReader
from mergewise.store.tables import NUMBER
from mergewise.store.views import View
from mergewise.text.spans import one_line
from mergewise.types import frozen

log = logging.getLogger("mergewise")

FOLDER = "raptor"
FORMAT = 1
_LONGEST = 1 << 30
_AT_ONCE = 512
MMR = 0.7
_NEAREST = 60
"""Sentences of a cluster that are candidates for its summary."""

Place: TypeAlias = tuple[int, int]
"""A sentence as the id of its leaf and its number in the leaf."""


class SummaryNode(NamedTuple):
    """An inner node. `children` are ids of chunks in layer 1, else positions in `SummaryTree.nodes`.

    `sentences` are the sentences of the text. They are empty for a summary by a model.
    """

    layer: int
    text: str
    children: tuple[int, ...]
    sentences: tuple[Place, ...] = ()


@dataclass(frozen=True)
class SummaryTree:
    """A tree of summaries, layer by layer.

    `vectors` has a row for each of the `nodes`. `numbers` maps each chunk to the number of its document.
    """

    nodes: tuple[SummaryNode, ...]
    vectors: FloatArray
    numbers: Mapping[int, int]
    made: str

    @property
    def layers(self) -> int:
        """The number of layers of summaries."""
        return self.nodes[-1].layer if self.nodes else 0

    @cached_property
    def chunks_below(self) -> tuple[frozenset[int], ...]:
        """The ids of all chunks below each node."""
        below: list[frozenset[int]] = []
        for node in self.nodes:
            own = node.children if node.layer == 1 else (chunk for child in node.children for chunk in below[child])
            below.append(frozenset(own))
        return tuple(below)

    @cached_property
    def documents(self) -> tuple[frozenset[int], ...]:
        """The numbers of the documents below each node."""
        return tuple(frozenset(self.numbers[chunk] for chunk in chunks) for chunks in self.chunks_below)


@frozen
class RaptorReader:
    """The reader of the view for one question."""

    stored: RowReader

    def chunks(self, ids: Sequence[int]) -> dict[int, RaptorChunk]:
        return self.stored.rows(CHUNKS.name, RaptorChunk, ids)

    def nearest_chunks(self, question: str, vector: FloatArray, k: int) -> dict[int, float]:
        """Return the ids of the `k` nearest chunks, with their cosines."""
        return self.cosines([row for row, _ in self.stored.rank_by_vectors(question, k, CHUNKS.name)], vector)

    def cosines(self, ids: Sequence[int], vector: FloatArray) -> dict[int, float]:
        """Return the cosines of these chunks with a question's vector."""
        vectors = self.stored.vectors(ids, CHUNKS.name)
        return {row: float(own @ vector) / max(float(np.linalg.norm(own)), 1e-9) for row, own in vectors.items()}

    def searchable(self, tree: SummaryTree) -> list[int]:
        """Return the positions of the nodes whose documents all match the question's condition."""
        numbers = self.stored.numbers()
        return [
            place
            for place in range(len(tree.nodes))
            # Chunks of copies are in no tree.
            if numbers is None or tree.documents[place] <= numbers
        ]

    def tree(self, models: Models) -> SummaryTree:
        """Return the tree, computed at its first use. Raises UsageError if the tree needs a chat model and none is given."""
        return self.stored.once("raptor tree", lambda: self._stored_or_grown(models))

    def _stored_or_grown(self, models: Models) -> SummaryTree:
        settings = RaptorSettings(**self.stored.settings(CHUNKS.name))
        table = self.stored.whole(CHUNKS.name, ["id", NUMBER, "start", "tokens"]).sort_by("id")
        columns = [table[name].to_numpy() for name in table.column_names]
        digest = blake2b(repr((FORMAT, asdict(settings))).encode(), digest_size=12)
        for column in columns:
            digest.update(np.ascontiguousarray(column, np.int64).tobytes())
        numbers = dict(zip(columns[0].tolist(), columns[1].tolist(), strict=True))
        index = self.stored.folder()
        if index is None:
            return self._grown(numbers, settings, models, None)
        folder = index / FOLDER
        kept = folder / f"{digest.hexdigest()}.json"
        dimension = 0 if models.embedder is None else models.embedder.dimension
        tree = _stored_tree(kept, numbers, dimension)
        if tree is None and getattr(models.chat, "is_estimate", False):
            return self._grown(numbers, settings, models, None)
        if tree is None:
            # One process at a time grows a tree. Without write access to the folder, no process waits.
            with ExitStack() as held:
                with suppress(OSError):
                    folder.mkdir(exist_ok=True)
                    held.enter_context(FileLock(folder / "growing.lock"))
                # Another process may have grown it in the mean time.
                tree = _stored_tree(kept, numbers, dimension)
                if tree is None:
                    tree = self._grown(numbers, settings, models, folder if folder.is_dir() else None)
                    _store(kept, tree)
        return tree

    def _grown(
        self, numbers: Mapping[int, int], settings: RaptorSettings, models: Models, folder: Path | None
    ) -> SummaryTree:
        if settings.summary == "abstractive" and models.chat is None:
            raise UsageError(
                "the summaries of the view 'raptor' are not written yet for the current documents",
                "name the chat model: --chat openai:MODEL",
            )
        distinct: dict[str, RaptorChunk] = {}
        for first in range(0, len(numbers), _AT_ONCE):
            for row in self.chunks(list(numbers)[first : first + _AT_ONCE]).values():
                distinct.setdefault(row.text, row)
        vectors = self.stored.vectors([row.id for row in distinct.values()], CHUNKS.name)
        rows = [row for row in distinct.values() if row.id in vectors]
        log.info("growing a tree over %d chunks", len(rows))
        stacked = np.stack([vectors[row.id] for row in rows]) if rows else np.empty((0, 1), np.float32)
        return grow(rows, stacked, numbers, settings, models, TreeReader(self.stored), folder)


def grow(
    chunks: Sequence[RaptorChunk],
    vectors: FloatArray,
    numbers: Mapping[int, int],
    settings: RaptorSettings,
    models: Models,
    reader: TreeReader,
    folder: Path | None,
) -> SummaryTree:
    """Build the layers above these chunks, with their vectors, shape (chunks, dimension)."""
    embedder, by = models.embedder, clustering_by(settings.reduce)
    assert embedder is not None
    ids: Sequence[int] = [chunk.id for chunk in chunks]
    texts, tokens = [chunk.text for chunk in chunks], [chunk.tokens for chunk in chunks]
    places = [
        [
            (leaf.id, number)
            for leaf in reader.leaves(list(chunk.leaves)).values()
            for number, sentence in enumerate(leaf.sentences)
            if chunk.start <= sentence.start < chunk.end
        ]
        for chunk in chunks
    ]
    nodes: list[SummaryNode] = []
    stored = [np.empty((0, embedder.dimension), np.float32)]
    for layer in range(1, settings.layers + 1):
        groups = clusters(vectors.astype(np.float64), tokens, by) if len(ids) > FEW else []
        if not groups or len(groups) >= len(ids):
            break
        check_time()
        extracts = [
            _extract([p for i in group for p in places[i]], vectors[group], reader, settings.summary_tokens)
            for group in groups
        ]
        written: list[str | None] = [None] * len(groups)
        if settings.summary == "abstractive":
            asked = [[texts[i] for i in group] for group in groups]
            written = summaries(asked, settings.summary_tokens, models, folder)
        made = [
            SummaryNode(layer, own or text, tuple(ids[i] for i in group), () if own else tuple(chosen))
            for group, own, (text, chosen) in zip(groups, written, extracts, strict=True)
        ]
        # The next layer may extract from a model's summary, by the sentences that it was written from.
        places = [chosen for _, chosen in extracts]
        ids = range(len(nodes), len(nodes) + len(made))
        texts = [node.text for node in made]
        tokens, vectors = models.count_tokens(texts), embedder.embed_documents(texts)
        nodes += made
        # In the precision of the stored tree.
        stored.append(vectors.astype(np.float16).astype(np.float32))
    spec = settings.summary if models.chat is None or settings.summary == "extractive" else models.chat.spec
    return SummaryTree(tuple(nodes), np.concatenate(stored), numbers, f"summaries {spec}, reduce={by.made_by}")


def _extract(places: Sequence[Place], vectors: FloatArray, reader: TreeReader, room: int) -> tuple[str, list[Place]]:
    """Return the sentences that represent a cluster, in the order of the texts."""
    # Imported only when a tree is grown.
    from mergewise.assemble.sentences import SentenceInLeaf, sentence_vectors

    wanted = set(places)
    leaves = reader.sentences(sorted({leaf for leaf, _ in wanted}))
    every = [SentenceInLeaf(leaf, number) for leaf in leaves.values() for number in range(len(leaf.sentences))]
    known = sentence_vectors(list(leaves.values()))
    rows = [i for i, one in enumerate(every) if (one.leaf.id, one.number) in wanted]
    own = [every[i] for i in rows]
    mean = vectors.mean(0) / max(float(np.linalg.norm(vectors.mean(0))), 1e-9)
    table = np.zeros((len(own), len(mean)), np.float32) if known is None else known[rows]
    chosen = [own[i] for i in marginal(table, mean, [one.tokens for one in own], room)]
    return " ".join(one_line(one.text) for one in chosen), [(one.leaf.id, one.number) for one in chosen]


def marginal(vectors: FloatArray, mean: FloatArray, sizes: Sequence[int], room: int) -> list[int]:
    """Choose sentences that fit into `room` tokens by maximal marginal relevance (Carbonell and Goldstein 1998), at least one.

    `vectors` are unit rows, (n, dimension). Only the sixty nearest to the unit `mean` are candidates. Returns sorted positions.
    """
    near = vectors @ mean
    left = np.argsort(-near, kind="stable")[:_NEAREST].tolist()
    alike = np.zeros(len(vectors), np.float32)
    chosen: list[int] = []
    while left:
        best = max(left, key=lambda i: MMR * near[i] - (1 - MMR) * alike[i])
        left.remove(best)
        if not chosen or sizes[best] <= room:
            chosen.append(best)
            room -= sizes[best]
            alike = np.maximum(alike, vectors @ vectors[best])
    return sorted(chosen)


# -- storage in the index


def _store(path: Path, tree: SummaryTree) -> None:
    """Write the tree to a file, and delete other trees. Without write access, the tree is computed again next time."""
    packed = base64.b64encode(tree.vectors.astype("<f2").tobytes()).decode()
    nodes = [[node.layer, node.text, node.children, node.sentences] for node in tree.nodes]
    written = {"made": tree.made, "nodes": nodes, "vectors": packed}
    try:
        write_whole(path, json.dumps(written).encode("utf-8"))
        for other in path.parent.glob("*.json"):
            if other != path:
                other.unlink(missing_ok=True)
    except OSError as error:
        log.warning("cannot store the tree in %s: %s", path.parent, error.strerror)


def _stored_tree(path: Path, numbers: Mapping[int, int], dimension: int) -> SummaryTree | None:
    """Load a tree with vectors of this `dimension`. Returns None if the file is missing or invalid."""
    try:
        raw = json.loads(regular_bytes(path, _LONGEST))
        nodes = tuple(
            SummaryNode(int(layer), str(text), tuple(map(int, children)), tuple((int(a), int(b)) for a, b in places))
            for layer, text, children, places in raw["nodes"]
        )
        vectors = np.frombuffer(base64.b64decode(raw["vectors"]), "<f2").reshape(len(nodes), dimension)
        # Each child must be one layer below, with chunks in layer 0.
        before = 1
        for node in nodes:
            if not before <= node.layer <= before + 1 or not node.children:
                raise ValueError("invalid layers")
            before = node.layer
            below = (child in numbers if node.layer == 1 else 0 <= child < len(nodes) for child in node.children)
            if not all(below) or (node.layer > 1 and any(nodes[c].layer != node.layer - 1 for c in node.children)):
                raise ValueError("a child is missing")
        return SummaryTree(nodes, vectors.astype(np.float32), numbers, str(raw["made"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        log.warning("%s is not a valid tree (%s), it is computed again", path, error)
        return None


VIEW = View(
    name="raptor",
    settings=RaptorSettings,
    tables=lambda settings: (CHUNKS,),
    build=build,
    problems=problems,
    reader=RaptorReader,
    with_chat={"summary": "abstractive"},
    needs_embedder=True,
    presets=PRESETS,
)
