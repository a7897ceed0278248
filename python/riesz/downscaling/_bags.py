"""The two tables of downscaling, rows and bags of rows, as the core takes them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from .. import kernels as rk
from .._data.parameters import whole_number
from .._data.table_columns import ColumnTypes, Rows, _columns, _text, check_column_types, read_categories
from .._data.validation import (
    _listed,
    as_numbers,
    collected,
    first_names,
    is_missing,
    names_of,
    numbered,
    select_columns,
)
from .._models.kernel_expressions import as_kernel


class ColumnRoles(NamedTuple):
    """The roles of columns: names of columns, or their cells."""

    bag: Any
    weight: Any = None
    target: Any = None
    target_std: Any = None
    total: Any = None
    mediators: Sequence[str] = ()
    features: Sequence[str] | None = None
    row: Any = None
    trials: Any = None
    #: The types of columns that the user gives.
    choices: ColumnTypes | None = None


class Members(NamedTuple):
    """Rows with their bags and weights, and with names if a row may be in several bags."""

    rows: Any
    bag: list[str]
    weight: np.ndarray | None
    #: The position of each row in the user's table.
    positions: list[int]
    row: list[str] | None = None

    def take(self, positions: Sequence[int]) -> Members:
        """Returns the members at these positions."""
        weight = None if self.weight is None else self.weight[list(positions)]
        row = None if self.row is None else [self.row[i] for i in positions]
        bag, in_table = [self.bag[i] for i in positions], [self.positions[i] for i in positions]
        return Members(_take_rows(self.rows, positions), bag, weight, in_table, row)

    def check(self) -> None:
        """Refuses rows with a missing cell; the error names the row and its bag."""
        names, columns = _columns(self.rows, "rows")
        for name, (cells, _) in zip(names or numbered(len(columns)), columns):
            missing = _first_missing(cells)
            if missing is not None:
                raise ValueError(
                    f"rows is {cells[missing]} in row {self.positions[missing]} (from 0) of column '{name}', "
                    f"in bag "
                    f"'{self.bag[missing]}': "
                    "fill the value in or remove the row"
                )


@dataclass(frozen=True)
class Tables:
    """The joined tables of rows, bags and targets."""

    rows: Rows
    #: For each membership its row, and its bag among :attr:`bags`.
    row: list[int]
    bag: list[int]
    weight: np.ndarray | None
    #: Names of bags with rows, and of bags with targets.
    bags: list[str]
    targets: list[str]
    #: The name of the target.
    name: str
    values: np.ndarray
    #: For each target its bag among :attr:`bags`; None if it has no rows.
    bag_of_target: list[int | None]
    #: Known variances of targets.
    known: np.ndarray | None
    #: Mediators of bags with rows and of targets, and the sums of the targets' weights.
    mediators: tuple[Rows, Rows, list[float] | None] | None
    #: The number of trials of each target, if targets are numbers of successes.
    trials: np.ndarray | None
    notes: list[str]

    @property
    def mediated(self) -> list[str]:
        """The targets without rows."""
        return [name for name, bag in zip(self.targets, self.bag_of_target) if bag is None]

    def to_core(self, sums: bool) -> _core.Aggregates:
        """Returns the tables as the core takes them."""
        as_list = lambda array: None if array is None else array.tolist()
        return _core.Aggregates(
            {
                "rows": tuple(self.rows),
                "row": self.row,
                "bag": self.bag,
                "bags": len(self.bags),
                "weight": as_list(self.weight),
                "sums": sums,
                "name": self.name,
                "targets": self.values.tolist(),
                "bag_of_target": self.bag_of_target,
                "known": as_list(self.known),
                "mediators": self.mediators,
            }
        )


def rows_of_bags(rows: Any, roles: ColumnRoles, one_table: bool = False) -> Members:
    """Returns the rows with their bags and weights. If ``one_table``, the rows are the table of bags too, and
    its targets, trials, standard errors and totals are no features."""
    rows = collected(rows)
    target_columns = (roles.target, roles.trials, roles.target_std, roles.total) if one_table else ()
    reserved = (roles.bag, roles.weight, roles.row, *target_columns)
    named = {column for column in reserved if isinstance(column, str)}
    count = len(rows)
    bag = _cells(rows, roles.bag, "rows", "bag", count)
    for i, cell in enumerate(bag):
        if is_missing(cell):
            raise ValueError(f"row {i} (from 0) of rows has no bag: say which it is in, or leave it out")
    bags = [_text(cell) for cell in bag]
    weight = None
    if roles.weight is not None:
        weight = _numbers(_cells(rows, roles.weight, "rows", "weight", count), "weight")
        for i in np.flatnonzero(~((weight >= 0) & np.isfinite(weight)))[:1]:
            raise ValueError(
                f"weight is {weight[i]} in row {i} (from 0), of bag '{bags[i]}': weights are numbers that "
                "are not negative"
            )
        if not weight.any():
            raise ValueError("weight is 0 in every row: at least one row must have a positive weight")
    row_names = None
    if roles.row is not None:
        row_names = [_text(cell) for cell in _cells(rows, roles.row, "rows", "row", count)]
    names = names_of(rows)
    if names is not None:
        feature_columns = (
            [name for name in names if name not in named] if roles.features is None else list(roles.features)
        )
        _check_columns_exist(feature_columns, names, "rows")
        rows = rows[[rows.columns[names.index(name)] for name in feature_columns]]
    elif roles.features is not None:
        raise ValueError(
            "features are names of columns, and rows have none: give a data frame, or these columns alone"
        )
    return _without_zero_weights(Members(rows, bags, weight, list(range(count)), row_names))


def _without_zero_weights(members: Members) -> Members:
    """Drops rows whose weight is 0, with a warning that gives their number."""
    if members.weight is None or members.weight.all():
        return members
    weighted_rows = np.flatnonzero(members.weight)
    warnings.warn(
        f"{len(members.weight) - len(weighted_rows)} of {len(members.weight)} rows whose weight is 0 were "
        "left out",
        UserWarning,
        stacklevel=4,
    )
    return members.take(weighted_rows.tolist())


def read_tables(
    rows: Any, bags: Any, roles: ColumnRoles, operator: str, sums: bool, drop_unmatched: bool
) -> Tables:
    """Returns the joined tables; ``operator`` and ``sums`` are those of the estimator. ``bags`` is None for
    one table of areas."""
    if bags is None:
        bags, roles = rows, _roles_of_areas(rows, roles, drop_unmatched)
    elif roles.bag is None:
        raise ValueError("bag = None: give the column of both tables with the bags' names, or each row's bag")
    members, bags = rows_of_bags(rows, roles, one_table=rows is bags), collected(bags)
    names, values, frame = _targets(bags, roles)
    has_target = ~np.isnan(values)
    for b in np.flatnonzero(np.isinf(values))[:1]:
        raise ValueError(f"the target of bag '{names[b]}' is {values[b]}: it is a number, or missing")
    mediators = [roles.mediators] if isinstance(roles.mediators, str) else list(roles.mediators)
    if mediators and operator == "matched":
        raise ValueError("operator = 'matched' takes no mediators: leave them out, or take operator='auto'")
    if not mediators and operator not in ("auto", "matched"):
        raise ValueError(
            f"operator = {operator!r} takes mediators: name the columns of bags that tell what all bags have "
            "in common"
        )
    join = lambda mediated: _core.join_bags(members.bag, names, has_target.tolist(), mediated, drop_unmatched)
    used_rows, bag, bags_with_rows, targets, bag_of_target, notes = join(bool(mediators))
    if operator == "mediated":
        bag_of_target = [None] * len(bag_of_target)
    elif mediators and None not in bag_of_target:
        used_rows, bag, bags_with_rows, targets, bag_of_target, notes = join(False)
        notes, mediators = [*notes, "all targets have rows of their own, so mediators are not used"], []
    members = members.take(used_rows)
    members.check()
    row_choices, mediator_choices = _split_choices(roles.choices, members.rows, mediators)
    categories = read_categories(members.rows, row_choices, "rows")
    if categories is None:
        column_names = names_of(members.rows) or numbered(
            np.shape(members.rows)[1] if np.ndim(members.rows) == 2 else 0
        )
        categories = Rows(
            column_names, [None] * len(column_names), as_numbers(members.rows, column_names, "rows")
        )
    categories, row = _distinct_rows(categories, members)
    target_names = [names[b] for b in targets]
    tables = Tables(
        rows=categories,
        row=row,
        bag=bag,
        weight=members.weight,
        bags=[names[b] for b in bags_with_rows],
        targets=target_names,
        name=roles.target if isinstance(roles.target, str) else str(getattr(bags, "name", None) or "y"),
        values=values[targets],
        bag_of_target=bag_of_target,
        known=_known_variances(frame, roles.target_std, target_names, targets, len(names)),
        mediators=_mediators(frame, mediators, names, bags_with_rows, targets, mediator_choices)
        if mediators
        else None,
        trials=None
        if roles.trials is None
        else _numbers(_cells(frame, roles.trials, "bags", "trials", len(names)), "trials")[targets],
        notes=notes,
    )
    if tables.mediators is not None and sums:
        totals = _totals(frame, roles.total, names, targets, bag_of_target)
        tables = Tables(**(vars(tables) | {"mediators": (*tables.mediators[:2], totals)}))
    return tables


def _roles_of_areas(areas: Any, roles: ColumnRoles, drop_unmatched: bool) -> ColumnRoles:
    """Returns the roles of columns in one table of areas, which are named by its index by default."""
    of_two_tables = {
        "mediators": len(roles.mediators) > 0,
        "total": roles.total is not None,
        "row": roles.row is not None,
        "drop_unmatched": drop_unmatched,
    }
    for option in [name for name, is_given in of_two_tables.items() if is_given]:
        raise ValueError(f"{option} relates two tables, and without bags there is one: leave it out")
    if names_of(collected(areas)) is None:
        raise ValueError("bags = None: then rows is a data frame of areas with a column of targets")
    if roles.bag is not None:
        return roles
    table = collected(areas)
    return roles._replace(bag=np.asarray(table.index) if hasattr(table, "iloc") else np.arange(len(table)))


def _split_choices(
    choices: ColumnTypes | None, rows: Any, mediators: list[str]
) -> tuple[ColumnTypes, ColumnTypes]:
    """Returns the given types of columns of the rows, and those of mediators."""
    names = names_of(rows) or []
    check_column_types(choices, [*names, *mediators], "the tables")
    stated = dict(choices or {})
    return {n: t for n, t in stated.items() if n in names}, {
        n: t for n, t in stated.items() if n in mediators
    }


def points_of(n_inducing: Any, tables: Tables) -> Any:
    """Returns the number of inducing points, or the given points as rows."""
    if np.ndim(n_inducing) == 0 and names_of(n_inducing) is None:
        return whole_number("n_inducing", n_inducing, 1)
    points = collected(n_inducing)
    cells = as_numbers(
        select_columns(points, tables.rows.names), tables.rows.names, "n_inducing", tables.rows.levels
    )
    return tables.rows.names, tables.rows.levels, cells


def check_choices(
    choices: Sequence[tuple[str, Any, tuple[str, ...]]], kernels: Sequence[tuple[str, Any]]
) -> None:
    """Refuses unknown values of options, and kernels of other types."""
    for name, value, allowed in choices:
        if value not in allowed:
            raise ValueError(f"{name} = {value!r}: it is one of {', '.join(map(repr, allowed))}")
    for name, kernel in kernels:
        if kernel is not None:
            as_kernel(kernel, name, ", or None")


def start_kernel(tables: Tables, kernel: rk.Kernel | str | None) -> str | None:
    """Returns the start kernel of rows as the core's JSON text; ``None`` for the default kernel."""
    if kernel is None:
        return None
    names, levels, numbers = tables.rows
    return as_kernel(kernel)._fitted_to(numbers, names, levels)._to_json(names, levels)


