"""Reference answers for the support vector machines and the LIBSVM reader.

    python3 -m venv venv && venv/bin/pip install scikit-learn libsvm-official
    venv/bin/python scripts/oracles/svm.py

writes crates/riesz/tests/data/svm/: `scikit_learn.json` (data, settings, decision values, dual coefficients
and intercepts of scikit-learn's SVC, SVR and OneClassSVM at a tight tolerance), and model files written by
LIBSVM's own svm_save_model, and `libsvm.json` with the decision values that LIBSVM computed. Numbers of the
data are rounded to 4 decimals, so that the 8 digits of LIBSVM's files are exact."""

import json
from pathlib import Path

import numpy as np
import sklearn
from libsvm import svmutil
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.svm import SVC, SVR, OneClassSVM

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "crates/riesz/tests/data/svm"
TOLERANCE = 1e-7
rng = np.random.default_rng(20240607)


def standardise(x):
    return np.round((x - x.mean(axis=0)) / x.std(axis=0), 4)


def datasets():
    cancer = load_breast_cancer()
    rows = rng.permutation(len(cancer.data))[:60]
    iris = load_iris()
    iris_rows = rng.permutation(150)[:60]
    diabetes = np.loadtxt(ROOT / "crates/riesz-cli/data/diabetes.csv", delimiter=",", skiprows=1)
    diabetes_rows = rng.permutation(len(diabetes))[:70]
    noise = np.round(rng.normal(size=(60, 3)), 4)
    return {
        "cancer": (standardise(cancer.data[rows][:, :8]), cancer.target[rows]),
        "iris": (standardise(iris.data[iris_rows]), iris.target[iris_rows]),
        "diabetes": (standardise(diabetes[diabetes_rows, :-1]), diabetes[diabetes_rows, -1]),
        # Random labels, for which most coefficients reach their bound.
        "noise": (noise, rng.integers(0, 4, size=60)),
        "wave": (noise, np.round(np.sin(noise[:, 0]) + 0.1 * noise[:, 1] ** 2, 4)),
    }


RBF = {"kernel": "rbf", "gamma": 0.3}
NARROW = {"kernel": "rbf", "gamma": 2.5}
LINEAR = {"kernel": "linear"}
POLY = {"kernel": "poly", "gamma": 0.2, "coef0": 1.0, "degree": 3}


def pair_coefficients(model, labels):
    """Converts LIBSVM's layout (classes - 1) × n_SV to n_SV × pairs; `labels` belong to the support
    vectors."""
    dual, classes = model.dual_coef_, model.classes_
    owner = np.searchsorted(classes, labels)
    k = len(classes)
    if k == 2:
        return dual.T
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    out = np.zeros((len(owner), len(pairs)))
    for p, (i, j) in enumerate(pairs):
        out[owner == i, p] = dual[j - 1, owner == i]
        out[owner == j, p] = dual[i, owner == j]
    return out


