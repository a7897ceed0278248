"""The sampling baseline of chapter 4 of Chau 2023 (after Aglietti et al. 2020): Gaussian processes of the
mediator given treatment and covariates and of the outcome given the mediator, with draws from both.

At each treatment there are L draws of the mediator: from the predictive distribution at the covariates of
random rows of study 1 (back door), or of the intercepting variable and random treatments (front door). All
treatments share the rows and the random numbers, so that the effect is smooth. R functions are drawn from the
posterior of the outcome's process. The effect is the mean of the L x R values
f_r(y_l). Their standard deviation is the baseline's uncertainty. It includes the spread of f over the
distribution of the mediator, which is no uncertainty about the mean; the standard deviation over r of the
means over l does not."""

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel


class Process:
    """The Gaussian process of targets given columns of inputs, standardised, with the best evidence."""

    def __init__(self, inputs, targets):
        self.centre, self.scale = inputs.mean(axis=0), inputs.std(axis=0)
        kernel = ConstantKernel(1, (1e-2, 1e3)) * RBF(np.ones(inputs.shape[1]), (1e-2, 1e2))
        process = GaussianProcessRegressor(
            kernel + WhiteKernel(0.1, (1e-4, 10)), normalize_y=True, n_restarts_optimizer=1, random_state=0
        )
        self.process = process.fit((inputs - self.centre) / self.scale, targets)
        self.noise = np.sqrt(self.process.kernel_.k2.noise_level) * targets.std()
        # Predictions are of the function, without the noise.
        self.process.kernel_.k2.noise_level = 0.0

    def predict(self, rows, **options):
        return self.process.predict((rows - self.centre) / self.scale, **options)

    def targets_at(self, columns, rng):
        """Draws of targets from the predictive distributions of columns (treatments x draws), with the same
        random numbers for all treatments."""
        mean, sd = self.predict(np.column_stack([column.ravel() for column in columns]), return_std=True)
        shape = columns[0].shape
        return mean.reshape(shape) + np.hypot(sd, self.noise).reshape(shape) * rng.normal(size=shape[1])

    def functions_at(self, values, count, rng):
        """``count`` joint draws of a function of one number at values, (values, count)."""
        places = np.linspace(values.min(), values.max(), 300)
        mean, covariance = self.predict(places[:, None], return_cov=True)
        curves = rng.multivariate_normal(mean, covariance, count, method="eigh")
        return np.stack([np.interp(values, places, curve) for curve in curves], axis=-1)


def sampled_effect(studies, design, treatments, rng, mediators=100, functions=100):
    """The mean of the effect at treatments, the standard deviation of all draws, and that over functions of
    the means over mediators. ``design`` is the identification, as riesz.CausalFusion takes it."""
    first, second = studies
    names = [name for name in first if name not in ("x", "y")]
    random_rows = np.tile(rng.integers(len(first["x"]), size=mediators), (len(treatments), 1))
    x = np.broadcast_to(treatments[:, None], random_rows.shape)
    if "front_door" in design:
        inputs = [first[names[0]], first["x"]]
        columns = [Process(first["x"][:, None], inputs[0]).targets_at([x], rng), first["x"][random_rows]]
    else:
        inputs = [first["x"], *(first[name] for name in names)]
        columns = [x, *(first[name][random_rows] for name in names)]
    y = Process(np.column_stack(inputs), first["y"]).targets_at(columns, rng)
    values = Process(second["y"][:, None], second["t"]).functions_at(y, functions, rng)
    return values.mean(axis=(1, 2)), values.std(axis=(1, 2)), values.mean(axis=1).std(axis=1)
