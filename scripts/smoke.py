"""Tests an installed package: fits, explains, tests and reports. `scripts/release` runs it in a clean
environment.

python smoke.py VERSION [plot]
"""

import importlib.metadata
import pathlib
import sys
import tempfile

import numpy as np
from sklearn.svm import SVR

import riesz


def main(version, extra=None):
    assert riesz.__version__ == importlib.metadata.version("riesz") == version
    folder = next(p for p in importlib.metadata.files("riesz") if p.name == "LICENSE-MIT").locate().parent
    license_files = sorted(path.name for path in folder.iterdir())
    assert {"LICENSE-APACHE", "LICENSE-MIT", "THIRD-PARTY-LICENSES.txt"} <= set(license_files), license_files

    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X[:, 0] + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=80)
    for model in [riesz.KernelRidge(kernel="rbf"), riesz.GaussianProcessRegressor(), SVR()]:
        explanation = riesz.Explainer(model.fit(X, y), background=X)(X[:5])
        assert explanation.exactness == "exact" and explanation.certificate.holds
        residual = np.abs(
            explanation.values.sum(axis=1) + explanation.base_values - model.predict(X[:5])
        ).max()
        assert residual <= explanation.certificate.bound < 1e-6, (residual, explanation.certificate)
    assert riesz.mmd_test(X, X + [1.0, 0.0, 0.0], n_permutations=99).adjusted_pvalues[0] <= 0.05
    with tempfile.TemporaryDirectory() as place:
        page, saved = pathlib.Path(place) / "page.html", pathlib.Path(place) / "e.json"
        explanation.report(page)
        assert page.stat().st_size > 10_000
        explanation.save(saved)
        np.testing.assert_array_equal(riesz.Explanation.load(saved).values, explanation.values)
        if extra == "plot":
            import matplotlib

            matplotlib.use("agg")
            for draw in [riesz.plots.beeswarm, riesz.plots.bar, riesz.plots.heatmap]:
                draw(explanation).figure.savefig(pathlib.Path(place) / "plot.png")
        else:
            try:
                riesz.plots.bar(explanation)
            except ImportError as error:
                assert "riesz[plot]" in str(error), error
            else:
                raise AssertionError("matplotlib is installed, but the package alone does not depend on it")
    print(f"riesz {version} works")


if __name__ == "__main__":
    main(*sys.argv[1:])
