"""Comparison of models of duels on duels that are held out, as ``riesz prefer evaluate`` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._data.parameters import is_whole
from .._data.validation import names_of
from ._bradley_terry import ABILITIES
from ._classifier import PreferenceClassifier
from ._duel_contexts import NameList, homes, pairs_of, rows_of
from ._duel_tables import is_table, read_duel_table
from ._outcomes import read_outcomes

_MODELS = ("nested", "utility", "generalised", "bradley_terry", "linear", "coin")
_SPLITS = ("pairs", "duels", "items", "time", "context")
_SCORES = ("accuracy", "auc", "log_loss")


@dataclass(frozen=True)
class EvaluationResult:
    """Scores of models on held out duels, by the models' names."""

    #: The share of decided duels that the more likely winner won; a probability of ½ counts as half.
    accuracy: dict[str, float]
    #: The area under the ROC curve of decided duels, each from both sides.
    auc: dict[str, float]
    #: The mean of minus the log probability of the outcome; 0.693 for a coin.
    log_loss: dict[str, float]
    #: The standard deviation of each score over the splits, by score and model; empty for a single split.
    std: dict[str, dict[str, float]]
    #: The mean difference of the log losses of the same duels from those of the best model; 0 for this one.
    log_loss_difference: dict[str, float]
    #: Its standard error over pairs of items (over contexts, if these are held out), whose duels depend on
    #: each other.
    log_loss_difference_std_error: dict[str, float]
    n_splits: int

    def to_frame(self) -> Any:
        """Returns a ``pandas.DataFrame``, one line per model, with the columns of ``riesz prefer
        evaluate``."""
        import pandas as pd

        columns: dict[str, Any] = {"model": list(self.accuracy)}
        for score in _SCORES:
            columns[score] = list(getattr(self, score).values())
            if self.std:
                columns[f"{score}_std"] = list(self.std[score].values())
        for name in ("log_loss_difference", "log_loss_difference_std_error"):
            columns[name] = list(getattr(self, name).values())
        return pd.DataFrame(columns)

    def __str__(self) -> str:
        return self.to_frame().to_string(index=False)

    def _repr_html_(self) -> str:
        return self.to_frame().to_html(index=False)


