"""From a model and a question to an :class:`~riesz.Explanation`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core
from ._data import as_cells, check_columns, is_numbered, is_whole, names_of, numbered
from ._expansion import Expansion, UnsupportedModelError
from ._explanation import Explanation, Provenance
from ._gpytorch import is_gpytorch
from ._gpytorch import read as read_gpytorch
from ._sampled import Coalitions, Found, Sampling, kernel_shap_values, permutation_estimates

if TYPE_CHECKING:
    # scikit-learn is imported only when a model is read.
    from ._sklearn import Imported

#: More threads than any machine has cores for are a slip, and could bring it down.
MAX_THREADS = 1024

GAMES = ("functional", "baseline", "interventional", "marginal_product", "observational")

Groups = Mapping[str, Sequence[str | int]]


class Explainer:
    """Shapley values: exact for kernel models, estimated for any other function.

    Parameters
    ----------
    model
        A fitted SVC, NuSVC, SVR, NuSVR, OneClassSVM, KernelRidge, GaussianProcessRegressor or GaussianProcessClassifier of
        scikit-learn; a Pipeline that ends in one and whose other steps compute each of their columns from one column; an
        ``ExactGP`` of GPyTorch; a :class:`riesz.Expansion`; the path of a riesz or LIBSVM model file; or any function from
        rows to numbers, (n,) or (n, m), such as ``forest.predict_proba``. Classifiers are explained by their decision
        function (Gaussian process classifiers by their latent function).

        Values are exact unless :attr:`exactness` says ``"estimated"``: for functions, and for models that have no exact
        values (a polynomial or sigmoid kernel, a pipeline with a PCA), where :attr:`reason` says why. Estimates need a
        background and the interventional or baseline game, and come with a standard error.
    background : array or data frame of shape (b, d), optional
        Rows that say what features could have been otherwise. Functions are called with rows in this form.
    game : {"auto", "functional", "baseline", "interventional", "marginal_product", "observational"}
        What it means that a feature is absent:

        - ``"functional"``: it leaves the kernel (its factor becomes 1); needs no background.
        - ``"interventional"``: absent features take the values of a background row, averaged over the background; what
          shap's KernelExplainer estimates.
        - ``"baseline"``: they take the values of the background's only row.
        - ``"marginal_product"``: each absent feature is averaged over the background on its own.
        - ``"observational"``: absent features follow their distribution given the present ones, learnt from the background
          (by default the model's own training points) by a conditional mean embedding, RKHS-SHAP. Any kernel will do.
        - ``"auto"``: interventional with a background, functional without.
    groups : dict of name to list of columns, optional
        Columns, by name or number, that stand or fall together as one player; others are players of their own.
    weights : array of shape (b,), optional
        Weights of the background rows.
    threads : int, optional
        By default one a core. Results do not depend on it.
    ridge : float, optional
        Observational game: how much conditional distributions are smoothed; by default what predicts left-out rows best.
    landmarks, random_features : int, optional
        Observational game: learn conditional distributions through so many of the reference rows (Nyström), or so many random
        Fourier features, instead of all rows: O(n m²) instead of O(n³) for each coalition.
    conjugate_gradients : float, optional
        Observational game: take all reference rows, where their matrices are too large to factor, by conjugate gradients to this
        tolerance, 1e-6 say: how far the weights of reference rows may be off, relatively. That is part of the proved bound.
    coalitions : int
        Observational game: values at most so many coalitions of features. Up to 12 features the default holds all of them, and
        values are exact; beyond, they are estimated with standard errors.
    std_error : float, optional
        Observational game: stops as soon as no standard error is larger.
    conditional : {"kernel", "gaussian", "copula"}
        Observational game: where conditional distributions come from. ``"kernel"`` is the conditional mean embedding; the others
        draw from a normal distribution or a Gaussian copula fitted to the background, for comparison.
    draws : int
        For these: draws for each coalition and row.
    estimator : {"permutation", "kernel_shap"}, optional
        How the values of a function are found, by default by permutations under the interventional game, and by KernelSHAP
        (values of ``coalitions`` coalitions, the same for all rows; all of them if they fit) under the observational one.
        Naming one for a kernel model asks the model for its answers instead of reading its kernel.
    permutations : int
        For permutations: random orders of the features for each background row, at least 2. Standard errors shrink with its
        square root, and a row takes about ``2 * permutations * b * d`` calls of the model.
    seed : int
        For estimates.
    output_names : list of str, optional
        Names for the model's outputs.

    Attributes
    ----------
    exactness : str
        ``"exact"`` or ``"estimated"``.
    reason : str or None
        Why values are estimated.

    Raises
    ------
    UnsupportedModelError
        For a model or a part of it that has no exact values, where it cannot be estimated either; the message names it.
    sklearn.exceptions.NotFittedError
        For a model that was not fitted.
    ValueError
        For a kernel that ties columns of different players together, and for rows that do not fit the model.

    Notes
    -----
    Exact values of a row cost O(background rows · support points · players · nodes), with 5 to 30 nodes as a rule: the number of
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
        ridge: float | None = None,
        landmarks: int | None = None,
        random_features: int | None = None,
        conjugate_gradients: float | None = None,
        coalitions: int = 4096,
        std_error: float | None = None,
        conditional: str = "kernel",
        draws: int = 100,
        estimator: str | None = None,
        permutations: int = 2,
        seed: int = 0,
        output_names: Sequence[str] | None = None,
    ) -> None:
        if isinstance(model, (str, os.PathLike)):
            model = Expansion.load(model)
        # What pickles and copies are made of.
        self._arguments = {
            "model": model,
            "background": background,
            "game": game,
            "groups": groups,
            "weights": weights,
            "threads": threads,
            "ridge": ridge,
            "landmarks": landmarks,
            "random_features": random_features,
            "conjugate_gradients": conjugate_gradients,
            "coalitions": coalitions,
            "std_error": std_error,
            "conditional": conditional,
            "draws": draws,
            "estimator": estimator,
            "permutations": permutations,
            "seed": seed,
            "output_names": output_names,
        }
        if not isinstance(game, str):
            raise TypeError(f"game = {game!r}: it is one of {', '.join(GAMES)}, or auto")
        if game == "auto":
            game = "functional" if background is None else "interventional"
        game = game.replace("-", "_")
        if game not in GAMES:
            raise ValueError(f"game = '{game}': it is one of {', '.join(GAMES)}, or auto")
        if game == "functional" and background is not None:
            raise ValueError("the functional game has no use for a background: leave it out, or name another game")
        if game not in ("functional", "observational") and background is None:
            raise ValueError(f"the {game} game needs a background: rows that say what features could have been otherwise")
        through = {"landmarks": landmarks, "random_features": random_features, "conjugate_gradients": conjugate_gradients}
        if game != "observational":
            for name, value in [("ridge", ridge), *through.items()]:
                if value is not None:
                    raise ValueError(f"ridge, {', '.join(through)} are settings of the observational game: leave out {name}")
            if std_error is not None and estimator != "kernel_shap":
                raise ValueError("std_error is a target of the observational game and of KernelSHAP: leave it out")
        for name, value in [("landmarks", landmarks), ("random_features", random_features)]:
            if value is not None and (not is_whole(value) or value < 1):
                raise ValueError(f"{name} = {value!r}: it is a positive whole number")
        if conjugate_gradients is not None and not 0 < conjugate_gradients < 1:
            raise ValueError(f"conjugate_gradients = {conjugate_gradients!r}: it is a tolerance between 0 and 1, such as 1e-6")
        if sum(value is not None for value in through.values()) > 1:
            raise ValueError(f"{', '.join(through)} are ways to the same end: choose one")
        if not isinstance(coalitions, (int, np.integer)) or coalitions < 1:
            raise ValueError(f"coalitions = {coalitions}: it is a positive whole number")
        if threads is not None and (not isinstance(threads, (int, np.integer)) or not 1 <= threads <= MAX_THREADS):
            raise ValueError(f"threads = {threads!r}: it is a whole number from 1 to {MAX_THREADS}, or None for one a core")
        if weights is not None and background is None:
            raise ValueError("weights are those of a background: give one")
        if not isinstance(permutations, (int, np.integer)) or permutations < 2:
            raise ValueError(f"permutations = {permutations}: it is a whole number from 2, or there is no standard error")
        if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
            raise ValueError(f"seed = {seed}: it is a whole number from 0 to 2**64 - 1")
        self.game = game
        self._imported = _read(model, background, output_names)
        self.feature_names = _user_names(background, self._imported)
        self._background, self._permutations, self._seed = background, int(permutations), int(seed)
        # Both games and both ways need a background of the right width, and its weights.
        self._weights = weights
        if background is not None:
            b = len(as_cells(background, "background"))
            if not b:
                raise ValueError("the background has no rows")
            check_columns(background, self.feature_names, "background")
            if weights is not None:
                self._weights = np.ascontiguousarray(weights, dtype=np.float64)
                if self._weights.shape != (b,):
                    raise ValueError(f"weights has the shape {self._weights.shape}: one number a background row is needed")
        self._players = _players(groups, self._imported, self.feature_names)
        self.exactness: str = "exact"
        self.reason: str | None = None
        self._cores: list[_core.Explainer] = []
        if conditional not in ("kernel", "gaussian", "copula"):
            raise ValueError(f"conditional = {conditional!r}: it is 'kernel', 'gaussian' or 'copula'")
        if conditional != "kernel" and self.game != "observational":
            raise ValueError(f"conditional is a setting of the observational game, not of the {self.game} game")
        if estimator not in (None, "permutation", "kernel_shap"):
            raise ValueError(f"estimator = {estimator!r}: it is 'permutation' or 'kernel_shap'")
        if estimator == "permutation" and self.game == "observational":
            raise ValueError("permutations estimate the interventional game: use estimator='kernel_shap'")
        if not is_whole(draws) or draws < 2:
            raise ValueError(f"draws = {draws!r}: it is a whole number from 2, or there is no standard error")
        self._estimator = estimator or ("kernel_shap" if self.game == "observational" else "permutation")
        absence = conditional if self.game == "observational" else "background"
        self._coalitions = Coalitions(absence, int(draws), ridge, int(coalitions), std_error, self._seed)
        try:
            if estimator is not None or conditional != "kernel":
                raise UnsupportedModelError(
                    f"{'KernelSHAP was' if self._estimator == 'kernel_shap' else 'permutations were'} asked for"
                )
            self._prepare_cores(threads, ridge, (landmarks, random_features, conjugate_gradients), int(coalitions), std_error)
        except UnsupportedModelError as error:
            self._prepare_estimates(error)

    def _prepare_cores(
        self,
        threads: int | None,
        ridge: float | None,
        through: tuple[int | None, int | None, float | None],
        coalitions: int,
        std_error: float | None,
    ) -> None:
        imported, background = self._imported, self._background
        if imported.refusal is not None:
            raise imported.refusal
        rows = None if background is None else self._model_rows(background, "background")
        own = _model_columns(self._players, imported.owners)
        # Players none of whose columns reach the model have no part in it: their values are 0.
        playing = [player for player in own if player[1]]
        try:
            self._cores = [
                _core.Explainer(
                    expansion._core,
                    self.game.replace("_", "-"),
                    rows,
                    self._weights,
                    playing,
                    threads,
                    ridge,
                    *through,
                    coalitions,
                    std_error,
                    self._seed,
                )
                for expansion in imported.expansions
            ]
        except ValueError as error:
            if "ties the columns" in str(error):
                raise UnsupportedModelError(str(error)) from None
            raise
        if self.game == "observational" and (std_error is not None or 2 ** len(playing) - 2 > coalitions):
            many = f"{len(playing)} features have more than {coalitions} coalitions"
            self.reason = many if std_error is None else "a standard error was asked for"
            self.exactness = "estimated"
        # The core orders players by their first column in the model.
        place = {name: k for k, (name, _) in enumerate(self._players)}
        self._used = [place[name] for name, _ in self._cores[0].players]

    def _prepare_estimates(self, refusal: UnsupportedModelError) -> None:
        imported, background = self._imported, self._background
        if imported.function is None:
            raise refusal
        if background is None or self.game not in ("interventional", "baseline", "observational"):
            raise UnsupportedModelError(
                f"{refusal}; riesz estimates such values, with standard errors, given a background and the interventional or "
                "observational game"
            ) from None
        rows = len(as_cells(background))
        if self.game == "baseline" and rows != 1:
            raise ValueError(f"the baseline game has one baseline, but the background has {rows} rows")
        settings = self._coalitions
        whole = 2 ** len(self._players) - 2 <= settings.coalitions and settings.std_error is None
        if self._estimator == "permutation" or not whole or settings.absence in ("gaussian", "copula"):
            self.exactness, self.reason = "estimated", str(refusal)

    def __call__(self, X: Any) -> Explanation:
        """Explains the rows of ``X``, in the columns that the model was fitted on."""
        imported = self._imported
        names, players = self._names(X)
        model = {"model": imported.kind, "explained": imported.explained}
        run: dict[str, str] = {"riesz": _core.__version__}
        if self._cores:
            found = self._by_core(X)
            for expansion in imported.expansions:
                for name, value in expansion._core.card:
                    model.setdefault(name, value)
        else:
            found = self._by_calls(X)
        values, base, predictions = found.values, found.base, found.predictions
        if found.sampling is not None:
            run["estimated because"] = self.reason or ""
        run |= found.run
        m = len(base)
        output_names = imported.output_names or (["y"] if m == 1 else [f"y{o}" for o in range(m)])
        if len(output_names) != m:
            raise ValueError(f"there are {len(output_names)} output_names, but the model has {m} outputs")
        return Explanation(
            values=values,
            base_values=np.tile(base, (len(values), 1)),
            predictions=predictions,
            residual=found.residual,
            bound=found.bound,
            std_error=found.std_error,
            sampling=found.sampling,
            data=as_cells(X),
            column_names=names,
            players=players,
            output_names=output_names,
            row_numbers=np.arange(len(values)),
            provenance=Provenance(game=self.game.replace("_", "-"), absent=found.absent, model=model, run=run),
        )

    def _names(self, X: Any) -> tuple[list[str], list[tuple[str, list[int]]]]:
        """The names of the columns of ``X`` and the players, once it is known that these columns are meant."""
        own = names_of(self._background) == self.feature_names and is_numbered(self._imported.feature_names)
        check_columns(X, self.feature_names, "X", "background" if own else "model")
        given = names_of(X)
        if given is None or not is_numbered(self.feature_names):
            return self.feature_names, self._players
        # Neither model nor background had names.
        alone = lambda name, own: own == [own[0]] and name == self.feature_names[own[0]]
        players = [(given[own[0]] if alone(name, own) else name, own) for name, own in self._players]
        for name, times in Counter(name for name, _ in players).items():
            if times > 1:
                raise ValueError(f"the name '{name}' is used twice: rename the group or the column")
        return given, players

    def robustness(self, delta: Any) -> np.ndarray:
        """How far any Shapley value can move, for any row, if no column of the row moves by more than ``delta``: one number an
        output, proved from the norm of the model (Chau et al. 2022, Theorem 6), and often far larger than what happens.

        ``delta`` is a number, or one number a column; a categorical column moves if it changes at all. For kernels that are
        bounded, under the baseline, interventional and observational games.
        """
        if not self._cores:
            raise UnsupportedModelError(f"the bound takes a kernel that is known; {self.reason}")
        if self._imported.transform is not None:
            raise UnsupportedModelError("the bound is in the model's own columns: explain the pipeline's last step")
        moves = np.broadcast_to(np.asarray(delta, dtype=np.float64), (len(self.feature_names),)).tolist()
        return np.concatenate([core.robustness(moves) for core in self._cores])

    def _by_core(self, X: Any) -> Found:
        rows = self._model_rows(X, "X")
        parts = [core.explain(rows) for core in self._cores]
        base = np.concatenate([part[1] for part in parts])
        n, p = len(rows), len(self._players)

        def for_all(cubes: list[np.ndarray]) -> np.ndarray:
            whole = np.zeros((n, p, len(base)))
            whole[:, self._used] = np.concatenate(cubes, axis=1).transpose(0, 2, 1)
            return whole

        bounds = [part[4] for part in parts if part[4] is not None]
        estimates = [part[5] for part in parts if part[5] is not None]
        predictions, residual = (np.concatenate([part[k] for part in parts], axis=1) for k in (2, 3))
        exact = len(bounds) == len(parts)
        return Found(
            values=for_all([part[0] for part in parts]),
            base=base,
            predictions=predictions,
            residual=residual,
            bound=np.concatenate(bounds, axis=1) if exact else None,
            std_error=None if exact else for_all([error for error, _ in estimates]),
            sampling=None if exact else Sampling(sum(count for _, count in estimates), self._seed),
            absent=self._cores[0].absent,
            run=dict(parts[0][6]),
        )

    def _by_calls(self, X: Any) -> Found:
        function = self._imported.function
        assert function is not None
        background, weights, players = self._background, self._weights, self._players
        if self._estimator == "permutation":
            return permutation_estimates(function, X, background, weights, players, self._permutations, self._seed)
        return kernel_shap_values(function, X, background, weights, players, self._coalitions)

    def _model_rows(self, X: Any, what: str) -> np.ndarray:
        """The user's rows in the model's columns."""
        imported = self._imported
        if imported.transform is None:
            return imported.expansions[0]._rows(X, what)
        if not len(as_cells(X)):
            # Transformers want at least one row.
            return np.empty((0, len(imported.owners)))
        rows = np.ascontiguousarray(imported.transform(X), dtype=np.float64)
        if not np.isfinite(rows).all():
            i, j = np.argwhere(~np.isfinite(rows))[0]
            name = self.feature_names[imported.owners[j]]
            raise ValueError(f"{what}, row {i} (from 0): column '{name}' becomes {rows[i, j]} in the pipeline: correct it")
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def __repr__(self) -> str:
        imported = self._imported
        return f"<riesz.Explainer: {imported.explained} of {imported.kind}, {self.game} game, {self.exactness}>"