def start_mediator_kernel(tables: Tables, kernel: rk.Kernel | str | None) -> str | None:
    """Returns the start kernel of mediators as the core's JSON text; ``None`` without mediators."""
    if tables.mediators is None:
        return None
    bag_mediators, target_mediators, _ = tables.mediators
    all_mediators = bag_mediators._replace(
        numbers=np.vstack([bag_mediators.numbers, target_mediators.numbers])
    )
    start = _mediator_kernel(all_mediators) if kernel is None else as_kernel(kernel)
    return start._fitted_to(all_mediators.numbers, all_mediators.names, all_mediators.levels)._to_json(
        all_mediators.names, all_mediators.levels
    )


def _mediator_kernel(rows: Rows) -> rk.Kernel:
    """Returns a Gaussian kernel whose length scales are half of the columns' standard deviations."""
    numeric = rows.numbers[:, rk._numeric(rows.names, rows.levels)]
    sd = numeric.std(axis=0)
    # A standard deviation within rounding of the mean belongs to a constant column.
    sd = np.where(sd > 1e-12 * np.abs(numeric.mean(axis=0)), sd, 1.0)
    return rk.RBF((0.5 * sd).tolist() if len(sd) else 1.0)


def _distinct_rows(rows: Rows, members: Members) -> tuple[Rows, list[int]]:
    """Returns the distinct rows, and for each membership its row."""
    if members.row is None:
        return rows, list(range(len(rows.numbers)))
    row_numbers: dict[str, int] = {}
    row = [row_numbers.setdefault(name, len(row_numbers)) for name in members.row]
    first = np.full(len(row_numbers), len(row))
    np.minimum.at(first, row, range(len(row)))
    differ = np.argwhere(rows.numbers != rows.numbers[first][row])
    for i, j in differ[:1]:
        raise ValueError(
            f"row '{members.row[i]}' is in bag '{members.bag[first[row[i]]]}' and in bag '{members.bag[i]}' "
            "with another "
            f"'{rows.names[j]}': a row has the same covariates in all of its bags"
        )
    return rows._replace(numbers=np.ascontiguousarray(rows.numbers[first])), row


