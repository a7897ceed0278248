"""Fits of a model with increasing strengths of protection."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import plots
from .explainer import Explainer
from .protected_features import budget, players, protected_game


@dataclass(frozen=True, repr=False)
class ProtectionPath:
    """The scores and importances of a model, for each strength of protection."""

    #: The strengths of the penalty, (s,).
    strengths: np.ndarray
    #: The estimator's ``score`` at each strength, (s,).
    scores: np.ndarray
    #: Mean absolute Shapley value of each feature at each strength, (s, features).
    importances: np.ndarray
    feature_names: list[str]
    protected: list[str]
    #: The fitted estimators.
    estimators: list[Any]

    def to_frame(self) -> Any:
        """Returns a ``pandas.DataFrame``, one line per strength: ``strength``, ``score``, and the importance
        of each protected feature under its name."""
        import pandas as pd

        columns = {"strength": self.strengths, "score": self.scores}
        for name in self.protected:
            columns[name] = self.importances[:, self.feature_names.index(name)]
        return pd.DataFrame(columns)

    def _repr_html_(self) -> str:
        table = self.to_frame().to_html(index=False, float_format="{:.4g}".format)
        head = f"riesz.ProtectionPath: {', '.join(self.protected)} protected"
        return f"<p>{html.escape(head)}</p>{table}"

    def plot(self, ax: Any = None) -> Any:
        """Draws the path by :func:`riesz.plots.protection_path`."""
        return plots.protection_path(self, ax=ax)

    def __repr__(self) -> str:
        protected = ", ".join(self.protected)
        lines = [
            f"  {strength:.4g}: score {score:.4g}, importance {sum(self._protected_importances(k)):.4g}"
            for k, (strength, score) in enumerate(zip(self.strengths, self.scores))
        ]
        return "\n".join([f"<riesz.ProtectionPath: {protected} protected, by strength:", *lines]) + ">"

    def _protected_importances(self, k: int) -> list[float]:
        """Returns the importances of the protected features at strength k."""
        rows = zip(self.feature_names, self.importances[k])
        return [float(importance) for name, importance in rows if name in self.protected]


def protection_path(
    estimator: Any, X: Any, y: Any, strengths: Sequence[float], *, X_test: Any = None, y_test: Any = None
) -> ProtectionPath:
    """Fits ``estimator``, whose ``protect`` names features, at each strength, scores it, and explains it
    under ``protect_game``.

    Scores and Shapley values are computed at the test rows, or at the training rows if there are none. The
    functionals of the penalty are computed once. A further strength costs one fit; logistic regression starts
    from the previous solution."""
    from sklearn.base import clone

    if estimator.protect is None:
        raise ValueError("the estimator protects no feature: name some with protect=[...]")
    rows, target = (X, y) if X_test is None else (X_test, y_test)
    path: dict[str, Any] = {}
    fitted, scores, importances = [], [], []
    names: list[str] = []
    for strength in strengths:
        model = clone(estimator).set_params(protect_strength=strength)
        # Values that the fits share.
        model._path = path
        model.fit(X, y)
        del model._path
        groups = dict(players(model.protect, model.expansion_.feature_names))
        game = protected_game(model, X)
        explanation = Explainer(model, game=game, groups=groups, **budget(model))(rows)
        values = np.abs(explanation.values)
        importances.append(values.mean(axis=0) if values.ndim == 2 else values.mean(axis=(0, 2)))
        scores.append(float(model.score(rows, target)))
        fitted.append(model)
        names = explanation.feature_names
    protected = (
        [name for name, _ in players(estimator.protect, fitted[0].expansion_.feature_names)] if fitted else []
    )
    return ProtectionPath(
        np.asarray(strengths, dtype=float),
        np.asarray(scores),
        np.asarray(importances),
        names,
        protected,
        fitted,
    )
