"""Contrastive perplexity (CPPL): how well an answer follows from a context, beyond what the model would say anyway.

    p~(a_j) = softmax((1 + alpha) logit(a_j | q, c, a_<j) - alpha logit(a_j | q, a_<j))      Eq. 2 of AED-RAG
    CPPL(c, a | q) = exp(-1/N sum over j of log p~(a_j))                                      Eq. 3

**Lower is better.** CPPL is a perplexity: 1 means that every token of the answer is certain. The paper reads both ways. Eq. 7
makes the teacher exp(-log(C + 1)) = 1 / (C + 1), which falls as C grows, so a low CPPL is a useful context. Its appendix C
speaks of the "highest utility" of candidates, and drops questions whose highest utility is below 1 + 1e-10, as if C itself were
a utility. We take the direction of Eq. 7: it is the only one that a formula fixes, the loss is made of it, and with the other
one the predictor would learn to prefer contexts that make the answer improbable. "The 32 candidates of highest utility" are
then those of least CPPL. The filter keeps its inequality, on the largest CPPL: it drops a question for which every candidate
makes the answer certain, where the teacher is flat and teaches nothing. (The paper's gloss, that this leaves "solvable"
questions, fits neither reading: no perplexity is below 1, so on the least CPPL it would drop the questions that are solved
best. It fits the filter of GainRAG's public code, which reads no CPPL: it keeps a question if the reader, given the candidate of
least CPPL, writes an answer that contains a gold one. That is the training's `--taught solved`.)

Question and contexts are given as prompts; an answer is tokenised once and appended to each of them. The end of the answer is
not part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mergewise.errors import UsageError
from mergewise.protocols import CausalModel

ALPHA = 0.5
# contexts that are read together
BATCH = 8


def cppl(
    model: CausalModel[Any],
    question: Sequence[int],
    contexts: Sequence[Sequence[int]],
    answers: Sequence[str],
    *,
    alpha: float = ALPHA,
    batch: int = BATCH,
) -> npt.NDArray[np.float64]:
    """CPPL of each context, shape (len(contexts),), at least 1; of several gold answers the one with the least counts.

    `question` is the prompt without a context, and `contexts` are the prompts with one, all in tokens. The stream of the question
    alone is computed once. Raises UsageError where no answer has a token, or a prompt with its answer is longer than the window.
    """
    golden = [ids for ids in map(list, dict.fromkeys(tuple(model.encode(answer)) for answer in answers)) if ids]
    if not golden:
        raise UsageError("there is no answer to measure", "give at least one gold answer that is not empty")
    _check_room(model, [question, *contexts], max(map(len, golden)))
    if not contexts:
        return np.zeros(0)
    without = model.start([question])
    # those of a length together: little is padded
    order = sorted(range(len(contexts)), key=lambda i: len(contexts[i]))
    least = np.zeros(len(contexts))
    for first in range(0, len(order), batch):
        chosen = order[first : first + batch]
        least[chosen] = _perplexities(model, [contexts[i] for i in chosen], golden, without, alpha).min(1)
    return least


def _perplexities(
    model: CausalModel[Any], contexts: Sequence[Sequence[int]], answers: Sequence[list[int]], without: Any, alpha: float
) -> npt.NDArray[np.float64]:
    """Shape (contexts, answers)."""
    together = model.start(contexts)
    alone = [model.select(together, [row]) for row in range(len(contexts))]
    states = [state for state in alone for _ in answers]
    asked = list(answers) * len(contexts)
    log_probs = model.contrast(states, asked, [without] * len(asked), alpha)
    means = [float(np.mean(row, dtype=np.float64)) for row in log_probs]
    table: npt.NDArray[np.float64] = np.exp(-np.array(means)).reshape(len(contexts), len(answers))
    return table


def _check_room(model: CausalModel[Any], prompts: Sequence[Sequence[int]], answer: int) -> None:
    longest = max(map(len, prompts))
    if longest + answer > model.window:
        raise UsageError(
            f"a prompt of {longest} tokens and an answer of {answer} do not fit into {model.spec}, {model.window} tokens",
            "shorten the contexts",
        )
