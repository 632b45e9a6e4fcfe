"""Scorer `hf:PATH`: the negative log-likelihood of sources given anchors, by a causal model.

L_NLL(s | a) of MergeRAG, section 3.3. The model reads an anchor once. Its state after the anchor then scores all sources with
this anchor, in batches of pairs.

Anchor and source are tokenised separately, with a blank line between them. Each is truncated to half of the model's window: the
anchor keeps its end, which is next to the source, and the source keeps its beginning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from mergewise.errors import ModelError
from mergewise.models.scores import Pair, PairMemory
from mergewise.protocols import CausalModel, FloatArray

BATCH_PAIRS = 32
SEPARATOR = "\n\n"
REMEMBERED_ANCHORS = 128


class CausalScorer:
    """An `NLLScorer` by a causal model. Each pair is computed once. Thread-safe."""

    def __init__(self, model: CausalModel, *, batch_pairs: int = BATCH_PAIRS) -> None:
        self.model = model
        self.spec = model.spec
        self._half = model.window // 2
        self._batch_pairs = batch_pairs
        self._anchors: OrderedDict[str, Any] = OrderedDict()
        self._memory = PairMemory(self._scores, batch_pairs)

    def nll(self, sources: Sequence[str], anchors: Sequence[str]) -> FloatArray:
        """Return the mean NLL per token in nats, shape (len(sources), len(anchors)). It is 0 for a source without tokens."""
        return self._memory.table(sources, anchors)

    def _scores(self, pairs: Sequence[Pair]) -> list[float]:
        tokens = [self.model.encode(source)[: self._half] for source, _ in pairs]
        nonempty = [i for i, ids in enumerate(tokens) if ids]
        scores = [0.0] * len(pairs)
        try:
            states = []
            for anchor in (pairs[i][1] for i in nonempty):
                # The model reads each anchor once.
                if anchor not in self._anchors:
                    self._anchors[anchor] = self.model.start([self.prefix(anchor)])
                    while len(self._anchors) > max(REMEMBERED_ANCHORS, self._batch_pairs):
                        self._anchors.popitem(last=False)
                self._anchors.move_to_end(anchor)
                states.append(self._anchors[anchor])
            log_probs = self.model.score(states, [tokens[i] for i in nonempty])
        except ModelError as error:
            raise ModelError(error.message, "try a smaller model, or the scorer lm") from error
        for i, row in zip(nonempty, log_probs, strict=True):
            scores[i] = -float(row.mean())
        return scores

    def prefix(self, anchor: str) -> list[int]:
        """Return the tokens before a source."""
        ids, begin = self.model.encode(anchor), list(self.model.begin)
        gap = self.model.encode(SEPARATOR) or begin or [0]
        room = self._half - len(begin) - len(gap)
        return [*begin, *ids[max(0, len(ids) - room) :], *gap]
