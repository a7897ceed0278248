"""Compares models of duels with numpy, scikit-learn and choix, if it is installed.

    .venv/bin/python python/benches/preferences.py

The Bradley-Terry model is compared with choix and with scikit-learn on the sparse design matrix. The fit
through landmarks is compared with the same Newton steps in numpy, by conjugate gradients without a
preconditioner. Laplace's evidence and its gradient are compared with the plain formulas. Explanations of
duels are compared with tables of items in numpy, and explanations along random orders with exact values. All
sides use one thread, unless the environment sets another number."""

from __future__ import annotations

import argparse
import math
import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_array
from scipy.special import expit, log_expit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from timing import milliseconds, record

import riesz
from riesz import _core
from riesz.kernels import RBF


def data(n, N, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, d))
    left, right = rng.integers(N, size=(2, 2 * n))
    left, right = left[left != right][:n], right[left != right][:n]
    a, b = X[left], X[right]
    g = 1.5 * (a[:, 0] - b[:, 0]) + 2 * (a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1])
    return X, left, right, (rng.random(n) < expit(g)).astype(float)


def print_table(title, rows):
    print(f"\n{title}")
    for name, ms, note in rows:
        print(f"  {name:34} {ms / 1e3:9.3f} s   {note}")


def record_seconds(case, sizes, riesz_ms, reference=None, reference_ms=None):
    peer = () if reference is None else (reference, reference_ms / 1e3)
    record(case, sizes, riesz_ms / 1e3, *peer, unit="s", threads=os.environ["RAYON_NUM_THREADS"])


def bradley_terry(n=40_000, N=800):
    _, left, right, won = data(n, N, 3)
    pairs = np.column_stack([left, right])
    signs = np.concatenate([np.ones(n), -np.ones(n)])
    design = coo_array(
        (signs, (np.tile(np.arange(n), 2), np.concatenate([left, right]))), shape=(n, N)
    ).tocsr()
    rows, ridge = [], 0.1
    fit = riesz.PreferenceClassifier("bradley_terry", ridge=ridge)
    ms, model = milliseconds(lambda: fit.fit(np.zeros((N, 1)), pairs, outcome=won), 1, 7)
    abilities = np.array([model.abilities_[i] for i in range(N)])
    rows.append(("riesz", ms, "from pairs of numbers; with standard deviations and their covariance"))
    logistic = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-8)
    ms, reference = milliseconds(lambda: logistic.fit(design, won), 1, 7)
    apart = np.abs(reference.coef_[0] - abilities).max()
    rows.append(
        (
            "scikit-learn (lbfgs, sparse)",
            ms,
            f"from a sparse design matrix; abilities alone, which differ by {apart:.0e}",
        )
    )
    tuned = riesz.PreferenceClassifier("bradley_terry")
    ms, model = milliseconds(lambda: tuned.fit(np.zeros((N, 1)), pairs, outcome=won), 1)
    rows.append(("riesz, by default", ms, f"also chooses the ridge, {model.ridge_:.2f}"))
    grid = GridSearchCV(logistic, {"C": np.logspace(-4, 4, 10)}, scoring="neg_log_loss")
    ms, reference = milliseconds(lambda: grid.fit(design, won), 1, min_runs=1)
    chosen = 1 / reference.best_params_["C"]
    rows.append(("scikit-learn, 5-fold grid search", ms, f"chooses among 10 ridges, {chosen:.2f}"))
    try:
        import choix
    except ImportError:
        print("choix is not there")
    else:
        wins = np.where(won[:, None] == 1, pairs, pairs[:, ::-1]).tolist()
        ms, reference = milliseconds(lambda: choix.ilsr_pairwise(N, wins, alpha=1e-3), 1, min_runs=1)
        rows.append(
            (
                "choix ILSR",
                ms,
                f"correlation {np.corrcoef(reference, abilities)[0, 1]:.4f} (another penalty)",
            )
        )
        # The penalty of choix is alpha β².
        ms, reference = milliseconds(
            lambda: choix.opt_pairwise(N, wins, alpha=ridge / 2, method="Newton-CG"), 1, min_runs=1
        )
        rows.append(("choix Newton-CG", ms, f"differs by {np.abs(reference - abilities).max():.0e}"))
    print_table(f"Bradley-Terry, {n:,} duels among {N} items", rows)
    seconds, sizes = {name: ms for name, ms, _ in rows}, f"{n:,} duels, {N} items"
    for name, ms in seconds.items():
        if name == "scikit-learn, 5-fold grid search":
            record_seconds("Bradley-Terry, chosen ridge", sizes, seconds["riesz, by default"], name, ms)
        elif not name.startswith("riesz"):
            record_seconds("Bradley-Terry", sizes, seconds["riesz"], name, ms)


