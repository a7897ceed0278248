"""Types of arguments that several modules take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..kernels import Kernel


class DataFrameLike(Protocol):
    """A data frame of pandas, polars or pyarrow."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and columns."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any, /) -> Any: ...


class SparseLike(Protocol):
    """A sparse matrix or array of scipy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and columns."""
        ...

    def toarray(self) -> NDArray[Any]:
        """Returns the dense array."""
        ...


#: Rows: an array, a data frame or a sparse matrix.
MatrixLike: TypeAlias = ArrayLike | DataFrameLike | SparseLike
#: A kernel as an object, a name of scikit-learn, or an expression of the command line.
KernelLike: TypeAlias = Kernel | str
#: Features, or groups of features by name; each is a column, by name or number.
Features: TypeAlias = Sequence[int | str] | Mapping[str, Sequence[int | str]]
#: A positive number, or "auto" to choose it.
PositiveOrAuto: TypeAlias = float | Literal["auto"]
#: The optimiser of hyper-parameters; None keeps them fixed.
Optimizer: TypeAlias = Literal["fmin_l_bfgs_b"] | None
#: A seed, as in scikit-learn.
RandomState: TypeAlias = int | np.random.RandomState | None
#: Types of columns of a data frame that override the detected ones: "text" or "number", by name.
ColumnChoices: TypeAlias = Mapping[str, str]
