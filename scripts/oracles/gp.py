"""Reference answers for Gaussian process regression and classification.

    python3 -m venv venv && venv/bin/pip install scikit-learn
    venv/bin/python scripts/oracles/gp.py

writes crates/riesz/tests/data/gp/scikit_learn.json: data, kernels, and the results of scikit-learn's
GaussianProcessRegressor and GaussianProcessClassifier. Kernels are in the form of riesz, a sum of products.
Gradients have riesz's order of parameters, by natural logarithms of the parameters; they are null if
scikit-learn has no such parameter. All results are in the units of the target, also if scikit-learn
normalises it."""

import json
from pathlib import Path

import numpy as np
import sklearn
from scipy.integrate import quad
from scipy.linalg import solve_triangular
from scipy.special import expit
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process._gpc import _BinaryGaussianProcessClassifierLaplace
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    ExpSineSquared,
    Exponentiation,
    Matern,
    RationalQuadratic,
    WhiteKernel,
)

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "crates/riesz/tests/data/gp/scikit_learn.json"
rng = np.random.default_rng(20240607)


def standardise(x):
    return np.round((x - x.mean(axis=0)) / x.std(axis=0), 4)


def diabetes():
    return np.loadtxt(ROOT / "crates/riesz-cli/data/diabetes.csv", delimiter=",", skiprows=1)


# A factor: scikit-learn's kernel, riesz's description, and for each parameter of riesz its name in
# scikit-learn and the ratio of riesz's derivative to scikit-learn's.


def rbf(*lengthscale):
    ard = len(lengthscale) > 1
    names = [("length_scale", i, 1.0) for i in range(len(lengthscale))]
    shape = list(lengthscale) if ard else lengthscale[0]
    return RBF(shape), {"factor": "rbf", "lengthscale": list(lengthscale), "ard": ard}, names


def matern(nu, *lengthscale):
    ard = len(lengthscale) > 1
    names = [("length_scale", i, 1.0) for i in range(len(lengthscale))]
    shape = list(lengthscale) if ard else lengthscale[0]
    name = {0.5: "laplacian", 1.5: "matern32", 2.5: "matern52"}[nu]
    return Matern(shape, nu=nu), {"factor": name, "lengthscale": list(lengthscale), "ard": ard}, names


def rational_quadratic(lengthscale, alpha):
    names = [("length_scale", 0, 1.0), ("alpha", 0, 1.0)]
    return (
        RationalQuadratic(lengthscale, alpha),
        {"factor": "rq", "lengthscale": [lengthscale], "alpha": alpha},
        names,
    )


def periodic(period, lengthscale):
    names = [("periodicity", 0, 1.0), ("length_scale", 0, 1.0)]
    return (
        ExpSineSquared(lengthscale, period),
        {"factor": "periodic", "period": period, "lengthscale": lengthscale},
        names,
    )


def dot_product(sigma, degree):
    # coef0 = sigma_0², so that a derivative by its logarithm is half of the derivative by log sigma_0.
    kernel = DotProduct(sigma)
    kernel = kernel if degree == 1 else Exponentiation(kernel, degree)
    names = [None, ("sigma_0", 0, 0.5)]
    return kernel, {"factor": "polynomial", "coef0": sigma**2, "degree": degree}, names


def build(terms):
    """The sum over `terms`, each a scale and factors. Returns the kernel, its description, and the names of
    the parameters in theta."""
    kernels, description, names = None, [], []
    for scale, factors in terms:
        product, term_names = ConstantKernel(scale), [[("constant_value", 0, 1.0)]]
        for factor, _, parameters in factors:
            product = product * factor
            term_names.append(parameters)
        kernels = product if kernels is None else kernels + product
        description.append({"scale": scale, "factors": [d for _, d, _ in factors]})
        names.append(term_names)
    return kernels, description, names


def reorder(kernel, names, gradient):
    """The gradient in riesz's order. Hyper-parameters are matched factor by factor, within a factor in
    scikit-learn's order."""
    slots = []
    for h in kernel.hyperparameters:
        slots += [(h.name.rsplit("__", 1)[-1], i) for i in range(h.n_elements)]
    out, offset = [], 0
    for term in names:
        for parameters in term:
            known = [p for p in parameters if p]
            count = len(known)
            by_slot = {
                slot: float(g)
                for slot, g in zip(slots[offset : offset + count], gradient[offset : offset + count])
            }
            assert len(by_slot) == count
            out += [None if p is None else p[2] * by_slot[p[0], p[1]] for p in parameters]
            offset += count
    return out, [float(g) for g in gradient[offset:]]


