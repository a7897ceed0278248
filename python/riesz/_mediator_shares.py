"""Through which mediators an effect goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _core
from ._expansion import Expansion
from ._explainer import Explainer
from ._study_tables import Levels, cells
from ._table_columns import Rows


@dataclass(frozen=True, eq=False)
class MediatorShares:
    """The share of an effect, or of a contrast of effects, that passes through each mediator."""

    #: What it is of, in words.
    what: str
    #: The treatments, by name.
    treatments: dict[str, np.ndarray]
    #: Names of the mediators, one a column of :attr:`values`.
    mediators: tuple[str, ...]
    #: Shapley values, (rows, mediators): with :attr:`base_values` they add up to :attr:`mean`.
    values: np.ndarray
    #: What is there whatever the treatment, (rows,): the outcome where mediators are as in the background; 0
    #: of contrasts, but for what studies do not tell.
    base_values: np.ndarray
    #: The effect, (rows,).
    mean: np.ndarray

    def to_frame(self) -> Any:
        """One line a row: treatments, the value of each mediator, base value and mean."""
        import pandas

        values = {f"through {name}": column for name, column in zip(self.mediators, self.values.T)}
        return pandas.DataFrame(
            {**self.treatments, **values, "base value": self.base_values, "mean": self.mean}
        )

    def __repr__(self) -> str:
        return f"<riesz.MediatorShares: {self.what}>\n{self.to_frame().to_string(index=False)}"


def values_through(
    parts: list[_Part], levels: Levels, background: Any, options: Mapping[str, Any]
) -> np.ndarray:
    """The values of mediators, (rows, mediators): those of the outcome at the rows of study 1 by the weights
    that these have, averaged over hyper-parameters."""
    total: Any = 0.0
    for weight, of_rows, outcome, rows in parts:
        model = Expansion._wrap(outcome)
        names = model.feature_names
        explained = Explainer(model, background, **options)(
            cells(Rows(names, [levels[name] for name in names], rows))
        )
        total = total + weight * (of_rows @ explained.values.reshape(len(rows), -1))
    return total


#: A weight, weights of rows of study 1, the outcome at mediators, and the mediators of these rows.
_Part = tuple[float, np.ndarray, _core.Expansion, np.ndarray]
