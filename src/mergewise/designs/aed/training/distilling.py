"""The training objective on arrays, Eq. 7 to 9 of AED-RAG.

    P_teacher(u_j) = exp(-log(C_j + 1)) / sum over u' of exp(-log(C_u' + 1))        Eq. 7
    P_student(u_j) = exp(S(q, u_j)) / sum over u' of exp(S(q, u'))                  Eq. 8
    L = sum over u_j of P_teacher(u_j) log(P_teacher(u_j) / P_student(u_j))         Eq. 9

C is the CPPL of a candidate (`models/cppl.py`). Lower is better. So "the 32 candidates of highest utility" are those with the
lowest CPPL. The filter drops a question whose largest CPPL is below 1 + 1e-10: the answer is certain with every candidate, so the
question teaches nothing.

**The level of utilities.** Eq. 8 is invariant to S + c, so Eq. 9 does not determine c. But Eq. 11 sums utilities, and Eq. 13
compares the sum of m utilities with a single one. Eq. 7 suggests S = -log(C + 1) plus a constant. We choose the constant so that
S is the advantage of a candidate over no context, whose CPPL is C_0:

    S(q, u) = log(C_0 + 1) - log(C_u + 1)

Then 0 means useless. A second passage that helps raises the joint utility, and a misleading passage lowers it. The constant is
added to the bias of the head after training (`level` "gain"). This changes neither the ranking nor the loss, since the gradients
of Eq. 9 are orthogonal to it. With "free", the bias stays as trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mergewise.protocols import DoubleArray

CERTAIN = 1 + 1e-10


def teacher(cppl: Sequence[float]) -> DoubleArray:
    """Return the teacher distribution over the candidates, Eq. 7."""
    values = -np.log(np.asarray(cppl, np.float64) + 1)
    shares = np.exp(values - values.max())
    whole: DoubleArray = shares / shares.sum()
    return whole


def divergence(cppl: Sequence[float], utilities: Sequence[float]) -> float:
    """Return the KL divergence of the student from the teacher, Eq. 9, in nats."""
    wanted = teacher(cppl)
    values = np.asarray(utilities, np.float64)
    most = values.max()
    log_student = values - most - np.log(np.exp(values - most).sum())
    return float((wanted * (np.log(wanted) - log_student)).sum())


def gains(cppl: Sequence[float], alone: float) -> DoubleArray:
    """Return the gain of each candidate over no context, log(C_0 + 1) - log(C_u + 1)."""
    added: DoubleArray = np.log(alone + 1) - np.log(np.asarray(cppl, np.float64) + 1)
    return added


def teaches(cppl: Sequence[float]) -> bool:
    """Apply the filter: check whether a question has something to teach."""
    return len(cppl) > 1 and max(cppl) >= CERTAIN


def loss(cppl: Sequence[float], utilities: Any) -> Any:
    """Return the loss of Eq. 9 for one question, in torch."""
    import torch

    wanted = torch.as_tensor(teacher(cppl), dtype=utilities.dtype, device=utilities.device)
    return (wanted * (wanted.log() - utilities.log_softmax(-1))).sum()
