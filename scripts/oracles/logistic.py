"""Reference answers for kernel logistic regression and for the choice of settings.

    python3 -m venv venv && venv/bin/pip install scikit-learn
    venv/bin/python scripts/oracles/logistic.py

writes crates/riesz/tests/data/logistic/: `scikit_learn.json` and `selection.json`.

Kernel logistic regression is linear logistic regression on features Φ with Φ Φᵀ = K: Φ = U Λ^½ from the
eigendecomposition of the gram matrix. scikit-learn's LogisticRegression is fitted to Φ (solver
newton-cholesky). Its solution is refined to rounding by scipy's minimize (trust-exact, with exact
derivatives) on the same objective, which is written here again. Without an intercept only scipy is used. The
expected results are values at the training rows and at new rows, intercepts, and the objective."""

import json
from pathlib import Path

import numpy as np
import scipy
import sklearn
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, LeaveOneOut, PredefinedSplit, cross_val_score
from sklearn.svm import SVC

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "crates/riesz/tests/data/logistic"
rng = np.random.default_rng(20250311)


def standardise(x):
    return np.round((x - x.mean(axis=0)) / x.std(axis=0), 4)


def datasets():
    cancer, iris = load_breast_cancer(), load_iris()
    a, b = rng.permutation(len(cancer.data))[:50], rng.permutation(150)[:50]
    noise = np.round(rng.normal(size=(50, 3)), 4)
    return {
        "cancer": (standardise(cancer.data[a][:, :6]), cancer.target[a]),
        "iris": (standardise(iris.data[b]), iris.target[b]),
        "noise": (noise, rng.integers(0, 4, size=50)),
        "coin": (noise, rng.integers(0, 2, size=50)),
    }


GRAM = {
    "rbf": lambda x, z, k: rbf_kernel(x, z, gamma=k["gamma"]),
    "linear": lambda x, z, k: linear_kernel(x, z),
    "poly": lambda x, z, k: polynomial_kernel(x, z, degree=k["degree"], gamma=k["gamma"], coef0=k["coef0"]),
}


def objective(theta, phi, y, w, ridge, outputs, intercept):
    """Value, gradient and Hessian of Σ w · log-loss + ridge/2 Σ‖θ‖², for one or several outputs."""
    n, r = phi.shape
    full = np.column_stack([phi, np.ones(n)]) if intercept else phi
    p = full.shape[1]
    t = theta.reshape(outputs, p)
    f = full @ t.T
    penalty = np.ones(p)
    if intercept:
        penalty[-1] = 0.0
    if outputs == 1:
        sign = np.where(y == 1, 1.0, -1.0)
        value = np.sum(w * np.logaddexp(0.0, -sign * f[:, 0]))
        prob = 1 / (1 + np.exp(-f[:, 0]))
        residual = (w * (prob - (y == 1)))[:, None]
        hessian = (full * (w * prob * (1 - prob))[:, None]).T @ full
    else:
        logp = f - logsumexp(f, axis=1, keepdims=True)
        value = -np.sum(w * logp[np.arange(n), y])
        prob = np.exp(logp)
        residual = w[:, None] * (prob - np.eye(outputs)[y])
        hessian = np.zeros((outputs * p, outputs * p))
        for c in range(outputs):
            for d in range(outputs):
                s = w * (prob[:, c] * (c == d) - prob[:, c] * prob[:, d])
                hessian[c * p : (c + 1) * p, d * p : (d + 1) * p] = (full * s[:, None]).T @ full
    value += ridge / 2 * np.sum(penalty * t**2)
    gradient = (residual.T @ full + ridge * penalty * t).ravel()
    return value, gradient, hessian + np.diag(np.tile(ridge * penalty, outputs))


