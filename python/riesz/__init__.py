"""Kernel machines that explain themselves.

>>> import numpy as np, riesz
>>> from sklearn.svm import SVR
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(60, 3)); y = X[:, 0] + X[:, 1] * X[:, 2]
>>> explanation = riesz.Explainer(SVR().fit(X, y), background=X)(X[:5])
>>> explanation.values.shape
(5, 3)
>>> bool(explanation.certificate.holds)
True
"""

from . import games, kernels, plots
from ._components import Component, FunctionalANOVA, functional_anova
from ._core import UnsupportedModelError, __version__
from ._discrepancy import TestResult, hsic_test, mmd_test
from ._expansion import Expansion
from ._explainer import Explainer
from ._explanation import Certificate, Explanation, Sampling
from ._global import SageValues, SobolIndices, sage_values, sobol_indices
from ._indices import Semivalue
from ._multiplicative import odds
from ._protection_path import ProtectionPath, protection_path
from ._top import TopInteractions
from .games import Baseline, Functional, Interventional, MarginalProduct, Observational

#: Estimators import scikit-learn, which takes longer than all the rest, so they are loaded when they are asked for.
_ESTIMATORS = (
    "KernelRidge",
    "KernelLogisticRegression",
    "SVC",
    "SVR",
    "GaussianProcessRegressor",
    "GaussianProcessClassifier",
)

#: Modules that import it, too.
_MODULES = (
    "aggregate",
    "causal",
    "clusters",
    "counts",
    "distributed",
    "feature_selection",
    "fusion",
    "preference",
    "rankability",
)

__all__ = [
    "Baseline",
    "Certificate",
    "Component",
    "Expansion",
    "Explainer",
    "Explanation",
    "Functional",
    "FunctionalANOVA",
    "Interventional",
    "MarginalProduct",
    "Observational",
    "ProtectionPath",
    "SageValues",
    "Sampling",
    "Semivalue",
    "SobolIndices",
    "TestResult",
    "TopInteractions",
    "UnsupportedModelError",
    "__version__",
    "functional_anova",
    "games",
    "hsic_test",
    "kernels",
    "mmd_test",
    "odds",
    "plots",
    "protection_path",
    "sage_values",
    "sobol_indices",
]


def __getattr__(name: str):
    if name in _ESTIMATORS:
        from . import estimators

        return getattr(estimators, name)
    if name == "AggregateCountProcess":
        from .counts import AggregateCountProcess

        return AggregateCountProcess
    if name == "AggregateGaussianProcess":
        from .aggregate import AggregateGaussianProcess

        return AggregateGaussianProcess
    if name in ("CausalEffect", "CausalEstimate", "CausalFusion", "MediatorShares"):
        from . import fusion

        return getattr(fusion, name)
    if name == "PreferenceClassifier":
        from .preference import PreferenceClassifier

        return PreferenceClassifier
    if name == "PreferenceClusters":
        from .clusters import PreferenceClusters

        return PreferenceClusters
    if name in _MODULES:
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'riesz' has no attribute '{name}'")


def __dir__():
    return [
        *globals(),
        *_ESTIMATORS,
        "CausalEffect",
        "CausalFusion",
        "PreferenceClassifier",
        "PreferenceClusters",
        "feature_selection",
    ]
