"""Counts of bags: a map of the rate of single rows learnt from cases among the people of districts, or
successes among trials.

>>> import numpy as np
>>> import pandas as pd
>>> import riesz
>>> rng = np.random.default_rng(0)
>>> height, district = rng.uniform(-1, 1, 300), np.repeat(np.arange(30), 10)
>>> rows = pd.DataFrame({"height": height, "district": district, "people": 50})
>>> rows["height"] += rows.district / 10
>>> rate = 0.1 * np.exp(np.sin(rows.height))
>>> cases = rng.poisson((rows.people * rate).groupby(rows.district).sum())
>>> bags = pd.DataFrame({"district": np.arange(30), "cases": cases})
>>> model = riesz.AggregateCountProcess().fit(rows, bags, bag="district", target="cases", weight="people")
>>> low, high = model.predict_quantiles(rows, [0.025, 0.975]).T
>>> bool(np.mean((low < rate) & (rate < high)) > 0.85)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit
from scipy.stats import norm
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from . import _core
from . import kernels as rk
from ._aggregate_fit import Component, LeftOut, mixture
from ._bags import (
    ColumnRoles,
    Tables,
    check_choices,
    points_of,
    read_tables,
    start_kernel,
    start_mediator_kernel,
    warned,
)
from ._downscaling_base import Downscaled, draws_of, not_negative, rough
from ._duel_contexts import _first, check_optimizer
from ._expansion import Expansion, deviations_of

__all__ = ["AggregateCountProcess"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: What f is, by family.
_LINKS = {"poisson": "log rate", "binomial": "log odds"}


class AggregateCountProcess(Downscaled):
    """A Gaussian process f of single rows whose exponential is a rate, learnt from counts of bags.

    With ``family="poisson"`` counts are of events among weights (people, person-years),
    ``z_b ~ Poisson(Σ_i w_i exp(f(x_i)))``; with ``"binomial"`` of successes among trials,
    ``z_b ~ Binomial(n_b, Σ_i w_i σ(f(x_i)))`` with weights that are divided by their sum. The posterior is
    Laplace's approximation.

    Parameters
    ----------
    kernel : riesz.kernels.Kernel, default ``Constant(1) * RBF`` with the columns' standard deviations as
    length scales
        Prior covariance of f; where tuning starts.
    family : {"poisson", "binomial"}, default "poisson"
    operator : {"auto", "matched", "mediated"}, default "auto"
        Counts whose bags have rows are matched. Others are mediated: columns that all bags have, the
        ``mediators`` of :meth:`fit`, say which bags with rows they are like. As rates have no negative parts,
        these are averaged with weights that are not negative (a kernel smoother), and not by the regression
        of :class:`AggregateGaussianProcess`.
    mediator_kernel : riesz.kernels.Kernel, default ``RBF`` with half the mediators' standard deviations as
    length scales
        Where its tuning starts: it is the one that predicts bags best that are left out.
    mediator_examples : {"bags", "rows"}, default "bags"
        What the smoother counts once: every bag, or every row, so that large bags say more.
    dispersion : float, default 0
        By how much counts vary more than their family, where tuning starts, and 0 for not at all: the
        variance of a gamma factor of rates, so that counts are negative binomial; of successes φ, of which
        ``φ/(1 + φ)`` is the correlation of two trials of a target, so that they are beta-binomial.
    mediation_dispersion : float or "auto"
        The same of mediated counts: by how much their rates vary around what the smoother says. ``"auto"``
        starts from 0.1; 0 takes the smoother's word for certain.
    prior_mean : float, optional
        The mean of f far from all rows, by default the constant that fits best.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps all hyper-parameters as they are. Tuning maximises Laplace's approximation of the
        marginal likelihood times weak priors around the start, from two starts.
    average : "auto", bool or int
        Averages over so many draws of the hyper-parameters from their posterior (``True``: 64), as the best
        ones alone are too sure where counts are few. ``"auto"`` does so up to 300 counts.
    inducing : None, int or array
        f is known through its values at so many inducing points, or at these rows. ``None`` takes all rows up
        to 1,000, and beyond twice as many as counts, from 200 to 1,000.
    published : bool, default False
        Tunes by the marginal likelihood alone, without priors.
    random_state : int, RandomState or None
    columns : dict of name to {"text", "number"}, optional
        The types of columns of a data frame, where they look like something else.

    Attributes
    ----------
    expansion_ : Expansion
        f by the best hyper-parameters.
    kernel_ : riesz.kernels.Kernel
    dispersion_, mediation_dispersion_ : float
        By the best hyper-parameters; 0 for none.
    mediator_kernel_ : riesz.kernels.Kernel or None
    prior_mean_ : float
    log_marginal_likelihood_value_ : float
        Laplace's approximation by the best hyper-parameters, at the best prior mean if it is learnt.
    effective_draws_ : float or None
        As many draws of hyper-parameters from their posterior itself would say as much as the average.
    bags_, targets_ : list of str
        Names of the bags that have rows, and of those that have counts.
    fitted_ : array
        The mean of each count, as f at its mode has it. With a prior mean that is learnt these add up to what
        counts do, if all are matched Poisson counts without dispersion.
    left_out_ : LeftOut or None
        What all other counts say of each, by the same hyper-parameters; None of a single one.
    warnings_ : list of str
        What to look at; also issued as warnings.

    Notes
    -----
    The smoother of mediated counts stays as it was tuned. Cost of a step to the mode, of which an evaluation
    of the marginal likelihood takes some: a few passes over n rows times m points, and m³."""

    def __init__(
        self,
        kernel=None,
        *,
        family="poisson",
        operator="auto",
        mediator_kernel=None,
        mediator_examples="bags",
        dispersion=0.0,
        mediation_dispersion="auto",
        prior_mean=None,
        optimizer="fmin_l_bfgs_b",
        average="auto",
        inducing=None,
        published=False,
        random_state=None,
        columns=None,
    ):
        self.kernel = kernel
        self.family = family
        self.operator = operator
        self.mediator_kernel = mediator_kernel
        self.mediator_examples = mediator_examples
        self.dispersion = dispersion
        self.mediation_dispersion = mediation_dispersion
        self.prior_mean = prior_mean
        self.optimizer = optimizer
        self.average = average
        self.inducing = inducing
        self.published = published
        self.random_state = random_state
        self.columns = columns

    def fit(
        self,
        rows: Any,
        bags: Any,
        *,
        bag: Any,
        target: str | None = None,
        trials: str | None = None,
        weight: Any = None,
        mediators: str | Sequence[str] = (),
        total: str | None = None,
        features: Sequence[str] | None = None,
        row: Any = None,
        drop_unmatched: bool = False,
    ) -> AggregateCountProcess:
        """Fits to the counts of bags.

        Parameters
        ----------
        rows, bags, bag, target, mediators, features, row, drop_unmatched
            As :meth:`AggregateGaussianProcess.fit`; ``target`` is the column of ``bags`` with the counts.
        trials : str
            Of binomial counts, the column of ``bags`` with the trials among which these are successes.
        weight : str, or array of shape (n,), optional
            The column of ``rows`` with how many there are to have an event (people, person-years), by default
            1; of binomial counts how much a row counts in its bag.
        total : str, optional
            Of mediated Poisson counts, the column of ``bags`` with the sum of their weights.
        """
        self._check(trials)
        roles = ColumnRoles(bag, weight, target, None, total, mediators, features, row, trials, self.columns)
        sums = self.family == "poisson"
        tables = read_tables(rows, bags, roles, self.operator, sums, bool(drop_unmatched))
        check_counts(tables)
        aggregates, notes = tables.to_core(sums), list(tables.notes)
        if self.operator == "auto" and aggregates.hardly_matched is not None:
            notes.append(aggregates.hardly_matched)
        points = None if self.inducing is None else points_of(self.inducing, tables)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        draws = draws_of(
            self.average,
            len(tables.values),
            self.optimizer,
            "published=True takes the best" if self.published else None,
        )
        fitted = _core.fit_counts(
            self._start(tables), aggregates, points, self.optimizer is not None, draws, seed
        )
        self._keep(fitted, tables, roles)
        notes += rough(fitted.effective)
        self.warnings_ = warned(self, notes, fitted.warnings)
        return self

    def _check(self, trials: Any) -> None:
        choices = [
            ("family", self.family, tuple(_LINKS)),
            ("operator", self.operator, ("auto", "matched", "mediated")),
            ("mediator_examples", self.mediator_examples, ("bags", "rows")),
        ]
        check_choices(choices, [("kernel", self.kernel), ("mediator_kernel", self.mediator_kernel)])
        if self.family == "binomial" and trials is None:
            raise ValueError(
                "family = 'binomial' takes trials: the column of bags that says among how many counts are "
                "successes"
            )
        if self.family == "poisson" and trials is not None:
            raise ValueError(
                f"trials = {trials!r}: Poisson counts have none: leave it out, or take family='binomial'"
            )
        check_optimizer(self.optimizer)

    def _start(self, tables: Tables) -> dict[str, Any]:
        """The process that tuning starts from."""
        mediators = start_mediator_kernel(tables, self.mediator_kernel)
        return {
            "kernel": start_kernel(tables, self.kernel),
            "trials": None if tables.trials is None else tables.trials.tolist(),
            "smoothing": None if mediators is None else (mediators, self.mediator_examples == "rows"),
            "dispersion": not_negative("dispersion", self.dispersion),
            "mediation_dispersion": not_negative(
                "mediation_dispersion", self.mediation_dispersion, or_auto=True
            ),
            "prior_mean": None if self.prior_mean is None else float(self.prior_mean),
            "published": bool(self.published),
        }

    def _keep(self, fitted: _core.FittedCounts, tables: Tables, roles: ColumnRoles) -> None:
        self._explained = _LINKS[self.family]
        parts = fitted.parts or [fitted.best]
        self._learnt(_component(fitted.best), [_component(part) for part in fitted.parts], tables, roles)
        self.mediator_kernel_ = None
        if fitted.smoothing is not None and tables.mediators is not None:
            self.mediator_kernel_ = rk._from_json(fitted.smoothing, tables.mediators[0].names)
        self.dispersion_, self.mediation_dispersion_ = fitted.dispersions
        self.log_marginal_likelihood_value_ = fitted.log_marginal_likelihood
        self.effective_draws_ = fitted.effective
        self.fitted_ = self._mixed([part.fitted for part in self._parts])
        self.left_out_ = _left_out([(part.weight, part.left_out) for part in parts], tables)

    def _rates_of_parts(self, cells: np.ndarray, sds: float = 0.0) -> list[np.ndarray]:
        """The rates by part: mean, median and the ends of intervals."""
        return [np.asarray(part.expansion._core.rates(cells, sds)) for part in self._parts]

    def predict(self, rows: Any) -> np.ndarray:
        """The map: the posterior mean of the rate per unit of weight, or of the probability of a success, at
        rows, (rows,)."""
        return self._mixed([part_rates[0] for part_rates in self._rates_of_parts(self._cells(rows))])

    def predict_quantiles(self, rows: Any, quantiles: Sequence[float] = (0.025, 0.5, 0.975)) -> np.ndarray:
        """Quantiles of the posterior of the rate, or of the probability, at rows, (rows, quantiles)."""

        for q in quantiles:
            if not 0 < q < 1:
                raise ValueError(f"quantiles: {q!r} is none: they are between 0 and 1")
        cells = self._cells(rows)
        means = np.array([part.expansion._core.predict(cells)[:, 0] for part in self._parts])
        sds = np.array([part.expansion._core.std(cells)[:, 0] for part in self._parts])
        latent = np.array([self._quantile(q, means, sds) for q in quantiles]).reshape(
            len(quantiles), len(cells)
        )
        return self._rates(latent).T

    def _quantile(self, q: float, means: np.ndarray, sds: np.ndarray) -> np.ndarray:
        """The quantile of f at rows, a mixture of normal distributions, (parts, rows), by bisection."""
        part_quantiles = means + norm.ppf(q) * sds
        low, high = part_quantiles.min(axis=0), part_quantiles.max(axis=0)
        weights = np.array([part.weight for part in self._parts])
        # The bits of a double.
        for _ in range(60 if len(self._parts) > 1 else 0):
            middle = (low + high) / 2
            below = weights @ norm.cdf((middle - means) / np.maximum(sds, np.finfo(float).tiny)) < q
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def _rates(self, f: np.ndarray) -> np.ndarray:
        return np.exp(f) if self.family == "poisson" else expit(f)

    def predict_link(self, rows: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """f, the logarithm of the rate or the log odds, at rows, (rows,), which explanations are of; and with
        ``return_std`` or ``return_cov`` its standard deviations or covariances."""
        return self._posterior(rows, return_std, return_cov)

    def sample(self, rows: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Joint draws of the rates, or probabilities, of rows from their posterior, (rows, n_samples): maps
        that counts allow."""
        return self._rates(self._drawn(rows, n_samples, random_state))

    def predict_bags(
        self, rows: Any, return_std: bool = False, *, bag: Any = None, weight: Any = None
    ) -> Any:
        """The posterior mean of how many events are expected in the bags that rows are in, or of the
        probability of a success there, in the order in which rows name them first; with ``return_std`` of
        events the standard deviation of that, too, which is without that of the counts around it.
        ``bag`` and ``weight`` are as in :meth:`fit`, by default the columns that they were there. For other
        quantities of bags take sums over :meth:`sample`."""
        check_is_fitted(self)
        members, names = self._members(rows, bag, weight)
        places, weights = map(np.asarray, self._weights_of(members, names, self.family == "binomial"))
        cells = self._cells(members.rows)
        total = lambda v: np.bincount(places, weights * v, len(names))
        means = [total(part_rates[0]) for part_rates in self._rates_of_parts(cells)]
        mean = self._mixed(means)
        if not return_std:
            return mean
        if self.family == "binomial":
            raise ValueError(
                "return_std of a mean of probabilities is not known in closed form: take that of draws, "
                "sample(rows)"
            )
        squares = [self._squares(part, cells, places, weights, len(names)) for part in self._parts]
        return mean, np.sqrt(np.maximum(self._mixed(squares) - mean**2, 0.0))

    def _squares(
        self, part: Component, cells: np.ndarray, places: np.ndarray, weights: np.ndarray, count: int
    ) -> np.ndarray:
        """The posterior mean of the squared number of events, by bag."""
        out = np.zeros(count)
        for b in range(count):
            members = np.flatnonzero(places == b)
            cov = deviations_of(part.expansion, cells[members], False, True)[0][..., 0]
            mean = weights[members] * np.exp(
                part.expansion._core.predict(cells[members])[:, 0] + np.diag(cov) / 2
            )
            out[b] = mean @ np.exp(cov) @ mean
        return out

    def predict_adding_up(self, rows: Any, *, bag: Any = None, weight: Any = None) -> np.ndarray:
        """Rates at rows, (rows,), as :meth:`predict` has them, each times what makes the events of its bag as
        many as were counted: rows are to be all those of their bags, whose names are those of the fit. A last
        step on top of the model, of which its intervals do not know; bags without a count stay as they are.
        Of a bag with no events all rates are 0."""
        check_is_fitted(self)
        if self.family == "binomial":
            raise ValueError("successes among trials do not add up to totals of rows: take predict")
        members, names = self._members(rows, bag, weight)
        places, weights = map(np.asarray, self._weights_of(members, names, self.family == "binomial"))
        rates = self.predict(members.rows)
        counted = dict(zip(self.targets_, self._targets))
        expected = np.bincount(places, weights * rates, len(names))
        times = [counted[name] / number if name in counted else 1.0 for name, number in zip(names, expected)]
        return rates * np.array(times)[places]


