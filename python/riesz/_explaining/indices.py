"""Indices with parameters."""

from __future__ import annotations

from typing import Any

import numpy as np


class Semivalue(str):
    """A semivalue given by probabilities of inclusion and their weights, as an ``index``.

    A feature's value is its mean contribution to a random coalition: q is drawn by ``weights``, and each
    other feature is present with probability ``probabilities[q]`` (Dubey, Neyman and Weber 1981). With S the
    random coalition it is ``sum_q weights[q] * E[v(S + j) - v(S)]``. It is exact, as a weighted mean of
    Banzhaf values. The object is the text ``"semivalue(0.2: 0.5, 0.8: 0.5)"``.

    Parameters
    ----------
    probabilities : array of shape (q,)
        Probabilities of inclusion, from 0 to 1; at most 1000 of them.
    weights : array of shape (q,)
        Nonnegative weights with sum 1. They are not normalised.

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

    def __new__(cls, probabilities: Any, weights: Any) -> Semivalue:
        """Checks the probabilities and the weights."""
        probabilities, point_weights = (
            np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in (probabilities, weights)
        )
        if probabilities.ndim != 1 or probabilities.shape != point_weights.shape:
            raise ValueError(
                f"probabilities of shape {probabilities.shape} take weights of the same shape, one of each, "
                f"and not {point_weights.shape}"
            )
        listed = ", ".join(
            f"{float(t)!r}: {float(weight)!r}" for t, weight in zip(probabilities, point_weights)
        )
        return super().__new__(cls, f"semivalue({listed})")

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles are made from the text.
        return str, (str(self),)
