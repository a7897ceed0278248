"""Indices that are more than a name."""

from __future__ import annotations

from typing import Any

import numpy as np


class Semivalue(str):
    """The semivalue of a measure on [0, 1] that is given by some chances and their weights, as an ``index``.

    A feature's value is what it adds on average, where each of the others is present with a chance that is
    drawn from ``chances`` by ``weights``: ``sum_q weights[q] * E[v(S + j) - v(S)]`` with S of the others,
    each with chance ``chances[q]`` (Dubey, Neyman and Weber 1981). Exact, as Banzhaf values are, whose mean
    these are. As text, which it is, ``"semivalue(0.2: 0.5, 0.8: 0.5)"``.

    Parameters
    ----------
    chances : array of shape (q,)
        From 0 to 1; at most 1000.
    weights : array of shape (q,)
        Not negative, and 1 together. They are taken as they are.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> model = riesz.Expansion(RBF(length_scale=1.5), points=np.eye(3), coef=[1.0, -1.0, 0.5])
    >>> index = riesz.Semivalue([0.2, 0.8], weights=[0.5, 0.5])
    >>> mean = riesz.Explainer(model, index=index)(np.zeros((1, 3))).values
    >>> some = [riesz.Explainer(model, index=f"banzhaf({t})")(np.zeros((1, 3))).values for t in (0.2, 0.8)]
    >>> bool(np.allclose(mean, np.mean(some, axis=0)))
    True
    """

    __slots__ = ()

    def __new__(cls, chances: Any, weights: Any) -> Semivalue:
        probabilities, point_weights = (
            np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in (chances, weights)
        )
        if probabilities.ndim != 1 or probabilities.shape != point_weights.shape:
            raise ValueError(
                f"chances of shape {probabilities.shape} take weights of the same shape, one of each, and "
                f"not "
                f"{point_weights.shape}"
            )
        listed = ", ".join(
            f"{float(t)!r}: {float(weight)!r}" for t, weight in zip(probabilities, point_weights)
        )
        return super().__new__(cls, f"semivalue({listed})")

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles are made of the text.
        return str, (str(self),)