def _component(core: _core.CountPart) -> Component:
    return Component(core.weight, Expansion._wrap(core.model), np.asarray(core.fitted), None, None, None)


def _left_out(parts: Sequence[tuple[float, Sequence[Any]]], tables: Tables) -> LeftOut | None:
    """The leave-one-out predictions of a mixture of sets of hyperparameters, with scores by the mixture of
    predictive probabilities."""
    if len(tables.targets) < 2:
        return None
    means, variances, scores, logs = (
        np.array([predictions[k] for _, predictions in parts]) for k in range(4)
    )
    mean, sd, log, weights = mixture([weight for weight, _ in parts], means, variances, logs)
    # From the side where there is less, which is the more precise.
    low, high = (np.sum(weights * norm.cdf(side * scores), axis=0) for side in (1, -1))
    score = np.where(low < high, norm.ppf(np.minimum(low, 0.5)), -norm.ppf(np.minimum(high, 0.5)))
    return LeftOut(tables.targets, tables.values, mean, sd, log, score)


def check_counts(tables: Tables) -> None:
    """Refuses what is no count, and names its bag."""
    is_count = lambda v: (v >= 0) & (v == np.floor(v))
    for t in np.flatnonzero(~is_count(tables.values))[:1]:
        raise ValueError(
            f"the target of bag '{tables.targets[t]}' is {tables.values[t]}: counts are whole numbers, 0 or "
            "more"
        )
    if tables.trials is not None:
        bad = ~(is_count(tables.trials) & (tables.trials >= np.maximum(tables.values, 1)))
        invalid = [f"'{tables.targets[t]}' ({tables.trials[t]})" for t in np.flatnonzero(bad)]
        if invalid:
            raise ValueError(
                f"trials are whole numbers, at least 1 and the count, and are not of bags {_first(invalid)}"
            )
