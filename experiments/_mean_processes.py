"""The four methods of chapter 4 of Chau 2023 as printed, for a randomised treatment and one mediator: IME,
IMP (proposition 4.3.1), BayesIME (4.3.3) and BayesIMP (4.3.4). Misprints are corrected as in
docs/background/errata.md.

Study 1 has n rows of the treatment x and the mediator y, study 2 has m rows of the mediator ỹ and the outcome
t, which is centred. k_x and k are Gaussian kernels, and r(a, b) = ∫ k(a, u) k(u, b) dν(u) with dν =
exp(-(u - c)²/2η²) du, where c and η are the mean and the standard deviation of all mediators. E = k_x(q, x)
(K_x + λ)⁻¹ are the weights of the conditional mean embedding at the queries q, F = k_x(q, q) and G = E
k_x(x, q).

IME and BayesIME take f, the expectation of t given y, from ridge regression; IMP takes it from a Gaussian
process with the kernel k, and BayesIMP from one with the kernel r. BayesIME and BayesIMP have a Gaussian
process with the kernel k_x r for the embedding. Its values at the rows of study 1 are k(y, ·) with a noise of
covariance λ r."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.optimize import minimize

#: Added to the diagonals of kernel matrices of mediators, in units of their means.
JITTER = 1e-4


@dataclass(frozen=True)
class MediatorKernel:
    """The kernel k(a, b) = s² exp(-(a - b)²/2ℓ²) of mediators, and the centre c and the width η of ν."""

    variance: float
    length_scale: float
    centre: float
    width: float

    def plain(self, a, b):
        """k, (rows of a, rows of b)."""
        return self.variance * np.exp(-((a[:, None] - b) ** 2) / (2 * self.length_scale**2))

    def integrated(self, a, b):
        """r, (rows of a, rows of b): the integral of a product of three Gaussian functions of u."""
        precision = 2 / self.length_scale**2 + 1 / self.width**2
        middle = (a[:, None] + b) / 2 - self.centre
        exponent = -((a[:, None] - b) ** 2) / (4 * self.length_scale**2)
        exponent -= middle**2 / (self.length_scale**2 + 2 * self.width**2)
        return self.variance**2 * np.sqrt(2 * np.pi / precision) * np.exp(exponent)


@dataclass(frozen=True)
class Weights:
    """The weights E (queries × rows of study 1) of the conditional mean embedding, F and G (queries ×
    queries)."""

    rows: np.ndarray
    prior: np.ndarray
    explained: np.ndarray

    @classmethod
    def from_rows(cls, queries, x, length_scale, ridge):
        gram = lambda a, b: np.exp(-((a[:, None] - b) ** 2) / (2 * length_scale**2))
        rows = cho_solve(cho_factor(gram(x, x) + ridge * np.eye(len(x))), gram(x, queries)).T
        return cls(rows, gram(queries, queries), rows @ gram(x, queries))


def negative_log_evidence(gram, targets):
    """Twice the negative log evidence of targets with the covariance ``gram``, without its constant."""
    factor = cho_factor(gram)
    return targets @ cho_solve(factor, targets) + 2 * np.log(np.diag(factor[0])).sum()


def outcome_kernel(y, points, targets, integrated):
    """The kernel of mediators and the noise variance that maximise the evidence of study 2 under k, or under
    r if ``integrated``."""
    mediators = np.concatenate([y, points])
    centre, width = mediators.mean(), mediators.std()

    def model(logs):
        variance, length_scale, noise = np.exp(logs)
        return MediatorKernel(variance, length_scale, centre, width), noise

    def loss(logs):
        kernel, noise = model(logs)
        gram = (kernel.integrated if integrated else kernel.plain)(points, points)
        return negative_log_evidence(gram + noise * np.eye(len(points)), targets)

    scale = targets.var()
    bounds = np.log([[1e-3 * scale, 1e4 * scale], [0.03 * width, 10 * width], [1e-4 * scale, 2 * scale]])
    starts = [np.log([scale, share * width, 0.1 * scale]) for share in (0.1, 0.3, 1.0)]
    fits = [minimize(loss, start, bounds=bounds, method="L-BFGS-B") for start in starts]
    return model(min(fits, key=lambda fit: fit.fun).x)


def embedding_parameters(x, y, kernel, criterion):
    """The length scale and the ridge of the conditional mean embedding, over a grid. The criterion is
    "evidence", the published evidence of BayesCME (4.13), or "left out", the mean squared error in the space
    of k of the embedding of each row without this row."""
    n = len(x)
    plain = kernel.plain(y, y)
    if criterion == "evidence":
        target = plain @ cho_solve(cho_factor(jittered(kernel.integrated(y, y))), plain)
    best = np.inf, None
    for length_scale in x.std() * np.geomspace(0.02, 2, 25):
        values, vectors = eigh(np.exp(-((x[:, None] - x) ** 2) / (2 * length_scale**2)))
        for ridge in np.geomspace(1e-4, 10, 16):
            if criterion == "evidence":
                rotated = np.einsum("ij,ij->j", vectors, target @ vectors)
                loss = n * np.log(values + ridge).sum() + (rotated / (values + ridge)).sum()
            else:
                residual = vectors * (ridge / (values + ridge)) @ vectors.T
                loss = (np.einsum("ij,ij->i", residual @ plain, residual) / np.diag(residual) ** 2).mean()
            best = min(best, (loss, (length_scale, ridge)))
    return best[1]


def jittered(gram):
    return gram + JITTER * np.diag(gram).mean() * np.eye(len(gram))


def ime(weights, kernel, noise, y, points, targets):
    """The mean of IME, with f from ridge regression, and no uncertainty."""
    coef = np.linalg.solve(kernel.plain(points, points) + noise * np.eye(len(points)), targets)
    return weights.rows @ kernel.plain(y, points) @ coef, np.zeros_like(weights.prior)


def imp(weights, kernel, noise, y, points, targets):
    """The mean and covariance of IMP."""
    cross = kernel.plain(y, points)
    solved = np.linalg.solve(kernel.plain(points, points) + noise * np.eye(len(points)), cross.T)
    covariance = kernel.plain(y, y) - cross @ solved
    return weights.rows @ solved.T @ targets, weights.rows @ covariance @ weights.rows.T


def bayesime(weights, kernel, noise, y, points, targets):
    """The mean and covariance of BayesIME. With coefficients a of ridge regression the covariance is (aᵀ R_ỹỹ
    a) F - (aᵀ R_ỹy R_yy⁻¹ R_yỹ a) G. The appendix prints R_ỹỹ for R_ỹy."""
    coef = np.linalg.solve(kernel.plain(points, points) + noise * np.eye(len(points)), targets)
    integral = kernel.integrated(y, points) @ coef
    solved = np.linalg.solve(jittered(kernel.integrated(y, y)), integral)
    total, explained = coef @ kernel.integrated(points, points) @ coef, integral @ solved
    mean = weights.rows @ kernel.plain(y, y) @ solved
    return mean, total * weights.prior - explained * weights.explained


def bayesimp(weights, kernel, noise, y, points, targets):
    """The mean and covariance of BayesIMP, through landmarks at the mediators of both studies."""
    landmarks = np.concatenate([y, points])
    gram = cho_factor(jittered(kernel.plain(landmarks, landmarks)))
    joint, with_y = kernel.integrated(landmarks, landmarks), kernel.integrated(landmarks, y)
    with_points = kernel.integrated(landmarks, points)
    solved = np.linalg.solve(kernel.integrated(points, points) + noise * np.eye(len(points)), with_points.T)
    mean_f, covariance_f = solved.T @ targets, joint - with_points @ solved
    factor = cho_factor(jittered(kernel.integrated(y, y)))
    embedding = cho_solve(gram, with_y @ cho_solve(factor, kernel.plain(y, y) @ weights.rows.T))
    explained = with_y @ cho_solve(factor, with_y.T)
    coef, solved_covariance = cho_solve(gram, mean_f), cho_solve(gram, covariance_f)
    trace = lambda matrix: np.sum(cho_solve(gram, matrix) * solved_covariance.T)
    total = coef @ joint @ coef + trace(joint)
    known = coef @ explained @ coef + trace(explained)
    covariance = embedding.T @ covariance_f @ embedding
    return embedding.T @ mean_f, covariance + total * weights.prior - known * weights.explained


#: The methods, and whether f has the kernel r.
METHODS = {
    "IME": (ime, False),
    "IMP": (imp, False),
    "BayesIME": (bayesime, False),
    "BayesIMP": (bayesimp, True),
}


def mean_processes(studies, queries, criterion="left out"):
    """The mean and the standard deviation of the effect at the queries by each method."""
    (x, y), (points, t) = (tuple(study.values()) for study in studies)
    targets, results = t - t.mean(), {}
    parameters = {}
    for integrated in (False, True):
        kernel, noise = outcome_kernel(y, points, targets, integrated)
        parameters[integrated] = (
            Weights.from_rows(queries, x, *embedding_parameters(x, y, kernel, criterion)),
            kernel,
            noise,
        )
    for name, (method, integrated) in METHODS.items():
        mean, covariance = method(*parameters[integrated], y, points, targets)
        results[name] = t.mean() + mean, np.sqrt(np.maximum(np.diag(covariance), 0))
    return results
