"""Makes cases/*.json: models, games and expected values that are computed without riesz.

Interventional values come from shap's KernelExplainer with all coalitions, on predictions of scikit-learn.
The values of other games, and of kernels that scikit-learn lacks, come from enumeration of all coalitions in
numpy. Run with shap and scikit-learn installed: python scripts/oracles/cases.py"""

import itertools
import json
import math
import pathlib
import warnings

import numpy as np
import shap
import sklearn
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR

ROOT = pathlib.Path(__file__).resolve().parents[2]
rng = np.random.default_rng(20261120)


def enumerate_shapley(value, d):
    v = {s: value(s) for r in range(d + 1) for s in itertools.combinations(range(d), r)}
    phi = np.zeros(d)
    for s, base in v.items():
        if len(s) == d:
            continue
        w = math.factorial(len(s)) * math.factorial(d - 1 - len(s)) / math.factorial(d)
        for j in set(range(d)) - set(s):
            phi[j] += w * (v[tuple(sorted((*s, j)))] - base)
    return phi


def stationary(profile, columns, lengthscale, isotropic=False, **extra):
    return dict(
        factor="stationary",
        profile=profile,
        **extra,
        columns=columns,
        length_scale=lengthscale,
        ard=True,
        isotropic=isotropic,
    )


def save(
    name,
    source,
    game,
    kernel,
    points,
    coef,
    intercept,
    rows,
    values,
    base,
    predictions,
    background=None,
    **extra,
):
    number = lambda a: np.asarray(a, dtype=float).tolist()
    case = dict(
        name=name,
        source=source,
        game=game,
        kernel=kernel,
        points=number(points),
        coef=number(coef),
        intercept=number(intercept),
        background=None if background is None else number(background),
        rows=number(rows),
        values=number(values),
        base_values=number(base),
        predictions=number(predictions),
    )
    case.update(extra)
    (ROOT / "cases" / f"{name}.json").write_text(json.dumps(case, indent=None, separators=(",", ":")) + "\n")