def evaluate(
    items: Any,
    duels: Any,
    *,
    models: Sequence[str] | Mapping[str, Any] | None = None,
    split: str = "pairs",
    split_by: Any = None,
    test_size: float = 0.3,
    n_repeats: int = 20,
    random_state: int = 0,
    outcome: Any = None,
    scores: Any = None,
    wins: Any = None,
    missing: str = "error",
    sample_weight: Any = None,
    contexts: Any = None,
    users: Any = None,
    home: Any = None,
    sides: Sequence[str] | None = None,
    **parameters: Any,
) -> EvaluationResult:
    """Compares models of duels by their predictions for duels that they have not seen.

    Each repeat holds out a share of the pairs of items with all their duels, because training duels of a pair
    reveal its test outcomes. Differences from the best model are those of the same duels.

    Parameters
    ----------
    items, duels, outcome, scores, wins, missing, sample_weight, contexts, users, home, sides
        As for :meth:`riesz.PreferenceClassifier.fit`.
    models : sequence of str, or dict of str to estimator, optional
        Values of ``model`` of :class:`riesz.PreferenceClassifier`, and ``"coin"`` for probabilities of ½; by
        default all of them that the items allow. A dict has estimators with ``fit(items, duels)`` and
        ``predict_proba(left, right)``, such as :class:`PairClassifier`; clones of them are fitted.
    split : {"pairs", "duels", "items", "time", "context"}
        What is held out: pairs of items with all their duels; single duels at random; items,
        so that both items of a test duel are new; the last duels, in
        a single split; or whole contexts.
    split_by : array or str, optional
        For ``"time"``, the time of each duel, numbers or dates such as 2024-05-01; for ``"context"``, its
        context. A name is that of a column of ``duels``.
    test_size : float, default 0.3
        The share of pairs, items, duels or contexts that is held out.
    n_repeats : int, default 20
        Number of splits.
    random_state : int, default 0
        Seed of the first split; the next splits have the next seeds.
    parameters
        Further parameters of :class:`riesz.PreferenceClassifier`, such as ``kernel``.

    Returns
    -------
    EvaluationResult

    Examples
    --------
    >>> import numpy as np
    >>> from riesz.preference import evaluate
    >>> rng = np.random.default_rng(0)
    >>> items = rng.normal(size=(12, 2))
    >>> left, right = rng.integers(12, size=(2, 150))
    >>> duels = np.column_stack([left, right])[left != right]
    >>> won = items[duels[:, 0], 0] > items[duels[:, 1], 0]
    >>> scores = evaluate(items, duels, outcome=won, models=["utility", "coin"], n_repeats=2)
    >>> scores.accuracy["utility"] > scores.accuracy["coin"] == 0.5
    True
    """
    if split not in _SPLITS:
        raise ValueError(f"split = {split!r}: it is one of {', '.join(map(repr, _SPLITS))}")
    if not is_whole(n_repeats) or n_repeats < 1:
        raise ValueError(f"n_repeats = {n_repeats!r}: it is a whole number, at least 1")
    if not is_whole(random_state) or not 0 <= random_state < 2**63:
        raise ValueError(f"random_state = {random_state!r}: it is a whole number, 0 or more")
    values = _values_of(duels, split, split_by)
    pairs, read = read_duel_table(
        duels,
        sides,
        outcome=outcome,
        scores=scores,
        wins=wins,
        sample_weight=sample_weight,
        contexts=contexts,
        users=users,
        home=home,
    )
    pairs = pairs_of(pairs)
    outcomes = read_outcomes(
        pairs, read["outcome"], read["sample_weight"], read["scores"], read["wins"], missing
    )
    compared = _Comparison(items, pairs, outcomes, {k: read[k] for k in ("contexts", "users", "home")})
    estimators = _estimators(models, items, parameters)
    left, right = compared.numbers()
    counts = outcomes.weight if read["wins"] is not None else None
    summaries = _core.evaluate_duels(
        (
            left.tolist(),
            right.tolist(),
            outcomes.outcome.tolist(),
            None if counts is None else counts.tolist(),
        ),
        (
            split,
            [] if values is None else values[outcomes.rows].tolist(),
            float(test_size),
            int(n_repeats),
            int(random_state),
        ),
        len(estimators),
        compared.predictions(list(estimators.values())),
    )
    means, deviations, differences = zip(*summaries)
    by_score = lambda numbers: {
        score: dict(zip(estimators, (float(entry[k]) for entry in numbers)))
        for k, score in enumerate(_SCORES)
    }
    std = {} if None in deviations else by_score(deviations)
    difference, std_error = (dict(zip(estimators, map(float, column))) for column in zip(*differences))
    return EvaluationResult(
        **by_score(means),
        std=std,
        log_loss_difference=difference,
        log_loss_difference_std_error=std_error,
        n_splits=1 if split == "time" else int(n_repeats),
    )


def _estimators(
    models: Sequence[str] | Mapping[str, Any] | None, items: Any, parameters: dict[str, Any]
) -> dict[str, Any]:
    """Returns the models by name; ``None`` for a coin."""
    if isinstance(models, Mapping):
        if not models:
            raise ValueError("models: give at least one")
        if parameters:
            raise ValueError(
                f"{next(iter(parameters))}: parameters are those of models that are given by name: set them "
                "in the estimators"
            )
        return dict(models)
    if models is None:
        names = ("bradley_terry", "coin") if items is None else _MODELS
        models = [name for name in names if name != "linear" or _is_numeric(items)]
    if isinstance(models, str) or not models:
        raise ValueError(f"models = {models!r}: give a list of models, or a dict of estimators")
    for name in models:
        if not isinstance(name, str) or name.replace("-", "_") not in _MODELS:
            raise ValueError(f"models: {name!r} is none of {', '.join(map(repr, _MODELS))}")
    simple = {name: value for name, value in parameters.items() if name in ("ridge", "columns")}
    return {
        name: None
        if name == "coin"
        else PreferenceClassifier(name, **(simple if name.replace("-", "_") in ABILITIES else parameters))
        for name in models
    }


def _is_numeric(items: Any) -> bool:
    """Whether no column of the items holds categories."""
    if names_of(items) is None:
        return np.asarray(items).dtype.kind in "bifu"
    return all(np.asarray(items[name]).dtype.kind in "bifu" for name in items.columns)


