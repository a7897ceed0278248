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

from typing import TYPE_CHECKING

from . import games, kernels, plots
from ._components import Component, FunctionalANOVA, functional_anova
from ._core import UnsupportedModelError, __version__
from ._discrepancy import KernelTestResult, hsic_test, mmd_test
from ._expansion import Expansion
from ._explainer import Explainer
from ._explanation import Certificate, Explanation, Sampling
from ._global import SageValues, SobolIndices, sage_values, sobol_indices
from ._indices import Semivalue
from ._multiplicative import odds_model
from ._protection_path import ProtectionPath, protection_path
from ._top_interactions import TopInteractions
from .games import Baseline, Functional, Interventional, MarginalProduct, Observational

if TYPE_CHECKING:
    from . import (
        aggregate,
        causal,
        clusters,
        counts,
        distributed,
        estimators,
        feature_selection,
        fusion,
        preference,
        rankability,
    )
    from .aggregate import AggregateGaussianProcess
    from .clusters import PreferenceClusters
    from .counts import AggregateCountProcess
    from .estimators import (
        SVC,
        SVR,
        GaussianProcessClassifier,
        GaussianProcessRegressor,
        KernelLogisticRegression,
        KernelRidge,
    )
    from .fusion import CausalEstimate, CausalFusion, MediatorShares
    from .preference import PreferenceClassifier

#: Names from modules that import scikit-learn, which takes longer than all other imports; they are loaded at
#: their first use.
_LAZY = {
    "AggregateGaussianProcess": "aggregate",
    "PreferenceClusters": "clusters",
    "AggregateCountProcess": "counts",
    "KernelRidge": "estimators",
    "KernelLogisticRegression": "estimators",
    "SVC": "estimators",
    "SVR": "estimators",
    "GaussianProcessRegressor": "estimators",
    "GaussianProcessClassifier": "estimators",
    "CausalEffect": "fusion",
    "CausalEstimate": "fusion",
    "CausalFusion": "fusion",
    "MediatorShares": "fusion",
    "PreferenceClassifier": "preference",
}

#: Modules that are loaded at their first use.
_MODULES = (
    "aggregate",
    "causal",
    "clusters",
    "counts",
    "distributed",
    "estimators",
    "feature_selection",
    "fusion",
    "preference",
    "rankability",
)

__all__ = [
    "AggregateCountProcess",
    "AggregateGaussianProcess",
    "Baseline",
    "CausalEffect",
    "CausalEstimate",
    "CausalFusion",
    "Certificate",
    "Component",
    "Expansion",
    "Explainer",
    "Explanation",
    "Functional",
    "FunctionalANOVA",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "Interventional",
    "KernelLogisticRegression",
    "KernelRidge",
    "KernelTestResult",
    "MarginalProduct",
    "MediatorShares",
    "Observational",
    "PreferenceClassifier",
    "PreferenceClusters",
    "ProtectionPath",
    "SVC",
    "SVR",
    "SageValues",
    "Sampling",
    "Semivalue",
    "SobolIndices",
    "TopInteractions",
    "UnsupportedModelError",
    "__version__",
    "aggregate",
    "causal",
    "clusters",
    "counts",
    "distributed",
    "estimators",
    "feature_selection",
    "functional_anova",
    "fusion",
    "games",
    "hsic_test",
    "kernels",
    "mmd_test",
    "odds_model",
    "plots",
    "preference",
    "protection_path",
    "rankability",
    "sage_values",
    "sobol_indices",
]


def __getattr__(name: str):
    import importlib

    if name in _LAZY:
        return getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'riesz' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
