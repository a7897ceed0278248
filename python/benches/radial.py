"""Times interventional values of radial kernels, which are sums of Gaussians, against a Gaussian kernel.

    python python/benches/radial.py

Kernel ridge regressions with 1,000 rows of 10 columns are explained with 50 background rows. The model of a
radial kernel has K products in place of one. The bound of the values, which includes the proved error of the
sums of Gaussians, is given in units of the spread of the outputs. riesz uses one thread."""

from __future__ import annotations

import os

os.environ["RAYON_NUM_THREADS"] = "1"

import argparse

import numpy as np
from timing import milliseconds, record

import riesz
from riesz.kernels import RBF, InverseMultiquadric, Matern, RationalQuadratic


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    count = 4 if parser.parse_args().quick else 32
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 10))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=1000)
    kernels = {
        "Gaussian": RBF(3.0),
        "Matérn 5/2": Matern(3.0, nu=2.5),
        "Matérn 3/2": Matern(3.0, nu=1.5),
        "Matérn 1/2": Matern(3.0, nu=0.5),
        "Matérn 0.8": Matern(3.0, nu=0.8),
        "rational quadratic": RationalQuadratic(3.0),
        "inverse multiquadric": InverseMultiquadric(3.0),
    }
    gaussian = None
    print(f"{'kernel':22} {'ms per row':>10} {'times Gaussian':>15} {'bound / spread':>15}  sum")
    for name, kernel in kernels.items():
        model = riesz.KernelRidge(0.1, kernel=kernel).fit(X, y)
        # The explainer takes the sum of Gaussians once for each kernel.
        explainer = riesz.Explainer(model, X[:50])
        time, explanation = milliseconds(lambda: explainer(X[:count]), count)
        gaussian = gaussian or time
        bound = explanation.certificate.bound / np.ptp(model.predict(X))
        provenance = explanation.provenance.run.get("radial factor", "")
        print(f"{name:22} {time:10.2f} {time / gaussian:15.1f} {bound:15.1e}  {provenance}")
        record(
            "radial kernels",
            f"{name}, 1,000 points, 10 columns, 50 background rows",
            time,
            None if name == "Gaussian" else "riesz with a Gaussian kernel",
            None if name == "Gaussian" else gaussian,
            unit="ms per row",
            bound_over_spread=bound,
        )


if __name__ == "__main__":
    main()
