"""Interactions against shapiq, from all coalitions, and against least squares."""

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
    def worth(coalitions):
        mixed = np.where(np.asarray(coalitions, bool)[:, None, :], row, BACKGROUND)
        return f(mixed.reshape(-1, X.shape[1])).reshape(len(mixed), -1).mean(axis=1)

    return worth


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("index", INDICES)
def test_interactions_are_those_of_shapiq(index, order):
    model = GaussianProcessRegressor(RBF(3.0), alpha=1.0, optimizer=None, normalize_y=True).fit(X, y)
    found = riesz.Explainer(model, BACKGROUND, index=index, order=order)(ROWS)
    assert found.exactness == "exact" and found.index == index.lower() + ("" if order == 2 else f"({order})")
    for i, row in enumerate(ROWS):
        worth = game(model.predict, row)
        peer = shapiq.ExactComputer(n_players=X.shape[1], game=worth)(index, order=order)
        own = found[i].to_shapiq()
        assert own.max_order == order
        for subset, k in own.interaction_lookup.items():
            # shapiq takes the game as it is, from which the base value is not taken off.
            truth = peer[subset]
            assert abs(own.values[k] - truth) <= found.bound[i] + 1e-9 * np.abs(peer.values).max(), (
                subset,
                own.values[k],
                truth,
            )
    efficient = index in ("k-SII", "STII", "FSII")
    assert (found.certificate is not None) == efficient
    if efficient:
        assert found.certificate.holds
        whole = found.interactions.sum(axis=tuple(range(1, order + 1)))
        assert np.allclose(whole, found.predictions - found.base_values, rtol=1e-10)


@pytest.mark.parametrize("index", ["FSII", "FBII"])
def test_faithful_indices_are_nearest(index):
    """Weighted least squares over all coalitions, the ends being constraints for FSII (Tsai, Yeh and
    Ravikumar 2023)."""
    model, d = SVR(C=100.0).fit(X, y), X.shape[1]
    found = riesz.Explainer(model, BACKGROUND, index=index)(ROWS[:1])
    coalitions = np.array([[mask >> j & 1 for j in range(d)] for mask in range(2**d)])
    worth = game(model.predict, ROWS[0])(coalitions)
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
    nearest = np.linalg.lstsq(design * root[:, None], worth * root, rcond=None)[0][1:]
    assert np.allclose(found.values[0], nearest, rtol=1e-4, atol=1e-4 * np.abs(nearest).max())


def test_sums_of_models_add_up_by_pairs():
    model = BaggingRegressor(KernelRidge(kernel="rbf", gamma=0.1), 3, max_features=0.5, random_state=0).fit(
        X, y
    )
    # No member has four features.
    for order in [2, 4]:
        found = riesz.Explainer(model, BACKGROUND, index="k-SII", order=order)(ROWS)
        peer = shapiq.ExactComputer(n_players=X.shape[1], game=game(model.predict, ROWS[0]))(
            "k-SII", order=order
        )
        own = found[0].to_shapiq()
        assert all(abs(own.values[k] - peer[s]) < 1e-8 for s, k in own.interaction_lookup.items())
        assert found.certificate.holds


def test_orders_that_are_none():
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
    with pytest.raises(ValueError, match="3000 players have more than 16777216 sets of up to 3"):
        riesz.Explainer(riesz.KernelRidge().fit(wide, [0.0, 1.0]), index="k-SII", order=3)


