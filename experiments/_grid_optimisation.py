"""Bayesian optimisation on a grid of treatments, without noise, from any prior mean and covariance. It has
the rules of riesz.CausalFusion.suggest for hyper-parameters and acquisition, so that priors alone differ."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import erfcx

#: Length scales of the stationary part in ranges of the treatments, and factors of its variance. The first
#: ones hold before the fourth trial.
LENGTH_SCALES = [0.25, 0.05, 0.075, 0.11, 0.17, 0.37, 0.55, 0.8, 1.2]
FACTORS = {True: [1.0, 4.0, 16.0], False: [1.0, 0.25, 4.0, 0.0625, 16.0]}


def log_expected_improvement(better, sd):
    """log E max(better + sd ε, 0), with ε standard normal; -inf where sd is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        z = np.maximum(better / sd, -1e6)
        # φ(z) + z Φ(z), which is φ(z) times the second factor; it is z far above 0.
        ratio = 1 + z * np.sqrt(np.pi / 2) * erfcx(-z / np.sqrt(2))
        logarithm = np.where(z > 25, np.log(z), -(z**2) / 2 - np.log(2 * np.pi) / 2 + np.log(ratio))
        return np.where(sd > 0, np.log(sd) + logarithm, -np.inf)


class GridPrior:
    """The prior mean (places) and covariance (places x places) of an effect on a grid of places, plus a
    stationary part. ``scale`` is the variance of the effect over study 1's treatments, whose range is
    ``width``. The stationary part is a discrepancy of 5 % of the scale if the covariance is ``causal``, and
    otherwise the main part of the covariance, as in causal Bayesian optimisation. A ``flat`` prior has an
    unknown constant as its mean."""

    def __init__(self, grid, mean, covariance, scale, width, causal=True, flat=False):
        self.mean, self.covariance, self.causal, self.flat = mean, covariance, causal, flat
        self.variance = (0.05 if causal else 1.0) * scale
        self.squares = ((grid[:, None] - grid) / width) ** 2

    def next_place(self, places, outcomes):
        """The index of the place to try next, for large outcomes, after trials of ``places``."""
        mean, sd = self.posterior(places, outcomes)
        return int(np.argmax(log_expected_improvement(mean - outcomes.max(), sd)))

    def posterior(self, places, outcomes):
        """The posterior mean and standard deviation on the grid after trials of ``places``."""
        best = -np.inf, None
        tuned = len(places) >= 4
        for factor in FACTORS[self.causal] if tuned else [1.0]:
            for length_scale in LENGTH_SCALES if tuned else LENGTH_SCALES[:1]:
                stationary = np.exp(-self.squares / (2 * length_scale**2))
                covariance = self.covariance + factor * self.variance * stationary
                try:
                    fit = self.condition(covariance, places, outcomes)
                except np.linalg.LinAlgError:
                    continue
                # Log-normal priors of the factor and of the length scale.
                evidence = fit[0] - np.log(factor) ** 2 / 8 - np.log(length_scale / LENGTH_SCALES[0]) ** 2 / 2
                if evidence > best[0]:
                    best = evidence, fit
        return best[1][1:]

    def condition(self, covariance, places, outcomes):
        """The log evidence of the trials, and the posterior mean and standard deviation on the grid."""
        gram = covariance[np.ix_(places, places)] + 1e-13 * self.variance * np.eye(len(places))
        cholesky = cho_factor(gram)
        residual = outcomes - self.mean[places]
        constant = 0.0
        if self.flat:
            solved = cho_solve(cholesky, np.ones(len(places)))
            constant = solved @ residual / solved.sum()
        residual = residual - constant
        coef = cho_solve(cholesky, residual)
        evidence = -residual @ coef / 2 - np.log(np.diag(cholesky[0])).sum()
        cross = covariance[places]
        variance = np.diag(covariance) - np.einsum("ij,ij->j", cross, cho_solve(cholesky, cross))
        # A place is tried once.
        variance[places] = 0
        return evidence, self.mean + constant + coef @ cross, np.sqrt(np.maximum(variance, 0))
