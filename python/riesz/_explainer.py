"""From a model and a question to an :class:`~riesz.Explanation`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _core
from ._data import as_cells, as_numbers, names_of
from ._expansion import Expansion, UnsupportedModelError
from ._explanation import Explanation, Provenance
from ._gpytorch import is_gpytorch
from ._gpytorch import read as read_gpytorch

GAMES = ("functional", "baseline", "interventional", "marginal_product")

Groups = Mapping[str, Sequence[str | int]]


class Explainer:
    """Exact Shapley values of a fitted kernel model.

    Parameters
    ----------
    model
        A fitted SVC, NuSVC, SVR, NuSVR, OneClassSVM, KernelRidge, GaussianProcessRegressor or GaussianProcessClassifier of
        scikit-learn; a Pipeline that ends in one and whose other steps compute each of their columns from one column; an
        ``ExactGP`` of GPyTorch; a :class:`riesz.Expansion`; or the path of a riesz or LIBSVM model file. Classifiers are
        explained by their decision function (Gaussian process classifiers by their latent function).
    background : array or data frame of shape (b, d), optional
        Rows that say what features could have been otherwise.
    game : {"auto", "functional", "baseline", "interventional", "marginal_product"}
        What it means that a feature is absent:

        - ``"functional"``: it leaves the kernel (its factor becomes 1); needs no background.
        - ``"interventional"``: absent features take the values of a background row, averaged over the background; what
          shap's KernelExplainer estimates.
        - ``"baseline"``: they take the values of the background's only row.
        - ``"marginal_product"``: each absent feature is averaged over the background on its own.
        - ``"auto"``: interventional with a background, functional without.
    groups : dict of name to list of columns, optional
        Columns, by name or number, that stand or fall together as one player; others are players of their own.
    weights : array of shape (b,), optional
        Weights of the background rows.
    threads : int, optional
        By default one a core. Results do not depend on it.

    Raises
    ------
    UnsupportedModelError
        For a model or a part of it that has no exact values; the message names it.
    sklearn.exceptions.NotFittedError
        For a model that was not fitted.
    ValueError
        For a kernel that ties columns of different players together, and for rows that do not fit the model.

    Notes
    -----
    A row costs O(background rows · support points · players · nodes), with 5 to 30 nodes as a rule: the number of
    coalitions never enters.

    Examples
    --------
    >>> import numpy as np, riesz
    >>> from riesz.kernels import RBF
    >>> model = riesz.Expansion(RBF(length_scale=1.5), points=np.eye(3), coef=[1.0, -1.0, 0.5])
    >>> riesz.Explainer(model)(np.zeros((2, 3))).values.shape
    (2, 3)
    """

    def __init__(
        self,
        model: Any,
        background: Any = None,
        *,
        game: str = "auto",
        groups: Groups | None = None,
        weights: Any = None,
        threads: int | None = None,
    ) -> None:
        if game == "auto":
            game = "functional" if background is None else "interventional"
        game = game.replace("-", "_")
        if game not in GAMES:
            raise ValueError(f"game = '{game}': it is one of {', '.join(GAMES)}, or auto")
        if game == "functional" and background is not None:
            raise ValueError("the functional game has no use for a background: leave it out, or name another game")
        if game != "functional" and background is None:
            raise ValueError(f"the {game} game needs a background: rows that say what features could have been otherwise")
        if threads is not None and (not isinstance(threads, (int, np.integer)) or threads < 1):
            raise ValueError(f"threads = {threads}: it is a whole number from 1, or None for one a core")
        if weights is not None and background is None:
            raise ValueError("weights are those of a background: give one")
        self.game = game
        self._imported = _read(model)
        self.feature_names = _user_names(background, self._imported)
        rows = None if background is None else self._model_rows(background, "background")
        if rows is not None and not len(rows):
            raise ValueError("the background has no rows")
        if weights is not None:
            weights = np.ascontiguousarray(weights, dtype=np.float64)
            if rows is None or weights.shape != (len(rows),):
                raise ValueError(f"weights has the shape {weights.shape}: one number a background row is needed")
        self._players = _players(groups, self._imported, self.feature_names)
        own = _model_columns(self._players, self._imported.owners)
        # Players none of whose columns reach the model have no part in it: their values are 0.
        playing = [player for player in own if player[1]]
        try:
            self._cores = [
                _core.Explainer(expansion._core, game.replace("_", "-"), rows, weights, playing, threads)
                for expansion in self._imported.expansions
            ]
        except ValueError as error:
            if "ties the columns" in str(error):
                raise UnsupportedModelError(str(error)) from None
            raise

        # The core orders players by their first column in the model.
        place = {name: k for k, (name, _) in enumerate(self._players)}
        self._used = [place[name] for name, _ in self._cores[0].players]

    def __call__(self, X: Any) -> Explanation:
        """Explains the rows of ``X``, in the columns that the model was fitted on."""
        rows = self._model_rows(X, "X")
        n, p = len(rows), len(self._players)
        parts = [core.explain(rows) for core in self._cores]
        base = np.concatenate([part[1] for part in parts])
        m = len(base)
        values = np.zeros((n, p, m))
        values[:, self._used] = np.concatenate([part[0] for part in parts], axis=1).transpose(0, 2, 1)
        predictions, residual, bound = (np.concatenate([part[k] for part in parts], axis=1) for k in (2, 3, 4))
        model = {"model": self._imported.kind, "explained": self._imported.explained}
        for expansion in self._imported.expansions:
            for name, value in expansion._core.card:
                model.setdefault(name, value)
        names = names_of(X)
        return Explanation(
            values=values,
            base_values=np.tile(base, (n, 1)),
            predictions=predictions,
            residual=residual,
            bound=bound,
            data=as_cells(X),
            column_names=self.feature_names if names is None else names,
            players=self._players,
            output_names=[name for expansion in self._imported.expansions for name in expansion.output_names],
            row_numbers=np.arange(n),
            provenance=Provenance(
                game=self.game.replace("_", "-"),
                absent=self._cores[0].absent,
                model=model,
                run={"riesz": _core.__version__},
            ),
        )

    def _model_rows(self, X: Any, what: str) -> np.ndarray:
        """The user's rows in the model's columns."""
        imported = self._imported
        if imported.transform is None:
            return as_numbers(X, imported.feature_names, what)
        if not len(as_cells(X)):
            # Transformers want at least one row.
            return np.empty((0, len(imported.owners)))
        rows = np.ascontiguousarray(imported.transform(X), dtype=np.float64)
        if not np.isfinite(rows).all():
            i, j = np.argwhere(~np.isfinite(rows))[0]
            name = self.feature_names[imported.owners[j]]
            raise ValueError(f"{what}, row {i} (from 0): column '{name}' becomes {rows[i, j]} in the pipeline: correct it")
        return rows

    def __repr__(self) -> str:
        imported = self._imported
        return f"<riesz.Explainer: {imported.explained} of {imported.kind}, {self.game} game>"


def _read(model: Any):
    from ._sklearn import Imported, import_model

    if isinstance(model, (str, os.PathLike)):
        model = Expansion.load(model)
    if isinstance(model, Expansion):
        names = model.feature_names
        return Imported([model], "output", names, list(range(len(names))), None, "expansion")
    if is_gpytorch(model):
        expansions, explained = read_gpytorch(model)
        names = expansions[0].feature_names
        return Imported(expansions, explained, names, list(range(len(names))), None, type(model).__name__)
    return import_model(model)


def _user_names(background: Any, imported: Any) -> list[str]:
    from ._sklearn import user_names

    return user_names(background, imported)


def _players(groups: Groups | None, imported: Any, names: list[str]) -> list[tuple[str, list[int]]]:
    """Players over the user's columns."""
    if groups is None:
        stored = imported.expansions[0]._core.groups if imported.transform is None else []
        return stored or [(name, [j]) for j, name in enumerate(names)]
    if not isinstance(groups, Mapping):
        raise TypeError("groups is a dict from a group's name to its columns")
    owner: dict[int, str] = {}
    players = []
    for group, columns in groups.items():
        own = []
        for column in [columns] if isinstance(columns, str) else columns:
            if isinstance(column, str):
                if column not in names:
                    raise ValueError(f"group '{group}' names a column '{column}'; the columns are: {', '.join(names)}")
                column = names.index(column)
            elif not 0 <= int(column) < len(names):
                raise ValueError(f"group '{group}' names column {column}, but there are {len(names)} columns, from 0")
            if column in owner:
                raise ValueError(f"column '{names[column]}' is in the groups '{owner[column]}' and '{group}': choose one")
            owner[int(column)] = str(group)
            own.append(int(column))
        if not own:
            raise ValueError(f"group '{group}' has no columns")
        players.append((str(group), own))
    alone = [(name, [j]) for j, name in enumerate(names) if j not in owner]
    return sorted(players + alone, key=lambda player: min(player[1]))


def _model_columns(players: list[tuple[str, list[int]]], owners: list[int]) -> list[tuple[str, list[int]]]:
    """The players over the model's columns."""
    made: dict[int, list[int]] = {}
    for column, owner in enumerate(owners):
        made.setdefault(owner, []).append(column)
    return [(name, [c for j in own for c in made.get(j, [])]) for name, own in players]
