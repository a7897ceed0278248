"""Experiments after the estimate of an effect: suggested treatments, and the posterior given their
outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .. import _core
from .._data.table_columns import Rows
from .._data.validation import _listed
from ._effect import CausalEstimate
from ._query import Columns, estimated
from ._study_tables import cells_of
from ._suggestions import Choice, Suggestions, Trials, by_treatment, no_trials, suggested, with_trials

if TYPE_CHECKING:
    from typing_extensions import Self


class Experiments:
    """Mixin of :class:`riesz.CausalEffect` with the methods for experiments."""

    if TYPE_CHECKING:
        outcome: str
        _trials: Trials

        def _columns(self) -> Columns: ...
        def _expected(self) -> str: ...
        def _treatment_rows(self) -> Rows: ...
        def _core_effect(self) -> _core.CausalEffect: ...

    def suggest(
        self,
        n: int = 1,
        *,
        minimize: bool = True,
        bounds: Any = None,
        candidates: Any = None,
        costs: Any = None,
        acquisition: str = "log-ei",
        prior: str = "effect",
        supported: bool = False,
        random_state: int = 0,
    ) -> Suggestions:
        """Returns the ``n`` treatments to try next for a small (``minimize``) or large outcome, by Bayesian
        optimisation. Its prior is the effect, and its data are the experiments of :meth:`observe`.

        Treatments are chosen among ``candidates``, which are as ``grid`` in :meth:`effect`, or within
        ``bounds``: a pair of numbers if there is one treatment, or a dictionary of pairs, by default the
        ranges of study 1; categorical treatments have all their levels. ``costs`` of an experiment are a
        number, one per candidate, or a function of a dictionary of treatments. ``acquisition`` is the
        acquisition function: ``"log-ei"``, the logarithm of the expected improvement on the best so far,
        ``"ei"``, or ``"ucb"``, two standard deviations better than the mean. The second and later treatments
        are chosen as if the earlier ones had their expected outcomes. ``supported`` excludes treatments for
        which the studies have no data.

        ``prior`` is the prior before any experiment. ``"effect"`` is the effect with its covariance and a
        discrepancy of 5 % of its variance (more if experiments require it). For comparison there are
        ``"imp"`` or ``"bayesime"`` (the last or first study's part of the covariance alone), ``"cbo"``
        (Aglietti et al. 2020), ``"rank-one"`` (with the variance of ``"effect"``) and ``"none"``.

        >>> import numpy as np
        >>> import riesz
        >>> rng = np.random.default_rng(0)
        >>> dose, psa = rng.uniform(-2, 2, 60), rng.uniform(-2, 2, 60)
        >>> study1 = {"dose": dose, "psa": dose + 0.2 * rng.normal(size=60)}
        >>> study2 = {"psa": psa, "volume": (psa - 1) ** 2 + 0.1 * rng.normal(size=60)}
        >>> model = riesz.CausalFusion(treatment="dose", outcome="volume", randomized=True, random_state=0)
        >>> first = model.fit([study1, study2]).suggest()
        >>> bool(abs(first.treatments["dose"][0] - 1) < 0.5)
        True
        >>> model.observe(first.treatments, 0.1).suggest(2).to_frame().shape
        (2, 6)
        """
        choice = self._choice(candidates, by_treatment(bounds, self._columns().treatments), costs)
        return suggested([choice], n, minimize, acquisition, prior, supported, random_state)

    def observe(self, doses: Any, outcomes: Any, *, std: Any = None) -> Self:
        """Adds experiments: ``doses`` that were set, as ``grid`` in :meth:`effect`, and their outcomes, one
        number each. ``std`` is the standard deviation of outcomes around the effect, one number or one each,
        0 if they are exact; by default it is estimated if there are at least four experiments.
        :meth:`suggest` and :meth:`posterior` use the experiments; :meth:`effect` uses the studies alone."""
        self._trials = with_trials(
            self._trials_so_far(), self._columns().treated(doses, "doses"), outcomes, std
        )
        return self

    def reset(self) -> Self:
        """Removes all experiments."""
        self._trials = no_trials(self._treatment_rows())
        return self

    @property
    def experiments_(self) -> dict[str, np.ndarray]:
        """The observed treatments and outcomes, by name."""
        trials = self._trials_so_far()
        return {**cells_of(trials.rows), self.outcome: trials.outcomes}

    def posterior(self, grid: Any, *, baseline: Any = None, prior: str = "effect") -> CausalEstimate:
        """Returns the posterior of the effect at ``grid`` given the experiments of :meth:`observe`, in the
        form of :meth:`effect`, with a discrepancy between studies and experiments. It draws no samples."""
        query = self._columns().query(grid, baseline, "grid")
        (mean, cov, _, *support), _ = _core.update_effect(
            self._core_effect(), self._trials_so_far().to_core(prior), query
        )
        description = f"{self._expected()} after {len(self._trials.outcomes)} experiments{query.versus}"
        return estimated((mean, cov, [("studies and experiments", cov)], *support), description, query)

    def _trials_so_far(self) -> Trials:
        check_is_fitted(self)
        return self._trials

    def _choice(self, candidates: Any, bounds: dict[str, tuple[float, float]], costs: Any) -> Choice:
        if candidates is not None and bounds:
            raise ValueError("candidates and bounds exclude one another: give one")
        rows = None if candidates is None else self._columns().treated(candidates, "candidates")
        return Choice(self._core_effect(), self._treatment_rows(), self._trials_so_far(), rows, bounds, costs)


def suggest_among(
    models: Sequence[Experiments],
    n: int = 1,
    *,
    minimize: bool = True,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    costs: Sequence[Any] | None = None,
    acquisition: str = "log-ei",
    prior: str = "effect",
    supported: bool = False,
    random_state: int = 0,
) -> Suggestions:
    """Returns the set of treatments to try next, and their values. Each model has the effect of one set on
    the same outcome, and the best acquisition for its cost is chosen. ``costs`` are one per model; the other
    arguments are as in :meth:`riesz.CausalEffect.suggest`."""
    models = list(models)
    outcomes = sorted({str(model.outcome) for model in models})
    if len(outcomes) != 1:
        raise ValueError(
            f"models: give one or more, all of the same outcome; these are of {_listed(outcomes) or 'none'}"
        )
    costs = [None] * len(models) if costs is None else list(costs)
    if len(costs) != len(models):
        raise ValueError(f"costs: {len(models)} are needed, one a model, and there are {len(costs)}")
    all_treatments = dict.fromkeys(name for model in models for name in model._columns().treatments)
    given_bounds = by_treatment(bounds, list(all_treatments))
    bounds_for = lambda model: {
        name: pair for name, pair in given_bounds.items() if name in model._columns().treatments
    }
    choices = [model._choice(None, bounds_for(model), cost) for model, cost in zip(models, costs)]
    return suggested(choices, n, minimize, acquisition, prior, supported, random_state)
