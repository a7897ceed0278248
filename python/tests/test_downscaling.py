"""Maps learnt from means and sums over bags, against conditioning by definition."""

import dataclasses
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import riesz
from conftest import interventional
from riesz.kernels import RBF, Constant

rng = np.random.default_rng(11)
SIZES = [1, 5, 3, 8, 4, 6]
NAMES = np.repeat([f"d{b}" for b in range(6)], SIZES)
ROWS = pd.DataFrame(rng.normal(size=(27, 2)), columns=["rain", "height"]).assign(
    district=NAMES, area=rng.uniform(0.5, 3.0, 27)
)
# The rows of the tables are in random order.
ROWS = ROWS.sample(frac=1, random_state=0).reset_index(drop=True)
BAGS = pd.DataFrame(
    {
        "district": [f"d{b}" for b in (3, 0, 5, 2, 1, 4)],
        "cases": [0.4, -1.1, 0.9, 2.0, -0.3, 0.2],
        "error": [0.0, 0.1, 0.2, 0.0, 0.3, 0.0],
        "pressure": rng.normal(size=6),
        "year": rng.normal(size=6) * 4.0,
    }
)
# Two districts without targets, three targets without rows.
MIXED = pd.concat(
    [
        BAGS.assign(cases=[0.4, np.nan, 0.9, 2.0, np.nan, 0.2]),
        pd.DataFrame(
            {
                "district": ["e0", "e1", "e2"],
                "cases": [1.0, -0.5, 0.3],
                "error": [0.1, 0.0, 0.0],
                "pressure": rng.normal(size=3),
                "year": rng.normal(size=3) * 4.0,
                "people": [20.0, 10.0, 15.0],
            }
        ),
    ],
    ignore_index=True,
)
KERNEL = Constant(1.3) * RBF([0.8, 1.1])
PLACES = pd.DataFrame({"height": rng.normal(size=7), "rain": rng.normal(size=7), "who": list("abcdefg")})
X, Z = ROWS[["rain", "height"]].to_numpy(), PLACES[["rain", "height"]].to_numpy()
NOISE = {"row_noise": 0.2, "mediation_noise": 0.15}


def gaussian(a, b, lengths, scale=1.0):
    return scale * np.exp(-0.5 * (((a[:, None] - b[None]) / lengths) ** 2).sum(axis=2))


def k(a, b):
    return gaussian(a, b, [0.8, 1.1], 1.3)


def fixed_process(**options):
    """A process with fixed hyper-parameters."""
    return riesz.AggregateGaussianProcess(
        **({"kernel": KERNEL, "noise": 0.07, "normalize_y": False, "optimizer": None} | options)
    )


def matrix(names, weights, sums):
    """P, rows × bags, by its definition."""
    known = sorted(set(names))
    p = np.array([[w if name == bag else 0.0 for bag in known] for name, w in zip(names, weights)])
    return known, p if sums else p / p.sum(axis=0)


class Oracle:
    """Conditions on ``z = Aᵀf(X) + e`` with explicit matrices."""

    def __init__(
        self,
        table,
        *,
        weighted=False,
        sums=False,
        mediated=None,
        known=False,
        mean=None,
        centered=True,
        mass=False,
        noise=0.0,
    ):
        names = ROWS.district.to_numpy()
        weights = ROWS.area.to_numpy() if weighted else np.ones(27)
        self.bags, self.p = matrix(names, weights, sums)
        self.targets = table[table.cases.notna()].reset_index(drop=True)
        m, j = len(self.targets), len(self.bags)
        sizes = np.array([weights[names == bag].sum() for bag in self.bags])
        b, s = np.zeros((j, m)), np.zeros((m, m))
        if mediated is not None:
            coarse = ["pressure", "year"]
            y = table.set_index("district").loc[self.bags, coarse].to_numpy()
            t = self.targets[coarse].to_numpy()
            ridge = 0.05 * (sizes.sum() / sizes if mass else np.full(j, j))
            inverse = np.linalg.inv(gaussian(y, y, [0.9, 3.0]) + np.diag(ridge))
            cross = gaussian(y, t, [0.9, 3.0])
            b, s = inverse @ cross, gaussian(t, t, [0.9, 3.0]) - cross.T @ inverse @ cross
            if centered:
                b += np.outer(sizes / sizes.sum(), 1 - b.sum(axis=0))
            if sums:
                totals = self.targets.people.to_numpy()
                b, s = b * totals / sizes[:, None], s * np.outer(totals, totals)
        bag_places = [
            self.bags.index(d) if d in self.bags and mediated != "all" else None
            for d in self.targets.district
        ]
        for t, place in enumerate(bag_places):
            if place is not None:
                b[:, t], s[t], s[:, t] = np.eye(j)[place], 0.0, 0.0
        self.a, self.z = self.p @ b, self.targets.cases.to_numpy()
        c = 0.07 * np.eye(m) + noise * (
            NOISE["row_noise"] * b.T @ self.p.T @ self.p @ b + NOISE["mediation_noise"] * np.nan_to_num(s)
        )
        if known:
            c += np.diag(self.targets.error.to_numpy() ** 2)
        self.v = self.a.T @ k(X, X) @ self.a + c
        self.ones = self.a.sum(axis=0)
        solved = np.linalg.solve(self.v, self.ones)
        self.mean = solved @ self.z / (solved @ self.ones) if mean is None else mean

    def regression(self, settings):
        """Inverse of the mediators' gram matrix plus ridge, mediators and masses of bags."""
        names = ROWS.district.to_numpy()
        weights = ROWS.area.to_numpy() if settings.get("weighted") else np.ones(27)
        sizes = np.array([weights[names == bag].sum() for bag in self.bags])
        y = MIXED.set_index("district").loc[self.bags, ["pressure", "year"]].to_numpy()
        ridge = 0.05 * (sizes.sum() / sizes if settings.get("mass") else np.full(len(sizes), len(sizes)))
        return np.linalg.inv(gaussian(y, y, [0.9, 3.0]) + np.diag(ridge)), y, sizes

    def posterior(self, rows, sums=None):
        """Mean and covariance of f at rows, or of sums of f with weights ``sums``, rows × sums."""
        sums = np.eye(len(rows)) if sums is None else sums
        h = sums.T @ k(rows, X) @ self.a
        mean = sums.sum(axis=0) * self.mean + h @ np.linalg.solve(self.v, self.z - self.mean * self.ones)
        return mean, sums.T @ k(rows, rows) @ sums - h @ np.linalg.solve(self.v, h.T)


COARSE = {"mediators": ["pressure", "year"]}
#: For each case the table of bags, the arguments of the estimator, of its fit, and of the oracle.
CASES = {
    "matched": (BAGS, {}, {}, {}),
    "weighted": (BAGS, {}, {"weight": "area"}, {"weighted": True}),
    "known errors": (BAGS, {}, {"target_std": "error"}, {"known": True}),
    "prior mean": (BAGS, {"prior_mean": 0.4}, {}, {"mean": 0.4}),
    "sums": (BAGS, {"aggregate": "sum"}, {"weight": "area"}, {"weighted": True, "sums": True}),
    "mixed": (
        MIXED,
        NOISE,
        COARSE | {"weight": "area", "target_std": "error"},
        {"mediated": "some", "weighted": True, "known": True, "noise": 1.0},
    ),
    "mediated": (MIXED, {"operator": "mediated"}, COARSE, {"mediated": "all"}),
    "mediated by rows": (
        MIXED,
        {"operator": "mediated", "mediator_examples": "rows", "centered": False},
        COARSE,
        {"mediated": "all", "mass": True, "centered": False},
    ),
    "mixed sums": (
        MIXED,
        NOISE | {"aggregate": "sum"},
        COARSE | {"total": "people", "weight": "area"},
        {"mediated": "some", "weighted": True, "sums": True, "noise": 1.0},
    ),
}


