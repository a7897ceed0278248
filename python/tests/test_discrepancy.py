"""MMD and HSIC tests against plain numpy, enumeration and published numbers."""

import itertools
import math
import pickle

import numpy as np
import pandas
import polars
import pytest
from scipy.stats import ks_2samp
from sklearn.datasets import load_diabetes
from sklearn.metrics.pairwise import rbf_kernel

import riesz
from riesz.kernels import RBF, Categorical, Sigmoid


def mmd(K, n, estimator):
    """MMD² from the gram matrix of the pooled rows."""
    X, Z, XZ = K[:n, :n], K[n:, n:], K[:n, n:]
    m = len(Z)
    if estimator == "biased":
        return X.mean() + Z.mean() - 2 * XZ.mean()
    if estimator == "unbiased":
        return (
            (X.sum() - np.trace(X)) / (n * (n - 1)) + (Z.sum() - np.trace(Z)) / (m * (m - 1)) - 2 * XZ.mean()
        )
    first, second = np.arange(0, min(n, m) // 2 * 2, 2), np.arange(1, min(n, m) // 2 * 2, 2)
    return (X[first, second] + Z[first, second] - XZ[first, second] - XZ[second, first]).mean()


def hsic(K, L, estimator):
    n = len(K)
    if estimator == "biased":
        H = np.eye(n) - 1 / n
        return np.trace(K @ H @ L @ H) / (n - 1) ** 2
    K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
    all_ones = np.ones(n)
    cross = all_ones @ K @ all_ones * (all_ones @ L @ all_ones) / ((n - 1) * (n - 2)) - 2 / (n - 2) * (
        all_ones @ K @ L @ all_ones
    )
    return (np.trace(K @ L) + cross) / (n * (n - 3))


def shapley(d, value):
    values = np.zeros(d)
    for j in range(d):
        remaining = [k for k in range(d) if k != j]
        for size in range(d):
            weight = math.factorial(size) * math.factorial(d - size - 1) / math.factorial(d)
            for S in itertools.combinations(remaining, size):
                values[j] += weight * (value([*S, j]) - value(list(S)))
    return values


def gram(rows, columns, scale):
    return (
        rbf_kernel(rows[:, columns], gamma=1 / (2 * scale**2)) if columns else np.ones((len(rows), len(rows)))
    )


@pytest.fixture
def samples():
    rng = np.random.default_rng(0)
    return rng.normal(size=(30, 4)), rng.normal(size=(24, 4)) * [1, 2, 1, 1]


@pytest.mark.parametrize("estimator", ["unbiased", "biased", "linear"])
def test_mmd_follows_its_definition(samples, estimator):
    X, Z = samples
    result = riesz.mmd_test(
        X, Z, kernel=RBF(1.7), kernel_factors="product", estimator=estimator, n_permutations=0
    )
    pooled = np.vstack([X, Z])
    value = lambda S: mmd(gram(pooled, S, 1.7), len(X), estimator)
    assert result.statistic == pytest.approx(value(range(4)), abs=1e-14)
    np.testing.assert_allclose(result.values, shapley(4, value), atol=1e-14)
    assert result.pvalue is None and result.pvalues is None and result.attributions.certificate.holds


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_hsic_follows_its_definition(samples, estimator):
    X, _ = samples
    Y = np.column_stack([X[:, 0] * X[:, 1], X[:, 2]])
    L = gram(Y, [0, 1], 0.9)
    options = dict(
        kernel=RBF(1.7),
        target_kernel=RBF(0.9),
        kernel_factors="product",
        estimator=estimator,
        n_permutations=0,
    )
    result = riesz.hsic_test(X, Y, **options)
    np.testing.assert_allclose(
        result.values, shapley(4, lambda S: hsic(gram(X, S, 1.7), L, estimator)), atol=1e-15
    )
    # The same statistic is shared among the columns of the other side.
    other = riesz.hsic_test(X, Y, attribute_to="Y", **options)
    assert other.statistic == pytest.approx(result.statistic, rel=1e-12) and len(other.values) == 2
    K = gram(X, [0, 1, 2, 3], 1.7)
    np.testing.assert_allclose(
        other.values, shapley(2, lambda S: hsic(gram(Y, S, 0.9), K, estimator)), atol=1e-15
    )


def test_the_pvalue_is_that_of_a_plain_permutation_test(samples):
    X, Z = samples
    X, Z = X[:, [0, 2]], Z[:, [0, 2]] + 0.25
    pooled, n, rng = np.vstack([X, Z]), len(X), np.random.default_rng(5)
    K = gram(pooled, [0, 1], 1.5)
    draws = []
    for _ in range(2000):
        order = rng.permutation(len(pooled))
        draws.append(mmd(K[np.ix_(order, order)], n, "unbiased"))
    expected = np.mean(np.array(draws) >= mmd(K, n, "unbiased"))
    result = riesz.mmd_test(X, Z, kernel=RBF(1.5), kernel_factors="product", n_permutations=2000)
    assert 0.02 < expected < 0.98
    assert abs(result.pvalue - expected) < 4 * np.sqrt(2 * expected * (1 - expected) / 2000)
    assert ks_2samp(result.null_distribution, draws).pvalue > 1e-3


def test_diabetes_by_sex_is_as_published():
    """Mohammadi, Chau and Muandet 2025, figures 7 and 8; the numbers are those of the published estimator."""
    X = load_diabetes(as_frame=True).data
    men = X["sex"] > 0
    X = X.drop(columns="sex")
    rows = X.to_numpy()
    distances = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(2))
    kernel = RBF(np.median(distances[np.triu_indices(len(X), 1)]))
    result = riesz.mmd_test(X[men], X[~men], kernel=kernel, kernel_factors="product")
    published = dict(
        s3=0.0232, s4=0.0162, bp=0.0081, s6=0.0046, age=0.0036, s5=0.0018, s2=0.0003, bmi=-0.0016, s1=-0.0023
    )
    frame = result.to_frame().set_index("feature")
    assert list(frame["value"].sort_values(ascending=False).index) == list(published)
    np.testing.assert_allclose(frame.loc[list(published), "value"], list(published.values()), atol=6e-5)
    assert result.statistic == pytest.approx(0.0538, abs=5e-5) and result.pvalue == pytest.approx(1 / 1001)
    assert (frame.loc[["s3", "s4", "bp", "s6"], "adjusted_pvalue"] < 0.01).all() and frame.loc[
        "bmi", "adjusted_pvalue"
    ] > 0.5
    assert "s3" in result.summary() and "s3" in repr(result) and "<table>" in result._repr_html_()