def scikit_learn():
    data = datasets()
    cases = []

    def case(name, dataset, estimator, kernel, sample_weight=None, **settings):
        x, y = data[dataset]
        kind = {"svc": SVC, "svr": SVR, "one_class": OneClassSVM}[estimator]
        extra = {"decision_function_shape": "ovo"} if estimator == "svc" else {}
        model = kind(**{**kernel, **settings, **extra}, tol=TOLERANCE)
        model.fit(x, y, sample_weight=sample_weight)
        predict = model.predict if estimator == "svr" else model.decision_function
        decision = predict(x).reshape(len(x), -1)
        # scikit-learn omits rows of weight 0, and numbers its support vectors among the other rows.
        support = model.support_ if sample_weight is None else np.flatnonzero(sample_weight)[model.support_]
        assert np.array_equal(x[support], model.support_vectors_)
        coefficients = pair_coefficients(model, y[support]) if estimator == "svc" else model.dual_coef_.T
        order = np.argsort(support)
        cases.append(
            {
                "name": name,
                "dataset": dataset,
                "estimator": estimator,
                "kernel": kernel,
                "settings": settings,
                "sample_weight": None if sample_weight is None else list(map(float, sample_weight)),
                # Coefficients can be compared if the gram matrix is regular. Without a tube nearly all of
                # them are free, and magnify errors by its condition number (1.5e6).
                "compare_coef": kernel["kernel"] == "rbf" and settings.get("epsilon") != 0.0,
                "support": support[order].tolist(),
                "coef": [[float(f"{v:.10g}") for v in row] for row in coefficients[order]],
                "intercept": [float(v) for v in np.atleast_1d(model.intercept_)],
                "decision": [[float(f"{v:.10g}") for v in row] for row in decision],
                "predicted": model.predict(x).tolist() if estimator != "svr" else [],
            }
        )

    weights = np.round(rng.uniform(0, 3, size=60), 2)
    weights[::7] = 0.0
    case("binary rbf", "cancer", "svc", RBF, C=1.0)
    case("binary narrow rbf, large C", "cancer", "svc", NARROW, C=100.0)
    case("binary linear", "cancer", "svc", LINEAR, C=0.5)
    case("binary poly", "cancer", "svc", POLY, C=0.1)
    case("binary balanced", "cancer", "svc", RBF, C=1.0, class_weight="balanced")
    case("binary class weights", "cancer", "svc", RBF, C=2.0, class_weight={0: 0.5, 1: 3.0})
    case("binary sample weights", "cancer", "svc", RBF, sample_weight=weights, C=1.0)
    case("three classes rbf", "iris", "svc", RBF, C=1.0)
    case("three classes linear", "iris", "svc", LINEAR, C=10.0)
    case("three classes poly, balanced", "iris", "svc", POLY, C=1.0, class_weight="balanced")
    case("four classes of noise", "noise", "svc", NARROW, sample_weight=weights, C=3.0)
    case("svr rbf", "diabetes", "svr", RBF, C=100.0, epsilon=5.0)
    case("svr linear", "diabetes", "svr", LINEAR, C=1.0, epsilon=10.0)
    case("svr poly", "diabetes", "svr", POLY, C=1.0, epsilon=20.0)
    case("svr sample weights", "wave", "svr", RBF, sample_weight=weights, C=2.0, epsilon=0.05)
    case("svr no tube", "wave", "svr", RBF, C=2.0, epsilon=0.0)
    case("one class", "noise", "one_class", RBF, nu=0.25)
    write(
        OUT / "scikit_learn.json",
        {
            "made_by": f"scripts/oracles/svm.py with scikit-learn {sklearn.__version__}, tol={TOLERANCE}",
            "datasets": {k: {"x": x.tolist(), "y": y.tolist()} for k, (x, y) in data.items()},
            "cases": cases,
        },
    )
    return data


def libsvm(data):
    cases = []

    def case(file, dataset, options, labels=None):
        x, y = data[dataset]
        y = y if labels is None else np.array([labels[v] for v in y])
        keep = 40
        problem = [{j + 1: float(v) for j, v in enumerate(row) if v != 0.0} for row in x]
        model = svmutil.svm_train(y[:keep].tolist(), problem[:keep], options + " -e 1e-6 -q")
        svmutil.svm_save_model(str(OUT / file), model)
        # The model is read back, so that values come from the numbers in the file.
        model = svmutil.svm_load_model(str(OUT / file))
        predicted, _, values = svmutil.svm_predict(y[keep:].tolist(), problem[keep:], model, "-q")
        rows = x[keep:]
        regression = "-s 3" in options or "-s 4" in options
        cases.append(
            {
                "file": file,
                "options": options,
                "x": rows.tolist(),
                "decision": values,
                "predicted": [] if regression else [str(int(p)) for p in predicted],
            }
        )

    case("c_svc_rbf.model", "cancer", "-s 0 -t 2 -g 0.3 -c 1", {0: -1, 1: 1})
    case("c_svc_poly_3_classes.model", "iris", "-s 0 -t 1 -g 0.2 -r 1 -d 3 -c 0.5", {0: 7, 1: -3, 2: 12})
    case("c_svc_linear_probability.model", "iris", "-s 0 -t 0 -c 0.05 -b 1")
    case("nu_svc_rbf.model", "cancer", "-s 1 -t 2 -g 0.1 -n 0.3")
    case("one_class_rbf.model", "noise", "-s 2 -t 2 -g 0.5 -n 0.2")
    case("epsilon_svr_rbf.model", "diabetes", "-s 3 -t 2 -g 0.05 -c 100 -p 10")
    case("nu_svr_linear.model", "wave", "-s 4 -t 0 -c 1 -n 0.5")
    version = "libsvm-official 3.37.0 (svm_train, svm_save_model, svm_load_model, svm_predict)"
    write(OUT / "libsvm.json", {"made_by": f"scripts/oracles/svm.py with {version}", "cases": cases})


def write(path, value):
    path.write_text(json.dumps(value, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    OUT.mkdir(parents=True, exist_ok=True)
    libsvm(scikit_learn())
