"""Reranker `hf:PATH`: a causal model judges by yes or no whether a text helps to answer the question.

The logit of a text is log P(yes) - log P(no) of the answer's first token. The model generates no text, so there is nothing to
parse and nothing to retry. One run of the network reads the prompts of `BATCH_TEXTS` texts, which share their beginning. A prompt
holds one text, so it fits small windows, and a prompt injection can change only the logit of its own text.

Two other forms were worse on the few questions tried: a letter for each text in one prompt, where the letter's position mattered
more than the text, and yes or no for each text after a prompt with all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mergewise.concurrency import check_time
from mergewise.errors import ModelError, UsageError
from mergewise.models.scores import ScoredByLogits
from mergewise.protocols import CausalModel, FloatArray
from mergewise.types import Message

BATCH_TEXTS = 16
YES, NO = ("yes", "Yes"), ("no", "No")
_TASK = (
    "Judge evidence. Does the passage help to answer the question, by stating the answer or a step on the way to it? "
    "Answer yes or no."
)


class CausalReranker(ScoredByLogits):
    """A `LogitReranker` by a causal model. A text that exceeds the model's window is truncated. Thread-safe."""

    def __init__(self, model: CausalModel) -> None:
        self.model = model
        self.spec = model.spec
        self._yes, self._no = (sorted({i for word in words for i in model.encode(word)[:1]}) for words in (YES, NO))
        if not self._yes or not self._no or set(self._yes) & set(self._no):
            raise UsageError(f"no distinct tokens for yes and no in {self.spec}", "use another model as the reranker")

    def logits(self, question: str, texts: Sequence[str]) -> FloatArray:
        room = self._room(question)
        encoded = [self.model.encode(text) for text in texts]
        prompts = [
            self._prompt(question, text if len(ids) <= room else self.model.decode(ids[:room]))
            for text, ids in zip(texts, encoded, strict=True)
        ]
        logits = np.zeros(len(texts), np.float32)
        for first in range(0, len(prompts), BATCH_TEXTS):
            check_time()
            log_probs = self.model.start(prompts[first : first + BATCH_TEXTS]).log_probs
            yes, no = (np.logaddexp.reduce(log_probs[:, ids], axis=1) for ids in (self._yes, self._no))
            logits[first : first + BATCH_TEXTS] = yes - no
        return logits

    def count_cut(self, question: str, texts: Sequence[str]) -> int:
        room = self._room(question)
        return sum(len(self.model.encode(text)) > room for text in texts)

    def _room(self, question: str) -> int:
        """Return the maximum of tokens of a text. Two are reserved, because truncation may change the last tokens."""
        room = self.model.window - len(self._prompt(question, "")) - 2
        if room < 1:
            raise ModelError(
                f"question fills the window of {self.spec}: {self.model.window} tokens", "shorten the question"
            )
        return room

    def _prompt(self, question: str, text: str) -> list[int]:
        asked = f"Question: {question}\n\nPassage: {text}"
        return self.model.prompt([Message("system", _TASK), Message("user", asked)])
