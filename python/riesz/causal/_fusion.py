"""Causal effects of a treatment on an outcome, from one table with both or from several studies that are not
joined.

A :class:`CausalEffect` from one table adjusts for covariates, uses mediators (front door), or adjusts for one
treatment after the other, depending on the graph:

>>> import numpy as np
>>> import pandas as pd
>>> import riesz
>>> rng = np.random.default_rng(0)
>>> age = rng.normal(size=100)
>>> dose = age + rng.normal(size=100)
>>> data = pd.DataFrame({"age": age, "dose": dose, "size": 2 * age - dose + 0.2 * rng.normal(size=100)})
>>> graph = "age -> dose; age -> size; dose -> size"
>>> model = riesz.CausalEffect(graph, treatment="dose", outcome="size", random_state=0)
>>> effect = model.fit(data).effect(1.0, baseline=0.0)
>>> bool(abs(effect.mean[0] + 1.0) < 3 * effect.std[0])
True

With several studies, the first may have measured treatment and mediator, and the second mediator and outcome.
:class:`CausalFusion` is the same estimator under the usual name for this case:

>>> age = rng.normal(size=80)
>>> dose = age + rng.normal(size=80)
>>> study1 = pd.DataFrame({"age": age, "dose": dose, "psa": age - 0.5 * dose + 0.2 * rng.normal(size=80)})
>>> psa = 2 * rng.normal(size=80)
>>> study2 = pd.DataFrame({"psa": psa, "volume": 2 * psa + 0.2 * rng.normal(size=80)})
>>> graph = "age -> dose; age -> psa; dose -> psa; psa -> volume"
>>> model = riesz.CausalFusion(graph, treatment="dose", outcome="volume", random_state=0)
>>> model = model.fit([study1, study2])
>>> effect = model.effect(1.0, baseline=0.0)
>>> bool(abs(effect.mean[0] + 1.0) < 3 * effect.std[0])
True
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .. import _core
from .._data.parameters import is_whole, issue_warnings, whole_number
from .._data.table_columns import Rows
from .._data.validation import _listed, collected, select_columns
from .._explaining.explainer import Explainer
from .._explaining.explanation import Explanation, check_suffix
from .._models.expansion import Expansion, write
from .._models.loading import Imported, Part, weighted_sum
from ._effect import CausalEstimate
from ._experiments import Experiments, suggest_among
from ._identification import answered, core_query
from ._mediator_shares import MediatorShares, mediator_values
from ._query import Columns, EffectQuery, estimated, on_target_population, single_row
from ._study_tables import cells, cells_of, coded, columns_of, read_studies
from ._suggestions import Suggestions, no_trials

if TYPE_CHECKING:
    from typing_extensions import Self

#: Maximum number of a study's rows over which means are taken; more rows are thinned evenly.
MAX_ROWS_OF_MEANS = 1000

__all__ = ["CausalEffect", "CausalEstimate", "CausalFusion", "MediatorShares", "Suggestions", "suggest_among"]


class CausalEffect(Experiments, BaseEstimator):
    """The effect of a treatment on an outcome, ``E[outcome | do(treatment)]``, with a joint band.

    It is estimated from **one table** with treatment and outcome, or from **several studies**, none of which
    has both. :func:`riesz.causal.identify` decides whether and how the effect is identified; an effect that
    is not identified is refused.

    From one table, the outcome is a Gaussian process of treatments and covariates. A back-door effect
    averages it over the covariates, and a front-door effect over the mediators given the treatment. The
    effect of several treatments in time averages it over later covariates given earlier ones (the g-formula,
    by iterated conditional expectations). With several studies, study 1 has the treatments, the last study
    has the outcome, and each study shares columns (mediators) with the next. Each study is a Gaussian
    process, and their variances add up (Chau 2023, with the moments of Dance and Bloem-Reddy 2024). The band
    covers the uncertainty from few or noisy rows; it does not cover a wrong graph.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import riesz
    >>> rng = np.random.default_rng(0)
    >>> severity = rng.normal(size=200)
    >>> treated = (severity + rng.normal(size=200) > 0).astype(float)
    >>> days = 10 + 3 * severity - 2 * treated + rng.normal(size=200)
    >>> data = pd.DataFrame({"severity": severity, "treated": treated, "days": days})
    >>> graph = "severity -> treated; severity -> days; treated -> days"
    >>> model = riesz.CausalEffect(graph, treatment="treated", outcome="days", random_state=0).fit(data)
    >>> print(model.identification_)  # doctest: +ELLIPSIS
    back-door, adjusting for severity; assumed: ...
    >>> average_effect = model.effect(1, baseline=0)
    >>> bool(abs(average_effect.mean[0] + 2) < 3 * average_effect.std[0])
    True

    Parameters
    ----------
    graph : str or networkx.DiGraph, optional
        The causal graph, for example ``"age -> dose; age -> psa; dose -> psa; psa -> volume"``; see
        :func:`riesz.causal.identify`. Without a graph, ``adjust``, ``front_door`` or ``randomized`` is
        assumed to hold.
    treatment : str or list of str
        Names of the treatments.
    outcome : str
        Name of the outcome.
    adjust : str or list of str, optional
        Columns of the table, or of study 1, to adjust for. If there is a graph, they are checked against it,
        as is ``front_door``.
    front_door : str or list of str, optional
        Columns of study 1 that carry the whole effect.
    randomized : bool, default False
        Whether treatments were assigned at random in study 1.
    differs : dict, optional
        For each study, the variables whose mechanism differs in it, for example ``{"study 2": ["psa"]}``.
    n_hyperparameter_samples : int, default 16
        Number of draws of the hyper-parameters over which the effect is averaged. 0 uses the best
        hyper-parameters alone, whose bands are too narrow if there are few rows.
    n_landmarks : int, optional
        Number of landmarks for each study with more rows than this, with time linear in the rows. The default
        is 500 for studies of more than 3,000 rows. Studies that share covariates on which the outcome depends
        use all rows.
    random_state : int, RandomState or None
        Seed of the draws of the hyper-parameters.
    columns : dict of name to {"text", "number"}, optional
        Types of columns of a data frame, where the detected type is wrong.

    Attributes
    ----------
    identification_ : riesz.causal.Identification
        How the effect is identified, and under which assumptions.
    treatments_ : tuple of str
        The treatments that affect the outcome, in the column order of treatment arrays.
    unmatched_ : dict of str to float
        For each mediator, the share of a study's rows whose values are outside the range of the next study
        (or levels that it does not have), so that the next study has no data there. If several studies share
        the column, it is the largest share.
    warnings_ : list of str
        Warnings that ``fit`` issued.

    Notes
    -----
    There is no ``score``, and it is neither a regressor nor a classifier of scikit-learn: rows show outcomes
    of treatments that were chosen, not the effect of setting a treatment, so held-out rows do not measure the
    error of an effect.

    Time is O(n³) for a study of n rows, and O(n m²) with m landmarks. Results are bitwise independent of the
    order of rows and columns and of the number of threads. A ``pickle`` keeps the needed columns of the
    studies; the model is refitted at its first use, with the same numbers."""

    def __init__(
        self,
        graph: Any = None,
        *,
        treatment: str | Iterable[str],
        outcome: str,
        adjust: str | Iterable[str] | None = None,
        front_door: str | Iterable[str] | None = None,
        randomized: bool = False,
        differs: Mapping[int | str, str | Iterable[str]] | None = None,
        n_hyperparameter_samples: int = 16,
        n_landmarks: int | None = None,
        random_state: Any = None,
        columns: Mapping[str, str] | None = None,
    ) -> None:
        self.graph = graph
        self.treatment = treatment
        self.outcome = outcome
        self.adjust = adjust
        self.front_door = front_door
        self.randomized = randomized
        self.differs = differs
        self.n_hyperparameter_samples = n_hyperparameter_samples
        self.n_landmarks = n_landmarks
        self.random_state = random_state
        self.columns = columns

    def fit(self, studies: Any, y: Any = None) -> Self:
        """Fits the model to one data frame with treatments, outcome and covariates, or to a list of data
        frames, one per study: the first has the treatments, the last the outcome. ``y`` is ignored. Rows
        with a missing value in a needed column are dropped, with a warning. Time is O(n³) for n rows."""
        description = (
            f"a list of {len(studies)}"
            if isinstance(studies, (list, tuple))
            else f"a {type(studies).__name__}"
        )
        studies = list(studies) if isinstance(studies, (list, tuple)) else [studies]
        draws = whole_number("n_hyperparameter_samples", self.n_hyperparameter_samples, 0)
        landmarks = None if self.n_landmarks is None else whole_number("n_landmarks", self.n_landmarks, 1)
        tables = [columns_of(collected(table), f"study {k + 1}") for k, table in enumerate(studies)]
        headers = [list(columns) for columns in tables]
        if len(tables) < 2 and not (tables and str(self.outcome) in headers[0]):
            raise ValueError(
                f"studies is {description}: give a list of two data frames or more, one a study; or one "
                f"data frame "
                "that has treatment "
                f"and outcome, of which '{self.outcome}' is no column"
            )
        strategy = self.adjust, self.front_door, self.randomized, self.differs
        question = core_query(self.graph, self.treatment, self.outcome, headers, *strategy)
        identification = answered(*question)
        read = read_studies(tables, *question, self.columns)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._fitted_on: tuple[Any, ...] = (
            read.leading,
            read.points,
            read.outcome,
            draws,
            seed,
            read.shared,
            landmarks,
        )
        stages = _core.effect_stages(*question)
        if stages:
            self._fitted_on += ((stages, list(identification.treatments)),)
            covariates = tuple(stages[0][2])
        else:
            covariates = () if identification.front_door else tuple(sorted(identification.adjust))
        passive = tuple(identification.bridges[-1].passive) if identification.bridges else ()
        self._effect_columns = Columns(
            identification.treatments,
            str(self.outcome),
            covariates,
            passive,
            read.levels,
            identification._text,
        )
        self._fused = _core.fuse(*self._fitted_on)
        self._association: _core.CausalEffect | None = None
        self.identification_, self._question = identification, question
        self.treatments_ = identification.treatments
        self._trials = no_trials(self._treatment_rows())
        self.unmatched_ = read.unmatched
        self.n_features_in_ = len(identification.treatments)
        self.feature_names_in_ = np.array(identification.treatments, dtype=object)
        notes = read.notes + _core.effect_caveats(*question, self._fused, draws)
        self.warnings_ = issue_warnings(self, notes, [])
        return self

    def effect(
        self,
        grid: Any,
        *,
        baseline: Any = None,
        conditions: Any = None,
        among: Any = None,
        population: Any = None,
        population_weights: Any = None,
    ) -> CausalEstimate:
        """Returns ``E[outcome | do(treatment)]`` at each row of ``grid``.

        ``grid`` is a number or an array of numbers if there is one treatment; otherwise a data frame, a
        dictionary, or an array with the columns of ``treatments_``. ``baseline`` is one such row; with it,
        the result is the contrast, the effect minus the effect at the baseline, with its standard deviation.

        By default the effect is averaged over all rows of the table or of study 1. If covariates are adjusted
        for, there are other target populations: rows with given covariates, ``conditions={"age": 60}``; rows
        with a given treatment, ``among={"dose": 0.1}`` or, with one treatment, ``among=0.1``; or a
        ``population``, a data frame of the covariates, with ``population_weights``, one per row or the name
        of a column (default equal). For ``conditions`` and ``among`` the band includes the uncertainty about
        who belongs to the population; a ``population`` is taken as known."""
        fused, population_text = self._on_population(
            conditions=conditions, among=among, population=population, population_weights=population_weights
        )
        query = self._columns().query(grid, baseline, "grid")
        return self._estimate(fused, f"{self._expected()}{population_text}{query.versus}", query)

    def slope(
        self,
        grid: Any,
        treatment: str | None = None,
        *,
        step: float | None = None,
        conditions: Any = None,
        among: Any = None,
        population: Any = None,
        population_weights: Any = None,
    ) -> CausalEstimate:
        """Returns the derivative of the effect with respect to one ``treatment``, at each row of ``grid``.

        It is the central difference with ``step``, with its standard deviation. The default step is a
        hundredth of the treatment's standard deviation in study 1; the error is of the order of the squared
        step. The other arguments are as in :meth:`effect`."""
        fused, population_text = self._on_population(
            conditions=conditions, among=among, population=population, population_weights=population_weights
        )
        if treatment is None and len(self.treatments_) > 1:
            raise ValueError(f"treatment = None: say by which treatment, {_listed(self.treatments_)}")
        query = EffectQuery(self._columns().treated(grid, "grid"), slope=(treatment, step))
        description = f"slope of {self._expected()} by {treatment or self.treatments_[0]}{population_text}"
        return self._estimate(fused, description, query)

    def explain(self, doses: Any, background: Any = None, **options: Any) -> Explanation:
        """Explains the effect at ``doses`` (as ``grid`` in :meth:`effect`) by exact Shapley values of the
        treatments, which add up to it.

        ``background``, by default the treatments of study 1, has the rows from which absent treatments take
        their values. In this interventional game, values are a treatment's contribution to the effect minus
        the mean effect of the observed treatments. ``options`` are as in :class:`riesz.Explainer`, for
        example ``covariance=True`` for standard deviations of values."""
        if background is None and "game" not in options:
            background = self._studied()
        return Explainer(self, background, **options)(cells(self._columns().treated(doses, "doses")))

    def explain_mediators(
        self,
        doses: Any,
        *,
        baseline: Any = None,
        background: Any = None,
        conditions: Any = None,
        among: Any = None,
        population: Any = None,
        population_weights: Any = None,
        **options: Any,
    ) -> MediatorShares:
        """Returns the share of the effect at ``doses`` that passes through each mediator of the first two
        studies: Shapley values of the expected outcome given the mediators, summed over the rows of study 1
        as the effect is.

        With a ``baseline`` it is the share of the contrast. ``background``, by default the mediators of the
        next study (1,000 evenly spaced rows of them if there are more), has the rows from which absent
        mediators take their values. ``options`` are as in :class:`riesz.Explainer`; ``game="functional"``
        needs no background. The other arguments are as in :meth:`effect`. Effects of mediators on one another
        are not modelled: the last mediator of a chain has all of the effect."""
        if self._is_single_table():
            raise ValueError(
                "mediators that studies share: the effect is from one table, and leads through none of them"
            )
        mediators = self._rows_of(1, mediators_alone=True)
        if background is None and "game" not in options:
            background = cells(_evenly_spaced(mediators))
        fused, population_text = self._on_population(
            conditions=conditions, among=among, population=population, population_weights=population_weights
        )
        query = self._columns().query(doses, baseline, "doses")
        values = mediator_values(fused.mediator_sums(query), self._columns().levels, background, options)
        mean = np.array(fused.estimate(query)[0])
        description = f"{self._expected()}{population_text}{query.versus}"
        return MediatorShares(
            description,
            cells_of(query.treatments),
            tuple(mediators.names),
            values,
            mean - values.sum(axis=1),
            mean,
        )

    def value_of_information(
        self,
        doses: Any,
        *,
        baseline: Any = None,
        study: int | None = None,
        rows: Any = None,
        conditions: Any = None,
        among: Any = None,
        population: Any = None,
        population_weights: Any = None,
    ) -> Any:
        """Returns which study to extend: the share of the variance of the effect at ``doses``, or of the
        contrast with ``baseline``, that one more row of a study would remove, whatever its outcome; averaged
        over several ``doses``.

        By default it is the average over rows like those of each study (1,000 evenly spaced rows if there are
        more), as a dictionary by study. With ``study``, from 1, and ``rows``, a data frame of that study's
        inputs (treatments and covariates of study 1, mediators of others), it is one number per row.
        Hyper-parameters and target population stay fixed. The other arguments are as in :meth:`effect`."""
        fused, _ = self._on_population(
            conditions=conditions, among=among, population=population, population_weights=population_weights
        )
        query = self._columns().query(doses, baseline, "doses")
        n_leading = len(self._fitted_on[0])
        if study is not None and (not is_whole(study) or not 1 <= study <= n_leading + 1):
            raise ValueError(f"study = {study!r}: there are studies 1 to {n_leading + 1}")
        if rows is not None and study is None:
            raise ValueError("study = None: say of which study rows are")
        if study is None:
            reductions = [
                fused.variance_reduction(query, k, _evenly_spaced(self._rows_of(k)))
                for k in range(n_leading + 1)
            ]
            return {f"study {k + 1}": float(np.mean(shares)) for k, shares in enumerate(reductions)}
        rows_of_study = self._rows_of(study - 1)
        further_rows = (
            rows_of_study
            if rows is None
            else coded(collected(rows), rows_of_study.names, self._columns().levels, "rows")
        )
        return np.array(fused.variance_reduction(query, study - 1, further_rows))

    def report(
        self,
        path: str | os.PathLike[str],
        grid: Any = None,
        *,
        baseline: Any = None,
        conditions: Any = None,
        among: Any = None,
        population: Any = None,
        population_weights: Any = None,
        level: float = 0.95,
    ) -> None:
        """Writes a self-contained HTML page: the effect, its identification and assumptions, the curve with
        its band and where studies have no data, each study's share of the variance, and the numbers.

        ``grid`` is by default 50 doses over the middle 95 % of those of the table or of study 1, or its
        levels; for several treatments all combinations of their quartiles. The other arguments are as in
        :meth:`effect`."""
        check_suffix(path, (".html", ".htm"), "report writes HTML")
        fused, population_text = self._on_population(
            conditions=conditions, among=among, population=population, population_weights=population_weights
        )
        leading, points, outcome, draws, seed, shared, landmarks = self._fitted()[:7]
        treatments = (
            Rows(*_core.usual_doses(self._treatment_rows()))
            if grid is None
            else self._columns().treated(grid, "grid")
        )
        base = (
            None
            if baseline is None
            else single_row(self._columns().treated(baseline, "baseline"), "baseline")
        )
        facts = [
            ("draws of hyper-parameters", str(draws)),
            ("seed", str(seed)),
            ("software", f"riesz {_core.__version__}"),
        ]
        if landmarks is not None:
            facts.insert(1, ("landmarks", str(landmarks)))
        everyone_text = f"all people of {'the table' if self._is_single_table() else 'study 1'}"
        provenance = (
            population_text.removeprefix(" of ") or everyone_text,
            self.unmatched_,
            list(self.warnings_),
            facts,
        )
        about = *self._question, leading, points, outcome, shared
        write(path, _core.effect_page(about, fused, treatments, provenance, level, base).encode())

    def association(self, grid: Any, *, baseline: Any = None) -> CausalEstimate:
        """Returns the association instead of the effect: ``E[outcome | treatment]`` of the table or study 1
        without adjustment. The difference from the effect is the confounding bias. The first call fits
        another model."""
        leading, points, outcome, draws, seed, shared, landmarks = self._fitted()[:7]
        if self._association is None and self._is_single_table():
            stages, treatments = self._fitted_on[7]
            if stages == [([], treatments, [])]:
                raise ValueError("nothing is adjusted for, so the effect equals the association")
            stages = [([], treatments, [])]
            self._association = _core.fuse(
                [], self._treatment_rows(), outcome, draws, seed, None, landmarks, (stages, treatments)
            )
        if self._association is None:
            if leading[0][1] == "direct":
                raise ValueError("nothing is adjusted for, so the effect equals the association")
            if shared is not None:
                raise ValueError(
                    "both studies share covariates on which the outcome depends, and then this is not "
                    "computed yet"
                )
            treatments, _, _, mediators = leading[0]
            self._association = _core.fuse(
                [(treatments, "direct", None, mediators), *leading[1:]],
                points,
                outcome,
                draws,
                seed,
                None,
                landmarks,
            )
        query = self._columns().query(grid, baseline, "grid")
        return self._estimate(
            self._association, f"E[{self.outcome} | {', '.join(self.treatments_)}]{query.versus}", query
        )

    def _fitted(self) -> tuple[Any, ...]:
        check_is_fitted(self)
        return self._fitted_on

    def _is_single_table(self) -> bool:
        return len(self._fitted()) > 7

    def _treatment_rows(self) -> Rows:
        """Returns the treatments of the table, or of study 1."""
        leading, points = self._fitted()[:2]
        if leading:
            return leading[0][0]
        positions = [list(points.names).index(name) for name in self.treatments_]
        levels = [points.levels[position] for position in positions]
        return Rows(list(self.treatments_), levels, np.ascontiguousarray(points.numbers[:, positions]))

    def _rows_of(self, k: int, mediators_alone: bool = False) -> Rows:
        """Returns the columns from which study ``k``, from 0, predicts."""
        leading, points = self._fitted()[:2]
        if k == len(leading):
            return points
        treatments, _, covariates, _ = leading[k]
        if covariates is None or mediators_alone:
            return treatments
        return Rows(
            [*treatments.names, *covariates.names],
            [*treatments.levels, *covariates.levels],
            np.hstack([treatments.numbers, covariates.numbers]),
        )

    def _studied(self) -> np.ndarray:
        """Returns the treatments of the table, or of study 1, as an array."""
        return cells(self._treatment_rows())

    def _core_effect(self) -> _core.CausalEffect:
        check_is_fitted(self)
        if self._fused is None:
            # After unpickling.
            self._fused = _core.fuse(*self._fitted_on)
        return self._fused

    def _on_population(self, **population: Any) -> tuple[_core.CausalEffect, str]:
        """Returns the effect on this population, and its description."""
        return on_target_population(self._core_effect(), self._columns(), **population)

    def _columns(self) -> Columns:
        check_is_fitted(self)
        return self._effect_columns

    def _expected(self) -> str:
        return f"E[{self.outcome} | do({', '.join(self.treatments_)})]"

    def _estimate(self, fused: _core.CausalEffect, description: str, query: EffectQuery) -> CausalEstimate:
        return estimated(
            fused.estimate(query), description, query, lambda count, seed: fused.sample(query, count, seed)
        )

    def published(
        self,
        grid: Any,
        *,
        baseline: Any = None,
        form: str = "landmarks",
        measure: str = "rows",
        mass: float = 1.0,
        jitter: float = 1e-8,
    ) -> CausalEstimate:
        """Returns the effect with the posteriors of the source (Chau 2023, chapter 4, BayesIMP), for
        comparison with :meth:`effect`.

        ``form`` is ``"landmarks"``, the mediators of both studies (proposition 4.3.4, corrected), or
        ``"integrals"``, without landmarks. ``measure`` is the measure of the mediators: the ``"rows"`` of
        both studies, or ``"normal"`` with their means and standard deviations, times ``mass`` (in the source
        √(2π) times the standard deviation). ``jitter`` is added to the diagonals of kernel matrices of
        mediators, in units of their means. Hyper-parameters are those of the fit. The outcome's constant and
        the population of study 1 count as known. No samples are drawn.

        ``.restricted_to("study 2")`` of the result is IMP and ``.restricted_to("study 1")`` is BayesIME. The
        bands have three faults that :meth:`effect` does not have: they become narrow where no study has data,
        their width depends on the mass of the measure, and they depend on the jitter."""
        for name, value, allowed in (
            ("form", form, ("landmarks", "integrals")),
            ("measure", measure, ("rows", "normal")),
        ):
            if value not in allowed:
                raise ValueError(f"{name} = {value!r}: it is one of {_listed(allowed)}")
        query = self._columns().query(grid, baseline, "grid")
        core_estimate = self._core_effect().published(
            query, form == "integrals", mass if measure == "normal" else None, jitter
        )
        return estimated(core_estimate, f"{self._expected()} by {form}{query.versus}", query)

    def _select_columns(self, X: Any, label: str = "X") -> Any:
        """Returns the treatment columns of rows, as :class:`riesz.Explainer` takes them."""
        check_is_fitted(self)
        return select_columns(collected(X), self.treatments_)

    def _imported(self) -> Imported:
        """Returns the effect in the form that :class:`riesz.Explainer` reads."""
        outputs, identity = [str(self.outcome)], np.eye(1)
        parts = [
            (weight, Part.from_expansion(Expansion._wrap(core)))
            for weight, core in self._core_effect().parts()
        ]
        explained = f"effect of {_listed(self.treatments_)} on {self.outcome}"
        names, kind = list(self.treatments_), type(self).__name__
        if len(parts) == 1:
            return Imported([[parts[0][1]]], explained, names, kind, outputs, self._mean)
        block = weighted_sum([([[part]], weight * identity) for weight, part in parts], 0.0, outputs)
        description = f"{explained}, averaged over hyper-parameters"
        return Imported([block], description, names, kind, outputs, self._mean, mixture=parts)

    def _mean(self, rows: Any) -> np.ndarray:
        return self.effect(rows).mean

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        return {**state, "_fused": None, "_association": None} if "_fused" in state else state


class CausalFusion(CausalEffect):
    """:class:`CausalEffect` under the usual name for effects across studies (causal data fusion). Both
    classes take one table or several studies, with the same parameters, methods and results."""


def _evenly_spaced(rows: Rows) -> Rows:
    """Returns evenly spaced rows, at most :data:`MAX_ROWS_OF_MEANS`; the rows are sorted."""
    n = len(rows.numbers)
    return (
        rows
        if n <= MAX_ROWS_OF_MEANS
        else Rows(
            rows.names, rows.levels, rows.numbers[np.arange(MAX_ROWS_OF_MEANS) * n // MAX_ROWS_OF_MEANS]
        )
    )
