"""The baseline without data fusion: separate regressions for each study, one after the other, with
bootstrap samples of the rows."""

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel


def regression(inputs, targets):
    """The kernel and noise variance of the best Gaussian process, and the mean and standard deviation by
    which targets are standardised."""
    centre, scale = targets.mean(), targets.std()
    kernel = ConstantKernel(1, (1e-2, 1e3)) * RBF(
        inputs.std(), (1e-2 * inputs.std(), 1e2 * inputs.std())
    ) + WhiteKernel(0.1, (1e-4, 10))
    process = GaussianProcessRegressor(kernel, n_restarts_optimizer=2, random_state=0).fit(
        inputs[:, None], (targets - centre) / scale
    )
    return process.kernel_.k1, process.kernel_.k2.noise_level, centre, scale


def bootstrap_of_regressions(studies, treatments, replications, rng, points=25):
    """Mean and standard deviation, over bootstrap samples, of the outcome where the first column of study
    1 is set.

    ``studies`` are pairs of inputs and targets; the targets of a study are the inputs of the next one.
    Treatments are regarded as randomised. The prediction of a study is its regression plus ``points``
    quantiles of its residuals; the next study's prediction is averaged over these. Kernels and noises are
    those of the original rows."""
    fits = [regression(*study) for study in studies]
    curves = []
    for _ in range(replications):
        values, weights = treatments[:, None], None
        for k, ((inputs, targets), (kernel, noise, centre, scale)) in enumerate(zip(studies, fits)):
            resampled = rng.integers(len(inputs), size=len(inputs))
            own_inputs, own_targets = inputs[resampled][:, None], (targets[resampled] - centre) / scale
            coefficients = np.linalg.solve(kernel(own_inputs) + noise * np.eye(len(resampled)), own_targets)
            flat = values.reshape(-1, 1)
            # The curve is a smooth function of one number, so a thousand places represent it.
            places = np.linspace(flat.min(), flat.max(), 1000)[:, None] if len(flat) > 1000 else flat
            curve = centre + scale * kernel(places, own_inputs) @ coefficients
            predicted = (curve if places is flat else np.interp(flat[:, 0], places[:, 0], curve)).reshape(
                values.shape
            )
            if k == len(studies) - 1:
                weights = predicted.mean(axis=1)
                break
            residuals = targets[resampled] - centre - scale * kernel(own_inputs) @ coefficients
            middles = np.quantile(residuals, (np.arange(points) + 0.5) / points)
            values = (predicted[:, :, None] + middles).reshape(len(treatments), -1)
        curves.append(weights)
    return np.mean(curves, axis=0), np.std(curves, axis=0)