def test_what_becomes_of_pairs(tmp_path):
    model = SVC(decision_function_shape="ovo").fit(X[:, :3], np.digitize(y, [100, 200]))
    found = riesz.Explainer(model, BACKGROUND[:, :3], index="stii", groups={"last": [1, 2]})(ROWS[:, :3])
    m = len(found.output_names)
    assert found.feature_names == ["x0", "last", "x0 × last"] and found.values.shape == (3, 3, m)
    assert found.interactions.shape == (3, 2, 2, m)
    assert np.allclose(found.interactions[:, 0, 1], found.values[:, 2] / 2)
    assert found[0, :, 0].interactions.shape == (2, 2)
    found.save(tmp_path / "a.json")
    for copy in [riesz.Explanation.load(tmp_path / "a.json"), pickle.loads(pickle.dumps(found))]:
        assert np.array_equal(copy.interactions, found.interactions) and copy.certificate.holds
    assert found[:, "x0 × last"].values.shape == (3, m)
    with pytest.raises(ValueError, match="selection"):
        _ = found[:, "x0"].interactions
    with pytest.raises(ValueError, match="one row"):
        found.to_shapiq()
    found.report(tmp_path / "a.html")
    assert "Shapley–Taylor values" in (tmp_path / "a.html").read_text()
    assert riesz.Explainer(model, BACKGROUND[:, :3])(ROWS[:, :3]).interactions is None


def test_plots_of_pairs():
    pytest.importorskip("matplotlib").use("Agg")
    found = riesz.Explainer(SVR(C=100.0).fit(X, y), BACKGROUND, index="k-SII")(ROWS)
    ax = riesz.plots.waterfall(found[0])
    assert any("×" in label.get_text() for label in ax.get_yticklabels())
    for plot in [riesz.plots.bar, riesz.plots.beeswarm, riesz.plots.heatmap]:
        assert plot(found) is not None


def sizes(found, a, b):
    """The pair's mean |value|, or a feature's own, by its name."""
    names = [found.feature_names[a]] if a == b else [found.feature_names[k] for k in sorted((a, b))]
    values = found.values[:, found.feature_names.index(" × ".join(names))]
    return np.abs(values).mean()


@pytest.mark.parametrize("order", [2, 3])
def test_the_matrix_of_pairs(order):
    plt = pytest.importorskip("matplotlib.pyplot")
    found = riesz.Explainer(SVR(C=100.0).fit(X, y), BACKGROUND, index="k-SII", order=order)(ROWS)
    ax = riesz.plots.interactions(found)
    pairs, alone = (image.get_array() for image in ax.images)
    for a in range(6):
        for b in range(6):
            shown, other = (alone, pairs) if a == b else (pairs, alone)
            assert np.isclose(shown[a, b], sizes(found, a, b)) and np.ma.is_masked(other[a, b])
    assert [t.get_text() for t in ax.get_yticklabels()] == found.feature_names[:6]
    assert (
        "Of three features: " in ax.get_xlabel() and "and 17 more." in " ".join(ax.get_xlabel().split())
    ) == (order == 3)
    row = riesz.plots.interactions(found[1], max_display=3)
    matrix = row.images[0].get_array().filled(0.0) + row.images[1].get_array().filled(0.0)
    # Those that take part in most, by hand.
    part = [
        sum(abs(v) for name, v in zip(found.feature_names, found.values[1]) if f"x{j}" in name)
        for j in range(6)
    ]
    kept = sorted(np.argsort(part)[-3:])
    assert [t.get_text() for t in row.get_xticklabels()] == [f"x{j}" for j in kept]
    own = dict(zip(found.feature_names, found.values[1]))
    truth = [[own[f"x{a}" if a == b else f"x{min(a, b)} × x{max(a, b)}"] for b in kept] for a in kept]
    assert np.allclose(matrix, truth) and "the 3 features that take part in least" in row.get_xlabel()
    plt.close("all")


def test_the_network_of_pairs():
    plt = pytest.importorskip("matplotlib.pyplot")
    found = riesz.Explainer(SVR(C=100.0).fit(X, y), BACKGROUND, index="k-SII")(ROWS)
    ax = riesz.plots.network(found, max_display=6)
    strengths = sorted((sizes(found, a, b) for a in range(6) for b in range(a)), reverse=True)
    widths = sorted((line.get_linewidth() for line in ax.lines), reverse=True)
    assert np.allclose(widths, [0.6 + 6.0 * s / strengths[0] for s in strengths[:6]])
    share = sum(strengths[6:]) / sum(strengths)
    assert f"The other 9 pairs hold {share:.1%}" in ax.get_xlabel()
    own = np.array([sizes(found, j, j) for j in range(6)])
    assert np.allclose(ax.collections[0].get_sizes(), np.maximum(500.0 * own / own.max(), 10.0))
    assert [t.get_text() for t in ax.texts] == found.feature_names[:6]
    row = riesz.plots.network(found[0])
    signs = [value > 0 for value in found.values[0, :6]]
    colours = [tuple(colour[:3]) for colour in row.collections[0].get_facecolors()]
    assert len(set(zip(signs, colours))) == len(set(signs)) == 2
    plt.close("all")