def refined(name, start, args):
    """The minimum near ``start``, up to rounding: its value, gradient and place."""
    before = objective(start, *args)
    result = minimize(
        lambda t: objective(t, *args)[:2],
        start,
        jac=True,
        hess=lambda t: objective(t, *args)[2],
        method="trust-exact",
        options={"gtol": 1e-11},
    )
    theta = result.x
    for _ in range(3):
        _, g, h = objective(theta, *args)
        theta = theta - np.linalg.lstsq(h, g, rcond=None)[0]
    value, gradient, _ = objective(theta, *args)
    assert np.abs(gradient).max() < 1e-10 and value <= before[0] + 1e-9, (name, np.abs(gradient).max())
    assert np.abs(theta - start).max() < 1e-3, (name, np.abs(theta - start).max())
    return value, gradient, theta


def case(data, name, dataset, kernel, ridge, class_weight=None, sample_weight=None, intercept=True):
    """A case with its expected results."""
    x, y = data[dataset]
    new = np.round(x[:8] + 0.1 * rng.normal(size=(8, x.shape[1])), 4)
    gram = GRAM[kernel["kernel"]]
    values, vectors = np.linalg.eigh(gram(x, x, kernel))
    keep = values > 1e-13 * values[-1]
    phi = vectors[:, keep] * np.sqrt(values[keep])
    # Features of new rows: k(x, ·) U Λ^-½.
    phi_new = gram(new, x, kernel) @ vectors[:, keep] / np.sqrt(values[keep])
    w = np.ones(len(y)) if sample_weight is None else sample_weight.copy()
    if class_weight == "balanced":
        w *= (len(y) / (len(np.unique(y)) * np.bincount(y)))[y]
    elif class_weight is not None:
        w *= np.array([class_weight[str(c)] for c in range(y.max() + 1)])[y]
    classes = len(np.unique(y))
    outputs = 1 if classes == 2 else classes
    size = phi.shape[1] + intercept
    model = LogisticRegression(
        C=1 / ridge,
        fit_intercept=intercept,
        solver="newton-cholesky",
        tol=1e-10,
        max_iter=1000,
        # With sample weights, LogisticRegression balances sums of weights, while SVC and riesz balance
        # numbers of rows.
        class_weight=class_weight if class_weight == "balanced" and sample_weight is None else None,
    )
    model.fit(phi, y, sample_weight=sample_weight if model.class_weight else w)
    start = np.column_stack([model.coef_, model.intercept_]) if intercept else model.coef_
    args = (phi, y, w, ridge, outputs, intercept)
    value, gradient, theta = refined(name, start.ravel(), args)
    t = theta.reshape(outputs, size)
    b = t[:, -1] if intercept else np.zeros(outputs)
    b = b - b.mean() if outputs > 1 else b
    coef = t[:, :-1] if intercept else t
    print(
        name,
        "objective",
        value,
        "gradient",
        np.abs(gradient).max(),
        "sklearn off by",
        np.abs(theta - start.ravel()).max(),
    )
    return {
        "name": name,
        "dataset": dataset,
        "kernel": kernel,
        "ridge": ridge,
        "class_weight": class_weight,
        "sample_weight": None if sample_weight is None else sample_weight.tolist(),
        "fit_intercept": intercept,
        "new": new.tolist(),
        "intercept": b.tolist(),
        "values": (phi @ coef.T + b).tolist(),
        "values_new": (phi_new @ coef.T + b).tolist(),
        "objective": value,
    }