def _targets(bags: Any, roles: ColumnRoles) -> tuple[list[str], np.ndarray, Any]:
    """Returns the names of bags, their targets (NaN if missing), and the data frame."""
    if names_of(bags) is not None:
        if roles.target is None:
            raise ValueError(
                "target = None: it is the column of bags that is learnt from; they have: "
                f"{_listed(names_of(bags) or [])}"
            )
        if isinstance(roles.bag, str):
            names = _cells(bags, roles.bag, "bags", "bag", len(bags))
        else:
            names = np.asarray(bags.index) if hasattr(bags, "iloc") else np.arange(len(bags))
        values, frame = _cells(bags, roles.target, "bags", "target", len(bags)), bags
    else:
        if roles.target is not None:
            raise ValueError(
                f"target = {roles.target!r}: bags have no columns, and are the targets themselves: leave it "
                "out"
            )
        names = np.asarray(bags.index) if hasattr(bags, "iloc") else np.arange(len(bags))
        values, frame = np.asarray(bags), None
        if values.ndim != 1:
            raise ValueError(f"bags have the shape {values.shape}: they are a data frame, or a target each")
    for i, name in enumerate(names):
        if is_missing(name):
            raise ValueError(f"line {i} (from 0) of bags has no name: give it one, or leave it out")
    return [_text(name) for name in names], _numbers(values, "target"), frame