def test_force_plots_of_pairs():
    plt = pytest.importorskip("matplotlib.pyplot")
    found = riesz.Explainer(SVR(C=100.0).fit(X, y), BACKGROUND, index="k-SII")(ROWS)
    ax = riesz.plots.force(found[0], max_display=3)
    assert len(ax.patches) == 8 and sum("others: " in t.get_text() for t in ax.texts) == 2
    ends = [bar.get_x() + side * bar.get_width() for bar in ax.patches for side in (0, 1)]
    up, down = (found.values[0][found.values[0] * sign > 0].sum() for sign in (1, -1))
    assert np.isclose(min(ends), found.predictions[0] - up) and np.isclose(
        max(ends), found.predictions[0] - down
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
    found, all_ = explainer.top_interactions(ROWS, k=4), explainer(ROWS)
    assert (
        len(found) == 3
        and found.left_out.shape == (3, 2)
        and found.complete.all()
        and (found.searched <= 10).all()
    )
    names = all_.feature_names[5:]
    for i in range(3):
        for o in range(2):
            values = all_.values[i, 5:, o]
            order = np.argsort(-abs(values))
            listed = found.pairs(i, o)
            assert [f"{a} × {b}" for a, b, _ in listed] == [names[k] for k in order[:4]]
            np.testing.assert_allclose([value for *_, value in listed], values[order[:4]], atol=1e-9)
            assert 0 <= found.left_out[i, o] - abs(values[order[4]]) <= 2 * found.bound[i, o] < 1e-6
    frame = found.to_frame()
    assert frame.shape == (24, 8) and frame["rank"].tolist() == [1, 2, 3, 4] * 6
    assert frame.query("row == 1 and output == 'y1'")["feature_2"].tolist() == [
        b for _, b, _ in found.pairs(1, 1)
    ]
    text = repr(found)
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
        ValueError, match="7000 players have more than 16777216 pairs: ask for the strongest alone"
    ):
        explainer(wide[:1])
    found = explainer.top_interactions(wide[:2], k=3)
    assert found.complete.all() and found.left_out.shape == (2,) and (found.searched < 100_000).all()
    few = explainer.top_interactions(wide[:2], k=3, max_pairs=5)
    assert (few.searched <= 5).all()
    for i in range(2):
        listed = {(a, b) for a, b, _ in few.pairs(i)}
        assert all(abs(v) <= few.left_out[i] + 1e-12 for a, b, v in found.pairs(i) if (a, b) not in listed)


def test_what_has_no_strongest_pairs():
    model = SVR().fit(X, y)
    explainer = riesz.Explainer(model, BACKGROUND, index="k-SII")
    for settings in [{"k": 0}, {"k": 2.5}, {"max_pairs": -1}, {"max_pairs": 0.5}]:
        with pytest.raises(ValueError, match="it is a whole number"):
            explainer.top_interactions(ROWS, **settings)
    for index in ["shapley", "k-SII(3)"]:
        with pytest.raises(ValueError, match="the strongest pairs are those of sii"):
            riesz.Explainer(model, BACKGROUND, index=index).top_interactions(ROWS)
    with pytest.raises(riesz.UnsupportedModelError, match="take a kernel that is known"):
        riesz.Explainer(model.predict, BACKGROUND).top_interactions(ROWS)
    votes = VotingRegressor([("a", SVR(gamma=1)), ("b", SVR(gamma=2))]).fit(X, y)
    with pytest.raises(riesz.UnsupportedModelError, match="adds up several models"):
        riesz.Explainer(votes, BACKGROUND, index="k-SII").top_interactions(ROWS)