def logistic(data):
    cases = []
    add = lambda *args, **settings: cases.append(case(data, *args, **settings))
    weights = np.round(rng.uniform(0, 3, size=50), 2)
    weights[::7] = 0.0
    rbf, poly = {"kernel": "rbf", "gamma": 0.3}, {"kernel": "poly", "gamma": 0.2, "coef0": 1.0, "degree": 3}
    add("binary rbf", "cancer", rbf, 0.5)
    add("binary rbf, no intercept", "cancer", rbf, 0.5, intercept=False)
    add("binary linear", "cancer", {"kernel": "linear"}, 0.1)
    add("binary rbf, small ridge", "coin", rbf, 1e-3)
    add("binary poly, all weights", "coin", poly, 1.0, {"0": 2.0, "1": 0.3}, weights)
    add("three classes rbf", "iris", rbf, 0.2)
    add("three classes rbf, no intercept", "iris", rbf, 0.2, intercept=False)
    add("three classes linear, balanced", "iris", {"kernel": "linear"}, 0.05, "balanced")
    add("four classes of noise, balanced, weights", "noise", rbf, 0.01, "balanced", weights)
    add("four classes poly", "noise", poly, 1.0, {"0": 1.0, "1": 2.0, "2": 0.5, "3": 1.5})
    made_by = f"scripts/oracles/logistic.py, scikit-learn {sklearn.__version__}, scipy {scipy.__version__}"
    write("scikit_learn.json", {"made_by": made_by, "datasets": tables(data), "cases": cases})


def selection(data):
    ridges, multipliers = [10.0, 1.0, 0.1, 0.01], [2.0, 1.0, 0.5]
    lengthscale = 1.5
    x = data["noise"][0]
    y = np.round(np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.3 * rng.normal(size=50), 4)
    fold = rng.permutation(50) % 5
    gammas = [1 / (2 * (m * lengthscale) ** 2) for m in multipliers]

    def grid(estimator, axes, xs, ys, cv, scoring):
        search = GridSearchCV(estimator, axes, cv=cv, scoring=scoring, refit=False).fit(xs, ys)
        table = {}
        for i, p in enumerate(search.cv_results_["params"]):
            key = (gammas.index(p["gamma"]), list(axes.values())[-1].index(list(p.values())[0]))
            table[key] = [
                float(search.cv_results_[f"split{s}_test_score"][i]) for s in range(search.n_splits_)
            ]
        return table

    split = PredefinedSplit(fold)
    axes = {"gamma": gammas, "alpha": ridges}
    loo = grid(KernelRidge(kernel="rbf"), axes, x, y, LeaveOneOut(), "neg_mean_squared_error")
    ridge = grid(KernelRidge(kernel="rbf"), axes, x, y, split, "neg_mean_squared_error")
    iris, labels = data["iris"]
    svc = {}
    for m, g in enumerate(gammas):
        for c, cost in enumerate([0.1, 1.0, 10.0]):
            model = SVC(C=cost, gamma=g, tol=1e-7, decision_function_shape="ovo")
            svc[(m, c)] = cross_val_score(model, iris, labels, cv=split, scoring="accuracy").tolist()
    # The linear kernel is plain LogisticRegression.
    logistic = [
        (
            -cross_val_score(
                LogisticRegression(C=1 / r, tol=1e-12, solver="newton-cholesky", max_iter=1000),
                iris,
                labels,
                cv=split,
                scoring="neg_log_loss",
            )
        ).tolist()
        for r in ridges
    ]
    rows = lambda t, width: [[t[(m, r)] for r in range(width)] for m in range(len(multipliers))]
    write(
        "selection.json",
        {
            "made_by": f"scripts/oracles/logistic.py with scikit-learn {sklearn.__version__}",
            "x": x.tolist(),
            "y": y.tolist(),
            "iris": iris.tolist(),
            "labels": labels.tolist(),
            "fold": fold.tolist(),
            "ridges": ridges,
            "multipliers": multipliers,
            "lengthscale": lengthscale,
            "costs": [0.1, 1.0, 10.0],
            # Mean squared errors, multipliers × ridges: for loo the mean over rows, otherwise one for each
            # fold.
            "loo": [[-np.mean(v) for v in row] for row in rows(loo, 4)],
            "ridge_folds": [[(-np.array(v)).tolist() for v in row] for row in rows(ridge, 4)],
            "svc_accuracy": rows(svc, 3),
            "logistic_log_loss": logistic,
        },
    )


def tables(data):
    return {k: {"x": x.tolist(), "y": y.tolist()} for k, (x, y) in data.items()}


def write(name, value):
    (OUT / name).write_text(json.dumps(value, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    data = datasets()
    logistic(data)
    selection(data)
