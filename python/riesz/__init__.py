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

from . import discrepancy, games, kernels, plots
from ._core import UnsupportedModelError, __version__
from ._explaining.components import Component, FunctionalANOVA, functional_anova
from ._explaining.explainer import Explainer
from ._explaining.explanation import Certificate, Explanation, Sampling
from ._explaining.global_importance import SageValues, SobolIndices, sage_values, sobol_indices
from ._explaining.indices import Semivalue
from ._explaining.protection_path import ProtectionPath, protection_path
from ._explaining.top_interactions import TopInteractions
from ._models.average import ModelAverage
from ._models.expansion import Expansion
from ._models.multiplicative import odds_model
from .discrepancy import KernelTestResult, hsic_test, mmd_test
from .games import Baseline, Causal, Functional, Interventional, MarginalProduct, Observational

if TYPE_CHECKING:
    from . import causal, distributed, downscaling, embedding, estimators, feature_selection, preference
    from .causal import CausalEffect, CausalEstimate, CausalFusion, MediatorShares
    from .downscaling import AggregateCountProcess, AggregateGaussianProcess
    from .embedding import ConditionalMean
    from .estimators import (
        SVC,
        SVR,
        GaussianProcessClassifier,
        GaussianProcessRegressor,
        KernelLogisticRegression,
        KernelRidge,
    )
    from .preference import PreferenceClassifier, PreferenceClusters

#: Names from modules that import scikit-learn, which takes longer than all other imports; they are loaded at
#: their first use.
_LAZY = {
    "AggregateGaussianProcess": "downscaling",
    "AggregateCountProcess": "downscaling",
    "CausalEffect": "causal",
    "CausalEstimate": "causal",
    "CausalFusion": "causal",
    "ConditionalMean": "embedding",
    "MediatorShares": "causal",
    "KernelRidge": "estimators",
    "KernelLogisticRegression": "estimators",
    "SVC": "estimators",
    "SVR": "estimators",
    "GaussianProcessRegressor": "estimators",
    "GaussianProcessClassifier": "estimators",
    "PreferenceClassifier": "preference",
    "PreferenceClusters": "preference",
}

#: Modules that are loaded at their first use.
_MODULES = (
    "causal",
    "distributed",
    "downscaling",
    "embedding",
    "estimators",
    "feature_selection",
    "preference",
)

__all__ = [
    "AggregateCountProcess",
    "AggregateGaussianProcess",
    "Baseline",
    "Causal",
    "CausalEffect",
    "CausalEstimate",
    "CausalFusion",
    "Certificate",
    "Component",
    "ConditionalMean",
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
    "ModelAverage",
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
    "causal",
    "discrepancy",
    "distributed",
    "downscaling",
    "embedding",
    "estimators",
    "feature_selection",
    "functional_anova",
    "games",
    "hsic_test",
    "kernels",
    "mmd_test",
    "odds_model",
    "plots",
    "preference",
    "protection_path",
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