def newton_cg(F, left, right, won, utility, generalised):
    """Newton steps by conjugate gradients for a skew-symmetric V (q × q) over the features and a constant,
    whose entries have the prior standard deviations `scale`. Returns the log odds and the number of
    products."""
    F = np.hstack([np.ones((len(F), 1)), F])
    q = F.shape[1]
    scale = np.full((q, q), np.sqrt(generalised))
    scale[0], scale[:, 0] = np.sqrt(utility), np.sqrt(utility)
    upper = np.triu(np.ones((q, q)), 1)
    n, N = len(left), len(F)

    def log_odds(v):
        V = scale * upper * v
        return np.einsum("ij,ij->i", (F @ (V - V.T))[left], F[right])

    def adjoint(m):
        M = coo_array((m, (left, right)), shape=(N, N)).tocsr()
        G = F.T @ (M @ F)
        return scale * upper * (G - G.T)

    v, g = np.zeros((q, q)), np.zeros(n)
    products, start = 0, None
    for _ in range(50):
        p = expit(g)
        slope = adjoint(won - p) - v
        size = np.linalg.norm(slope)
        start = start or size
        if size <= 1e-6 * start:
            break
        W, x, r = p * (1 - p), np.zeros((q, q)), slope
        direction, rr = r, (r * r).sum()
        while np.sqrt((r * r).sum()) > min(0.1, size / start) * size:
            image = adjoint(W * log_odds(direction)) + direction
            products += 1
            t = rr / (direction * image).sum()
            x, r = x + t * direction, r - t * image
            rr, old = (r * r).sum(), rr
            direction = r + rr / old * direction
        value, t = log_expit((2 * won - 1) * g).sum() - 0.5 * (v * v).sum(), 1.0
        step = log_odds(x)
        while log_expit((2 * won - 1) * (g + t * step)).sum() - 0.5 * ((v + t * x) ** 2).sum() < value - 1e-9:
            t /= 2
        v, g = v + t * x, g + t * step
    return g, products


def landmarks(n=40_000, N=800, d=6, q=250, length_scale=3.0):
    X, left, right, won = data(n, N, d)
    pairs = np.column_stack([left, right])
    options = {"kernel": RBF([length_scale] * d), "optimizer": None, "n_landmarks": q, "random_state": 0}
    fit = riesz.PreferenceClassifier(**options, n_samples=0)
    ms, model = milliseconds(lambda: fit.fit(X, pairs, outcome=won), 1, min_runs=1)
    scores = model.decision_function(X[left], X[right])
    rows = [("riesz", ms, f"{model.n_landmarks_} landmarks, to 1e-6")]

    def plain():
        def k(A, B):
            return np.exp(-((A[:, None] - B[None]) ** 2).sum(-1) / (2 * length_scale**2))

        Z = X[np.random.default_rng(0).permutation(N)[:q]]
        F = np.linalg.solve(np.linalg.cholesky(k(Z, Z) + 1e-8 * np.eye(q)), k(Z, X)).T
        return newton_cg(F, left, right, won, 2.25, 2.25)

    ms, (g, products) = milliseconds(plain, 1, min_runs=1)
    apart = np.abs(expit(g) - expit(scores)).max()
    rows.append(
        ("numpy", ms, f"to 1e-6, {products} products; probabilities differ by {apart:.0e} (other landmarks)")
    )
    drawn = riesz.PreferenceClassifier(**options, n_samples=8)
    ms, _ = milliseconds(lambda: drawn.fit(X, pairs, outcome=won), 1, min_runs=1)
    rows.append(("riesz with 8 draws", ms, ""))
    print_table(f"Landmarks, {n:,} duels among {N} items with {d} features", rows)
    sizes = f"{n:,} duels, {N} items, {d} features, {q} landmarks"
    record_seconds("landmarks", sizes, rows[0][1], "numpy", rows[1][1])
    record_seconds("landmarks with 8 draws", sizes, rows[2][1])


