"""Causal effects: what a treatment does to an outcome, from one table that has both or across studies that
nobody joined.

A :class:`CausalEffect` of one table adjusts for covariates, goes through mediators, or adjusts before
treatment after treatment, as the graph says:

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
>>> bool(abs(effect.mean[0] + 1.0) < 3 * effect.sd[0])
True

Across studies, one measured treatment and mediator, another the mediator and the outcome.
:class:`CausalFusion` is the same estimator under the name that the field has for this:

>>> age = rng.normal(size=80)
>>> dose = age + rng.normal(size=80)
>>> study1 = pd.DataFrame({"age": age, "dose": dose, "psa": age - 0.5 * dose + 0.2 * rng.normal(size=80)})
>>> psa = 2 * rng.normal(size=80)
>>> study2 = pd.DataFrame({"psa": psa, "volume": 2 * psa + 0.2 * rng.normal(size=80)})
>>> graph = "age -> dose; age -> psa; dose -> psa; psa -> volume"
>>> model = riesz.CausalFusion(graph, treatment="dose", outcome="volume", random_state=0)
>>> model = model.fit([study1, study2])
>>> effect = model.effect(1.0, baseline=0.0)
>>> bool(abs(effect.mean[0] + 1.0) < 3 * effect.sd[0])
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

from . import _core
from ._bags import warned
from ._causal_query import Columns, EffectQuery, estimated, on_whom, single_row
from ._effect import CausalEstimate
from ._expansion import Expansion, write
from ._experiments import Experiments, suggest_among
from ._explainer import Explainer
from ._explanation import Explanation, check_ending
from ._mediator_shares import MediatorShares, values_through
from ._model_loading import Imported, Part, weighted_sum
from ._study_tables import cells, cells_of, coded, columns_of, read_studies
from ._suggestions import Suggestions, no_trials
from ._table_columns import Rows
from ._validation import _listed, collected, is_whole, picked
from .causal import answered, core_query
from .estimators import _count

if TYPE_CHECKING:
    from typing_extensions import Self

#: So many rows of a study stand for all, where means over them are asked for.
MAX_ROWS_OF_MEANS = 1000

__all__ = ["CausalEffect", "CausalEstimate", "CausalFusion", "MediatorShares", "Suggestions", "suggest_among"]


def __dir__() -> list[str]:
    return sorted(__all__)


class CausalEffect(Experiments, BaseEstimator):
    """The effect of a treatment on an outcome, ``E[outcome | do(treatment)]``, with a joint band.

    It is learnt from **one table** that has treatment and outcome, or from **several studies** none of which
    has both. Whether and how the effect is identified is what :func:`riesz.causal.identify` says; an effect
    that is not identified is refused.

    From one table the outcome is a Gaussian process of treatments and covariates. A back-door effect averages
    it over the covariates, a front-door effect over mediators given the treatment, and the effect of several
    treatments in time over the later covariates given the earlier ones (the g-formula, by iterated
    conditional expectations). Of several studies, study 1 has the treatments, the last study the outcome, and
    each shares columns with the next (mediators); each is a Gaussian process, and their uncertainties add up
    (Chau 2023, with the moments of Dance and Bloem-Reddy 2024). A band covers the uncertainty that comes from
    few or noisy rows; it does not cover a wrong graph.

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
    >>> bool(abs(average_effect.mean[0] + 2) < 3 * average_effect.sd[0])
    True

    Parameters
    ----------
    graph : str or networkx.DiGraph, optional
        What causes what, ``"age -> dose; age -> psa; dose -> psa; psa -> volume"``; see
        :func:`riesz.causal.identify`. Without it ``adjust``, ``front_door`` or ``randomized`` is taken on
        trust.
    treatment : str or list of str
    outcome : str
    adjust : str or list of str, optional
        Columns of the table, or of study 1, to adjust for. A graph checks them, as it does ``front_door``.
    front_door : str or list of str, optional
        Columns of study 1 through which all of the effect passes.
    randomized : bool, default False
        Treatments were assigned by chance in study 1.
    differs : dict, optional
        By study, ``{"study 2": ["psa"]}``, variables that come about differently in it.
    draws : int, default 16
        The effect is an average over so many draws of the hyper-parameters; 0 takes the best ones alone,
        which are too sure where rows are few.
    landmarks : int, optional
        Studies of more rows than this are known through so many landmarks, in time linear in their rows; by
        default 500 where there are more than 3,000. Studies that share covariates that the outcome depends on
        take all rows.
    random_state : int, RandomState or None
        For these draws.
    columns : dict of name to {"text", "number"}, optional
        The types of columns of a data frame, where they look like something else.

    Attributes
    ----------
    identification_ : riesz.causal.Identification
        How the effect follows, and what must hold for that.
    treatments_ : tuple of str
        The treatments that affect the outcome, in the order that arrays of treatments have.
    unmatched_ : dict of str to float
        Of each mediator the share of a study's rows whose values are outside the range of the next study
        (levels that it has not), which therefore says nothing of them; the largest share, if several studies
        share the column.
    warnings_ : list of str
        What ``fit`` warned of.

    Notes
    -----
    Takes O(n³) for n rows of a study, and n m² through m landmarks. Neither the order of rows nor that of
    columns, nor the number of threads, changes a bit. A ``pickle`` keeps the columns of the studies that are
    needed, and fits once more where it is used first, to the same numbers."""

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
        draws: int = 16,
        landmarks: int | None = None,
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
        self.draws = draws
        self.landmarks = landmarks
        self.random_state = random_state
        self.columns = columns

    def fit(self, studies: Any, y: Any = None) -> Self:
        """Learns the effect from one data frame with treatments, outcome and what is adjusted for, or from a
        list of data frames, one a study, the first with the treatments, the last with the outcome. ``y`` is
        not used. Rows without a value in a column that is needed are left out, with a warning. Takes O(n³)
        for n rows."""
        description = (
            f"a list of {len(studies)}"
            if isinstance(studies, (list, tuple))
            else f"a {type(studies).__name__}"
        )
        studies = list(studies) if isinstance(studies, (list, tuple)) else [studies]
        draws = _count("draws", self.draws, 0)
        landmarks = None if self.landmarks is None else _count("landmarks", self.landmarks, 1)
        tables = [columns_of(collected(table), f"study {k + 1}") for k, table in enumerate(studies)]
        headers = [list(columns) for columns in tables]
        if len(tables) < 2 and not (tables and str(self.outcome) in headers[0]):
            raise ValueError(
                f"studies is {description}: give a list of two data frames or more, one a study; or one "
                f"data frame "
                "that has treatment "
                f"and outcome, of which '{self.outcome}' is no column"
            )
        ways = self.adjust, self.front_door, self.randomized, self.differs
        question = core_query(self.graph, self.treatment, self.outcome, headers, *ways)
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
        self._known = Columns(
            identification.treatments,
            str(self.outcome),
            covariates,
            passive,
            read.levels,
            identification._text,
        )
        self._fused = _core.fuse(*self._fitted_on)
        self._seen: _core.CausalEffect | None = None
        self.identification_, self._question = identification, question
        self.treatments_ = identification.treatments
        self._trials = no_trials(self._treatment_rows())
        self.unmatched_ = read.unmatched
        self.n_features_in_ = len(identification.treatments)
        self.feature_names_in_ = np.array(identification.treatments, dtype=object)
        notes = read.notes + _core.effect_doubts(*question, self._fused, draws)
        self.warnings_ = warned(self, notes, [])
        return self

    def effect(
        self,
        grid: Any,
        *,
        baseline: Any = None,
        given: Any = None,
        among: Any = None,
        population: Any = None,
        weights: Any = None,
    ) -> CausalEstimate:
        """``E[outcome | do(treatment)]`` at each row of ``grid``.

        ``grid`` is a number or an array of numbers if there is one treatment; else a data frame, a
        dictionary, or an array with the columns of ``treatments_``. ``baseline``, one such row, makes it the
        contrast: the effect less that at the baseline, with the standard deviation of that.

        It is the mean effect on all people of the table or of study 1, or on others, where that is adjusted
        for covariates: on those of whom some covariates are these, ``given={"age": 60}``; on those who were
        treated so, ``among={"dose": 0.1}`` or, with one treatment, ``among=0.1``; or on a ``population``, a
        data frame of the covariates, whose members count by ``weights``, one each or the name of their
        column, by default alike. Of those given or treated so it counts how unsure it is who they are; a
        population is taken as it is."""
        fused, population_text = self._on(given=given, among=among, population=population, weights=weights)
        query = self._columns().query(grid, baseline, "grid")
        return self._estimate(fused, f"{self._expected()}{population_text}{query.versus}", query)

    def derivative(
        self,
        grid: Any,
        of: str | None = None,
        *,
        step: float | None = None,
        given: Any = None,
        among: Any = None,
        population: Any = None,
        weights: Any = None,
    ) -> CausalEstimate:
        """The slope of the effect by one treatment,
        ``of``, at each row of ``grid``: the difference between ``step`` above and ``step`` below, over twice
        the step, with the standard deviation of that. The step is by default a hundredth of the treatment's
        standard deviation in study 1; what is left out is of the order of its square. Else as
        :meth:`effect`."""
        fused, population_text = self._on(given=given, among=among, population=population, weights=weights)
        if of is None and len(self.treatments_) > 1:
            raise ValueError(f"of = None: say by which treatment, {_listed(self.treatments_)}")
        query = EffectQuery(self._columns().treated(grid, "grid"), slope=(of, step))
        description = f"slope of {self._expected()} by {of or self.treatments_[0]}{population_text}"
        return self._estimate(fused, description, query)

    def explain(self, doses: Any, background: Any = None, **options: Any) -> Explanation:
        """Why the effect is what it is at ``doses``, which are as ``grid`` in :meth:`effect`: exact Shapley
        values of the treatments, which add up to it.

        ``background``, by default the treatments of study 1, says what they could have been: with it values
        are those of the interventional game, a treatment's share in the effect less the mean effect of the
        treatments that people had. ``how`` is as in :class:`riesz.Explainer`, with ``covariance=True`` for
        how sure values are."""
        if background is None and "game" not in options:
            background = self._studied()
        return Explainer(self, background, **options)(cells(self._columns().treated(doses, "doses")))

    def explain_mediators(
        self,
        doses: Any,
        *,
        baseline: Any = None,
        background: Any = None,
        given: Any = None,
        among: Any = None,
        population: Any = None,
        weights: Any = None,
        **options: Any,
    ) -> MediatorShares:
        """The share of the effect at ``doses`` that passes through each mediator which the first two studies
        share: Shapley values of the expected outcome at mediators, summed over the rows of study 1 as the
        effect is.

        With a ``baseline`` it is of the contrast. ``background``, by default the mediators of the next study
        (1,000 from everywhere where there are more), says what mediators could have been; ``how`` is as in
        :class:`riesz.Explainer`, ``game="functional"`` for one that needs no background; the rest is as in
        :meth:`effect`. How mediators move one another is not asked: all of an effect goes through the last
        one of a chain."""
        if self._is_single_table():
            raise ValueError(
                "mediators that studies share: the effect is from one table, and leads through none of them"
            )
        mediators = self._rows_of(1, mediators_alone=True)
        if background is None and "game" not in options:
            background = cells(_evenly_spaced(mediators))
        fused, population_text = self._on(given=given, among=among, population=population, weights=weights)
        query = self._columns().query(doses, baseline, "doses")
        values = values_through(fused.mediator_sums(query), self._columns().levels, background, options)
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

    def worth(
        self,
        doses: Any,
        *,
        baseline: Any = None,
        study: int | None = None,
        rows: Any = None,
        given: Any = None,
        among: Any = None,
        population: Any = None,
        weights: Any = None,
    ) -> Any:
        """Which study to extend: the share of the variance of the effect at
        ``doses``, or of the contrast with ``baseline``, that one more row of a study would take away,
        whatever its outcome; the mean over ``doses`` if these are several.

        By default of each study a row such as it has, on average over its rows (1,000 from everywhere where
        there are more), a dictionary by study; with ``study``, from 1, and ``rows``, a data frame of what
        that study is told by (treatments and covariates of study 1, mediators of others), one number a row.
        Hyper-parameters, and who is averaged over, stay as they are. Else as :meth:`effect`."""
        fused, _ = self._on(given=given, among=among, population=population, weights=weights)
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
        given: Any = None,
        among: Any = None,
        population: Any = None,
        weights: Any = None,
        level: float = 0.95,
    ) -> None:
        """Writes a self-contained HTML page: the answer, how it follows and what must hold, the curve with
        its band and where studies do not tell it, which study leaves it unsure, and the numbers.

        ``grid`` is by default 50 doses over the middle 95 % of those of the table or of study 1, or its
        levels; of several treatments all combinations of their quartiles; else as :meth:`effect`."""
        check_ending(path, (".html", ".htm"), "report writes HTML")
        fused, population_text = self._on(given=given, among=among, population=population, weights=weights)
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
        everybody = f"all people of {'the table' if self._is_single_table() else 'study 1'}"
        provenance = (
            population_text.removeprefix(" of ") or everybody,
            self.unmatched_,
            list(self.warnings_),
            facts,
        )
        about = *self._question, leading, points, outcome, shared
        write(path, _core.effect_page(about, fused, treatments, provenance, level, base).encode())

    def as_seen(self, grid: Any, *, baseline: Any = None) -> CausalEstimate:
        """The apparent effect if the table or study 1 were an experiment: ``E[outcome | treatment]`` with its
        treatments, with no covariate adjusted for. The effect minus this is the confounding. Fits once more
        when it is first requested."""
        leading, points, outcome, draws, seed, shared, landmarks = self._fitted()[:7]
        if self._seen is None and self._is_single_table():
            stages, treatments = self._fitted_on[7]
            if stages == [([], treatments, [])]:
                raise ValueError("nothing is adjusted for: the effect is as it is seen")
            stages = [([], treatments, [])]
            self._seen = _core.fuse(
                [], self._treatment_rows(), outcome, draws, seed, None, landmarks, (stages, treatments)
            )
        if self._seen is None:
            if leading[0][1] == "direct":
                raise ValueError("nothing is adjusted for: the effect is as it is seen")
            if shared is not None:
                raise ValueError(
                    "both studies share covariates on which the outcome depends, and then this is not "
                    "computed yet"
                )
            treatments, _, _, mediators = leading[0]
            self._seen = _core.fuse(
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
            self._seen, f"E[{self.outcome} | {', '.join(self.treatments_)}]{query.versus}", query
        )

    def _fitted(self) -> tuple[Any, ...]:
        check_is_fitted(self)
        return self._fitted_on

    def _is_single_table(self) -> bool:
        return len(self._fitted()) > 7

    def _treatment_rows(self) -> Rows:
        """The treatments of the table, or of study 1."""
        leading, points = self._fitted()[:2]
        if leading:
            return leading[0][0]
        places = [list(points.names).index(name) for name in self.treatments_]
        levels = [points.levels[place] for place in places]
        return Rows(list(self.treatments_), levels, np.ascontiguousarray(points.numbers[:, places]))

    def _rows_of(self, k: int, mediators_alone: bool = False) -> Rows:
        """The columns from which study ``k``, from 0, predicts."""
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
        """The treatments of the table, or of study 1, as an array."""
        return cells(self._treatment_rows())

    def _core_effect(self) -> _core.CausalEffect:
        check_is_fitted(self)
        if self._fused is None:
            # Of a pickle.
            self._fused = _core.fuse(*self._fitted_on)
        return self._fused

    def _on(self, **population: Any) -> tuple[_core.CausalEffect, str]:
        """The effect on this population, and its description."""
        conditions = population.pop("given", None)
        return on_whom(self._core_effect(), self._columns(), conditions=conditions, **population)

    def _columns(self) -> Columns:
        check_is_fitted(self)
        return self._known

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
        """The effect by the posteriors of the source (Chau 2023, chapter 4, BayesIMP), to be compared with
        :meth:`effect`.

        ``form`` is ``"landmarks"``, the mediators of both studies (proposition 4.3.4, corrected), or
        ``"integrals"``, without any. The measure of mediators is that of the ``"rows"`` of both studies, or
        ``"normal"`` with their means and standard deviations, times a ``mass`` (the source's is √(2π) of the
        standard deviation). ``jitter`` is added to the diagonals of kernel matrices of mediators, in units of
        their means. Hyper-parameters are those of the fit; the outcome's constant counts as known, and so
        does who is in study 1. The estimate draws no samples.

        ``.only("study 2")`` of it is IMP and ``.only("study 1")`` BayesIME. Its bands narrow where no study
        knows anything, their width is the measure's mass, and the jitter counts: :meth:`effect` has none of
        these faults."""
        for name, value, known in (
            ("form", form, ("landmarks", "integrals")),
            ("measure", measure, ("rows", "normal")),
        ):
            if value not in known:
                raise ValueError(f"{name} = {value!r}: it is one of {_listed(known)}")
        query = self._columns().query(grid, baseline, "grid")
        core_estimate = self._core_effect().published(
            query, form == "integrals", mass if measure == "normal" else None, jitter
        )
        return estimated(core_estimate, f"{self._expected()} by {form}{query.versus}", query)

    def _own_columns(self, X: Any, label: str = "X") -> Any:
        """The treatments' columns of rows, as :class:`riesz.Explainer` takes them."""
        check_is_fitted(self)
        return picked(collected(X), self.treatments_)

    def _imported(self) -> Imported:
        """The effect as :class:`riesz.Explainer` reads it."""
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
        return {**state, "_fused": None, "_seen": None} if "_fused" in state else state


class CausalFusion(CausalEffect):
    """:class:`CausalEffect` under the name that the field has for effects across studies (causal data
    fusion). Both names take one table or several studies, with the same parameters, methods and numbers."""


def _evenly_spaced(rows: Rows) -> Rows:
    """Rows from everywhere that stand for all, which are in order."""
    n = len(rows.numbers)
    return (
        rows
        if n <= MAX_ROWS_OF_MEANS
        else Rows(
            rows.names, rows.levels, rows.numbers[np.arange(MAX_ROWS_OF_MEANS) * n // MAX_ROWS_OF_MEANS]
        )
    )
