"""Logistic regression, by which weights are fitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def logistic(sets: Sequence[tuple[Array, Array, float]], ridge: float = 1e-3) -> Array:
    """Weights of features, and of a bias in front, by Newton's method.

    A set has features (rows, features), labels (rows,), and its number of questions: every set counts the same.
    """
    x = np.concatenate([np.column_stack([np.ones(len(labels)), features]) for features, labels, _ in sets])
    y = np.concatenate([labels for _, labels, _ in sets])
    share = np.concatenate([np.full(len(labels), 1 / questions) for _, labels, questions in sets])
    weights = np.zeros(x.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ weights))
        hessian = (x * (share * p * (1 - p))[:, None]).T @ x + ridge * np.eye(len(weights))
        weights -= np.linalg.solve(hessian, x.T @ (share * (p - y)) + ridge * weights)
    return weights