def fitted(name):
    table, options, fit_options, oracle = CASES[name]
    if "mediators" in fit_options:
        options = {
            "mediator_kernel": RBF([0.9, 3.0]),
            "mediator_ridge": 0.05,
            "mediation_noise": 0.0,
        } | options
    options = {"row_noise": 0.0} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fixed_process(**options).fit(
            ROWS, table, bag="district", target="cases", features=["rain", "height"], **fit_options
        ), Oracle(table, **oracle)


@pytest.mark.parametrize("name", CASES)
def test_posteriors_follow_their_definition(name):
    model, oracle = fitted(name)
    mean, covariance = oracle.posterior(Z)
    prediction, sd = model.predict(PLACES, return_std=True)
    np.testing.assert_allclose(prediction, mean, atol=1e-8)
    np.testing.assert_allclose(sd, np.sqrt(np.diag(covariance)), atol=1e-8)
    np.testing.assert_allclose(model.predict(PLACES, return_cov=True)[1], covariance, atol=1e-8)
    assert model.expansion_.output_names == ["cases"]
    # Arrays have the model's columns.
    np.testing.assert_allclose(model.predict(Z), mean, atol=1e-8)
    np.testing.assert_allclose(model.prior_mean_, oracle.mean, atol=1e-9)
    residual = oracle.z - oracle.ones * oracle.mean
    evidence = -0.5 * (
        residual @ np.linalg.solve(oracle.v, residual)
        + np.linalg.slogdet(oracle.v)[1]
        + len(residual) * np.log(2 * np.pi)
    )
    assert abs(model.log_marginal_likelihood_value_ - evidence) < 1e-8
    # Differences between fitted values and targets.
    at_rows, _ = oracle.posterior(X)
    np.testing.assert_allclose(model.residual_, oracle.z - oracle.a.T @ at_rows, atol=1e-8)
    assert model.targets_ == oracle.targets.district.tolist()


@pytest.mark.parametrize("name", CASES)
def test_bags_are_sums_of_their_rows(name):
    model, oracle = fitted(name)
    mean, covariance = oracle.posterior(X, oracle.p)
    order = [oracle.bags.index(bag) for bag in model.bags_]
    assert len(order) == 6
    prediction, sd = model.predict_bags(return_std=True)
    np.testing.assert_allclose(prediction, mean[order], atol=1e-8)
    np.testing.assert_allclose(sd, np.sqrt(np.diag(covariance))[order], atol=1e-8)
    np.testing.assert_allclose(model.predict_bags(), prediction, atol=1e-12)
    # From a table of rows, which has the bags in another order.
    prediction, sd = model.predict_bags(ROWS, return_std=True)
    order = [oracle.bags.index(bag) for bag in ROWS.district.unique()]
    np.testing.assert_allclose(prediction, mean[order], atol=1e-8)
    np.testing.assert_allclose(sd, np.sqrt(np.diag(covariance))[order], atol=1e-8)


#: Mediators of places without rows, with a further column.
COARSE_PLACES = pd.DataFrame(
    {"who": list("abcd"), "year": rng.normal(size=4) * 4.0, "pressure": rng.normal(size=4)}
)


def conditional_means(name, oracle):
    """Mean and covariance of E[f | mediators] by conditioning with explicit matrices."""
    _, options, _, settings = CASES[name]
    inverse, y, sizes = oracle.regression(settings)
    queries = COARSE_PLACES[["pressure", "year"]].to_numpy()
    of_targets = oracle.targets[["pressure", "year"]].to_numpy()
    b = inverse @ gaussian(y, queries, [0.9, 3.0])
    error = lambda u, v: (
        gaussian(u, v, [0.9, 3.0]) - gaussian(u, y, [0.9, 3.0]) @ inverse @ gaussian(y, v, [0.9, 3.0])
    )
    if settings.get("centered", True):
        b += np.outer(sizes / sizes.sum(), 1 - b.sum(axis=0))
    # For sums, P holds weights whose sums over bags are not 1.
    a = oracle.p @ (b / oracle.p.sum(axis=0)[:, None])
    totals = oracle.targets.people.to_numpy() if settings.get("sums") else np.ones(len(oracle.z))
    mediated = np.array(
        [settings["mediated"] == "all" or bag not in oracle.bags for bag in oracle.targets.district]
    )
    variance = options.get("mediation_noise", 0.0)
    c = oracle.a.T @ k(X, X) @ a
    c[mediated] += variance * (totals[:, None] * error(of_targets, queries))[mediated]
    weights = np.linalg.solve(oracle.v, c)
    mean = a.sum(axis=0) * oracle.mean + weights.T @ (oracle.z - oracle.mean * oracle.ones)
    return mean, a.T @ k(X, X) @ a + variance * error(queries, queries) - c.T @ weights


@pytest.mark.parametrize("name", ["mixed", "mediated", "mediated by rows", "mixed sums"])
def test_conditional_means_follow_their_definition(name):
    model, oracle = fitted(name)
    mean, covariance = conditional_means(name, oracle)
    prediction, sd = model.predict_aggregate(COARSE_PLACES, return_std=True)
    np.testing.assert_allclose(prediction, mean, atol=1e-8)
    np.testing.assert_allclose(sd, np.sqrt(np.diag(covariance)), atol=1e-8)
    np.testing.assert_allclose(
        model.predict_aggregate(COARSE_PLACES, return_cov=True)[1], covariance, atol=1e-8
    )
    # An array has the mediators in the order of the fit; pickles know their rows too.
    array = COARSE_PLACES[["pressure", "year"]].to_numpy()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_aggregate(array), prediction)


def test_conditional_means_of_tuned_models_are_averaged():
    model = riesz.AggregateGaussianProcess(n_hyperparameter_samples=12, random_state=1)
    fit_options = {"bag": "district", "target": "cases", "features": ["rain", "height"], **COARSE}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(ROWS, MIXED, **fit_options)
    mean, covariance = model.predict_aggregate(COARSE_PLACES, return_cov=True)
    # Each draw has its own hyper-parameters.
    assert len({part.hyperparameters["mediation"] for part in model._parts}) > 1
    means = []
    for part in model._parts:
        model_of_part = pickle.loads(pickle.dumps(model))
        model_of_part._parts = [dataclasses.replace(part, weight=1.0)]
        part_mean, part_covariance = model_of_part.predict_aggregate(COARSE_PLACES, return_cov=True)
        means.append((part.weight, part_mean, part_covariance))
    np.testing.assert_allclose(sum(w * m for w, m, _ in means), mean, rtol=1e-10)
    mixed = sum(w * (c + np.outer(m - mean, m - mean)) for w, m, c in means)
    np.testing.assert_allclose(mixed, covariance, rtol=1e-8)


def test_conditional_means_need_mediators_and_rows():
    model, _ = fitted("matched")
    with pytest.raises(ValueError, match="no target was learnt through mediators"):
        model.predict_aggregate(COARSE_PLACES)
    model, _ = fitted("mixed")
    with pytest.raises(ValueError, match="choose one"):
        model.predict_aggregate(COARSE_PLACES, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="mediators has 1 columns"):
        model.predict_aggregate(COARSE_PLACES[["year"]])
    with pytest.raises(ValueError, match="mediators is nan in row 1"):
        model.predict_aggregate(COARSE_PLACES.assign(year=[1.0, np.nan, 2.0, 3.0]))
    sparse = fixed_process(n_inducing=10, mediator_kernel=RBF([0.9, 3.0]), row_noise=0.0)
    sparse.fit(ROWS, MIXED, bag="district", target="cases", features=["rain", "height"], **COARSE)
    with pytest.raises(ValueError, match="inducing points does not keep its rows"):
        sparse.predict_aggregate(COARSE_PLACES)