def evidence_in_numpy(X, left, right, won, length_scale, utility, generalised):
    n, ell = len(left), np.asarray(length_scale)
    squares = [(X[:, None, j] - X[None, :, j]) ** 2 / ell[j] ** 2 for j in range(X.shape[1])]
    K = np.exp(-0.5 * sum(squares))

    def parts(A):
        return A[np.ix_(left, left)], A[np.ix_(right, right)], A[np.ix_(left, right)], A[np.ix_(right, left)]

    ll, rr, lr, rl = parts(K)
    pgp, gpgp = ll + rr - lr - rl, ll * rr - lr * rl
    G = utility * pgp + generalised * gpgp
    g, alpha, value = np.zeros(n), np.zeros(n), -np.inf
    while True:
        p = expit(g)
        root = np.sqrt(p * (1 - p))
        factor = cho_factor(np.eye(n) + root[:, None] * G * root, lower=True)
        slope = won - p
        if np.abs(slope - alpha).max() < 1e-10:
            break
        b = root**2 * g + slope
        alpha = b - root * cho_solve(factor, root * (G @ b))
        g = G @ alpha
    value = log_expit((2 * won - 1) * g).sum() - 0.5 * alpha @ g - np.log(np.diag(factor[0])).sum()
    R = root[:, None] * cho_solve(factor, np.diag(root))
    s2 = -0.5 * (np.diag(G) - np.einsum("ij,ji->i", G, R @ G)) * (p * (1 - p) * (1 - 2 * p))
    u = s2 - R @ (G @ s2)

    def slope_of(D):
        Da = D @ alpha
        return 0.5 * alpha @ Da - 0.5 * (R * D).sum() + u @ Da

    gradient = [slope_of(utility * pgp), slope_of(generalised * gpgp)]
    for square in squares:
        Ell, Err, Elr, Erl = parts(K * square)
        D = utility * (Ell + Err - Elr - Erl) + generalised * (Ell * rr + ll * Err - Elr * rl - lr * Erl)
        gradient.append(slope_of(D))
    return value, np.array(gradient)


def evidence(sizes=(500, 1000, 2000), N=400, d=6):
    rows = []
    for n in sizes:
        X, left, right, won = data(3 * n, N, d)
        _, first = np.unique(np.sort(np.column_stack([left, right]), axis=1), axis=0, return_index=True)
        left, right, won = (v[np.sort(first)[:n]] for v in (left, right, won))
        names, levels = [f"x{j}" for j in range(d)], [None] * d
        text = RBF([2.0] * d)._fitted_to(X, names, levels)._to_json(names, levels)
        arguments = (names, levels, X), (left.tolist(), right.tolist(), won.tolist(), None)
        ms, ours = milliseconds(lambda: _core.preference_evidence(text, *arguments, [2.25, 2.25]), 1)
        rows.append((f"riesz, {n} pairs", ms, ""))
        ms, (value, gradient) = milliseconds(
            lambda: evidence_in_numpy(X, left, right, won, [2.0] * d, 2.25, 2.25), 1
        )
        # The third entry of the gradient belongs to the kernel's scale, which is fixed.
        apart = max(abs(value - ours[0]), np.abs(gradient - np.delete(ours[1], 2)).max())
        rows.append((f"numpy, {n} pairs", ms, f"differs by {apart:.0e}"))
        sizes = f"{n} pairs, {N} items, {d} features"
        record_seconds("Laplace's evidence and gradient", sizes, rows[-2][1], "numpy", ms)
    print_table(f"Laplace's evidence and {d + 2} slopes", rows)


def worths_in_numpy(game, model, X, left, right, length_scale, ridge):
    """Values of coalitions, duels × coalitions, by tables of items (or pairs of items): the best published
    form, vectorised."""
    points, coef, d = model.expansion_.points, model.expansion_.coef[:, 0], X.shape[1]
    items, places = np.unique(np.vstack(np.hsplit(points, 2)), axis=0, return_inverse=True)
    first, second = np.split(places.ravel(), 2)
    A, c = np.zeros((len(items), len(items))), np.zeros(len(items))
    np.add.at(A, (first, second), model.generalized_variance_ * coef)
    np.add.at(c, first, model.utility_variance_ * coef)
    u, v = np.nonzero(A)
    between = np.exp(-((items[:, None] - X[None]) ** 2) / (2 * length_scale**2))
    sides = [np.exp(-((items[:, None] - side[None]) ** 2) / (2 * length_scale**2)) for side in (left, right)]
    known = [np.exp(-((X[:, None] - side[None]) ** 2) / (2 * length_scale**2)) for side in (X, left, right)]
    out = np.empty((len(left), 2**d))
    for mask in range(2**d):
        on = (mask >> np.arange(d) & 1).astype(bool)
        present = [side[:, :, on].prod(axis=2) for side in sides]
        absent = between[:, :, ~on].prod(axis=2)
        if game == "paired":
            means = (absent[u] * absent[v]).mean(axis=1) * A[u, v]
            lone = [present[0] * absent.mean(axis=1)[:, None], present[1] * absent.mean(axis=1)[:, None]]
            out[:, mask] = (
                (present[0][u] * present[1][v] * means[:, None]).sum(axis=0) + c @ lone[0] - c @ lone[1]
            )
            continue
        if game == "observational" and on.any() and not on.all():
            gram = known[0][:, :, on].prod(axis=2) + ridge * len(X) * np.eye(len(X))
            weights = [np.linalg.solve(gram, k[:, :, on].prod(axis=2)) for k in known[1:]]
            weights = [w + (1 - w.sum(axis=0)) / len(X) for w in weights]
        elif game == "observational" and on.all():
            weights = None
        else:
            weights = [np.full((len(X), len(left)), 1 / len(X))] * 2
        left_side, right_side = (
            present if weights is None else (t * (absent @ w) for t, w in zip(present, weights))
        )
        out[:, mask] = (left_side * (A @ right_side)).sum(axis=0) + c @ left_side - c @ right_side
    return out


