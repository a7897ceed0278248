"""Conversion of scikit-learn's kernels: those of ``sklearn.metrics.pairwise``, by name, and those of its
Gaussian processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from .. import kernels as rk
from .._core import UnsupportedModelError


def pairwise_kernel(
    name: Any, width: int, gamma: float | None, degree: Any, coef0: Any, owner: str
) -> rk.Kernel:
    """Returns the kernel of ``owner``, a name of ``sklearn.metrics.pairwise``, over ``width`` columns."""
    if type(name).__module__ == "sklearn.gaussian_process.kernels":
        return gp_kernel(name, width)
    if gamma is None:
        gamma = 1.0 / width
    if name == "rbf":
        return rk.RBF(length_scale=1.0 / np.sqrt(2.0 * gamma))
    if name == "laplacian":
        return rk.Laplacian(length_scale=1.0 / gamma)
    if name == "linear":
        return rk.Linear()
    if name in ("poly", "polynomial"):
        return rk.Polynomial(degree=degree, gamma=gamma, coef0=coef0)
    description = "a callable" if callable(name) else f"'{name}'"
    raise UnsupportedModelError(
        f"the kernel of the {owner} is {description}, which has no exact values: the kernels 'rbf', "
        f"'laplacian', "
        "'linear' and 'poly' "
        "have"
    )


def gp_kernel(kernel: Any, width: int) -> rk.Kernel:
    """Returns a kernel of ``sklearn.gaussian_process.kernels`` between different points, so without white
    noise."""
    # A subclass may do anything.
    is_sklearn = type(kernel).__module__ == "sklearn.gaussian_process.kernels"
    convert = _GP_KERNELS.get(type(kernel).__name__) if is_sklearn else None
    if convert is None:
        raise _unknown(kernel)
    return convert(kernel, width)


def _unknown(kernel: Any) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"the kernel has a part {kernel}, which has no exact values: RBF, ConstantKernel, WhiteKernel, "
        "DotProduct, PairwiseKernel ('rbf', 'laplacian', 'linear', 'poly'), Matern, RationalQuadratic, "
        "ExpSineSquared of one column, their sums, products and powers have"
    )


def _periodic(kernel: Any, width: int) -> rk.Kernel:
    # scikit-learn's kernel is a function of the Euclidean distance.
    if width != 1:
        raise _unknown(kernel)
    return rk.Periodic(length_scale=kernel.length_scale, periodicity=kernel.periodicity)


def _pairwise(kernel: Any, width: int) -> rk.Kernel:
    arguments = {"degree": 3, "coef0": 1, **(kernel.pairwise_kernels_kwargs or {})}
    # A PairwiseKernel passes gamma to these kernels only, and its gamma is never None.
    return pairwise_kernel(
        kernel.metric, width, kernel.gamma, arguments["degree"], arguments["coef0"], "PairwiseKernel"
    )


def _exponentiation(kernel: Any, width: int) -> rk.Kernel:
    power = float(kernel.exponent)
    power_kernel = _power(gp_kernel(kernel.kernel, width), power) if power > 0 else None
    if power_kernel is None:
        raise UnsupportedModelError(
            f"the kernel {kernel} has the exponent {power:g}: whole ones from 1 to 8 are supported, and any "
            "positive one of RBF, "
            "RationalQuadratic, Matern (nu 0.5, inf), ExpSineSquared, ConstantKernel and their products"
        )
    return power_kernel


_GP_KERNELS: dict[str, Callable[[Any, int], rk.Kernel]] = {
    "Sum": lambda kernel, width: gp_kernel(kernel.k1, width) + gp_kernel(kernel.k2, width),
    "Product": lambda kernel, width: gp_kernel(kernel.k1, width) * gp_kernel(kernel.k2, width),
    "Exponentiation": _exponentiation,
    "ConstantKernel": lambda kernel, _: rk.Constant(float(kernel.constant_value)),
    "WhiteKernel": lambda kernel, _: rk.Constant(0.0),
    "RBF": lambda kernel, _: rk.RBF(length_scale=kernel.length_scale),
    "Matern": lambda kernel, _: rk.Matern(length_scale=kernel.length_scale, nu=float(kernel.nu)),
    "RationalQuadratic": lambda kernel, _: rk.RationalQuadratic(
        length_scale=kernel.length_scale, alpha=kernel.alpha
    ),
    "ExpSineSquared": _periodic,
    "DotProduct": lambda kernel, _: rk.Linear() + float(kernel.sigma_0) ** 2,
    "PairwiseKernel": _pairwise,
}


def _power(kernel: rk.Kernel, power: float) -> rk.Kernel | None:
    """Returns a kernel to a positive power; ``None`` if riesz has no such kernel."""
    if isinstance(kernel, rk.Product):
        left, right = _power(kernel.left, power), _power(kernel.right, power)
        return None if left is None or right is None else left * right
    if isinstance(kernel, rk.Constant):
        return rk.Constant(kernel.value**power)
    if isinstance(kernel, rk.RBF):
        return rk.RBF(_divided(kernel.length_scale, power**0.5))
    if isinstance(kernel, rk.Laplacian):
        return rk.Laplacian(_divided(kernel.length_scale, power))
    if isinstance(kernel, rk.Matern) and kernel.nu in (0.5, np.inf):
        return rk.Matern(
            _divided(kernel.length_scale, power if kernel.nu == 0.5 else power**0.5), nu=kernel.nu
        )
    if isinstance(kernel, rk.RationalQuadratic):
        return rk.RationalQuadratic(_divided(kernel.length_scale, power**0.5), alpha=kernel.alpha * power)
    if isinstance(kernel, rk.Periodic):
        return rk.Periodic(length_scale=kernel.length_scale / power**0.5, periodicity=kernel.periodicity)
    return reduce(mul, [kernel] * int(power)) if power == int(power) <= 8 else None


def _divided(scales: Any, number: float) -> Any:
    return (np.asarray(scales, dtype=float) / number).tolist()
