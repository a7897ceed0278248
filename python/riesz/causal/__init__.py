"""Causal effects: identification in graphs, and estimates from one table or several studies."""

from ._fusion import CausalEffect, CausalEstimate, CausalFusion, MediatorShares, Suggestions, suggest_among
from ._identification import (
    Bridge,
    GraphParts,
    Hedge,
    Identification,
    Instrument,
    NotIdentifiedError,
    d_separated,
    effect_formula,
    identify,
    instrument,
    open_path,
    read_graph,
    sequential_adjustment,
)

__all__ = [
    "Bridge",
    "CausalEffect",
    "CausalEstimate",
    "CausalFusion",
    "GraphParts",
    "Hedge",
    "Identification",
    "Instrument",
    "MediatorShares",
    "NotIdentifiedError",
    "Suggestions",
    "d_separated",
    "effect_formula",
    "identify",
    "instrument",
    "open_path",
    "read_graph",
    "sequential_adjustment",
    "suggest_among",
]


def __dir__() -> list[str]:
    return sorted(__all__)
