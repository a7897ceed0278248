"""Counts of bags: a map of the rate of single rows learnt from cases among the people of districts, or successes among trials.

>>> import numpy as np
>>> import pandas as pd
>>> import riesz
>>> rng = np.random.default_rng(0)
>>> rows = pd.DataFrame({"height": rng.uniform(-1, 1, 300), "district": np.repeat(np.arange(30), 10), "people": 50})
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
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from . import _core
from . import kernels as rk
from ._aggregated import LeftOut
from ._bags import Asked, Tables, check_choices, points_of, read_tables, start_kernel, start_mediator_kernel, warned
from ._expansion import Expansion, spread
from ._imported import Imported, Part
from ._meetings import _first, check_optimizer
from .estimators import _count

__all__ = ["AggregateCountProcess"]

#: What f is, by family.
_LINKS = {"poisson": "log rate", "binomial": "log odds"}


class AggregateCountProcess(BaseEstimator):
    """A Gaussian process f of single rows whose exponential is a rate, learnt from counts of bags.

    With ``family="poisson"`` counts are of events among weights (people, person-years), ``z_b ~ Poisson(Σ_i w_i exp(f(x_i)))``;
    with ``"binomial"`` of successes among trials, ``z_b ~ Binomial(n_b, Σ_i w_i σ(f(x_i)))`` with weights that are divided by
    their sum. The posterior is Laplace's approximation.

    Parameters
    ----------
    kernel : riesz.kernels.Kernel, default ``Constant(1) * RBF`` with the columns' standard deviations as length scales
        Prior covariance of f; where tuning starts.
    family : {"poisson", "binomial"}, default "poisson"
    operator : {"auto", "matched", "mediated"}, default "auto"
        Counts whose bags have rows are matched. Others are mediated: columns that all bags have, the ``mediators`` of
        :meth:`fit`, say which bags with rows they are like. As rates have no negative parts, these are averaged with weights
        that are not negative (a kernel smoother), and not by the regression of :class:`AggregateGaussianProcess`.
    mediator_kernel : riesz.kernels.Kernel, default ``RBF`` with half the mediators' standard deviations as length scales
        Where its tuning starts: it is the one that predicts bags best that are left out.
    mediator_examples : {"bags", "rows"}, default "bags"
        What the smoother counts once: every bag, or every row, so that large bags say more.
    prior_mean : float, optional
        The mean of f far from all rows, by default the constant that fits best.
    optimizer : "fmin_l_bfgs_b" or None
        ``None`` keeps all hyper-parameters as they are. Tuning maximises Laplace's approximation of the marginal likelihood
        times weak priors around the start, from two starts.
    inducing : None, int or array
        f is known through its values at so many inducing points, or at these rows. ``None`` takes all rows up to 1,000, and
        beyond twice as many as counts, from 200 to 1,000.
    published : bool, default False
        Tunes by the marginal likelihood alone, without priors.
    random_state : int, RandomState or None

    Attributes
    ----------
    expansion_ : Expansion
        f, which explanations are of.
    kernel_ : riesz.kernels.Kernel
    mediator_kernel_ : riesz.kernels.Kernel or None
    prior_mean_ : float
    log_marginal_likelihood_value_ : float
        Laplace's approximation, at the best prior mean if it is learnt.
    bags_, targets_ : list of str
        Names of the bags that have rows, and of those that have counts.
    fitted_ : array
        The mean of each count, as f at its mode has it. With a prior mean that is learnt these add up to what counts do, if all
        are matched Poisson counts.
    left_out_ : LeftOut or None
        What all other counts say of each, by the same hyper-parameters; None of a single one.
    warnings_ : list of str
        What to look at; also issued as warnings.

    Notes
    -----
    Hyper-parameters count as known, and the weights of mediated counts too: intervals are too narrow where counts are few, or
    mediated. Cost of a step to the mode, of which an evaluation of the marginal likelihood takes some: a few passes over n rows
    times m points, and m³.
    """

    expansion_: Expansion

    def __init__(
        self,
        kernel=None,
        *,
        family="poisson",
        operator="auto",
        mediator_kernel=None,
        mediator_examples="bags",
        prior_mean=None,
        optimizer="fmin_l_bfgs_b",
        inducing=None,
        published=False,
        random_state=None,
    ):
        self.kernel = kernel
        self.family = family
        self.operator = operator
        self.mediator_kernel = mediator_kernel
        self.mediator_examples = mediator_examples
        self.prior_mean = prior_mean
        self.optimizer = optimizer
        self.inducing = inducing
        self.published = published
        self.random_state = random_state

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
            The column of ``rows`` with how many there are to have an event (people, person-years), by default 1; of binomial
            counts how much a row counts in its bag.
        total : str, optional
            Of mediated Poisson counts, the column of ``bags`` with the sum of their weights.
        """
        self._check(trials)
        asked = Asked(bag, weight, target, None, total, mediators, features, row, trials)
        sums = self.family == "poisson"
        tables = read_tables(rows, bags, asked, self.operator, sums, bool(drop_unmatched))
        check_counts(tables)
        given, notes = tables.given(sums), list(tables.notes)
        if self.operator == "auto" and given.hardly_matched is not None:
            notes.append(given.hardly_matched)
        points = None if self.inducing is None else points_of(self.inducing, tables)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        found = _core.fit_counts(self._start(tables), given, points, self.optimizer is not None, seed)
        self._keep(found, tables)
        self.warnings_ = warned(self, notes, found.warnings)
        return self

    def _check(self, trials: Any) -> None:
        choices = [
            ("family", self.family, tuple(_LINKS)),
            ("operator", self.operator, ("auto", "matched", "mediated")),
            ("mediator_examples", self.mediator_examples, ("bags", "rows")),
        ]
        check_choices(choices, [("kernel", self.kernel), ("mediator_kernel", self.mediator_kernel)])
        if self.family == "binomial" and trials is None:
            raise ValueError("family = 'binomial' takes trials: the column of bags that says among how many counts are successes")
        if self.family == "poisson" and trials is not None:
            raise ValueError(f"trials = {trials!r}: Poisson counts have none: leave it out, or take family='binomial'")
        check_optimizer(self.optimizer)

    def _start(self, tables: Tables) -> dict[str, Any]:
        """The process that tuning starts from."""
        mediators = start_mediator_kernel(tables, self.mediator_kernel)
        return {
            "kernel": start_kernel(tables, self.kernel),
            "trials": None if tables.trials is None else tables.trials.tolist(),
            "smoothing": None if mediators is None else (mediators, self.mediator_examples == "rows"),
            "prior_mean": None if self.prior_mean is None else float(self.prior_mean),
            "published": bool(self.published),
        }

    def _keep(self, found: _core.FittedCounts, tables: Tables) -> None:
        names = tables.rows.names
        self.expansion_ = Expansion._wrap(found.model)
        self.kernel_ = rk._from_json(found.model.kernel, names)
        self.mediator_kernel_ = None
        if found.smoothing is not None and tables.mediators is not None:
            self.mediator_kernel_ = rk._from_json(found.smoothing, tables.mediators[0].names)
        self.prior_mean_ = float(self.expansion_.intercept[0])
        self.log_marginal_likelihood_value_ = found.log_marginal_likelihood
        self.bags_, self.targets_ = tables.bags, tables.targets
        self.fitted_ = np.asarray(found.fitted)
        mean, variance, score, log_density = map(np.asarray, found.left_out)
        self.left_out_ = None
        if len(tables.targets) > 1:
            self.left_out_ = LeftOut(tables.targets, tables.values, mean, np.sqrt(variance), log_density, score)
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)

    def _own_columns(self, X: Any, what: str = "X") -> Any:
        """The columns of rows that f is a function of, as :class:`riesz.Explainer` takes them."""
        check_is_fitted(self)
        return self.expansion_._own_columns(X, what)

    def _rows(self, rows: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.expansion_._rows(rows, "rows")

    def predict(self, rows: Any) -> np.ndarray:
        """The map: the posterior mean of the rate per unit of weight, or of the probability of a success, at rows, (rows,)."""
        return np.asarray(self.expansion_._core.rates(self._rows(rows), 0.0)[0])

    def predict_quantiles(self, rows: Any, quantiles: Sequence[float] = (0.025, 0.5, 0.975)) -> np.ndarray:
        """Quantiles of the posterior of the rate, or of the probability, at rows, (rows, quantiles)."""
        from scipy.stats import norm

        cells = self._rows(rows)
        for q in quantiles:
            if not 0 < q < 1:
                raise ValueError(f"quantiles: {q!r} is none: they are between 0 and 1")
        found = [self.expansion_._core.rates(cells, float(norm.ppf(q)))[3] for q in quantiles]
        return np.array(found).T.reshape(len(cells), len(found))

    def predict_link(self, rows: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """f, the logarithm of the rate or the log odds, at rows, (rows,), which explanations are of; and with ``return_std`` or
        ``return_cov`` its standard deviations or covariances."""
        cells = self._rows(rows)
        mean = self.expansion_._core.predict(cells)[:, 0]
        if not (return_std or return_cov):
            return mean
        return mean, spread(self.expansion_, cells, return_std, return_cov)[0][..., 0]

    def sample(self, rows: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Joint draws of the rates, or probabilities, of rows from their posterior, (rows, n_samples): maps that counts allow."""
        cells, random = self._rows(rows), check_random_state(random_state)
        seed = int(random.randint(2**31 - 1))
        drawn = self.expansion_._core.sample(cells, _count("n_samples", n_samples, 1), seed)[0]
        return np.exp(drawn) if self.family == "poisson" else 1 / (1 + np.exp(-drawn))

    def _imported(self) -> Imported:
        """How :class:`riesz.Explainer` reads it."""
        own = Part.whole(self.expansion_)
        names, outputs = own.expansion.feature_names, own.expansion.output_names
        return Imported([[own]], _LINKS[self.family], names, type(self).__name__, outputs, self.predict_link)

    def save(self, path: Any, *, posterior: bool = False) -> None:
        """Writes f as a riesz model file, which :meth:`riesz.Expansion.load` and the command line read, with ``posterior`` with
        how sure it is: ``riesz downscale predict`` makes rates of it then."""
        check_is_fitted(self)
        self.expansion_.save(path, posterior=posterior)


def check_counts(tables: Tables) -> None:
    """Refuses what is no count, and names its bag."""
    whole = lambda v: (v >= 0) & (v == np.floor(v))
    for t in np.flatnonzero(~whole(tables.values))[:1]:
        raise ValueError(f"the target of bag '{tables.targets[t]}' is {tables.values[t]}: counts are whole numbers, 0 or more")
    if tables.trials is not None:
        bad = ~(whole(tables.trials) & (tables.trials >= np.maximum(tables.values, 1)))
        told = [f"'{tables.targets[t]}' ({tables.trials[t]})" for t in np.flatnonzero(bad)]
        if told:
            raise ValueError(f"trials are whole numbers, at least 1 and the count, and are not of bags {_first(told)}")