@pytest.mark.parametrize("name", CASES)
def test_shares_are_what_each_target_decides(name):
    model, oracle = fitted(name)
    shares = model.target_contributions(PLACES)
    solved = np.linalg.solve(oracle.v, (k(Z, X) @ oracle.a).T).T
    np.testing.assert_allclose(shares, solved * (oracle.z - oracle.mean * oracle.ones), atol=1e-8)
    np.testing.assert_allclose(shares.sum(axis=1), model.predict(PLACES) - model.prior_mean_, atol=1e-10)


@pytest.mark.parametrize("name", ["matched", "mixed", "prior mean", "sums", "mediated"])
def test_leave_one_out_predictions_follow_their_definition(name):
    model, oracle = fitted(name)
    left_out = model.loo_
    assert left_out.bags == model.targets_
    fixed = CASES[name][1].get("prior_mean")
    for t in range(len(oracle.z)):
        keep = np.arange(len(oracle.z)) != t
        v, kept_ones, z = oracle.v[np.ix_(keep, keep)], oracle.ones[keep], oracle.z[keep]
        solved = np.linalg.solve(v, kept_ones)
        mean = solved @ z / (solved @ kept_ones) if fixed is None else fixed
        weights = np.linalg.solve(v, oracle.v[keep, t])
        variance = oracle.v[t, t] - weights @ oracle.v[keep, t]
        if fixed is None:
            # The uncertainty of the mean is included.
            variance += (oracle.ones[t] - weights @ kept_ones) ** 2 / (solved @ kept_ones)
        expected = oracle.ones[t] * mean + weights @ (z - kept_ones * mean)
        np.testing.assert_allclose(
            [left_out.mean[t], left_out.std[t]], [expected, np.sqrt(variance)], rtol=1e-7, atol=1e-8
        )
        density = -0.5 * ((oracle.z[t] - expected) ** 2 / variance + np.log(2 * np.pi * variance))
        assert abs(left_out.log_density[t] - density) < 1e-7
    np.testing.assert_allclose(left_out.error, oracle.z - left_out.mean)
    assert left_out.rmse == pytest.approx(np.sqrt(np.mean(left_out.error**2)))
    inside = np.abs(left_out.error) <= 1.96 * left_out.std
    assert (left_out.coverage, left_out.mean_log_density) == (
        inside.mean(),
        pytest.approx(left_out.log_density.mean()),
    )
    assert left_out.to_frame().columns.tolist() == [
        "bag",
        "target",
        "mean",
        "std",
        "error",
        "z_score",
        "log_density",
    ]


def test_bags_of_one_row_are_regression():
    X, y = rng.normal(size=(15, 2)), rng.normal(size=15)
    known = sk.ConstantKernel(1.3) * sk.RBF([0.8, 1.1])
    theirs = GaussianProcessRegressor(known, alpha=0.07, optimizer=None).fit(X, y)
    ours = fixed_process(prior_mean=0.0).fit(X, y, bag=np.arange(15))
    mean, sd = theirs.predict(Z, return_std=True)
    actual = ours.predict(Z, return_std=True)
    np.testing.assert_allclose(actual, (mean, sd), atol=1e-10)
    assert abs(ours.log_marginal_likelihood_value_ - theirs.log_marginal_likelihood_value_) < 1e-9


def test_the_map_is_explained_with_its_covariance():
    model, _ = fitted("mixed")
    background = ROWS[:10]
    explanation = riesz.Explainer(model, background, covariance=True)(PLACES[:3])
    cells = background[["rain", "height"]].to_numpy()
    for row in range(3):
        expected = interventional(model.predict, Z[row], cells)
        np.testing.assert_allclose(explanation.values[row], expected, atol=1e-9)
    assert explanation.certificate.holds
    # Values are linear in f, so their covariance is that of the same sums of f at hybrid rows.
    row, stacked, sums = Z[0], [], []
    for order in ([0, 1], [1, 0]):
        present = np.zeros(2, dtype=bool)
        for j in order:
            before, present = present, present | (np.arange(2) == j)
            for sign, mask in ((1.0, present), (-1.0, before)):
                stacked.append(np.where(mask, row, cells))
                sums.append((j, sign / 2 / len(cells)))
    _, joint = model.predict(np.vstack(stacked), return_cov=True)
    coefficients = np.zeros((len(joint), 2))
    for block, (j, weight) in enumerate(sums):
        coefficients[block * len(cells) : (block + 1) * len(cells), j] = weight
    np.testing.assert_allclose(explanation.covariance[0], coefficients.T @ joint @ coefficients, atol=1e-9)


@pytest.mark.parametrize("name", ["weighted", "mixed sums"])
def test_bags_are_explained_by_name(name, tmp_path):
    model, _ = fitted(name)
    background = X[:6]
    row_explanations = riesz.Explainer(model, background)(X)
    explanation = model.explain_bags(background, ROWS, bags=["d3", "d1"])
    sums = name == "mixed sums"
    for line, bag in enumerate(["d3", "d1"]):
        in_bag = (ROWS.district == bag).to_numpy()
        weights = ROWS.area[in_bag].to_numpy()
        share = weights if sums else weights / weights.sum()
        np.testing.assert_allclose(
            explanation.values[line], share @ row_explanations.values[in_bag], atol=1e-10
        )
        total = model.predict_bags(ROWS)[ROWS.district.unique().tolist().index(bag)]
        np.testing.assert_allclose(
            explanation.base_values[line] + explanation.values[line].sum(), total, atol=1e-10
        )
    assert (explanation.column_names, explanation.data[:, -1].tolist()) == (
        ["rain", "height", "district"],
        ["d3", "d1"],
    )
    assert explanation.certificate.holds and explanation.certificate.bound < 1e-9
    # Files, reports and plots accept them.
    explanation.save(tmp_path / "bags.json")
    assert riesz.Explanation.load(tmp_path / "bags.json").data.tolist() == explanation.data.tolist()
    explanation.report(tmp_path / "bags.html")
    assert "rain" in (tmp_path / "bags.html").read_text()
    # Without rows the bags of the fit are explained.
    kept = model.explain_bags(background)
    assert kept.data[:, -1].tolist() == model.bags_
    np.testing.assert_allclose(kept.values[model.bags_.index("d3")], explanation.values[0], atol=1e-10)
    with pytest.raises(ValueError, match="the covariance between explained rows"):
        model.explain_bags(background, covariance=True)
    with pytest.raises(ValueError, match="there are no rows of 'nowhere'"):
        model.explain_bags(background, bags=["nowhere"])


def test_draws_have_the_posterior_s_mean_and_covariance():
    model, oracle = fitted("matched")
    drawn = model.sample(PLACES, 4000, random_state=0)
    mean, covariance = oracle.posterior(Z)
    sd = np.sqrt(np.diag(covariance))
    assert np.abs(drawn.mean(axis=1) - mean).max() < 4.5 * sd.max() / np.sqrt(4000)
    error = np.abs(np.cov(drawn) - covariance) / np.outer(sd, sd)
    assert error.max() < 4.5 * np.sqrt(2 / 4000)
    np.testing.assert_array_equal(drawn, model.sample(PLACES, 4000, random_state=0))


def test_models_are_saved_with_their_posterior(tmp_path):
    model, _ = fitted("mixed")
    model.save(tmp_path / "map.riesz", posterior=True)
    loaded = riesz.Expansion.load(tmp_path / "map.riesz")
    np.testing.assert_allclose(
        loaded.predict(PLACES, return_std=True), model.predict(PLACES, return_std=True), atol=1e-12
    )
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(
        again.predict(PLACES, return_std=True), model.predict(PLACES, return_std=True)
    )
    np.testing.assert_array_equal(again.target_contributions(PLACES), model.target_contributions(PLACES))
    np.testing.assert_array_equal(again.predict_bags(), model.predict_bags())
    assert clone(model).get_params() == model.get_params()