def _read(model: Any, background: Any, output_names: Sequence[str] | None) -> Imported:
    from ._sklearn import Imported, import_model

    if isinstance(model, Expansion):
        imported = _whole([model], "output", "expansion", model.predict)
    elif is_gpytorch(model):
        expansions, explained = read_gpytorch(model)
        imported = _whole(expansions, explained, type(model).__name__, None)
    elif callable(model) and not isinstance(model, type) and not hasattr(model, "fit"):
        kind = getattr(model, "__qualname__", type(model).__name__)
        refusal = UnsupportedModelError(f"the function {kind} is not known to have a kernel")
        names = [] if background is None else numbered(as_cells(background, "background").shape[1])
        imported = Imported([], "output", names, list(range(len(names))), None, kind, [], model, refusal)
    else:
        imported = import_model(model)
    if output_names is None:
        return imported
    return replace(imported, output_names=[str(name) for name in output_names])


def _whole(expansions: list[Expansion], explained: str, kind: str, function: Any) -> Imported:
    """Expansions in the user's own columns."""
    from ._sklearn import Imported

    names = expansions[0].feature_names
    outputs = [name for expansion in expansions for name in expansion.output_names]
    return Imported(expansions, explained, names, list(range(len(names))), None, kind, outputs, function)


def _user_names(background: Any, imported: Any) -> list[str]:
    from ._sklearn import user_names

    return user_names(background, imported)


def _players(groups: Groups | None, imported: Any, names: list[str]) -> list[tuple[str, list[int]]]:
    """Players over the user's columns."""
    if groups is None:
        whole = imported.transform is None and imported.expansions
        stored = imported.expansions[0]._core.groups if whole else []
        return stored or [(name, [j]) for j, name in enumerate(names)]
    if not isinstance(groups, Mapping):
        raise TypeError("groups is a dict from a group's name to its columns")
    owner: dict[int, str] = {}
    players = []
    for group, columns in groups.items():
        own = []
        if not isinstance(columns, Iterable):
            raise TypeError(f"group '{group}' is {columns!r}: it is a list of columns, by name or number")
        for column in [columns] if isinstance(columns, str) else columns:
            if isinstance(column, str):
                if column not in names:
                    raise ValueError(f"group '{group}' names a column '{column}'; the columns are: {', '.join(names)}")
                column = names.index(column)
            elif not is_whole(column):
                raise TypeError(f"group '{group}' names a column {column!r}: columns are names or whole numbers")
            elif not 0 <= column < len(names):
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