@pytest.mark.parametrize("estimator", ["unbiased", "biased"])
def test_orthogonal_factors_follow_their_definition(samples, estimator):
    X, Z = samples
    pooled, n = np.vstack([X, Z]), len(X)
    H = np.eye(len(pooled)) - 1 / len(pooled)
    centred = [H @ gram(pooled, [j], 1.7) @ H for j in range(4)]
    centred = [K / np.diag(K).mean() for K in centred]
    pairs = {
        (j, k): mmd(centred[j] * centred[k], n, estimator) for j, k in itertools.combinations(range(4), 2)
    }
    single_terms = [mmd(K, n, estimator) for K in centred]
    result = riesz.mmd_test(X, Z, kernel=RBF(1.7), estimator=estimator, n_permutations=99, interactions=True)
    assert result.statistic == pytest.approx(sum(single_terms) + sum(pairs.values()), abs=1e-13)
    np.testing.assert_allclose(result.marginal, single_terms, atol=1e-13)
    np.testing.assert_allclose(
        result.values,
        [single_terms[j] + sum(v for pair, v in pairs.items() if j in pair) / 2 for j in range(4)],
        atol=1e-13,
    )
    for (j, k), value in pairs.items():
        assert result.interactions[j, k] == pytest.approx(value / 2, abs=1e-13)
    everything = mmd(np.prod([1 + K for K in centred], axis=0), n, estimator)
    assert result.higher_order.statistic == pytest.approx(everything - result.statistic, abs=1e-12)
    frame = result.to_frame()
    np.testing.assert_array_equal(frame["marginal_pvalue"], result.marginal_pvalues)
    assert "marginal p" in result.summary() and "three or more" in result.summary()
    with pytest.raises(ValueError, match="'orthogonal' or 'product'"):
        riesz.mmd_test(X, Z, kernel_factors="additive")


def test_frames_are_matched_by_name_and_level():
    rng = np.random.default_rng(1)
    frame = lambda shift, colours: pandas.DataFrame(
        {"a": rng.normal(size=40) + shift, "colour": rng.choice(colours, 40), "b": rng.normal(size=40)}
    )
    X, Z = frame(0.0, ["red", "blue"]), frame(1.5, ["red", "green"])
    result = riesz.mmd_test(X, Z[["b", "colour", "a"]])
    assert result.feature_names == ["a", "colour", "b"] and (result.adjusted_pvalues[:2] < 0.05).all()
    again = riesz.mmd_test(*(polars.DataFrame(part.to_dict(orient="list")) for part in (X, Z)))
    assert again.statistic == result.statistic
    np.testing.assert_array_equal(again.pvalues, result.pvalues)
    grouped = riesz.mmd_test(X, Z, groups={"both": ["a", "b"]}, interactions=True)
    assert grouped.feature_names == ["both", "colour"] and grouped.interactions.shape == (2, 2)
    np.testing.assert_allclose(grouped.interactions.sum(axis=1), grouped.values, atol=1e-14)
    colours = result.witness("colour")
    by_level = dict(zip(colours.grid, colours.values))
    assert set(by_level) == {"blue", "red", "green"} and by_level["blue"] > 0 > by_level["green"]
    along = result.witness(0)
    assert along.feature == "a" and along.values[0] > 0 > along.values[-1] and (along.std_error > 0).all()


def test_lazy_frames_are_collected(data):
    X, y = data
    frame = polars.DataFrame({f"c{j}": X[:, j] for j in range(X.shape[1])})
    lazy = frame.lazy()
    assert riesz.mmd_test(lazy.head(20), lazy.tail(20), n_permutations=9).pvalue is not None
    model = riesz.KernelRidge(kernel=RBF(1.0)).fit(lazy, y)
    np.testing.assert_array_equal(model.predict(lazy), model.predict(frame))
    explanation = riesz.Explainer(model, lazy.head(5))(lazy.tail(3))
    np.testing.assert_array_equal(explanation.values, riesz.Explainer(model, frame[:5])(frame[-3:]).values)


