"""Reference answers for sparse Gaussian process regression.

    python3 -m venv venv && venv/bin/pip install 'numpy<2' gpflow tensorflow
    venv/bin/python scripts/oracles/sparse_gp.py

writes crates/riesz/tests/data/gp/gpflow.json: data, inducing points, and the results of GPflow's SGPR. These
are the evidence lower bound, its gradient by the logarithms of the kernel's scale, its length scales and the
noise, the upper bound, and means and standard deviations of the latent function at new rows.
"""

import json
import os
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import gpflow
import numpy as np
import tensorflow as tf

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "crates/riesz/tests/data/gp/gpflow.json"
# The jitter that riesz adds to the diagonal; here it is multiplied by the kernel's scale.
JITTER = 1e-10


def case(name, kernel, profile, x, y, points, new):
    gpflow.config.set_default_jitter(JITTER * float(kernel.variance.numpy()))
    model = gpflow.models.SGPR((x, y), kernel, points, noise_variance=0.15)
    parameters = [kernel.variance, kernel.lengthscales, model.likelihood.variance]
    with tf.GradientTape() as tape:
        value = model.elbo()
    slopes = tape.gradient(value, [p.unconstrained_variable for p in parameters])
    with tf.GradientTape() as tape:
        total = tf.add_n(
            [tf.reduce_sum(tf.math.log(p.transform(p.unconstrained_variable))) for p in parameters]
        )
    ratios = tape.gradient(total, [p.unconstrained_variable for p in parameters])
    mean, variance = model.predict_f(new)
    # GPflow's upper bound counts the determinant once for any number of targets.
    per_target = [
        gpflow.models.SGPR((x, y[:, [o]]), kernel, points, noise_variance=0.15) for o in range(y.shape[1])
    ]
    return {
        "name": name,
        "profile": profile,
        "scale": float(kernel.variance.numpy()),
        "lengthscale": np.ravel(kernel.lengthscales.numpy()).tolist(),
        "noise": 0.15,
        "lower": float(value.numpy()),
        "upper": float(sum(target_model.upper_bound().numpy() for target_model in per_target)),
        "gradient": np.concatenate(
            [np.ravel(slope / ratio) for slope, ratio in zip(slopes, ratios)]
        ).tolist(),
        "mean": mean.numpy().tolist(),
        "sd": np.sqrt(variance.numpy()).tolist(),
    }


def main():
    rng = np.random.default_rng(20240607)
    x = rng.normal(size=(60, 3)).round(4)
    y = np.stack([np.sin(2 * x[:, 0]) + x[:, 1], x[:, 1] * x[:, 2]], axis=1)
    y = (y + 0.3 * rng.normal(size=y.shape)).round(4)
    points, new = rng.normal(size=(12, 3)).round(4), rng.normal(size=(5, 3)).round(4)
    kernels = gpflow.kernels
    value = {
        "made_by": f"scripts/oracles/sparse_gp.py with GPflow {gpflow.__version__}",
        "x": x.tolist(),
        "y": y.tolist(),
        "points": points.tolist(),
        "new": new.tolist(),
        "cases": [
            case(
                "one target",
                kernels.SquaredExponential(1.3, [0.9, 1.4, 2.5]),
                "gaussian",
                x,
                y[:, :1],
                points,
                new,
            ),
            case(
                "two targets", kernels.SquaredExponential(1.3, [0.9, 1.4, 2.5]), "gaussian", x, y, points, new
            ),
            case("matern 3/2", kernels.Matern32(0.8, [1.9, 1.1, 3.0]), "matern32", x, y[:, :1], points, new),
        ],
    }
    OUT.write_text(json.dumps(value, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