def regression(data):
    cases = []

    def case(name, dataset, terms, noise, row_noise=None, normalize_y=True):
        x, y = data[dataset]
        train, test = x[:-10], x[-10:]
        y = y[: len(train)]
        scale = y.std(axis=0) if normalize_y else np.ones(y.shape[1:])
        kernel, description, names = build(terms)
        extra = 0.0 if row_noise is None else row_noise / scale**2
        # The noise is a kernel for its derivative, and a constant for predictions without noise.
        with_white = kernel + WhiteKernel(noise)
        options = {"optimizer": None, "normalize_y": normalize_y}
        tuned = GaussianProcessRegressor(with_white, alpha=extra + 1e-300, **options).fit(train, y)
        value, gradient = tuned.log_marginal_likelihood(with_white.theta, eval_gradient=True)
        gradient, noise_gradient = reorder(with_white, names, gradient)
        model = GaussianProcessRegressor(kernel, alpha=noise + extra, **options).fit(train, y)
        mean, sd = model.predict(test, return_std=True)
        _, covariance = model.predict(test, return_cov=True)
        covariance = covariance if y.ndim == 1 else covariance[..., 0] / scale[0] ** 2
        cases.append(
            {
                "name": name,
                "dataset": dataset,
                "kernel": description,
                "noise": noise,
                "row_noise": None if row_noise is None else row_noise.tolist(),
                "normalize_y": normalize_y,
                "coef": (model.alpha_ / (scale if y.ndim == 1 else 1 / scale))
                .reshape(len(train), -1)
                .tolist(),
                "mean": mean.reshape(10, -1).tolist(),
                "sd": sd.reshape(10, -1).tolist(),
                "covariance": covariance.tolist(),
                "value": float(value - len(train) * np.log(scale).sum()),
                "gradient": gradient + noise_gradient,
            }
        )

    rows = rng.uniform(0.0, 400.0, size=40).round(2)
    case("rbf", "diabetes", [(1.3, [rbf(2.5)])], 0.4)
    case("rbf, targets as they are", "diabetes", [(30000.0, [rbf(2.5)])], 2000.0, normalize_y=False)
    case("rbf ard", "diabetes", [(0.8, [rbf(2.5, 4.0, 1.2, 9.0)])], 0.3)
    case("matern 1/2", "diabetes", [(0.8, [matern(0.5, 3.0)])], 0.2)
    case("matern 3/2 ard", "diabetes", [(0.8, [matern(1.5, 3.0, 1.0, 2.0, 5.0)])], 0.2)
    case("matern 5/2", "diabetes", [(2.0, [matern(2.5, 3.0)])], 0.1)
    case("rational quadratic", "diabetes", [(1.0, [rational_quadratic(2.0, 0.6)])], 0.3)
    case("noise by row", "diabetes", [(1.0, [rbf(2.0)])], 0.1, row_noise=rows)
    case(
        "noise by row, as they are", "diabetes", [(9e3, [rbf(2.0)])], 200.0, row_noise=rows, normalize_y=False
    )
    case("periodic", "tide", [(1.5, [periodic(1.7, 0.9)])], 0.05)
    case(
        "periodic with trend",
        "tide",
        [(1.5, [periodic(1.7, 0.9), rbf(6.0)]), (0.7, [dot_product(0.4, 1)])],
        0.05,
    )
    case("polynomial", "diabetes", [(0.05, [dot_product(1.5, 2)])], 0.5)
    case(
        "sum of products",
        "diabetes",
        [(0.5, [rbf(2.0), matern(1.5, 4.0)]), (0.2, [rational_quadratic(1.0, 2.0)])],
        0.3,
    )
    case("two targets", "pair", [(1.0, [rbf(1.0, 2.0)])], 0.02)
    case("two targets, as they are", "pair", [(2.0, [rbf(1.0, 2.0)])], 0.02, normalize_y=False)
    return cases


def tuning():
    """The evidence that scikit-learn reaches from one start, on all rows of the data sets of riesz."""
    table = diabetes()
    x, y = table[:, :-1], table[:, -1]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    cases = []
    for name, kernel, restarts in [
        ("rbf", RBF(3.0, (1e-3, 1e3)), 0),
        ("rbf ard", RBF([3.0] * 10, (1e-3, 1e3)), 0),
        ("matern52", Matern(3.0, (1e-3, 1e3), nu=2.5), 0),
        ("rbf ard", RBF([3.0] * 10, (1e-3, 1e3)), 4),
    ]:
        full = ConstantKernel(1.0, (1e-3, 1e3)) * kernel + WhiteKernel(0.5, (1e-3, 1e3))
        model = GaussianProcessRegressor(
            full, alpha=1e-300, normalize_y=True, n_restarts_optimizer=restarts, random_state=0
        ).fit(x, y)
        value = model.log_marginal_likelihood_value_ - len(y) * np.log(y.std())
        print(name, restarts, value, model.kernel_)
        cases.append({"kernel": name, "restarts": restarts, "value": float(value)})
    return cases