def test_decimal_commas_are_not_levels():
    frame = pandas.DataFrame({"a": ["0,5", "1,25", "3"] * 10, "b": range(30)})
    with pytest.raises(
        ValueError, match=r"column 'a' holds numbers with decimal commas \(row 0 \(from 0\) is '0,5'\)"
    ):
        riesz.hsic_test(frame, range(30))
    assert riesz.hsic_test(frame.astype({"a": "category"}), range(30), n_permutations=9).feature_names == [
        "a",
        "b",
    ]


def test_classes_codes_and_conditional_tests():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 1] > 0, "yes", "no")
    result = riesz.hsic_test(X, y)
    assert result.pvalue < 0.01 and list(result.adjusted_pvalues <= 0.05) == [False, True, False]
    codes = riesz.hsic_test(X, (X[:, 1] > 0).astype(float), target_kernel=Categorical(0.5))
    assert codes.statistic == pytest.approx(result.statistic, rel=1e-12)
    Z = rng.normal(size=150)
    A, B = np.sin(Z) + 0.3 * rng.normal(size=150), Z**2 + 0.3 * rng.normal(size=150)
    assert riesz.hsic_test(A, B).pvalue < 0.01 < 0.05 < riesz.hsic_test(A, B, conditioning=Z).pvalue
    assert riesz.hsic_test(A, B, null="wild_bootstrap", decay=10).pvalue < 0.05


def test_aggregated_tests_name_the_kernel(samples):
    X, Z = samples
    result = riesz.mmd_test(X, Z, kernel=RBF(2.0), length_scale_multiples=[0.1, 1, 10], attribution=None)
    assert len(result.kernels) == 3 and result.attributions is None
    assert result.pvalue == min(test.pvalue for test in result.kernels)
    np.testing.assert_allclose([test.kernel.length_scale for test in result.kernels], [0.2, 2.0, 20.0])
    assert result.statistic == result.kernels[result.best_kernel_index].statistic
    with pytest.raises(ValueError, match="attribution='significance'"):
        result.to_frame()


def test_results_do_not_depend_on_threads(samples):
    X, Z = samples
    serial, parallel = (riesz.mmd_test(X, Z, random_state=3, n_jobs=t, n_permutations=200) for t in (1, 2))
    assert serial.pvalue == parallel.pvalue and (serial.null_distribution == parallel.null_distribution).all()
    assert (
        riesz.mmd_test(X, Z, random_state=4, n_permutations=200).null_distribution != serial.null_distribution
    ).any()
    kept = pickle.loads(pickle.dumps(serial))
    assert kept.pvalue == serial.pvalue and (kept.values == serial.values).all()


def test_pictures_are_drawn(samples, tmp_path):
    import matplotlib

    matplotlib.use("Agg")
    X, Z = samples
    result = riesz.mmd_test(X, Z)
    for name, ax in [("bars", result.plot()), ("witness", result.plot_witness(1))]:
        ax.figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, Z: riesz.mmd_test(X, Z[:, :2]), "columns"),
        (lambda X, Z: riesz.mmd_test(X, Z[:1]), "at least 2 rows are needed"),
        (lambda X, Z: riesz.mmd_test(X, np.where(Z > 1, np.nan, Z)), "nan"),
        (
            lambda X, Z: riesz.mmd_test(X, Z, estimator="exact"),
            "it is 'unbiased', 'biased', 'linear' or 'block'",
        ),
        (lambda X, Z: riesz.mmd_test(X, Z, estimator="block"), "block_size = None"),
        (lambda X, Z: riesz.mmd_test(X, Z, block_size=4), "leave it out"),
        (lambda X, Z: riesz.mmd_test(X, Z, n_permutations=-1), "a whole number from 0"),
        (lambda X, Z: riesz.mmd_test(X, Z, length_scale_multiples=[0]), "a list of positive numbers"),
        (lambda X, Z: riesz.mmd_test(X, Z, kernel=Sigmoid(0.01)), "ties the columns"),
        (lambda X, Z: riesz.mmd_test(X, Z, attribution=None, interactions=True), "leave out either"),
        (lambda X, Z: riesz.hsic_test(X, Z[:, 0]), "row i of both must belong together"),
        (lambda X, Z: riesz.hsic_test(X, np.ones(30)), "is the same in all rows"),
        (lambda X, Z: riesz.hsic_test(X, X[:, 0], null="wild_bootstrap"), "decay = None"),
        (lambda X, Z: riesz.hsic_test(X, ["a", "b"] * 15, conditioning=X[:, 0]), "holds levels"),
        (lambda X, Z: riesz.hsic_test(X, X[:, 0]).witness(0), "hsic_test has none"),
    ],
)
def test_bad_input_is_named(samples, call, message):
    with pytest.raises(ValueError, match=message):
        call(*samples)