def with_shap(name, model, predict, kernel, points, coef, intercept, x, background):
    """Interventional values by shap from all coalitions. The error of shap's solver is about 1e-8."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explainer = shap.KernelExplainer(predict, background)
        values = np.asarray(
            explainer.shap_values(x, nsamples=2 ** x.shape[1] + 10, l1_reg=False, silent=True)
        )
    values = values[:, None, :] if values.ndim == 2 else np.moveaxis(values, 2, 1)
    predictions = predict(x).reshape(len(x), -1)
    base = predict(background).reshape(len(background), -1).mean(0)
    save(
        name,
        f"shap {shap.__version__} KernelExplainer, all coalitions, on scikit-learn {sklearn.__version__} "
        f"{model}",
        "interventional",
        kernel,
        points,
        coef,
        intercept,
        x,
        values,
        base,
        predictions,
        background,
    )


def sklearn_cases():
    n, d = 60, 7
    x = rng.normal(size=(n, d))
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + 0.3 * x[:, 3]
    background, rows = x[:12], rng.normal(size=(3, d))
    gaussian = lambda gamma: stationary("gaussian", list(range(d)), [math.sqrt(1 / (2 * gamma))] * d)
    term = lambda factor, scale=1.0: dict(terms=[dict(scale=scale, factors=[factor])])

    svr = SVR(gamma=0.2, C=5, epsilon=0.05, tol=1e-8).fit(x, y)
    with_shap(
        "svr_rbf",
        "SVR",
        svr.predict,
        term(gaussian(0.2)),
        svr.support_vectors_,
        svr.dual_coef_.T,
        svr.intercept_,
        rows,
        background,
    )

    krr = KernelRidge(kernel="laplacian", gamma=0.3, alpha=0.1).fit(x, np.c_[y, -(x[:, 4] ** 2)])
    with_shap(
        "krr_laplacian_two_outputs",
        "KernelRidge(laplacian)",
        krr.predict,
        term(stationary("exponential", list(range(d)), [1 / 0.3] * d)),
        x,
        krr.dual_coef_,
        [0, 0],
        rows,
        background,
    )

    length = np.linspace(0.8, 3, d)
    gp = GaussianProcessRegressor(ConstantKernel(2.5) * RBF(length), alpha=0.1, optimizer=None).fit(x, y)
    with_shap(
        "gp_rbf_ard",
        "GaussianProcessRegressor(C * RBF, ARD)",
        gp.predict,
        term(stationary("gaussian", list(range(d)), length.tolist()), 2.5),
        x,
        gp.alpha_[:, None],
        [0],
        rows,
        background,
    )

    svc = SVC(gamma=0.15, C=2, tol=1e-8).fit(x, y > 0)
    with_shap(
        "svc_rbf_decision",
        "SVC.decision_function",
        svc.decision_function,
        term(gaussian(0.15)),
        svc.support_vectors_,
        svc.dual_coef_.T,
        svc.intercept_,
        rows,
        background,
    )


PROFILES = {
    "gaussian": lambda r: np.exp(-(r**2) / 2),
    "exponential": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r),
    "matern52": lambda r: (1 + math.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-math.sqrt(5) * r),
    "cauchy": lambda r: 1 / (1 + r**2),
}


def enumerated_cases():
    """A sum of two products over five columns with a different factor on each, under every game."""
    n, d = 9, 5
    points, background, rows = rng.normal(size=(n, d)), rng.normal(size=(4, d)), rng.normal(size=(2, d))
    coef, intercept = rng.normal(size=(n, 1)), [0.7]
    names = list(PROFILES)
    length = [0.7, 1.1, 1.4, 0.9, 2.0]
    factor = lambda j, u, v: PROFILES[names[j]](np.abs(u - v) / length[j])
    terms = [(1.5, [0, 1, 2, 3, 4]), (0.4, [1, 3])]
    kernel = dict(
        terms=[
            dict(scale=s, factors=[stationary(names[j], [j], [length[j]]) for j in columns])
            for s, columns in terms
        ]
    )

    def game(name, x):
        def side(i, j, present):
            if present:
                return factor(j, points[i, j], x[j])
            if name == "functional":
                return 1.0
            if name == "baseline":
                return factor(j, points[i, j], background[0, j])
            return np.mean([factor(j, points[i, j], b[j]) for b in background])

        def value(s):
            if name == "interventional":
                return np.mean(
                    [predict(np.array([x[j] if j in s else b[j] for j in range(d)])) for b in background]
                )
            return intercept[0] + sum(
                scale * coef[i, 0] * math.prod(side(i, j, j in s) for j in columns)
                for i in range(n)
                for scale, columns in terms
            )

        return value

    def predict(x):
        return intercept[0] + sum(
            scale * coef[i, 0] * math.prod(factor(j, points[i, j], x[j]) for j in columns)
            for i in range(n)
            for scale, columns in terms
        )

    for name in ["functional", "baseline", "interventional", "marginal-product"]:
        values = [[enumerate_shapley(game(name, x), d)] for x in rows]
        reference = background[:1] if name == "baseline" else background
        save(
            f"mixed_{name}",
            "enumeration of all coalitions in numpy",
            name,
            kernel,
            points,
            coef,
            intercept,
            rows,
            values,
            [game(name, rows[0])(())],
            [[predict(x)] for x in rows],
            None if name == "functional" else reference,
        )


def observational_case():
    """A Gaussian kernel under the observational game: absent columns have their centred conditional mean
    embedding given the present ones."""
    rng = np.random.default_rng(20261121)
    n, d, ridge = 11, 5, 0.02
    points, reference, rows = rng.normal(size=(n, d)), rng.normal(size=(8, d)), rng.normal(size=(2, d))
    coef, intercept = rng.normal(size=(n, 2)), np.array([0.7, -1.1])
    length = np.array([0.9, 1.3, 1.7, 1.1, 2.0])
    gram = lambda u, v, s: np.exp(-(((u[:, None] - v)[:, :, s] / length[s]) ** 2).sum(2) / 2)
    predict = lambda x: intercept + gram(x, points, list(range(d))) @ coef
    mean = predict(reference).mean(0)

    def value(x, s):
        if len(s) == d:
            return predict(x[None])[0]
        if not s:
            return mean
        present = list(s)
        ridged = gram(reference, reference, present) + ridge * len(reference) * np.eye(len(reference))
        hybrid = reference.copy()
        hybrid[:, present] = x[present]
        return mean + np.linalg.solve(ridged, gram(reference, x[None], present))[:, 0] @ (
            predict(hybrid) - mean
        )

    values = [[enumerate_shapley(lambda s: value(x, s)[o], d) for o in range(2)] for x in rows]
    save(
        "gaussian_observational",
        "enumeration of all coalitions in numpy",
        "observational",
        dict(terms=[dict(scale=1.0, factors=[stationary("gaussian", list(range(d)), length.tolist())])]),
        points,
        coef,
        intercept,
        rows,
        values,
        mean,
        predict(rows),
        reference,
        ridge=ridge,
    )


sklearn_cases()
enumerated_cases()
observational_case()
