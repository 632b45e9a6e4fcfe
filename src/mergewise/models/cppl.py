"""Contrastive perplexity (CPPL): how well an answer follows from a context, compared with the model's own knowledge.

    p~(a_j) = softmax((1 + alpha) logit(a_j | q, c, a_<j) - alpha logit(a_j | q, a_<j))      Eq. 2 of AED-RAG
    CPPL(c, a | q) = exp(-1/N sum over j of log p~(a_j))                                      Eq. 3

**Lower is better.** CPPL is a perplexity: 1 means that every token of the answer is certain. The paper is ambiguous:

- Eq. 7 defines the teacher as exp(-log(C + 1)) = 1 / (C + 1), which falls as C grows. So a low CPPL means a useful context.
- Appendix C speaks of the "highest utility" of candidates, and drops questions whose highest utility is below 1 + 1e-10, as if C
  itself were a utility.

We follow Eq. 7: it is the only formula for the direction, and the loss uses it. With the opposite direction the predictor would
learn to prefer contexts that make the answer improbable. "The 32 candidates of highest utility" are then those with the lowest
CPPL. The filter keeps its inequality, applied to the highest CPPL: it drops a question if every candidate makes the answer
certain, because then the teacher is flat and teaches nothing.

The paper says that the filter leaves "solvable" questions, which fits neither reading: no perplexity is below 1, so applied to
the lowest CPPL it would drop the questions that are solved best. It fits the filter of GainRAG's public code, which does not use
CPPL: it keeps a question if the reader, given the candidate with the lowest CPPL, writes an answer that contains a gold answer.

Question and contexts are prompts. An answer is tokenised once and appended to each prompt. The end token of the answer is not
scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mergewise.errors import UsageError
from mergewise.protocols import CausalModel, DoubleArray, TokenRows

ALPHA = 0.5
# contexts per batch
BATCH = 8


def cppl(
    model: CausalModel,
    question: Sequence[int],
    contexts: TokenRows,
    answers: Sequence[str],
    *,
    alpha: float = ALPHA,
    batch: int = BATCH,
) -> DoubleArray:
    """Compute the CPPL of each context. The gold answer with the lowest CPPL counts.

    Args:
        model: the causal model.
        question: the prompt without a context, in tokens. It is read once.
        contexts: the prompts with a context, in tokens.
        answers: the gold answers.
        alpha: weight of the contrast (Eq. 2).
        batch: contexts per batch.

    Returns:
        The CPPL of each context, at least 1, shape (len(contexts),).

    Raises:
        UsageError: if all answers are empty, or a prompt with its answer exceeds the model's window.
    """
    golden = [ids for ids in map(list, dict.fromkeys(tuple(model.encode(answer)) for answer in answers)) if ids]
    if not golden:
        raise UsageError("missing gold answer", "give at least one gold answer that is not empty")
    answer = max(map(len, golden))
    longest = max(map(len, [question, *contexts]))
    if longest + answer > model.window:
        raise UsageError(
            f"prompt of {longest} tokens and answer of {answer} exceed the window of {model.spec}: {model.window} tokens",
            "shorten the contexts",
        )
    if not contexts:
        return np.zeros(0)
    without = model.start([question])
    # batch contexts of similar length, so that little is padded
    order = sorted(range(len(contexts)), key=lambda i: len(contexts[i]))
    least = np.zeros(len(contexts))
    for first in range(0, len(order), batch):
        chosen = order[first : first + batch]
        least[chosen] = _perplexities(model, [contexts[i] for i in chosen], golden, without, alpha).min(1)
    return least


def _perplexities(
    model: CausalModel, contexts: TokenRows, answers: Sequence[list[int]], without: Any, alpha: float
) -> DoubleArray:
    """Return the CPPL of each answer in each context, shape (contexts, answers)."""
    together = model.start(contexts)
    alone = [model.select(together, [row]) for row in range(len(contexts))]
    states = [state for state in alone for _ in answers]
    asked = list(answers) * len(contexts)
    log_probs = model.contrast(states, asked, [without] * len(asked), alpha)
    means = [float(np.mean(row, dtype=np.float64)) for row in log_probs]
    table: DoubleArray = np.exp(-np.array(means)).reshape(len(contexts), len(answers))
    return table
