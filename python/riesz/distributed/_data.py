"""Parquet files as one table, in units of whole row groups that any worker can read repeatedly."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

#: Minimum number of rows of a unit, if its file has as many.
UNIT = 1 << 17


def _parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            "riesz.distributed reads Parquet files with pyarrow: pip install riesz[dask] or riesz[spark]"
        ) from None
    return pyarrow.parquet


@dataclass(frozen=True)
class File:
    """A file with its state when the work began."""

    path: str
    size: int
    #: Time of the last change, in nanoseconds.
    modified: int
    groups: tuple[int, ...]


@dataclass(frozen=True)
class Unit:
    """Consecutive row groups of a file."""

    file: int
    groups: tuple[int, ...]
    #: The number of the unit's first row in its file, and the number of all rows before the unit.
    first: int
    before: int
    rows: int


@dataclass(frozen=True)
class Data:
    """Files with the same columns, and the roles of the columns.

    ``features`` are names with their levels, ``None`` for numeric columns; ``classes`` are the levels of a
    categorical target."""

    files: tuple[File, ...]
    features: tuple[tuple[str, tuple[str, ...] | None], ...]
    targets: tuple[str, ...]
    weights: str | None
    classes: tuple[str, ...] | None = None

    def categories(self) -> list[str]:
        """Returns the names of categorical columns."""
        target = [] if self.classes is None else [self.targets[0]]
        return [name for name, levels in self.features if levels is not None] + target

    def with_levels(self, levels: Sequence[tuple[str, ...]]) -> Data:
        """Returns this data set with these levels of the categorical columns."""
        levels_of_column = dict(zip(self.categories(), levels))
        features = tuple(
            (name, None if column_levels is None else levels_of_column[name])
            for name, column_levels in self.features
        )
        return replace(
            self,
            features=features,
            classes=None if self.classes is None else levels_of_column[self.targets[0]],
        )

    def units(self) -> list[Unit]:
        """Returns the units of work."""
        units: list[Unit] = []
        rows_before = 0
        for file, facts in enumerate(self.files):
            groups: list[int] = []
            first = rows = 0
            for group, count in enumerate(facts.groups):
                groups.append(group)
                rows += count
                if rows and (rows >= UNIT or group + 1 == len(facts.groups)):
                    units.append(Unit(file, tuple(groups), first, rows_before, rows))
                    first, rows_before, rows, groups = first + rows, rows_before + rows, 0, []
        return units

    def cells(self, unit: Unit, names: Sequence[str]) -> Any:
        """Returns some columns of a unit, as an Arrow table."""
        facts = self.files[unit.file]
        if _state(facts.path) != (facts.size, facts.modified):
            raise ValueError(
                f"{facts.path} has changed since the work began: begin anew, with another checkpoint"
            )
        return (
            _parquet()
            .ParquetFile(facts.path)
            .read_row_groups(list(unit.groups), columns=list(names), use_threads=False)
        )

    def features_of(self, unit: Unit) -> tuple[list[str], list[list[str] | None], np.ndarray]:
        """Returns the features of a unit's rows, as the core takes them."""
        names = [name for name, _ in self.features]
        return (
            names,
            [None if levels is None else list(levels) for _, levels in self.features],
            self._numbers(unit, names),
        )

    def rows(self, unit: Unit) -> tuple[Any, np.ndarray, list[float] | None]:
        """Returns features, targets and weights of a unit's rows, as the core takes them."""
        names = [name for name, _ in self.features]
        further = [*self.targets, *([] if self.weights is None else [self.weights])]
        numbers = self._numbers(unit, [*names, *further])
        d, t = len(names), len(self.targets)
        levels = [None if levels is None else list(levels) for _, levels in self.features]
        weights = None if self.weights is None else numbers[:, d + t].tolist()
        return (names, levels, numbers[:, :d]), np.ascontiguousarray(numbers[:, d : d + t]), weights

    def _numbers(self, unit: Unit, names: Sequence[str]) -> np.ndarray:
        cells, levels = self.cells(unit, names), dict(self.features)
        if self.classes is not None:
            levels[self.targets[0]] = self.classes
        numbers = np.empty((cells.num_rows, len(names)), order="F")
        for j, name in enumerate(names):
            column = cells.column(name)
            label = f"{self.files[unit.file].path}: column '{name}'"
            self.check_column(unit, name, column)
            column_levels = levels.get(name)
            if column_levels is not None:
                codes = {level: code for code, level in enumerate(column_levels)}
                texts = _texts(column)
                unseen = next((text for text in texts if text not in codes), None)
                if unseen is not None:
                    raise ValueError(
                        f"{label} holds '{unseen}', which the model has not seen; it knows: "
                        f"{', '.join(column_levels)}"
                    )
                numbers[:, j] = [codes[text] for text in texts]
            else:
                numbers[:, j] = column.to_numpy()
        return numbers

    def check_column(self, unit: Unit, name: str, column: Any) -> None:
        """Refuses a column with an empty or non-finite cell; the error names the file and the row."""
        label = f"{self.files[unit.file].path}: column '{name}'"
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0])
            raise ValueError(
                f"{label} is empty in row {unit.first + row + 1}: fill the value in or remove the row"
            )
        import pyarrow.types as kinds

        if not kinds.is_floating(column.type):
            return
        numbers = column.to_numpy()
        bad = np.flatnonzero(~np.isfinite(numbers))
        if len(bad):
            row = int(bad[0])
            raise ValueError(
                f"{label} is {numbers[row]} in row {unit.first + row + 1}: fill the value in or remove the "
                f"row"
            )

    def digest_text(self) -> str:
        """Returns a text of all fields except the levels, which follow from the files."""
        without_levels = self.with_levels([()] * len(self.categories()))
        return json.dumps(
            [[f.path, f.size, f.modified, f.groups] for f in without_levels.files]
            + [
                without_levels.features,
                without_levels.targets,
                without_levels.weights,
                without_levels.classes,
            ]
        )