def synthetic(bags=12, size=5, seed=0):
    """Rows, bags, and the truth at the rows: means of a smooth function."""
    random = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {"u": random.uniform(-2, 2, bags * size), "v": random.normal(size=bags * size) * 100.0}
    )
    rows["bag"] = np.argsort(np.argsort(rows.u)) // size
    truth = 5.0 + 3.0 * np.sin(1.5 * rows.u)
    table = (truth.groupby(rows.bag).mean() + 0.1 * random.normal(size=bags)).rename("z").reset_index()
    return rows, table, truth


@pytest.fixture(scope="module")
def averaged():
    rows, table, truth = synthetic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (
            riesz.AggregateGaussianProcess(n_hyperparameter_samples=12, random_state=0).fit(
                rows, table, bag="bag", target="z"
            ),
            rows,
            truth,
        )


def test_averages_are_mixtures_of_their_parts(averaged):
    model, rows, truth = averaged
    parts = model._parts
    assert 1 < len(parts) <= 12 and sum(part.weight for part in parts) == pytest.approx(1.0)
    assert 1.0 <= model.effective_sample_size_ <= 12
    places = rows[:6]
    part_predictions = [part.expansion.predict(places, return_cov=True) for part in parts]
    weights = np.array([part.weight for part in parts])
    mean = sum(w * prediction[0] for w, prediction in zip(weights, part_predictions))
    second = sum(
        w * (prediction[1] + np.outer(prediction[0], prediction[0]))
        for w, prediction in zip(weights, part_predictions)
    )
    actual, covariance = model.predict(places, return_cov=True)
    np.testing.assert_allclose(actual, mean, atol=1e-10)
    np.testing.assert_allclose(covariance, second - np.outer(mean, mean), atol=1e-8)
    np.testing.assert_allclose(
        model.predict(places, return_std=True)[1], np.sqrt(np.diag(covariance)), atol=1e-8
    )
    np.testing.assert_allclose(
        model.target_contributions(places).sum(axis=1), actual - model.prior_mean_, atol=1e-9
    )
    # For other rows the bags come in the order of these rows.
    order = rows.bag.unique()
    for actual, expected in zip(
        model.predict_bags(rows, return_std=True), model.predict_bags(return_std=True)
    ):
        np.testing.assert_allclose(actual, expected[order], atol=1e-7)
    for bag, sd in enumerate(model.predict_bags(return_std=True)[1]):
        _, joint = model.predict(rows[rows.bag == bag], return_cov=True)
        assert sd == pytest.approx(np.sqrt(joint.mean()), abs=1e-7)
    # The fitted values equal the targets up to noise, and the map is accurate.
    table = synthetic()[1]
    np.testing.assert_allclose(table.z - model.predict_bags(), model.residual_, atol=1e-9)
    assert np.sqrt(np.mean((model.predict(rows) - truth) ** 2)) < 0.4 * truth.std()
    assert model.sample(places, 5, random_state=1).shape == (6, 5)


def test_averages_are_explained(averaged, tmp_path):
    model, rows, _ = averaged
    background = rows[:4]
    explanation = riesz.Explainer(model, background)(rows[5:7])
    features = rows[["u", "v"]].to_numpy()
    for line in range(2):
        expected = interventional(model.predict, features[5 + line], features[:4])
        np.testing.assert_allclose(explanation.values[line], expected, atol=1e-9)
    assert explanation.certificate.holds
    # The covariance is that of the mixture.
    with_covariance = riesz.Explainer(model, background, covariance=True)(rows[5:7])
    np.testing.assert_allclose(with_covariance.values, explanation.values, atol=1e-9)
    assert with_covariance.certificate.holds
    part_explanations = [
        riesz.Explainer(part.expansion, background, covariance=True)(rows[5:7]) for part in model._parts
    ]
    weights = [part.weight for part in model._parts]
    second = sum(
        w * (part.covariance + part.values[:, :, None] * part.values[:, None])
        for w, part in zip(weights, part_explanations)
    )
    np.testing.assert_allclose(
        with_covariance.covariance,
        second - with_covariance.values[:, :, None] * with_covariance.values[:, None],
        atol=1e-8,
    )
    explainer = riesz.Explainer(model, background, covariance=True)
    bounds = [riesz.Explainer(part.expansion, background).value_bound(0.1) for part in model._parts]
    np.testing.assert_allclose(explainer.value_bound(0.1), np.average(bounds, axis=0, weights=weights))
    np.testing.assert_allclose(
        riesz.Explainer(model, background).value_bound(0.1), explainer.value_bound(0.1), rtol=1e-9
    )
    with pytest.raises(ValueError, match="average of several"):
        explainer.explain_variance(rows[:1])
    model.save(tmp_path / "map.riesz")
    again = riesz.ModelAverage.load(tmp_path / "map.riesz")
    np.testing.assert_allclose(again.predict(rows), model.predict(rows), rtol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))


def test_left_out_targets_do_not_weight_the_parts(averaged):
    model, _, _ = averaged
    z = synthetic()[1].z.to_numpy()
    for t in (0, 5):
        weights = np.array([part.weight for part in model._parts])
        means, variances = (np.array([part.left_out[which][t] for part in model._parts]) for which in (0, 1))
        densities = np.exp(-0.5 * (z[t] - means) ** 2 / variances) / np.sqrt(2 * np.pi * variances)
        left_out_weights = weights / densities / (weights / densities).sum()
        assert model.loo_.mean[t] == pytest.approx(left_out_weights @ means)
        assert model.loo_.std[t] == pytest.approx(
            np.sqrt(left_out_weights @ (variances + means**2) - (left_out_weights @ means) ** 2)
        )
        # The harmonic mean of the densities, with these weights, is the density of the mixture.
        assert np.exp(model.loo_.log_density[t]) == pytest.approx(left_out_weights @ densities)


def test_tuning_finds_the_map():
    rows, table, truth = synthetic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = riesz.AggregateGaussianProcess(n_hyperparameter_samples=0).fit(
            rows, table, bag="bag", target="z"
        )
        assert "length_scale" in repr(model.kernel_) and model.effective_sample_size_ is None
        # Units don't matter: scaled columns and targets give the same map in their units.
        scaled = rows.assign(v=rows.v / 1000.0)
        other = riesz.AggregateGaussianProcess(n_hyperparameter_samples=0).fit(
            scaled, table.assign(z=10.0 * table.z + 3.0), bag="bag", target="z"
        )
        np.testing.assert_allclose(other.predict(scaled), 10.0 * model.predict(rows) + 3.0, rtol=1e-4)
        assert other.noise_ == pytest.approx(100.0 * model.noise_, rel=1e-2)
    assert np.sqrt(np.mean((model.predict(rows) - truth) ** 2)) < 0.4 * truth.std()


@pytest.mark.parametrize("aggregate", ["mean", "sum"])
def test_exact_totals_are_met(aggregate):
    """The function of minimum norm with the given totals; the average over hyper-parameters has these
    totals, too."""
    options = {"kernel": KERNEL, "aggregate": aggregate, "normalize_y": False, "prior_mean": 0.0}
    fit_options = {"bag": "district", "target": "cases", "weight": "area", "features": ["rain", "height"]}
    kept = riesz.AggregateGaussianProcess(**options, exact_totals=True, optimizer=None).fit(
        ROWS, BAGS, **fit_options
    )
    p = np.array([ROWS.district == name for name in BAGS.district]) * ROWS.area.to_numpy()
    if aggregate == "mean":
        p /= p.sum(axis=1, keepdims=True)
    lengths = np.array([0.8, 1.1])
    alpha = np.linalg.solve(p @ gaussian(X, X, lengths, 1.3) @ p.T, BAGS.cases)
    assert np.allclose(kept.predict(PLACES), gaussian(Z, X, lengths, 1.3) @ p.T @ alpha, atol=1e-6)
    for count in (0, 16):
        model = riesz.AggregateGaussianProcess(
            KERNEL, aggregate=aggregate, exact_totals=True, n_hyperparameter_samples=count, random_state=0
        )
        model.fit(ROWS, BAGS, **fit_options)
        assert model.row_noise_ == 0
        assert np.abs(p @ model.predict(ROWS) - BAGS.cases).max() < 1e-6 * BAGS.cases.std()


