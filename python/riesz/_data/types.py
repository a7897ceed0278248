"""Types of arguments that several modules take."""

from __future__ import annotations

import os
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


class GeoInterface(Protocol):
    """An object with a GeoJSON form, such as a data frame of geopandas."""

    @property
    def __geo_interface__(self) -> Mapping[str, Any]: ...


#: A GeoJSON document: the path of a file, its content, or an object with such a form.
GeoJSON: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | GeoInterface
#: Rows: an array, a data frame or a sparse matrix.
MatrixLike: TypeAlias = ArrayLike | DataFrameLike | SparseLike
#: A kernel as an object, a name of scikit-learn, or an expression of the command line.
KernelLike: TypeAlias = Kernel | str
#: Features, or groups of features by name; each is a column, by name or number.
Features: TypeAlias = Sequence[int | str] | Mapping[str, Sequence[int | str]]
#: The lower and upper end of the range of values, or a range for each name.
ValueRange: TypeAlias = tuple[Any, Any] | Mapping[str, tuple[Any, Any]] | None
#: A positive number, or "auto" to choose it.
PositiveOrAuto: TypeAlias = float | Literal["auto"]
#: The optimiser of hyper-parameters; None keeps them fixed.
Optimizer: TypeAlias = Literal["fmin_l_bfgs_b"] | None
#: A seed, as in scikit-learn.
RandomState: TypeAlias = int | np.random.RandomState | None
#: Types of columns of a data frame that override the detected ones: "text" or "number", by name.
ColumnChoices: TypeAlias = Mapping[str, str]
