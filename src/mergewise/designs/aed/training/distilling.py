"""What a predictor learns from labels, on arrays: Eq. 7 to 9 of AED-RAG, and which candidates a step shows it.

    P_teacher(u_j) = exp(-log(C_j + 1)) / sum over u' of exp(-log(C_u' + 1))        Eq. 7
    P_student(u_j) = exp(S(q, u_j)) / sum over u' of exp(S(q, u'))                  Eq. 8
    L = sum over u_j of P_teacher(u_j) log(P_teacher(u_j) / P_student(u_j))         Eq. 9

C is the CPPL of a candidate, of which the least is the best (see `models/cppl.py`). So "the 32 candidates of highest utility" are
those of least CPPL, and the filter drops a question whose largest CPPL is below 1 + 1e-10: the answer is certain with every
candidate, and nothing can be learnt from it.

**The level of utilities.** Eq. 8 is the same for S + c, so that Eq. 9 leaves c free; but Eq. 11 adds utilities up, and Eq. 13
compares the sum of m of them with the utility of one. Eq. 7 suggests what S is to say: -log(C + 1) and some constant. We take the
constant by which S says what a candidate adds to no context at all, whose CPPL is C_0:

    S(q, u) = log(C_0 + 1) - log(C_u + 1)

Then 0 means of no use, a second passage that helps adds to the utility of the first, and one that misleads takes from it. The
constant is put into the bias of the head after training (`level` "gain"): gradients of Eq. 9 have no part along it, and neither
a ranking nor the loss changes. With "free" it stays as the training happens to leave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

CERTAIN = 1 + 1e-10


def teacher(cppl: Sequence[float]) -> Values:
    """Eq. 7: shares of the candidates, which fall with their CPPL."""
    values = -np.log(np.asarray(cppl, np.float64) + 1)
    shares = np.exp(values - values.max())
    whole: Values = shares / shares.sum()
    return whole


def divergence(cppl: Sequence[float], utilities: Sequence[float]) -> float:
    """Eq. 9: KL of the student from the teacher, in nats; 0 where they agree."""
    wanted = teacher(cppl)
    values = np.asarray(utilities, np.float64)
    most = values.max()
    log_student = values - most - np.log(np.exp(values - most).sum())
    return float((wanted * (np.log(wanted) - log_student)).sum())


def gains(cppl: Sequence[float], alone: float) -> Values:
    """log(C_0 + 1) - log(C_u + 1): what each candidate adds to no context."""
    added: Values = np.log(alone + 1) - np.log(np.asarray(cppl, np.float64) + 1)
    return added


def teaches(cppl: Sequence[float]) -> bool:
    """The filter: whether there is something to learn from a question."""
    return len(cppl) > 1 and max(cppl) >= CERTAIN


def step_candidates(cppl: Sequence[float], best: int, drawn: int, draw: np.random.Generator) -> list[int]:
    """The candidates that a step shows: the `best` ones, and so many `drawn` among the others, in their order."""
    order = sorted(range(len(cppl)), key=lambda i: cppl[i])
    others = order[best:]
    if drawn < len(others):
        others = [others[i] for i in draw.choice(len(others), drawn, replace=False)]
    return sorted([*order[:best], *others])


def loss(cppl: Sequence[float], utilities: Any) -> Any:
    """Eq. 9 in torch, of the utilities of one question."""
    import torch

    wanted = torch.as_tensor(teacher(cppl), dtype=utilities.dtype, device=utilities.device)
    return (wanted * (wanted.log() - utilities.log_softmax(-1))).sum()