def _values_of(duels: Any, split: str, split_by: Any) -> np.ndarray | None:
    """Returns the time, or the number of the context, of each row of duels."""
    if split not in ("time", "context"):
        if split_by is not None:
            raise ValueError(f"split_by: split = {split!r} does not use it: leave it out")
        return None
    if split_by is None:
        raise ValueError(
            f"split = {split!r} needs split_by: the {split} of each duel, or the name of its column"
        )
    name = split_by if isinstance(split_by, str) else split
    if isinstance(split_by, str):
        header = names_of(duels)
        if header is None or not is_table(duels) or split_by not in header:
            raise ValueError(f"split_by = {split_by!r}: duels have no such column")
        split_by = duels[duels.columns[header.index(split_by)]]
    cells = np.asarray(split_by)
    if split == "time" and cells.dtype.kind in "bifu":
        return cells.astype(float)
    if split == "time" and cells.dtype.kind == "M":
        return cells.astype("datetime64[ns]").astype(float)
    levels, codes = np.unique(cells.astype(str), return_inverse=True)
    return (
        np.array(_core.times_of_levels(name, levels.tolist()))[codes]
        if split == "time"
        else codes.astype(float)
    )


class _Comparison:
    """The duels of an evaluation, from which models are fitted and tested."""

    def __init__(self, items: Any, pairs: np.ndarray, outcomes: Any, circumstances: dict[str, Any]):
        self.items, self.pairs = items, pairs[outcomes.rows]
        self.outcomes = outcomes
        self.circumstances = circumstances
        self.rows = outcomes.rows
        self._homes = None if circumstances["home"] is None else homes(circumstances["home"], pairs)

    def numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of the items on either side."""
        items = NameList.of_duels(self.pairs) if self.items is None else self.items
        return rows_of(items, self.pairs, len(items))

    def predictions(self, estimators: list[Any]) -> Callable[[int, list[int], list[int], int], list[float]]:
        """Returns the function that fits a model to some duels and predicts others."""

        def predict(number: int, training: list[int], test: list[int], seed: int) -> list[float]:
            estimator = estimators[number]
            if estimator is None:
                return [0.5] * len(test)
            return self._fit_and_predict(estimator, np.array(training), np.array(test), seed)

        return predict

    def _fit_and_predict(
        self, estimator: Any, training: np.ndarray, test: np.ndarray, seed: int
    ) -> list[float]:
        from sklearn.base import clone

        model = clone(estimator)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed % (2**32))
        weight = self.outcomes.weight
        form = getattr(model, "_form", None)
        has_circumstances = form not in ABILITIES
        model.fit(
            self.items,
            self.pairs[training],
            outcome=self.outcomes.outcome[training],
            sample_weight=None if weight is None else weight[training],
            **(self._circumstances(training) if has_circumstances else {}),
        )
        left, right = (side[test] for side in self.numbers())
        if form == "bradley_terry":
            # Items without duels have equal abilities, so their odds are even without rounding errors.
            abilities = np.array(list(model.abilities_.values()))
            return (1 / (1 + np.exp(abilities[right] - abilities[left]))).tolist()
        probabilities = model.predict_proba(
            self._items_at(left),
            self._items_at(right),
            **(self._circumstances(test) if has_circumstances else {}),
        )
        ties = 0.5 * probabilities[:, 2] if probabilities.shape[1] > 2 else 0.0
        return (probabilities[:, 1] + ties).tolist()

    def _items_at(self, numbers: np.ndarray) -> Any:
        """Returns items by their numbers."""
        if self.items is None:
            index = NameList.of_duels(self.pairs).index
            return [str(index[number]) for number in numbers]
        return self.items.iloc[numbers] if hasattr(self.items, "iloc") else np.asarray(self.items)[numbers]

    def _circumstances(self, duels: np.ndarray) -> dict[str, Any]:
        """Returns contexts, users and homes of some duels, those that there are."""
        rows = self.rows[duels]
        chosen = {
            name: value.iloc[rows] if hasattr(value, "iloc") else np.asarray(value)[rows]
            for name, value in self.circumstances.items()
            if value is not None and name != "home"
        }
        if self._homes is not None:
            side_of_code = {1: "left", -1: "right", 0: "none"}
            chosen["home"] = [side_of_code[int(code)] for code in self._homes[rows]]
        return chosen
