"""Compares Shapley values of one scikit-learn model by riesz, shapiq, shap and numpy, on the same rows with
one process and one thread.

    python python/benches/explain.py [--quick]

prints milliseconds per row, and the largest error of a method in the first rows relative to the largest
value.
The reference for errors is the best published form, the exact Gauss-Legendre rule with ceil(d/2) nodes in log
space, in numpy."""

import os

for name in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
):
    os.environ[name] = "1"

import argparse
import warnings
from importlib.metadata import version

import numpy as np
import shap
import sklearn
from shapiq.explainer.product_kernel import ProductKernelExplainer
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from timing import milliseconds, record

import riesz

warnings.simplefilter("ignore")
N, BACKGROUND, BATCH = 1000, 100, 100


def quadrature(model, row, background=None):
    """Shapley values of one row by the exact Gauss-Legendre rule, in log space."""
    points, coef = model.X_train_, model.alpha_
    d = points.shape[1]
    x, w = np.polynomial.legendre.leggauss((d + 1) // 2)
    nodes, weights = (x + 1) / 2, w / 2
    factor = lambda v: np.exp(-((points - v) ** 2) / (2 * model.kernel_.length_scale**2))
    a, out = factor(row), 0.0
    chunk = max(1, (1 << 22) // a.size)
    for b in [np.ones_like(a)] if background is None else map(factor, background):
        total = np.zeros_like(a)
        for start in range(0, len(nodes), chunk):
            t = nodes[start : start + chunk, None, None]
            logs = np.log((1 - t) * b + t * a)
            total += np.einsum(
                "q,qnd->nd", weights[start : start + chunk], np.exp(logs.sum(axis=2, keepdims=True) - logs)
            )
        out = out + coef @ ((a - b) * total)
    return out if background is None else out / len(background)


def show(game, d, method, ms, ours, values, exact):
    error = np.abs(np.asarray(values)[: len(exact)] - exact).max() / np.abs(exact).max()
    if method != "riesz":
        background = {"interventional": BACKGROUND, "poly, degree 3": BACKGROUND // 2}.get(game)
        sizes = f"n = {N}, d = {d}" + (f", background {background}" if background else "")
        record(game, sizes, ours, method, ms, unit="ms/row", reference_error=error)
    print(f"{game:14} {d:4}  {method:34} {ms:12.3f} {ms / ours:9.0f}  {error:9.1e}", flush=True)


def fitted(d, rng):
    X = rng.normal(size=(N, d))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + X[:, 2] * X[:, 3] + 0.1 * rng.normal(size=N)
    model = GaussianProcessRegressor(RBF(np.sqrt(d)), alpha=0.1, optimizer=None).fit(X, y)
    return model, rng.normal(size=(BATCH, d)), rng.normal(size=(BACKGROUND, d))


def functional(sizes, rng):
    for d in sizes:
        model, rows, _ = fitted(d, rng)
        exact_ms, exact = milliseconds(lambda: [quadrature(model, row) for row in rows[:3]], 3, min_runs=1)
        explainer = riesz.Explainer(model, game="functional", n_jobs=1)
        ours, actual = milliseconds(lambda: explainer(rows).values, BATCH)
        show("functional", d, "riesz", ours, ours, actual, exact)
        show("functional", d, "numpy quadrature, ceil(d/2) nodes", exact_ms, ours, exact, exact)
        theirs = ProductKernelExplainer(model=model, max_order=1)
        subset = rows[:3] if d <= 50 else rows[:1]
        act = lambda: [theirs.explain(row).get_n_order_values(1) for row in subset]
        ms, actual = milliseconds(act, len(subset), min_runs=1)
        show("functional", d, "shapiq ProductKernelExplainer", ms, ours, actual, exact[: len(subset)])


def interventional(sizes, rng):
    for d in sizes:
        model, rows, background = fitted(d, rng)
        exact_ms, exact = milliseconds(
            lambda: [quadrature(model, row, background) for row in rows[:2]], 2, min_runs=1
        )
        explainer = riesz.Explainer(model, background, n_jobs=1)
        ours, actual = milliseconds(lambda: explainer(rows[:50]).values, 50)
        show("interventional", d, "riesz", ours, ours, actual, exact)
        show("interventional", d, "numpy quadrature, ceil(d/2) nodes", exact_ms, ours, exact, exact)
        masker = shap.maskers.Independent(background, max_samples=BACKGROUND)
        if d <= 10:
            theirs = shap.explainers.Exact(model.predict, masker)
            ms, actual = milliseconds(lambda: theirs(rows[:2], silent=True).values, 2, min_runs=1)
            show("interventional", d, "shap Exact", ms, ours, actual, exact)
        theirs = shap.explainers.Permutation(model.predict, masker, seed=0)
        ms, actual = milliseconds(lambda: theirs(rows[:2], silent=True).values, 2, min_runs=1)
        show("interventional", d, "shap Permutation", ms, ours, actual, exact)
        kernel = shap.KernelExplainer(model.predict, background)
        for name, options in [
            ("shap KernelExplainer", {}),
            ("shap KernelExplainer, l1_reg=False", {"l1_reg": False}),
        ]:
            ms, actual = milliseconds(
                lambda: kernel.shap_values(rows[:1], silent=True, **options), 1, min_runs=1
            )
            show("interventional", d, name, ms, ours, actual, exact[:1])


def polynomial(rng):
    """Compares a polynomial kernel, which is not a product, with all coalitions and with shap's sample of
    coalitions, for 50 background rows."""
    d = 10
    _, rows, background = fitted(d, rng)
    X = rng.normal(size=(N, d))
    model = KernelRidge(kernel="poly", degree=3, alpha=1.0).fit(X, X[:, 0] * X[:, 1] + X[:, 2] ** 2)
    background = background[:50]
    explainer = riesz.Explainer(model, background, n_jobs=1)
    ours, actual = milliseconds(lambda: explainer(rows[:50]).values, 50)
    kernel = shap.KernelExplainer(model.predict, background)
    all_ms, exact = milliseconds(
        lambda: kernel.shap_values(rows[:1], nsamples=2**d, l1_reg=False, silent=True), 1, min_runs=1
    )
    show("poly, degree 3", d, "riesz", ours, ours, actual, exact)
    show("poly, degree 3", d, "shap KernelExplainer, all coalitions", all_ms, ours, exact, exact)
    ms, actual = milliseconds(
        lambda: kernel.shap_values(rows[:1], nsamples=256, l1_reg=False, silent=True), 1, min_runs=1
    )
    show("poly, degree 3", d, "shap KernelExplainer, 256 of them", ms, ours, actual, exact)


def text(rng):
    """Times a support vector machine on sparse text: 10,000 support vectors and 5,000 words, of which each
    document has 50."""
    n, d, words = 10_000, 5_000, 50

    def documents(count):
        out = np.zeros((count, d))
        for row in out:
            used = (d * rng.random(words) ** 3).astype(int)
            row[used] = 0.1 + rng.random(words)
            row /= np.linalg.norm(row)
        return out

    points = documents(n)
    model = riesz.Expansion(riesz.kernels.RBF(0.7), points, rng.choice([-1.0, 1.0], n))
    del points
    rows = documents(50)
    for game, background in [("functional", None), ("baseline", np.zeros((1, d)))]:
        explainer = riesz.Explainer(model, background, game=game, n_jobs=1)
        ms, explanation = milliseconds(lambda: explainer(rows), len(rows), min_runs=1)
        share = np.abs(explanation.residual).max() / np.abs(explanation.values).max()
        print(
            f"{game:14} {d:4}  {'riesz, text: 10,000 support vectors':34} {ms:12.3f} {'':9}  {share:9.1e} "
            "(residual)"
        )
        sizes = f"{n:,} support vectors, d = {d}"
        record(f"{game}, text", sizes, ms, unit="ms/row", relative_residual=share)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    quick = parser.parse_args().quick
    rng = np.random.default_rng(0)
    print(
        f"riesz {riesz.__version__}, scikit-learn {sklearn.__version__}, shap {shap.__version__}, shapiq "
        f"{version('shapiq')}, "
        f"numpy {np.__version__}; one thread; Gaussian process with {N} points, batches of {BATCH} (50 "
        "interventional) rows, "
        f"{BACKGROUND} background rows"
    )
    print(f"{'game':14} {'d':>4}  {'method':34} {'ms per row':>12} {'/ riesz':>9}  {'error':>9}")
    functional([5, 20] if quick else [5, 10, 20, 50, 100, 200], rng)
    interventional([10] if quick else [10, 20, 50], rng)
    polynomial(rng)
    if not quick:
        text(rng)


main()
