"""Gaussian process regression with fixed parameters in the usual way: a Gaussian gram matrix in numpy, and
scipy's cho_factor and cho_solve, all in place.

The program reads a line with n and d, then the rows and the targets as doubles. For each further line it fits
once and prints the seconds of the fit. At the end of the input it prints the coefficients."""

import sys
import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve

NOISE = 0.1


def fit(x, y):
    square = (x * x).sum(axis=1)
    gram = x @ x.T
    gram *= 2.0
    gram -= square[:, None]
    gram -= square
    gram *= 0.5 / x.shape[1]
    np.exp(gram, out=gram)
    np.fill_diagonal(gram, 1.0 + NOISE)
    factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    return cho_solve(factor, y, check_finite=False)


def main():
    n, d = map(int, sys.stdin.buffer.readline().split())
    data = np.frombuffer(sys.stdin.buffer.read(8 * n * (d + 1)))
    x, y = data[: n * d].reshape(n, d), data[n * d :]
    fit(x, y)
    for _ in sys.stdin.buffer:
        start = time.perf_counter()
        coef = fit(x, y)
        print(time.perf_counter() - start, flush=True)
    print(*coef.tolist())


main()