def explaining(N=400, n=600, d=7, Q=60, ridge=1e-3):
    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(N, d)), rng.integers(N, size=(n, 2))
    model = riesz.PreferenceClassifier(kernel=RBF([2.0] * d), optimizer=None).fit(
        X, pairs[pairs[:, 0] != pairs[:, 1]]
    )
    left, right = X[rng.integers(N, size=Q)], X[rng.integers(N, size=Q)]
    subsets = (np.arange(2**d)[:, None] >> np.arange(d) & 1).sum(axis=1)
    rows = []
    for game in ("independent", "paired", "observational"):
        options = {"conditional_ridge": ridge} if game == "observational" else {}
        ms, why = milliseconds(lambda: model.explain(left, right, game=game, **options), 1)
        rows.append((f"riesz, {game}", ms, f"exact, residual {why.certificate.residual:.0e}"))
        ms, coalition_values = milliseconds(
            lambda: worths_in_numpy(game, model, X, left, right, 2.0, ridge), 1, min_runs=1
        )
        values = np.zeros((Q, d))
        for j in range(d):
            masks = np.flatnonzero(~(np.arange(2**d) >> j & 1).astype(bool))
            weight = 1 / (d * np.array([math.comb(d - 1, k) for k in subsets[masks]]))
            values[:, j] = (coalition_values[:, masks | 1 << j] - coalition_values[:, masks]) @ weight
        rows.append((f"numpy, {game}", ms, f"differs by {np.abs(values - why.values).max():.0e}"))
        sizes = f"{Q} duels, {n} duels learnt, {N} items, {d} features"
        record_seconds(f"explained, {game}", sizes, rows[-2][1], "numpy", ms)
    print_table(f"Explaining {Q} duels, {2**d} coalitions, {N} items, {n} duels learnt", rows)


def orders(N=800, n=8000, d=20, landmarks=200, background=100, Q=5):
    X, left, right, won = data(n, N, d)
    fit = riesz.PreferenceClassifier(kernel=RBF([4.0] * d), n_landmarks=landmarks, optimizer=None)
    model = fit.fit(X, np.column_stack([left, right]), outcome=won)
    duels, options = (X[left[:Q]], X[right[:Q]]), {"game": "paired", "background": X[:background]}
    rows, exact = [], None
    for count in (None, 100, 200, 400):
        sampling = {} if count is None else {"n_orders": count, "random_state": 0}
        ms, why = milliseconds(lambda: model.explain(*duels, **options, **sampling), 1, min_runs=1)
        exact = why if count is None else exact
        error = np.sqrt(np.mean((why.values - exact.values) ** 2)) / np.abs(exact.values).mean()
        note = "" if count is None else f"off by {100 * error:.1f} % of the mean size (root mean square)"
        if count is not None:
            sizes = f"{landmarks} landmarks, {d} features, {background} background items"
            record_seconds(f"explained, paired, {count} random orders", sizes, ms / Q, "exact", rows[0][1])
        rows.append((f"riesz, {'exact' if count is None else f'{count} random orders'}", ms / Q, note))
    print_table(
        f"One of {Q} duels explained, game paired, {landmarks} landmarks, {d} features, {background} "
        "background items",
        rows,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["bradley_terry", "landmarks", "evidence", "explaining", "orders"])
    parser.add_argument("--quick", action="store_true", help="without landmarks and random orders")
    options = parser.parse_args()
    slow = (landmarks, orders)
    for bench in (bradley_terry, landmarks, evidence, explaining, orders):
        if options.only == bench.__name__ or (options.only is None and not (options.quick and bench in slow)):
            bench()