def test_exact_totals_refuse_noise_and_twins():
    fit_options = {"bag": "district", "target": "cases", "features": ["rain", "height"]}
    for name, value in [
        ("noise", 0.1),
        ("row_noise", 0.1),
        ("n_inducing", 5),
        ("published", True),
        ("operator", "mediated"),
    ]:
        model = riesz.AggregateGaussianProcess(exact_totals=True, **{name: value})
        with pytest.raises(ValueError, match=f"^{name} = .*exact_totals = True.*leave it out$"):
            model.fit(ROWS, BAGS, **fit_options)
    for name, value in [("target_std", "error"), ("mediators", ["pressure"])]:
        with pytest.raises(ValueError, match=f"^{name} = .*exact_totals = True: only targets"):
            riesz.AggregateGaussianProcess(exact_totals=True).fit(ROWS, BAGS, **fit_options, **{name: value})
    twin = ROWS[ROWS.district == "d3"].assign(district="d9")
    rows, bags = pd.concat([ROWS, twin]), pd.concat([BAGS, BAGS.iloc[[0]].assign(district="d9", cases=3.0)])
    with pytest.raises(
        ValueError, match="no map that this kernel can tell meets the target of bag 'd[39]', off by"
    ):
        riesz.AggregateGaussianProcess(exact_totals=True, random_state=0).fit(rows, bags, **fit_options)


def test_rows_of_several_bags_share_their_noise():
    # Two rows are also in other bags.
    rows = ROWS.assign(name=[f"r{i}" for i in range(27)])
    again = rows.iloc[[4, 9]].assign(district=["d0", "d1"], area=[1.5, 2.5])
    joined = pd.concat([again, rows], ignore_index=True)
    order = joined.name.drop_duplicates().str[1:].astype(int).to_numpy()
    fit_options = {"bag": "district", "target": "cases", "weight": "area", "row": "name"}
    model = fixed_process(row_noise=0.8).fit(joined, BAGS, **fit_options)
    p = np.zeros((27, 6))
    for name, bag, weight in zip(joined.name, joined.district, joined.area):
        p[int(name[1:]), BAGS.district.tolist().index(bag)] += weight
    p /= p.sum(axis=0)
    v = p.T @ k(X, X) @ p + 0.8 * p.T @ p + 0.07 * np.eye(6)
    z, all_ones = BAGS.cases.to_numpy(), np.ones(6)
    solved = np.linalg.solve(v, all_ones)
    mean = solved @ z / solved.sum()
    weights = np.linalg.solve(v, z - mean)
    np.testing.assert_allclose(model.predict(PLACES), mean + k(Z, X) @ p @ weights, atol=1e-8)
    np.testing.assert_allclose(
        model.target_contributions(PLACES).sum(axis=1), model.predict(PLACES) - mean, atol=1e-9
    )
    np.testing.assert_allclose(model.expansion_.points, X[order])
    # Without names they would count as different rows.
    apart = fixed_process(row_noise=0.8).fit(joined.drop(columns="name"), BAGS, **fit_options | {"row": None})
    assert np.abs(apart.predict(PLACES) - model.predict(PLACES)).max() > 1e-3
    # The result doesn't depend on the form of the rows, and bags are named.
    for result in (model.explain_bags(X[:5]), model.explain_bags(X[:5], joined)):
        total = dict(zip(result.data[:, -1], result.base_values + result.values.sum(axis=1)))
        np.testing.assert_allclose([total[bag] for bag in model.bags_], model.predict_bags(), atol=1e-9)
    cells = joined[["rain", "height"]].to_numpy()
    from_arrays = fixed_process(row_noise=0.8).fit(
        cells, BAGS.set_index("district").cases, bag=joined.district, weight=joined.area, row=joined.name
    )
    np.testing.assert_allclose(from_arrays.predict(Z), model.predict(Z), atol=1e-12)
    result = from_arrays.predict_bags(cells, bag=joined.district, weight=joined.area)
    np.testing.assert_allclose(result, model.predict_bags(joined), atol=1e-9)
    joined.loc[0, "rain"] += 1.0
    assert "row 'r4' is in bag 'd0' and in bag" in refusal(joined, row="name")


