"""Preferences: models of duels between items, rankings, and clusters of comparable items.

The model and its explanations: Chau, Gonzalez and Sejdinovic (2022), "Learning inconsistent preferences with
Gaussian processes"; Hu, Chau, Ferrando Huertas and Sejdinovic (2022), "Explaining preferences with Shapley
values"."""

from ._classifier import PreferenceClassifier
from ._clusters import PreferenceClusters
from ._duels import explain
from ._evaluation import EvaluationResult, evaluate
from ._next_duel import DuelSuggestions
from ._pair_classifier import PairClassifier, pair_groups
from ._rankability import Evidence, Rankability, SpecR, compare_models, rankability, spec_r

__all__ = [
    "DuelSuggestions",
    "EvaluationResult",
    "Evidence",
    "PairClassifier",
    "PreferenceClassifier",
    "PreferenceClusters",
    "Rankability",
    "SpecR",
    "compare_models",
    "evaluate",
    "explain",
    "pair_groups",
    "rankability",
    "spec_r",
]


def __dir__() -> list[str]:
    return sorted(__all__)
