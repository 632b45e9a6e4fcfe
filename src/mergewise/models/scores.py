"""What all rerankers share: scores in [0, 1], and a memory so that no text is scored twice for a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mergewise.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from mergewise.protocols import FloatArray, Reranker


def unit_interval(scores: Sequence[float]) -> FloatArray:
    """The scores as they are if all lie in [0, 1]. Else they are logits: the logistic function keeps their order."""
    import numpy as np

    raw = np.asarray(scores, np.float64)
    if not np.all(np.isfinite(raw)):
        raise ModelError("the reranker gave a score that is no number", "try another model")
    if raw.size and (raw.min() < 0 or raw.max() > 1):
        raw = logistic(raw)
    return raw.astype(np.float32)


def logistic(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    import numpy as np

    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -60, 60))), np.float64)


class RememberingReranker:
    """A `Reranker` that asks `reranker` for each pair of question and text once. Made anew for each question."""

    def __init__(self, reranker: Reranker) -> None:
        self.reranker = reranker
        self._known: dict[tuple[str, str], float] = {}

    @property
    def spec(self) -> str:
        return self.reranker.spec

    def score(self, question: str, texts: Sequence[str]) -> FloatArray:
        import numpy as np

        new = [text for text in dict.fromkeys(texts) if (question, text) not in self._known]
        if new:
            scores = self.reranker.score(question, new)
            self._known.update(((question, text), float(score)) for text, score in zip(new, scores, strict=True))
        return np.array([self._known[question, text] for text in texts], np.float32)