def classification(data):
    cases = []

    def case(name, dataset, terms):
        x, y = data[dataset]
        train, test, y = x[:-10], x[-10:], y[:-10]
        kernel, description, names = build(terms)
        model = _BinaryGaussianProcessClassifierLaplace(kernel, optimizer=None, warm_start=True)
        model.fit(train, y)
        gram = kernel(train)
        # scikit-learn stops while its last Newton step still changes π by 1e-6, so it is started again from
        # there.
        for _ in range(5):
            value, (pi, root, lower, _, _) = model._posterior_mode(gram, return_temporaries=True)
        value, gradient = model.log_marginal_likelihood(kernel.theta, eval_gradient=True)
        gradient, _ = reorder(kernel, names, gradient)
        model.pi_, model.W_sr_, model.L_ = pi, root, lower
        cross = kernel(train, test)
        mean = cross.T @ (y - pi)
        whitened = solve_triangular(lower, root[:, None] * cross, lower=True)
        variance = kernel.diag(test) - (whitened**2).sum(axis=0)

        def average(m, s):
            density = lambda f: expit(f) * np.exp(-0.5 * ((f - m) / s) ** 2) / (s * np.sqrt(2 * np.pi))
            return quad(
                density, m - 12 * s, m + 12 * s, points=[m, 0.0], epsabs=1e-14, epsrel=1e-13, limit=500
            )[0]

        cases.append(
            {
                "name": name,
                "dataset": dataset,
                "kernel": description,
                "f": (gram @ (y - pi)).tolist(),
                "coef": (y - pi).tolist(),
                "value": float(value),
                "gradient": gradient,
                "mean": mean.tolist(),
                "variance": variance.tolist(),
                "probability": [average(m, s) for m, s in zip(mean, np.sqrt(variance))],
                "scikit_learn_probability": model.predict_proba(test)[:, 1].tolist(),
            }
        )
        tuned = _BinaryGaussianProcessClassifierLaplace(kernel).fit(train, y)
        cases[-1]["tuned_value"] = float(tuned.log_marginal_likelihood_value_)

    case("rbf", "cancer", [(3.0, [rbf(2.0)])])
    case("rbf ard", "cancer", [(10.0, [rbf(2.0, 1.0, 3.0, 6.0)])])
    case("matern 5/2 and a constant", "cancer", [(4.0, [matern(2.5, 3.0)]), (1.5, [])])
    case("large scale", "noise", [(400.0, [rational_quadratic(0.7, 0.5)])])
    case("periodic times rbf", "noise_line", [(5.0, [periodic(1.1, 0.8), rbf(2.0)])])
    return cases


def several_classes(data):
    """Several classes, one against the rest as by scikit-learn's default, with one kernel for all."""
    x, y = data["iris"]
    train, test, y = x[:-10], x[-10:], y[:-10]
    kernel, description, _ = build([(4.0, [rbf(1.5)])])
    model = GaussianProcessClassifier(kernel, optimizer=None).fit(train, y)
    return {
        "dataset": "iris",
        "kernel": description,
        # scikit-learn returns the mean over classes.
        "value": 3 * float(model.log_marginal_likelihood_value_),
        "probability": model.predict_proba(test).tolist(),
    }


def main():
    table = diabetes()[rng.permutation(442)[:50]]
    t = np.sort(rng.uniform(0, 8, size=50)).round(3)[:, None]
    noise = rng.normal(size=(50, 3)).round(4)
    cancer = load_breast_cancer()
    rows = rng.permutation(569)[:60]
    labels = rng.integers(0, 2, size=50)
    iris = load_iris()
    iris_rows = rng.permutation(150)[:50]
    data = {
        "diabetes": (standardise(table[:, [2, 3, 8, 9]]), table[:, -1]),
        "tide": (t, (np.sin(3.6 * t[:, 0]) + 0.4 * t[:, 0] + 0.1 * noise[:, 0]).round(4)),
        "pair": (
            noise[:, :2],
            np.stack([np.sin(2 * noise[:, 0]), 40 + 7 * noise[:, 0] * noise[:, 1]], axis=1).round(4),
        ),
        "cancer": (standardise(cancer.data[rows][:, [0, 1, 4, 8]]), cancer.target[rows]),
        "iris": (standardise(iris.data[iris_rows]), iris.target[iris_rows]),
        "noise": (noise, labels),
        "noise_line": (noise[:, :1], labels),
    }
    value = {
        "made_by": f"scripts/oracles/gp.py with scikit-learn {sklearn.__version__}",
        "datasets": {k: {"x": x.tolist(), "y": y.reshape(len(x), -1).tolist()} for k, (x, y) in data.items()},
        "regression": regression(data),
        "tuning": tuning(),
        "classification": classification(data),
        "several_classes": several_classes(data),
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    # 13 digits are more than the tests compare.
    shorten = lambda v: json.loads(json.dumps(v), parse_float=lambda s: float(f"{float(s):.13g}"))
    OUT.write_text(json.dumps(shorten(value), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
