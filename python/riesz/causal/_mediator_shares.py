"""The shares of an effect that pass through each mediator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _core
from .._data.table_columns import Rows
from .._explaining.explainer import Explainer
from .._models.expansion import Expansion
from ._study_tables import Levels, cells


@dataclass(frozen=True, eq=False)
class MediatorShares:
    """The share of an effect, or of a contrast of effects, that passes through each mediator."""

    #: Description of the effect.
    description: str
    #: The treatments, by name.
    treatments: dict[str, np.ndarray]
    #: Names of the mediators, the columns of :attr:`values`.
    mediators: tuple[str, ...]
    #: Shapley values, (rows, mediators); with :attr:`base_values` they sum to :attr:`mean`.
    values: np.ndarray
    #: The part that does not depend on the treatment, (rows,): the outcome with background mediators. For
    #: contrasts it is 0, except for parts that the studies do not support.
    base_values: np.ndarray
    #: The effect, (rows,).
    mean: np.ndarray

    def to_frame(self) -> Any:
        """Returns a data frame with one line per row: treatments, the value of each mediator, base value and
        mean."""
        import pandas

        values = {f"through {name}": column for name, column in zip(self.mediators, self.values.T)}
        return pandas.DataFrame(
            {**self.treatments, **values, "base value": self.base_values, "mean": self.mean}
        )

    def __repr__(self) -> str:
        return f"<riesz.MediatorShares: {self.description}>\n{self.to_frame().to_string(index=False)}"


def mediator_values(
    parts: list[_Part], levels: Levels, background: Any, options: Mapping[str, Any]
) -> np.ndarray:
    """Returns the values of mediators, (rows, mediators): weighted sums of the outcome's values at the rows
    of study 1, averaged over hyper-parameters."""
    total: Any = 0.0
    for weight, row_weights, outcome, rows in parts:
        model = Expansion._wrap(outcome)
        names = model.feature_names
        explanation = Explainer(model, background, **options)(
            cells(Rows(names, [levels[name] for name in names], rows))
        )
        total = total + weight * (row_weights @ explanation.values.reshape(len(rows), -1))
    return total


#: A weight, the weights of rows of study 1, the outcome as a function of mediators, and these rows'
#: mediators.
_Part = tuple[float, np.ndarray, _core.Expansion, np.ndarray]
