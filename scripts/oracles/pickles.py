"""Makes python/tests/data: an explanation and estimators, as the installed version writes them. Later
versions must read these files.

Run once for each version, with the package installed, and keep the old files: python
scripts/oracles/pickles.py"""

import pathlib
import pickle

import numpy as np

import riesz
from riesz.kernels import RBF, Constant

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "python" / "tests" / "data" / riesz.__version__


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(12, 3))
    y = X[:, 0] - X[:, 1] * X[:, 2]
    kernel = Constant(1.5) * RBF([1.0, 2.0, 1.5])
    models = {
        "ridge": riesz.KernelRidge(alpha=0.1, kernel="rbf", gamma=0.5).fit(X, y),
        "process": riesz.GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y),
        "classifier": riesz.GaussianProcessClassifier(kernel, optimizer=None).fit(X, y > 0),
    }
    explanation = riesz.Explainer(models["ridge"], X[:4])(X[:2])
    explanation.save(FOLDER / "explanation.json")
    models["ridge"].save(FOLDER / "model.riesz")
    expected = {name: model.predict(X) for name, model in models.items()}
    (FOLDER / "all.pickle").write_bytes(pickle.dumps((X, models, expected, explanation), protocol=4))


main()