def _known_variances(
    frame: Any, target_std: Any, target_names: list[str], targets: list[int], count: int
) -> np.ndarray | None:
    if target_std is None:
        return None
    errors = _numbers(_cells(frame, target_std, "bags", "target_std", count), "target_std")[targets]
    for t in np.flatnonzero(~((errors >= 0) & np.isfinite(errors)))[:1]:
        raise ValueError(
            f"target_std is {errors[t]} of bag '{target_names[t]}': standard errors are not negative; 0 "
            "where there is none"
        )
    return errors**2


def _mediators(
    frame: Any,
    mediators: list[str],
    names: list[str],
    bags_with_rows: list[int],
    targets: list[int],
    choices: ColumnTypes,
) -> tuple[Rows, Rows, None]:
    """Returns the mediators of bags with rows and of targets."""
    column_names = names_of(frame)
    if column_names is None:
        raise ValueError("mediators are columns of bags: give these as a data frame")
    _check_columns_exist(mediators, column_names, "bags")
    used_bags = sorted({*bags_with_rows, *targets})
    rows = _take_rows(frame[[frame.columns[column_names.index(name)] for name in mediators]], used_bags)
    for name, (cells, _) in zip(mediators, _columns(rows, "bags")[1]):
        missing = _first_missing(cells)
        if missing is not None:
            raise ValueError(
                f"mediator '{name}' is {cells[missing]} of bag '{names[used_bags[missing]]}': fill the value "
                "in or remove the bag"
            )
        if len({_text(cell) for cell in cells}) == 1:
            raise ValueError(
                f"mediator '{name}' is {cells[0]} of all bags, so it ties none to others: leave it out"
            )
    coded_rows = read_categories(rows, choices, "bags") or Rows(
        mediators, [None] * len(mediators), as_numbers(rows, mediators, "bags")
    )
    position_of = {b: k for k, b in enumerate(used_bags)}
    select = lambda bags: coded_rows._replace(
        numbers=np.ascontiguousarray(coded_rows.numbers[[position_of[b] for b in bags]])
    )
    return select(bags_with_rows), select(targets), None


