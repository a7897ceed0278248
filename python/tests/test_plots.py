"""Plots show the explanation's numbers in the given axes, and change nothing else."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC, SVR

import riesz
from riesz import plots

matplotlib.use("Agg")


@pytest.fixture
def explanation(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["age", "sex", "bmi", "bp"])
    frame["city"] = np.where(X[:, 0] > 0.2, "Rome", "Oslo")
    model = make_pipeline(
        ColumnTransformer([("c", OneHotEncoder(), ["city"])], remainder="passthrough"), SVR()
    ).fit(frame, y)
    return riesz.Explainer(model, frame[:8])(frame[:20])


def texts(ax):
    return [t.get_text() for t in ax.get_yticklabels()]


def test_every_plot_draws_into_the_axes_it_gets_and_touches_nothing_else(explanation, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_, **__: pytest.fail("show was called"))
    before = dict(matplotlib.rcParams)
    plt.close("all")
    other = plt.figure().add_subplot()
    for draw, e in [
        (plots.beeswarm, explanation),
        (plots.bar, explanation),
        (plots.bar, explanation[0]),
        (plots.heatmap, explanation),
        (plots.waterfall, explanation[2]),
        (plots.force, explanation[2]),
        (plots.scatter, explanation),
        (plots.scatter, explanation[:, "city"]),
        (plots.scatter, explanation[:, "bmi"]),
    ]:
        figure = plt.Figure()
        ax = figure.add_subplot()
        assert draw(e, ax=ax) is ax and ax.has_data()
        figure.canvas.draw()
        assert plt.get_fignums() == [other.figure.number] and plt.gca() is other and not other.has_data()
        new_axes = draw(e)
        assert new_axes.figure is not other.figure
        plt.close(new_axes.figure)
    assert dict(matplotlib.rcParams) == before
    plt.close("all")


def test_plots_show_the_numbers(explanation):
    order = np.argsort(-np.abs(explanation.values).mean(axis=0))
    names = [explanation.feature_names[j] for j in order]
    ax = plots.bar(explanation)
    np.testing.assert_allclose(
        [bar.get_width() for bar in ax.patches], np.abs(explanation.values).mean(axis=0)[order]
    )
    assert texts(ax) == names
    assert len(texts(plots.bar(explanation, max_display=None))) == 5
    ax = plots.bar(explanation, max_display=2)
    assert texts(ax) == [*names[:2], "sum of 3 other features"]
    ax = plots.beeswarm(explanation)
    np.testing.assert_allclose(ax.collections[0].get_offsets()[:, 0], explanation.values[:, order[0]])
    ax = plots.waterfall(explanation[4])
    ends = [ax.patches[0].get_x(), ax.patches[-1].get_x() + ax.patches[-1].get_width()]
    np.testing.assert_allclose(ends, [explanation[4].base_values, explanation[4].predictions])
    ax = plots.scatter(explanation, "bmi", color="age")
    np.testing.assert_allclose(
        ax.collections[0].get_offsets(), np.c_[explanation.data[:, 2].astype(float), explanation.values[:, 2]]
    )
    ax = plots.heatmap(explanation)
    shown = ax.images[0].get_array()
    np.testing.assert_allclose(shown, explanation.values[np.argsort(explanation.predictions)][:, order].T)
    plt.close("all")


def test_invalid_plots_are_refused(explanation, data):
    X, y = data
    three = riesz.Explainer(SVC(decision_function_shape="ovo").fit(X, np.digitize(y, [-0.3, 0.5])), X[:8])(
        X[:6]
    )
    grouped = riesz.Explainer(SVR().fit(X, y), X[:8], groups={"all": range(4)})(X[:6])
    assert plots.beeswarm(three[..., "0 vs 2"]).get_xlabel() == "Shapley value for 0 vs 2"
    assert plots.beeswarm(grouped).has_data()
    for act, kind, culprit in [
        (lambda: plots.beeswarm(three), ValueError, r"pick one, as in explanation\[..., '0 vs 1'\]"),
        (lambda: plots.beeswarm(explanation[0]), ValueError, "single row"),
        (lambda: plots.waterfall(explanation), ValueError, r"pick one, as in explanation\[0\]"),
        (lambda: plots.scatter(grouped), ValueError, "of several columns"),
        (lambda: plots.scatter(explanation, "weight"), KeyError, "weight"),
        (lambda: plots.bar(explanation, max_display=0), ValueError, "max_display"),
        (lambda: plots.bar(explanation, max_display=2.5), ValueError, "max_display = 2.5"),
        (lambda: plots.bar(explanation[:0]), ValueError, "no values"),
        (lambda: plots.bar(explanation.values), TypeError, "ndarray"),
    ]:
        with pytest.raises(kind, match=culprit):
            act()
    plt.close("all")


def test_bars_name_their_measure():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = riesz.KernelRidge(kernel=riesz.kernels.RBF(1.0), alpha=0.1).fit(X, X[:, 0])
    assert riesz.sobol_indices(model, X).plot().get_xlabel() == "Shapley effect"
    assert "SAGE value" in riesz.sage_values(model, X, X[:, 0]).plot().get_xlabel()


def test_standard_errors_are_whiskers():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(12, 6))
    function = lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2] * rows[:, 3] * rows[:, 4]
    estimated = riesz.Explainer(function, X, n_orders=2)(X[:3])
    assert estimated.exactness == "estimated" and estimated.std_error.max() > 0.01
    for ax in (plots.waterfall(estimated[1]), plots.bar(estimated[1])):
        widths = [line.get_segments()[0] for line in ax.collections if len(line.get_segments()) == 1]
        half_widths = sorted((segment[1, 0] - segment[0, 0]) / 2 for segment in widths)
        np.testing.assert_allclose(half_widths, np.sort(1.959964 * estimated.std_error[1]), rtol=1e-6)
    assert "95 % intervals of the estimates" in plots.bar(estimated[1]).get_xlabel()
    assert plots.scatter(estimated, "x0").get_ylabel().endswith("estimates")
    sage = riesz.sage_values(lambda rows: rows[:, 0], X, X[:, 0])
    assert "95 % intervals of the estimates" in sage.plot().get_xlabel()
    plt.close("all")