def test_the_published_conventions():
    options = {"mediator_kernel": RBF([0.9, 3.0]), "published": True, "operator": "mediated"}
    fit_options = {"bag": "district", "target": "cases", "features": ["rain", "height"], **COARSE}
    model = fixed_process(**options, mediator_ridge=0.05).fit(ROWS, MIXED, **fit_options)
    oracle = Oracle(MIXED, mediated="all", centered=False)
    np.testing.assert_allclose(model.predict(PLACES), oracle.posterior(Z)[0], atol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        tuned = riesz.AggregateGaussianProcess(**options).fit(ROWS, MIXED, **fit_options)
    assert (tuned.mediator_ridge_, tuned.mediation_noise_, tuned.row_noise_) == (
        pytest.approx(0.01),
        0.0,
        0.0,
    )
    assert tuned.effective_sample_size_ is None and repr(tuned.mediator_kernel_) != repr(
        model.mediator_kernel_
    )


def test_the_deconditional_mean_embedding_is_a_setting():
    """Hsu and Ramos 2019: pairs of a row and its mediators, with regularisers λ and ε."""
    ridge, epsilon, of_mediators = 0.03, 0.02, np.array([0.9, 3.0])
    model = riesz.AggregateGaussianProcess(
        KERNEL,
        noise=epsilon * len(BAGS),
        operator="mediated",
        mediator_kernel=RBF(of_mediators),
        mediator_ridge=ridge,
        mediator_examples="rows",
        centered=False,
        row_noise=0.0,
        mediation_noise=0.0,
        prior_mean=0.0,
        normalize_y=False,
        optimizer=None,
    ).fit(
        ROWS,
        BAGS,
        bag="district",
        target="cases",
        features=["rain", "height"],
        mediators=["pressure", "year"],
    )
    targets = BAGS[["pressure", "year"]].to_numpy()
    y = BAGS.set_index("district").loc[ROWS.district, ["pressure", "year"]].to_numpy()
    lengths = np.array([0.8, 1.1])
    a = np.linalg.solve(
        gaussian(y, y, of_mediators) + len(y) * ridge * np.eye(len(y)), gaussian(y, targets, of_mediators)
    )
    v = a.T @ gaussian(X, X, lengths, 1.3) @ a + len(targets) * epsilon * np.eye(len(targets))
    expected = gaussian(Z, X, lengths, 1.3) @ a @ np.linalg.solve(v, BAGS.cases)
    np.testing.assert_allclose(model.predict(PLACES), expected, atol=1e-9)


def test_mediated_targets_are_averaged_over():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = riesz.AggregateGaussianProcess(n_hyperparameter_samples=20, random_state=0)
        model.fit(ROWS, MIXED, bag="district", target="cases", weight="area", **COARSE)
    assert model.mediation_noise_ > 0 and model.row_noise_ > 0 and model.mediator_ridge_ > 0
    # Each draw has its own regression on mediators.
    assert len({round(part.sensitivities[0][0, 0], 12) for part in model._parts}) == len(model._parts) > 1
    np.testing.assert_allclose(
        model.target_contributions(PLACES).sum(axis=1), model.predict(PLACES) - model.prior_mean_, atol=1e-9
    )


def test_tables_come_in_several_forms():
    model, _ = fitted("weighted")
    expected = model.predict(PLACES)
    by_hand = fixed_process(row_noise=0.0)
    targets = BAGS.set_index("district").cases
    cells = ROWS[["rain", "height"]]
    forms = [
        by_hand.fit(cells, targets, bag=ROWS.district, weight=ROWS.area),
        by_hand.fit(cells.to_numpy(), targets, bag=ROWS.district.to_numpy(), weight=ROWS.area.to_numpy()),
        by_hand.fit(ROWS, BAGS.set_index("district"), bag="district", target="cases", weight="area"),
    ]
    numbered = ROWS.assign(district=ROWS.district.str[1:].astype(int))
    forms.append(
        by_hand.fit(
            numbered,
            BAGS.assign(district=BAGS.district.str[1:]),
            bag="district",
            target="cases",
            weight="area",
            features=["rain", "height"],
        )
    )
    for process in forms:
        np.testing.assert_allclose(process.predict(Z), expected, atol=1e-10)
    polars = pytest.importorskip("polars")
    rows, bags, places = (polars.DataFrame(frame.to_dict("list")) for frame in (ROWS, BAGS, PLACES))
    process = by_hand.fit(rows, bags, bag="district", target="cases", weight="area")
    np.testing.assert_allclose(process.predict(places), expected, atol=1e-10)
    missing = BAGS.cases.where(BAGS.district != "d0").tolist()
    with pytest.warns(UserWarning, match="'d0'"):
        process.fit(
            rows,
            bags.with_columns(cases=polars.Series(missing)),
            bag="district",
            target="cases",
            weight="area",
        )
    assert len(process.targets_) == 5


def test_categories_are_covariates_and_mediators():
    land = rng.choice(["field", "wood"], size=27)
    rows, bags = ROWS.assign(land=land), MIXED.assign(kind=list("ababababa"))
    model = riesz.AggregateGaussianProcess(n_hyperparameter_samples=0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(rows, bags, bag="district", target="cases", weight="area", mediators=["pressure", "kind"])
    assert model.expansion_.levels == {"land": ["field", "wood"]}
    places = PLACES.assign(land="wood")
    assert np.isfinite(model.predict(places)).all()
    explanation = model.explain_bags(rows[:5], bags=["d2"])
    assert explanation.certificate.holds and explanation.feature_names == ["rain", "height", "land"]


@pytest.mark.parametrize("prior_mean", [0.4, None])
def test_inducing_points_at_all_rows_are_exact(prior_mean):
    options = {"row_noise": 0.0, "prior_mean": prior_mean}
    exact = fixed_process(**options).fit(ROWS, BAGS, bag="district", target="cases", weight="area")
    for points in (X, 27):
        sparse = fixed_process(**options, n_inducing=points).fit(
            ROWS, BAGS, bag="district", target="cases", weight="area"
        )
        np.testing.assert_allclose(
            sparse.predict(PLACES, return_std=True), exact.predict(PLACES, return_std=True), atol=1e-5
        )
        np.testing.assert_allclose(sparse.loo_.mean, exact.loo_.mean, atol=1e-5)
        np.testing.assert_allclose(sparse.loo_.std, exact.loo_.std, atol=1e-5)
        np.testing.assert_allclose(sparse.residual_, exact.residual_, atol=1e-5)
        np.testing.assert_allclose(sparse.predict_bags(), exact.predict_bags(), atol=1e-5)
        actual, expected = (model.predict_bags(ROWS, return_std=True) for model in (sparse, exact))
        np.testing.assert_allclose(actual, expected, atol=1e-5)
    assert abs(sparse.log_marginal_likelihood_value_ - exact.log_marginal_likelihood_value_) < 1e-5
    why = riesz.Explainer(sparse, X[:5])(PLACES[:2])
    np.testing.assert_allclose(why.values, riesz.Explainer(exact, X[:5])(PLACES[:2]).values, atol=1e-5)
    for call in (
        lambda: sparse.target_contributions(PLACES),
        lambda: sparse.predict_bags(return_std=True),
        lambda: sparse.explain_bags(X[:5]),
    ):
        with pytest.raises(ValueError, match="leave n_inducing out|give rows"):
            call()


def test_few_inducing_points_are_noise_or_a_bound():
    options = {"row_noise": 0.0, "prior_mean": 0.5, "n_inducing": X[::9]}
    columns = {"bag": "district", "target": "cases", "weight": "area"}
    exact = fixed_process(**options | {"n_inducing": None}).fit(ROWS, BAGS, **columns)
    fitc = fixed_process(**options).fit(ROWS, BAGS, **columns)
    vfe = fixed_process(**options, approximation="vfe").fit(ROWS, BAGS, **columns)
    # By definition, the unexplained part of sums is noise, or lowers a bound.
    points, order = X[::9], [list(fitc.bags_).index(name) for name in fitc.targets_]
    weights = np.array([np.where(ROWS.district == name, ROWS.area, 0) for name in fitc.bags_])[order]
    weights = weights / weights.sum(axis=1, keepdims=True)
    explained = weights @ k(X, points) @ np.linalg.solve(k(points, points), k(points, X) @ weights.T)
    gap = np.diag(weights @ k(X, X) @ weights.T - explained)
    z = BAGS.set_index("district").cases[fitc.targets_] - 0.5
    value = lambda noise: multivariate_normal(np.zeros(len(z)), explained + np.diag(noise)).logpdf(z)
    noise = np.full(len(z), 0.07)
    assert fitc.log_marginal_likelihood_value_ == pytest.approx(value(noise + gap), abs=1e-6)
    assert vfe.log_marginal_likelihood_value_ == pytest.approx(
        value(noise) - 0.5 * (gap / noise).sum(), abs=1e-6
    )
    assert vfe.log_marginal_likelihood_value_ < exact.log_marginal_likelihood_value_
    published = fixed_process(**options, published=True).fit(ROWS, BAGS, **columns)
    assert published.log_marginal_likelihood_value_ == vfe.log_marginal_likelihood_value_


def test_mediated_targets_are_learnt_through_inducing_points():
    names = {"bag": "district", "target": "cases", "weight": "area", "mediators": ["pressure"]}
    exact = fixed_process(row_noise=0.0, mediation_noise=0.0).fit(ROWS, MIXED, **names)
    sparse = fixed_process(row_noise=0.0, mediation_noise=0.0, n_inducing=X).fit(ROWS, MIXED, **names)
    noisy = fixed_process(row_noise=0.0, mediation_noise=0.2, n_inducing=X).fit(ROWS, MIXED, **names)
    assert noisy.mediation_noise_ == pytest.approx(0.2) and sparse.mediation_noise_ == 0
    assert np.all(noisy.predict(PLACES, return_std=True)[1] > sparse.predict(PLACES, return_std=True)[1])
    np.testing.assert_allclose(
        sparse.predict(PLACES, return_std=True), exact.predict(PLACES, return_std=True), atol=1e-5
    )
    np.testing.assert_allclose(sparse.loo_.mean, exact.loo_.mean, atol=1e-5)
    assert (
        sparse.mediator_ridge_ == exact.mediator_ridge_ and sparse.mediator_kernel_ == exact.mediator_kernel_
    )
    tuned = fixed_process(
        optimizer="fmin_l_bfgs_b", n_hyperparameter_samples=0, row_noise=0.0, n_inducing=8
    ).fit(ROWS, MIXED, **names)
    assert tuned.mediator_ridge_ != sparse.mediator_ridge_
    # Targets with mediators share the noise of rows; its variance is independent noise of each target.
    rough = fixed_process(row_noise=0.1, mediation_noise=0.0, n_inducing=X).fit(ROWS, MIXED, **names)
    assert rough.row_noise_ == pytest.approx(0.1)
    assert np.all(rough.predict(PLACES, return_std=True)[1] > sparse.predict(PLACES, return_std=True)[1])


def test_many_rows_are_learnt_from_through_inducing_points():
    # Many copies of each row with smaller weights don't change the result.
    many_rows = pd.concat([ROWS.assign(area=ROWS.area / 741)] * 741)
    with pytest.warns(UserWarning, match="20007 rows in 6 bags are learnt from through 200 inducing points"):
        model = fixed_process(row_noise=0.0).fit(
            many_rows, BAGS, bag="district", target="cases", weight="area"
        )
    np.testing.assert_allclose(model.predict(PLACES), fitted("weighted")[0].predict(PLACES), atol=1e-5)
    # With mediated targets the fit remains exact.
    assert fitted("mixed")[0].target_contributions(PLACES).shape == (7, 7)


def test_rows_of_weight_zero_are_left_out_with_a_warning():
    fit = {"bag": "district", "target": "cases", "weight": "area"}
    empty = ROWS.assign(area=ROWS.area.where(ROWS.index != 4, 0.0))
    with pytest.warns(UserWarning, match="1 of 27 rows whose weight is 0 were left out"):
        model = fixed_process().fit(empty, BAGS, **fit)
    expected = fixed_process().fit(ROWS.drop(index=4), BAGS, **fit)
    np.testing.assert_array_equal(model.predict(PLACES), expected.predict(PLACES))
    with pytest.warns(UserWarning, match="1 of 27 rows whose weight is 0 were left out"):
        values = model.explain_bags(ROWS[["rain", "height"]], empty).values
    np.testing.assert_array_equal(
        values, model.explain_bags(ROWS[["rain", "height"]], ROWS.drop(index=4)).values
    )
    # A message gives the row number in the original table, including the rows left out.
    holed = empty.assign(rain=ROWS.rain.where(ROWS.index != 6))
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="in row 6 \\(from 0\\) of column 'rain'"):
        fixed_process().fit(holed, BAGS, **fit)


def test_column_types_of_rows_are_stated():
    zones = ROWS.assign(zone=[f"{i % 3}" for i in range(len(ROWS))])
    model = riesz.AggregateGaussianProcess(columns={"zone": "text"}, optimizer=None)
    model.fit(zones, BAGS, bag="district", target="cases", weight="area")
    assert model.expansion_.levels == {"zone": ["0", "1", "2"]}
    with pytest.raises(ValueError, match="names 'zones', which the tables does not have"):
        riesz.AggregateGaussianProcess(columns={"zones": "text"}).fit(
            zones, BAGS, bag="district", target="cases"
        )


def refusal(rows=ROWS, bags=BAGS, model=None, **fit_options):
    """The error message of a fit."""
    with pytest.raises((ValueError, TypeError)) as error:
        (model or fixed_process()).fit(
            rows, bags, **({"bag": "district", "target": "cases", "weight": "area"} | fit_options)
        )
    return str(error.value)


def test_bad_input_is_refused():
    strange = ROWS.assign(
        district=["x" + str(i % 7) if i < 9 else name for i, name in enumerate(ROWS.district)]
    )
    assert (
        "9 rows belong to bags that are not in the table of bags, 'x0', 'x1', 'x2', 'x3', 'x4', … (7 in all)"
        in refusal(strange)
    )
    assert "has 'd3', 'd0' twice" in refusal(bags=pd.concat([BAGS, BAGS[:2]]))
    holed = ROWS.assign(rain=ROWS.rain.where(ROWS.index != 4))
    bag = ROWS.district[4]
    assert f"rows is nan in row 4 (from 0) of column 'rain', in bag '{bag}': fill the value in" in refusal(
        holed
    )
    for weight in (-1.0, np.nan, np.inf):
        wrong = ROWS.assign(area=ROWS.area.where(ROWS.index != 4, weight))
        assert (
            f"weight is {weight} in row 4 (from 0), of bag '{bag}': weights are numbers that are not negative"
            in refusal(wrong)
        )
    assert "weight is 0 in every row" in refusal(ROWS.assign(area=0.0))
    assert "has no bag" in refusal(ROWS.assign(district=ROWS.district.where(ROWS.index != 4)))
    assert "bags have no column 'deaths'; their columns are: district, cases" in refusal(target="deaths")
    assert "rows have no column 'people'; their columns are: rain" in refusal(weight="people")
    assert "rows have no column 'slope'" in refusal(features=["slope"])
    assert "target = None: it is the column of bags that is learnt from" in refusal(target=None)
    assert "the target of bag 'd0' is inf" in refusal(
        bags=BAGS.assign(cases=BAGS.cases.where(BAGS.district != "d0", np.inf))
    )
    assert "no spread to normalise by" in refusal(
        bags=BAGS.assign(cases=2.0), model=riesz.AggregateGaussianProcess()
    )
    assert "no bag has a usable target" in refusal(bags=BAGS.assign(cases=np.nan))
    assert "target_std is -1.0 of bag 'd0'" in refusal(
        bags=BAGS.assign(error=BAGS.error.where(BAGS.district != "d0", -1.0)), target_std="error"
    )
    three = "3 targets belong to bags without rows, 'e0', 'e1', 'e2': give mediators"
    assert three in refusal(bags=MIXED)
    lacking = MIXED.assign(year=MIXED.year.where(MIXED.district != "e1"))
    assert "mediator 'year' is nan of bag 'e1'" in refusal(bags=lacking, mediators=["year"])
    assert "mediator 'year' is 1.0 of all bags" in refusal(bags=MIXED.assign(year=1.0), mediators=["year"])
    assert "bags have no column 'wind'" in refusal(bags=MIXED, mediators=["wind"])
    assert "takes mediators" in refusal(model=fixed_process(operator="mediated"))
    assert "takes no mediators" in refusal(
        model=fixed_process(operator="matched"), bags=MIXED, mediators=["year"]
    )
    assert "takes total=" in refusal(model=fixed_process(aggregate="sum"), bags=MIXED, mediators=["year"])
    with_totals = MIXED.assign(people=[1.0] * 6 + [20.0, 0.0, 3.0])
    assert "total is 0.0 of bag 'e1'" in refusal(
        model=fixed_process(aggregate="sum"), bags=with_totals, mediators=["year"], total="people"
    )
    wrong = [
        ({"noise": 0.0}, "noise = 0.0: it is a positive number"),
        ({"aggregate": "max"}, "aggregate = 'max': it is one of 'mean', 'sum'"),
        ({"operator": "both"}, "operator = 'both'"),
        ({"optimizer": "adam"}, "optimizer = 'adam'"),
        ({"kernel": 3}, "kernel = 3: it is a kernel of riesz.kernels or an expression"),
        ({"row_noise": -1.0}, "row_noise = -1.0: it is a number, not negative, or 'auto'"),
        ({"n_hyperparameter_samples": 1}, "n_hyperparameter_samples = 1: it is a whole number from 2"),
        (
            {"n_hyperparameter_samples": 64},
            "optimizer=None keeps hyper-parameters as they are, so there is nothing to average",
        ),
        ({"n_inducing": 0}, "n_inducing = 0: it is a whole number from 1"),
        ({"approximation": "sparse"}, "it is one of 'fitc', 'vfe'"),
    ]
    for options, message in wrong:
        assert message in refusal(model=fixed_process(**options)), options
    model, _ = fitted("matched")
    with pytest.raises(ValueError, match="column 'rain'"):
        model.predict(PLACES.assign(rain=np.nan))
    with pytest.raises(ValueError, match="choose one"):
        model.predict(PLACES, return_std=True, return_cov=True)


@pytest.mark.filterwarnings("ignore:.*the rows of 2 bags without a target are left out")
def test_doubtful_fits_are_warned_of():
    model = fixed_process(row_noise=0.0)
    fit = lambda process, table, **fit_options: process.fit(
        ROWS, table, **({"bag": "district", "target": "cases", "weight": "area"} | fit_options)
    )
    with pytest.warns(UserWarning, match="3 targets of bags without rows are left out: 'e0', 'e1', 'e2'"):
        fit(model, MIXED, drop_unmatched=True)
    assert any("the rows of 2 bags without a target are left out" in note for note in model.warnings_)
    assert len(model.bags_) == 4
    with pytest.warns(UserWarning, match="mediators are not used"):
        fit(model, BAGS, mediators=["year"])
    np.testing.assert_allclose(model.predict(PLACES), fitted("weighted")[0].predict(PLACES), atol=1e-10)
    with pytest.warns(UserWarning, match="0 of 3 targets have rows of their own"):
        fit(
            fixed_process(),
            MIXED.assign(cases=MIXED.cases.where(MIXED.district.str[0] == "e")),
            mediators=["year"],
        )
    far = MIXED.assign(year=MIXED.year.where(MIXED.district != "e1", 400.0))
    with pytest.warns(
        UserWarning, match="the mediators of 1 targets are far from those of all bags with rows, 'e1'"
    ):
        fit(fixed_process(mediator_kernel=RBF(3.0)), far, mediators=["year"])
    shrinking = ROWS.groupby("district").area.sum().rename("cases").reset_index()
    with pytest.warns(UserWarning, match="are they means"):
        fit(fixed_process(aggregate="sum"), shrinking.assign(cases=30.0 - shrinking.cases))
    # A single target can't be left out.
    with pytest.warns(UserWarning, match="the rows of 5 bags"):
        single_target = fit(fixed_process(), BAGS.assign(cases=BAGS.cases.where(BAGS.district == "d1")))
    assert single_target.loo_ is None and single_target.target_contributions(PLACES).shape == (7, 1)
    with pytest.warns(ConvergenceWarning, match="fewer than 5 targets"):
        fit(riesz.AggregateGaussianProcess(), BAGS.assign(cases=BAGS.cases.where(BAGS.index < 4)))


APART = MIXED.assign(cases=MIXED.cases.where(MIXED.district.str[0] == "e"))


@pytest.mark.parametrize("operator, tie", [("pseudo", 0.0), ("two-sided", 0.15)])
@pytest.mark.parametrize("bags", [MIXED, APART], ids=["mixed", "apart"])
@pytest.mark.filterwarnings("ignore:.*fewer than 5 targets")
def test_targets_are_regressed_on_mediators(bags, operator, tie):
    fit_options = {"mediators": ["pressure", "year"], "target_std": "error", "weight": "area"}
    lengths, ridge, mean = np.array([0.9, 3.0]), 0.06, 0.4
    model = fixed_process(
        operator=operator,
        mediator_kernel=Constant(1.7) * RBF(lengths.tolist()),
        mediator_ridge=ridge,
        mediation_noise="auto" if tie == 0.0 else tie,
        row_noise=0.0,
        prior_mean=mean,
    ).fit(ROWS, bags, bag="district", target="cases", **fit_options)
    # scikit-learn's regression of targets without rows gives pseudo-targets of all bags with rows.
    table = bags.set_index("district")
    targets = table.loc[["e0", "e1", "e2"]]
    mediators = lambda frame: frame[fit_options["mediators"]].to_numpy()
    kernel = sk.ConstantKernel(1.7, "fixed") * sk.RBF(lengths, "fixed")
    regression = GaussianProcessRegressor(kernel, alpha=ridge + targets.error.to_numpy() ** 2, optimizer=None)
    regression.fit(mediators(targets), targets.cases - mean)
    pseudo, covariance = regression.predict(mediators(table.loc[model.bags_]), return_cov=True)
    # The posterior of f given these and the targets with rows.
    of_bags = np.array(
        [[row.area * (row.district == name) for row in ROWS.itertuples()] for name in model.bags_]
    )
    of_bags /= of_bags.sum(axis=1, keepdims=True)
    matched = table.loc[model.bags_].dropna(subset="cases")
    a = np.vstack([of_bags, of_bags[[model.bags_.index(name) for name in matched.index]]])
    noise = np.diag(np.r_[np.full(len(of_bags), tie), model.noise_ + matched.error**2])
    noise[: len(of_bags), : len(of_bags)] += covariance
    v = a @ k(X, X) @ a.T + noise
    h = k(Z, X) @ a.T
    values = np.r_[pseudo, matched.cases - mean]
    prediction, std = model.predict(PLACES, return_std=True)
    np.testing.assert_allclose(prediction, mean + h @ np.linalg.solve(v, values), atol=1e-9)
    np.testing.assert_allclose(std**2, np.diag(k(Z, Z) - h @ np.linalg.solve(v, h.T)), atol=1e-9)
    assert (model.noise_ > 0) == (len(matched) > 0)
    assert abs(model.mediation_noise_ - tie) < 1e-12 and abs(model.mediator_ridge_ - ridge) < 1e-12
    # The share of each target in the prediction.
    shares = model.target_contributions(PLACES)
    np.testing.assert_allclose(shares.sum(axis=1), prediction - mean, atol=1e-9)
    assert shares.shape == (7, len(model.targets_)) and len(model.loo_.bags) == len(model.targets_)
    why = riesz.Explainer(model, X[:5])(PLACES)
    np.testing.assert_allclose(why.values.sum(axis=1), prediction - model.predict(X[:5]).mean(), atol=1e-9)


def test_regressed_targets_are_tuned_and_averaged():
    rng = np.random.default_rng(3)
    height = rng.uniform(-2, 2, 40)
    rows = pd.DataFrame(
        {"height": np.repeat(height[:20], 6) + 0.3 * rng.normal(size=120), "bag": np.repeat(np.arange(20), 6)}
    )
    bags = pd.DataFrame(
        {"bag": np.arange(40), "height": height, "target": 3 + np.sin(height) + 0.1 * rng.normal(size=40)}
    )
    bags.loc[:19, "target"] = np.nan
    truth = 3 + np.sin(rows.height)
    fit = lambda **options: riesz.AggregateGaussianProcess(random_state=0, **options).fit(
        rows, bags, bag="bag", target="target", mediators="height"
    )
    pseudo = fit(operator="pseudo")
    assert pseudo.effective_sample_size_ is None and pseudo.mediation_noise_ == pseudo.noise_ == 0
    with warnings.catch_warnings():
        # A few draws give a rough average.
        warnings.simplefilter("ignore")
        tied = fit(operator="two-sided", n_hyperparameter_samples=200)
    assert tied.effective_sample_size_ > 1 and tied.mediation_noise_ > 0 and tied.noise_ == 0
    # If means over bags only approximate the regression, exact ties overfit.
    for model, share in ((pseudo, 0.6), (tied, 0.3)):
        assert np.sqrt(np.mean((model.predict(rows) - truth) ** 2)) < share * truth.std()
        assert 0.5 < np.mean(np.abs(model.loo_.error) < 1.96 * model.loo_.std)
    _, std = tied.predict(rows, return_std=True)
    assert np.mean(np.abs(tied.predict(rows) - truth) < 1.96 * std) > 0.8


@pytest.mark.parametrize(
    "options, message",
    [
        ({"aggregate": "sum"}, "aggregate = 'sum' with operator = 'two-sided': divide sums by their weights"),
        ({"mediator_examples": "rows"}, "mediator_examples = 'rows' with operator = 'two-sided'"),
        ({"centered": False}, "centered = False with operator = 'two-sided'"),
        ({"published": True}, "published = True with operator = 'two-sided'"),
        ({"operator": "pseudo", "mediation_noise": 0.1}, "mediation_noise = 0.1 with operator = 'pseudo'"),
        (
            {"operator": "pseudo", "optimizer": "fmin_l_bfgs_b", "n_hyperparameter_samples": 64},
            "operator='pseudo' takes the best",
        ),
    ],
)
def test_regressions_of_targets_refuse_other_settings(options, message):
    model = fixed_process(
        **({"operator": "two-sided", "mediation_noise": "auto", "row_noise": 0.0} | options)
    )
    assert message in refusal(bags=MIXED, model=model, mediators=["year"])
    assert "takes mediators" in refusal(model=fixed_process(operator="two-sided"))