def _totals(
    frame: Any, total: Any, names: list[str], targets: list[int], bag_of_target: list[int | None]
) -> list[float]:
    """Returns the sum of weights of each mediated target; 1 for other targets, whose sum is not read."""
    if total is None:
        raise ValueError(
            "aggregate = 'sum': a sum that mediators predict takes total=, the column of bags with the sum "
            "of its weights "
            "(people, area)"
        )
    totals = _numbers(_cells(frame, total, "bags", "total", len(names)), "total")[targets]
    for t in range(len(bag_of_target)):
        if bag_of_target[t] is None and not (totals[t] > 0 and np.isfinite(totals[t])):
            raise ValueError(
                f"total is {totals[t]} of bag '{names[targets[t]]}': totals are positive numbers"
            )
    return [value if bag_of_target[t] is None else 1.0 for t, value in enumerate(totals.tolist())]


def _cells(frame: Any, column: Any, label: str, name: str, count: int) -> np.ndarray:
    """Returns the cells of a column, given by its name (also that of the index), or the given cells."""
    if isinstance(column, str):
        names = names_of(frame)
        if names is None:
            raise ValueError(
                f"{name} = {column!r}: {label} have no names of columns: give the cells themselves, one each"
            )
        index = getattr(frame, "index", None)
        if column not in names and getattr(index, "name", None) == column:
            return np.asarray(index)
        _check_columns_exist([column], names, label)
        values = frame[frame.columns[names.index(column)]]
    else:
        values = column
    cells = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    if cells.shape != (count,):
        raise ValueError(
            f"{name} has the shape {cells.shape}: it is a column of {label}, or one for each of these {count}"
        )
    return cells


def _numbers(cells: Any, name: str) -> np.ndarray:
    """Returns numbers, with NaN for missing cells."""
    cells = np.asarray(cells)
    if cells.dtype == object:
        cells = np.array([np.nan if is_missing(cell) else cell for cell in cells], dtype=object)
    try:
        return cells.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} holds values that are not numbers: turn them into numbers") from None


def _check_columns_exist(names: Sequence[str], columns: Sequence[str], label: str) -> None:
    unknown = [name for name in names if name not in columns]
    if unknown:
        raise ValueError(
            f"{label} have no column {first_names(unknown)}; their columns are: {_listed(columns)}"
        )


def _take_rows(rows: Any, positions: Sequence[int]) -> Any:
    return rows.iloc[list(positions)] if hasattr(rows, "iloc") else rows[list(positions)]


def _first_missing(cells: np.ndarray) -> int | None:
    """Returns the position of the first cell that is missing or not finite; ``None`` if there is none."""
    if cells.dtype.kind in "fiub":
        invalid = np.flatnonzero(~np.isfinite(cells))
        return int(invalid[0]) if len(invalid) else None
    is_invalid = lambda cell: (
        is_missing(cell) or isinstance(cell, (float, np.floating)) and not np.isfinite(cell)
    )
    return next((i for i, cell in enumerate(cells) if is_invalid(cell)), None)