def levels_of(data: Data, unit: Unit) -> list[list[str]]:
    """Returns the levels of categorical columns in a unit."""
    names = data.categories()
    cells = data.cells(unit, names)
    for name in names:
        data.check_column(unit, name, cells.column(name))
    return [sorted(set(_texts(cells.column(name)))) for name in names]


def in_order(levels: set[str]) -> tuple[str, ...]:
    """Returns levels sorted by value if all are numbers, else by name."""
    try:
        return tuple(sorted(levels, key=lambda level: (float(level), level)))
    except ValueError:
        return tuple(sorted(levels))


def _texts(column: Any) -> list[str]:
    named = {True: "true", False: "false"}
    return [named[cell] if isinstance(cell, bool) else str(cell).strip() for cell in column.to_pylist()]


def _state(path: str) -> tuple[int, int]:
    """Returns the length of a file, and the time of its last change."""
    facts = os.stat(path)
    return facts.st_size, facts.st_mtime_ns


def _paths(data: Any) -> Iterator[str]:
    for entry in [data] if isinstance(data, (str, os.PathLike)) else data:
        path = os.fspath(entry)
        if os.path.isdir(path):
            paths = [
                p
                for p in sorted(glob.glob(os.path.join(path, "*.parquet")))
                if os.path.basename(p)[0] not in "._"
            ]
        else:
            paths = [path] if os.path.exists(path) else sorted(glob.glob(path))
        if not paths:
            raise FileNotFoundError(f"no file matches '{path}'")
        yield from paths


def opened(
    data: Any,
    targets: Sequence[str],
    features: Sequence[str] | None,
    weights: str | None,
    categorical: Sequence[str],
    classes: bool = False,
) -> Data:
    """Opens the files of ``data`` and finds the types of their columns: text is categorical, as is a target
    with ``classes``. The levels are still empty."""
    parquet = _parquet()
    files = []
    for path in _paths(data):
        facts = parquet.ParquetFile(path).metadata
        groups = tuple(facts.row_group(k).num_rows for k in range(facts.num_row_groups))
        real = os.path.realpath(path)
        files.append(File(real, *_state(real), groups))
    duplicate = next((f.path for k, f in enumerate(files) if f in files[:k]), None)
    if duplicate is not None:
        raise ValueError(f"{duplicate} is named twice, and its rows would count twice")
    schema = parquet.read_schema(files[0].path)
    # Unnamed indices of pandas are not features.
    indices = [name for name in schema.names if name.startswith("__index_level_")]
    for file in files[1:]:
        other_schema = parquet.read_schema(file.path)
        missing = next((name for name in schema.names if name not in other_schema.names), None)
        if missing is not None:
            raise ValueError(f"{file.path} has no column '{missing}', which {files[0].path} has")
    reserved = {*targets, *([] if weights is None else [weights])}
    non_features = {*reserved, *indices}
    names = (
        [name for name in schema.names if name not in non_features] if features is None else list(features)
    )
    missing = next((name for name in [*names, *reserved, *categorical] if name not in schema.names), None)
    if missing is not None:
        raise ValueError(f"there is no column '{missing}'; the columns are: {', '.join(schema.names)}")
    repeated = next((name for name in names if name in reserved), None)
    if repeated is not None or len(set(targets)) < len(targets):
        raise ValueError(
            f"column '{repeated or targets[0]}' is named twice, as a target or weight and as something else"
        )
    conflicting = next((name for name in categorical if name in reserved), None)
    if conflicting is not None:
        raise ValueError(
            f"column '{conflicting}' is a target or weight, and categorical names columns to predict from"
        )
    if not names:
        raise ValueError("no column is left to predict from")
    import pyarrow.types as kinds

    def text(name: str) -> bool:
        kind = schema.field(name).type
        is_text = (
            kinds.is_string(kind)
            or kinds.is_large_string(kind)
            or kinds.is_boolean(kind)
            or kinds.is_dictionary(kind)
        )
        return name in categorical or is_text

    return Data(
        tuple(files),
        tuple((name, () if text(name) else None) for name in names),
        tuple(targets),
        weights,
        () if classes else None,
    )
