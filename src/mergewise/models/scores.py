"""What all rerankers share: scores in [0, 1], and a memory so that no text is scored twice for a question.

Whether a model's scores are logits is a property of the model. It is settled once, and never by the scores of one call: a call
whose logits happened to lie in [0, 1] would be measured by another scale than the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from mergewise.errors import ModelError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from mergewise.protocols import FloatArray, Reranker


Scale: TypeAlias = Literal["shares", "logits"]
"""What a model's scores are: shares of 1, or any numbers, of which the logistic function makes shares in the same order."""

_ROUNDING = 1e-3


def scale_of(scores: Sequence[float]) -> Scale:
    """What these scores are, if they are of texts that fit and texts that do not."""
    return "shares" if all(-_ROUNDING <= score <= 1 + _ROUNDING for score in scores) else "logits"


def unit_interval(scores: Sequence[float], scale: Scale) -> FloatArray:
    """The scores in [0, 1]. Raises ModelError for what is no number, and for a share below 0 or above 1."""
    import numpy as np

    raw = np.asarray(scores, np.float64)
    if not np.all(np.isfinite(raw)):
        raise ModelError("the reranker gave a score that is no number", "try another model")
    if scale == "logits":
        return logistic(raw).astype(np.float32)
    if scale_of(raw.tolist()) != "shares":
        raise ModelError(
            "the reranker gave a score outside of [0, 1] after scores that all lay in it",
            "let it give one kind of scores: always normalised, or never",
        )
    return np.clip(raw, 0, 1).astype(np.float32)


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
