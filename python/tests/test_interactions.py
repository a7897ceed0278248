"""Interactions against shapiq, enumeration of all coalitions, and least squares."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR

import riesz

shapiq = pytest.importorskip("shapiq")

X, y = load_diabetes(return_X_y=True)
X = X[:, :6] * 20.0
BACKGROUND, ROWS = X[:7], X[100:103]
INDICES = ["SII", "k-SII", "STII", "FSII", "BII", "FBII", "Moebius"]


def game(f, row):
    def value(coalitions):
        mixed = np.where(np.asarray(coalitions, bool)[:, None, :], row, BACKGROUND)
        return f(mixed.reshape(-1, X.shape[1])).reshape(len(mixed), -1).mean(axis=1)

    return value


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("index", INDICES)
def test_interactions_are_those_of_shapiq(index, order):
    model = GaussianProcessRegressor(RBF(3.0), alpha=1.0, optimizer=None, normalize_y=True).fit(X, y)
    explanation = riesz.Explainer(model, BACKGROUND, index=index, order=order)(ROWS)
    assert explanation.exactness == "exact" and explanation.index == index.lower() + (
        "" if order == 2 else f"({order})"
    )
    for i, row in enumerate(ROWS):
        value = game(model.predict, row)
        peer = shapiq.ExactComputer(n_players=X.shape[1], game=value)(index, order=order)
        converted = explanation[i].to_shapiq()
        assert converted.max_order == order
        for subset, k in converted.interaction_lookup.items():
            # shapiq's game includes the base value.
            truth = peer[subset]
            assert (
                abs(converted.values[k] - truth) <= explanation.bound[i] + 1e-9 * np.abs(peer.values).max()
            ), (
                subset,
                converted.values[k],
                truth,
            )
    efficient = index in ("k-SII", "STII", "FSII")
    assert (explanation.certificate is not None) == efficient
    if efficient:
        assert explanation.certificate.holds
        totals = explanation.interactions.sum(axis=tuple(range(1, order + 1)))
        assert np.allclose(totals, explanation.predictions - explanation.base_values, rtol=1e-10)


@pytest.mark.parametrize("index", ["FSII", "FBII"])
def test_faithful_indices_solve_least_squares(index):
    """Weighted least squares over all coalitions; for FSII the empty and the grand coalition are
    constraints (Tsai, Yeh and Ravikumar 2023)."""
    model, d = SVR(C=100.0).fit(X, y), X.shape[1]
    explanation = riesz.Explainer(model, BACKGROUND, index=index)(ROWS[:1])
    coalitions = np.array([[mask >> j & 1 for j in range(d)] for mask in range(2**d)])
    coalition_values = game(model.predict, ROWS[0])(coalitions)
    pairs = [coalitions[:, j] * coalitions[:, k] for j, k in combinations(range(d), 2)]
    design = np.column_stack([np.ones(2**d), coalitions, *pairs])
    size = coalitions.sum(axis=1)
    if index == "FSII":
        import math

        inner = (size > 0) & (size < d)
        weight = np.full(2**d, 1e12)
        weight[inner] = [(d - 1) / (math.comb(d, s) * s * (d - s)) for s in size[inner]]
    else:
        weight = np.ones(2**d)
    root = np.sqrt(weight)
    nearest = np.linalg.lstsq(design * root[:, None], coalition_values * root, rcond=None)[0][1:]
    assert np.allclose(explanation.values[0], nearest, rtol=1e-4, atol=1e-4 * np.abs(nearest).max())


def test_sums_of_models_add_up_by_pairs():
    model = BaggingRegressor(KernelRidge(kernel="rbf", gamma=0.1), 3, max_features=0.5, random_state=0).fit(
        X, y
    )
    # No member has four features.
    for order in [2, 4]:
        explanation = riesz.Explainer(model, BACKGROUND, index="k-SII", order=order)(ROWS)
        peer = shapiq.ExactComputer(n_players=X.shape[1], game=game(model.predict, ROWS[0]))(
            "k-SII", order=order
        )
        converted = explanation[0].to_shapiq()
        assert all(abs(converted.values[k] - peer[s]) < 1e-8 for s, k in converted.interaction_lookup.items())
        assert explanation.certificate.holds


def test_invalid_orders_are_refused():
    model = SVR().fit(X, y)
    for settings in [
        {"order": 3},
        {"index": "k-SII", "order": 9},
        {"index": "k-SII", "order": 1.5},
        {"index": "banzhaf", "order": 3},
    ]:
        with pytest.raises(ValueError, match="order|index"):
            riesz.Explainer(model, BACKGROUND, **settings)
    wide = np.zeros((2, 3000))
    with pytest.raises(ValueError, match="3000 features have more than 16777216 sets of up to 3"):
        riesz.Explainer(
            riesz.KernelRidge(kernel="rbf", gamma="scale").fit(wide, [0.0, 1.0]), index="k-SII", order=3
        )


def test_pairs_with_groups_outputs_and_files(tmp_path):
    model = SVC(decision_function_shape="ovo").fit(X[:, :3], np.digitize(y, [100, 200]))
    explanation = riesz.Explainer(model, BACKGROUND[:, :3], index="stii", groups={"last": [1, 2]})(
        ROWS[:, :3]
    )
    m = len(explanation.output_names)
    assert explanation.feature_names == ["x0", "last", "x0 × last"] and explanation.values.shape == (3, 3, m)
    assert explanation.interactions.shape == (3, 2, 2, m)
    assert np.allclose(explanation.interactions[:, 0, 1], explanation.values[:, 2] / 2)
    assert explanation[0, :, 0].interactions.shape == (2, 2)
    explanation.save(tmp_path / "a.json")
    for copy in [riesz.Explanation.load(tmp_path / "a.json"), pickle.loads(pickle.dumps(explanation))]:
        assert np.array_equal(copy.interactions, explanation.interactions) and copy.certificate.holds
    assert explanation[:, "x0 × last"].values.shape == (3, m)
    with pytest.raises(ValueError, match="selection"):
        _ = explanation[:, "x0"].interactions
    with pytest.raises(ValueError, match="one row"):
        explanation.to_shapiq()
    explanation.report(tmp_path / "a.html")
    assert "Shapley–Taylor values" in (tmp_path / "a.html").read_text()
    assert riesz.Explainer(model, BACKGROUND[:, :3])(ROWS[:, :3]).interactions is None


def test_plots_of_pairs():
    pytest.importorskip("matplotlib").use("Agg")
    explanation = riesz.Explainer(SVR(C=100.0).fit(X, y), BACKGROUND, index="k-SII")(ROWS)
    ax = riesz.plots.waterfall(explanation[0])
    assert any("×" in label.get_text() for label in ax.get_yticklabels())
    for plot in [riesz.plots.bar, riesz.plots.beeswarm, riesz.plots.heatmap]:
        assert plot(explanation) is not None


def sizes(explanation, a, b):
    """The pair's mean |value|, or a feature's own mean |value|, by name."""
    names = (
        [explanation.feature_names[a]] if a == b else [explanation.feature_names[k] for k in sorted((a, b))]
    )
    values = explanation.values[:, explanation.feature_names.index(" × ".join(names))]
    return np.abs(values).mean()


@pytest.mark.parametrize("order", [2, 3])
def test_the_matrix_of_pairs(order):
    plt = pytest.importorskip("matplotlib.pyplot")
    explanation = riesz.Explainer(SVR(C=100.0).fit(X, y), BACKGROUND, index="k-SII", order=order)(ROWS)
    ax = riesz.plots.interactions(explanation)
    pairs, singles = (image.get_array() for image in ax.images)
    for a in range(6):
        for b in range(6):
            shown, other = (singles, pairs) if a == b else (pairs, singles)
            assert np.isclose(shown[a, b], sizes(explanation, a, b)) and np.ma.is_masked(other[a, b])
    assert [t.get_text() for t in ax.get_yticklabels()] == explanation.feature_names[:6]
    assert (
        "Sets of three features: " in ax.get_xlabel() and "and 17 more." in " ".join(ax.get_xlabel().split())
    ) == (order == 3)
    row = riesz.plots.interactions(explanation[1], max_display=3)
    matrix = row.images[0].get_array().filled(0.0) + row.images[1].get_array().filled(0.0)
    # The features with the largest interactions, computed by hand.
    part = [
        sum(abs(v) for name, v in zip(explanation.feature_names, explanation.values[1]) if f"x{j}" in name)
        for j in range(6)
    ]
    kept = sorted(np.argsort(part)[-3:])
    assert [t.get_text() for t in row.get_xticklabels()] == [f"x{j}" for j in kept]
    by_name = dict(zip(explanation.feature_names, explanation.values[1]))
    truth = [[by_name[f"x{a}" if a == b else f"x{min(a, b)} × x{max(a, b)}"] for b in kept] for a in kept]
    assert np.allclose(matrix, truth) and "the 3 features with the smallest total" in row.get_xlabel()
    plt.close("all")


def test_the_network_of_pairs():
    plt = pytest.importorskip("matplotlib.pyplot")
    explanation = riesz.Explainer(SVR(C=100.0).fit(X, y), BACKGROUND, index="k-SII")(ROWS)
    ax = riesz.plots.network(explanation, max_display=6)
    strengths = sorted((sizes(explanation, a, b) for a in range(6) for b in range(a)), reverse=True)
    widths = sorted((line.get_linewidth() for line in ax.lines), reverse=True)
    assert np.allclose(widths, [0.6 + 6.0 * s / strengths[0] for s in strengths[:6]])
    share = sum(strengths[6:]) / sum(strengths)
    assert f"The other 9 pairs hold {share:.1%}" in ax.get_xlabel()
    single_sizes = np.array([sizes(explanation, j, j) for j in range(6)])
    assert np.allclose(
        ax.collections[0].get_sizes(), np.maximum(500.0 * single_sizes / single_sizes.max(), 10.0)
    )
    assert [t.get_text() for t in ax.texts] == explanation.feature_names[:6]
    row = riesz.plots.network(explanation[0])
    signs = [value > 0 for value in explanation.values[0, :6]]
    colours = [tuple(colour[:3]) for colour in row.collections[0].get_facecolors()]
    assert len(set(zip(signs, colours))) == len(set(signs)) == 2
    plt.close("all")


def test_force_plots_of_pairs():
    plt = pytest.importorskip("matplotlib.pyplot")
    explanation = riesz.Explainer(SVR(C=100.0).fit(X, y), BACKGROUND, index="k-SII")(ROWS)
    ax = riesz.plots.force(explanation[0], max_display=3)
    assert len(ax.patches) == 8 and sum("others: " in t.get_text() for t in ax.texts) == 2
    ends = [bar.get_x() + side * bar.get_width() for bar in ax.patches for side in (0, 1)]
    up, down = (explanation.values[0][explanation.values[0] * sign > 0].sum() for sign in (1, -1))
    assert np.isclose(min(ends), explanation.predictions[0] - up) and np.isclose(
        max(ends), explanation.predictions[0] - down
    )
    plt.close("all")


@pytest.mark.parametrize("plot", ["interactions", "network"])
def test_single_values_have_no_interactions(plot):
    pytest.importorskip("matplotlib").use("Agg")
    model = SVR().fit(X, y)
    with pytest.raises(ValueError, match="Shapley values of single features .* index='k-SII'"):
        getattr(riesz.plots, plot)(riesz.Explainer(model, BACKGROUND)(ROWS))
    with pytest.raises(ValueError, match="selection"):
        getattr(riesz.plots, plot)(riesz.Explainer(model, BACKGROUND, index="k-SII")(ROWS)[:, "x0"])


@pytest.mark.parametrize("index", INDICES)
def test_the_strongest_pairs_are_the_largest_of_all(index):
    model = riesz.KernelRidge(kernel=riesz.kernels.RBF(3.0), alpha=1.0).fit(
        X, np.column_stack([y, y**2 / 100.0])
    )
    explainer = riesz.Explainer(model, BACKGROUND, index=index, groups={"blood": [4, 2]})
    top, explanation = explainer.top_interactions(ROWS, k=4), explainer(ROWS)
    assert (
        len(top) == 3 and top.left_out.shape == (3, 2) and top.complete.all() and (top.searched <= 10).all()
    )
    names = explanation.feature_names[5:]
    for i in range(3):
        for o in range(2):
            values = explanation.values[i, 5:, o]
            order = np.argsort(-abs(values))
            listed = top.pairs(i, o)
            assert [f"{a} × {b}" for a, b, _ in listed] == [names[k] for k in order[:4]]
            np.testing.assert_allclose([value for *_, value in listed], values[order[:4]], atol=1e-9)
            assert 0 <= top.left_out[i, o] - abs(values[order[4]]) <= 2 * top.bound[i, o] < 1e-6
    frame = top.to_frame()
    assert frame.shape == (24, 8) and frame["rank"].tolist() == [1, 2, 3, 4] * 6
    assert frame.query("row == 1 and output == 'y1'")["feature_2"].tolist() == [
        b for _, b, _ in top.pairs(1, 1)
    ]
    text = repr(top)
    assert text.startswith(f"<riesz.TopInteractions: {index.lower()}, 3 rows, 2 outputs") and " × " in text
    empty = explainer.top_interactions(ROWS[:0])
    assert (
        len(empty) == 0
        and empty.bound.shape == (0, 2)
        and empty.to_frame().shape == (0, 8)
        and "0 rows" in repr(empty)
    )


def test_the_strongest_of_too_many_pairs():
    rng = np.random.default_rng(0)
    wide = np.where(rng.random((12, 7000)) < 0.002, rng.normal(size=(12, 7000)), 0.0)
    explainer = riesz.Explainer(
        riesz.Expansion(riesz.kernels.RBF(1.0), points=wide, coef=rng.normal(size=12)), index="k-SII"
    )
    with pytest.raises(
        ValueError, match="7000 features have more than 16777216 pairs: ask for the strongest alone"
    ):
        explainer(wide[:1])
    top = explainer.top_interactions(wide[:2], k=3)
    assert top.complete.all() and top.left_out.shape == (2,) and (top.searched < 100_000).all()
    limited = explainer.top_interactions(wide[:2], k=3, max_pairs=5)
    assert (limited.searched <= 5).all()
    for i in range(2):
        listed = {(a, b) for a, b, _ in limited.pairs(i)}
        assert all(abs(v) <= limited.left_out[i] + 1e-12 for a, b, v in top.pairs(i) if (a, b) not in listed)


def test_invalid_top_interactions_are_refused():
    model = SVR().fit(X, y)
    explainer = riesz.Explainer(model, BACKGROUND, index="k-SII")
    for settings in [{"k": 0}, {"k": 2.5}, {"max_pairs": -1}, {"max_pairs": 0.5}]:
        with pytest.raises(ValueError, match="it is a whole number"):
            explainer.top_interactions(ROWS, **settings)
    for index in ["shapley", "k-SII(3)"]:
        with pytest.raises(ValueError, match="the strongest pairs are those of sii"):
            riesz.Explainer(model, BACKGROUND, index=index).top_interactions(ROWS)
    with pytest.raises(riesz.UnsupportedModelError, match="need a model with a known kernel"):
        riesz.Explainer(model.predict, BACKGROUND).top_interactions(ROWS)
    votes = VotingRegressor([("a", SVR(gamma=1)), ("b", SVR(gamma=2))]).fit(X, y)
    with pytest.raises(riesz.UnsupportedModelError, match="adds up several models"):
        riesz.Explainer(votes, BACKGROUND, index="k-SII").top_interactions(ROWS)
