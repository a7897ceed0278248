"""Columns of duels other than the two items: contexts, users, the side at home, and the identity of items,
for fits and predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._data.parameters import is_whole
from .._data.table_columns import ColumnTypes, Rows, _text, read, read_categories
from .._data.validation import (
    _missing,
    as_cells,
    as_numbers,
    collected,
    first_names,
    is_missing,
    names_of,
    numbered,
    select_columns,
)
from .._models.kernel_expressions import as_kernel
from ._duel_tables import pairs_in

#: The core's names of items and users that are unknown to the model; an unknown item on the right differs
#: from one on the left.
UNSEEN, UNSEEN_RIGHT = "(unseen)", "(unseen, right)"
#: The column of users among the contexts, and the item columns for home and for the item's name.
USER, HOME, ABILITY = "user", "home", "ability"


class NameList:
    """Items that have names and no features."""

    def __init__(self, index: Sequence[Any]):
        self.index = list(index)

    def __len__(self) -> int:
        return len(self.index)

    @classmethod
    def of_duels(cls, duels: Any) -> NameList:
        """Returns the names in duels, sorted."""
        return cls(sorted_labels(dict.fromkeys(pairs_of(duels).ravel().tolist())))


def sorted_labels(labels: Iterable[Any]) -> list[Any]:
    """Returns labels by their numbers if all are numbers, otherwise by their texts."""
    texts = {label: str(label) for label in labels}
    try:
        numbers = {label: float(text) for label, text in texts.items()}
    except ValueError:
        return sorted(texts, key=texts.__getitem__)
    return sorted(texts, key=lambda label: (numbers[label], texts[label]))


def sides(home: Any, count: int | None = None) -> np.ndarray:
    """Returns the side at home: 1 for the left item, -1 for the right item, 0 for neither."""
    entries = [home] if home is None or isinstance(home, str) else list(home)
    code_of_side = {"left": 1, "right": -1, "none": 0}
    codes = []
    for row, cell in enumerate(entries):
        code = 0 if is_missing(cell) else code_of_side.get(str(cell))
        if code is None:
            raise ValueError(
                f"home is {cell!r} in row {row} (from 0): it is 'left', 'right', or 'none' (or None)"
            )
        codes.append(code)
    if count is not None and len(codes) != count:
        raise ValueError(f"home has {len(codes)} entries, but there are {count} duels: one a duel")
    return np.array(codes)


def homes(home: Any, duels: Any) -> np.ndarray:
    """Returns the side at home in training duels: as :func:`sides`, or by the item's label."""
    cells = pairs_of(duels)
    entries = [home] if isinstance(home, str) else list(home)
    if len(entries) != len(cells):
        raise ValueError(f"home has {len(entries)} entries, but there are {len(cells)} duels: one a duel")
    names = [[_text(label) for label in cells[:, side].tolist()] for side in (0, 1)]
    return np.array(
        _core.read_homes(
            [None if is_missing(cell) else _text(cell) for cell in entries], (names[0], names[1])
        )
    )


def labels_of(items: Any) -> list[str] | None:
    """Returns the index of a data frame as text, or the name of a series; ``None`` for other rows."""
    if getattr(items, "ndim", 2) == 1 and hasattr(items, "index") and hasattr(items, "name"):
        return [_text(items.name)]
    index = getattr(items, "index", None)
    return None if index is None or callable(index) else [_text(label) for label in index]


class Contexts:
    """The columns of the contexts of the training duels, which rows at prediction must have as well."""

    def __init__(self, names: list[str], levels: list[list[str] | None], has_users: bool):
        self.names, self.levels, self.has_users = names, levels, has_users

    @classmethod
    def read(cls, contexts: Any, users: Any, count: int) -> tuple[Contexts, np.ndarray]:
        """Returns the columns and the rows of the contexts and users of ``count`` duels."""
        tables: list[Rows] = []
        if contexts is not None:
            width = np.shape(contexts)[1] if np.ndim(contexts) == 2 else 1
            tables.append(read(contexts, "contexts", [f"context{j}" for j in range(width)]))
        if users is not None:
            user_names = [_text(user) for user in _users(users)]
            levels = [*sorted(set(user_names)), UNSEEN]
            tables.append(Rows([USER], [levels], codes_of_names(user_names, levels, UNSEEN)))
        for rows in tables:
            if len(rows.numbers) != count:
                label = "users" if rows.names == [USER] else "contexts"
                raise ValueError(
                    f"{label} have {len(rows.numbers)} rows, but there are {count} duels: one a duel"
                )
        names = [name for rows in tables for name in rows.names]
        if len(set(names)) < len(names):
            raise ValueError(f"a column of contexts is called '{USER}', as that of users: rename it")
        read_contexts = cls(names, [levels for rows in tables for levels in rows.levels], users is not None)
        return read_contexts, np.ascontiguousarray(np.hstack([rows.numbers for rows in tables]))

    def rows(self, contexts: Any, users: Any) -> np.ndarray:
        """Returns the rows of contexts at prediction: one row per duel, or one for all duels."""
        context_width = len(self.names) - self.has_users
        names, blocks = self.names[:context_width], []
        if (contexts is None) != (context_width == 0):
            raise ValueError(
                f"the model was fitted on duels in contexts ({', '.join(names)}): say which, contexts=…"
                if context_width
                else "contexts: the model was fitted on duels without contexts"
            )
        if context_width:
            cells = select_columns(collected(contexts), names)
            if names_of(cells) is None:
                cells = np.asarray(cells)
                cells = (
                    cells.reshape(-1, 1) if context_width == 1 and cells.ndim < 2 else np.atleast_2d(cells)
                )
            blocks.append(as_numbers(cells, names, "contexts", self.levels[:context_width]))
        if (users is None) == self.has_users:
            raise ValueError(
                "the model was fitted on duels with users: say who it is, users=…; any other name is a new "
                "user"
                if self.has_users
                else "users: the model was fitted on duels without users"
            )
        if self.has_users:
            blocks.append(codes_of_names(_users(users), self.levels[-1] or [], UNSEEN))
        return side_by_side(blocks)


def _users(users: Any) -> list:
    cells = [users] if np.ndim(users) == 0 else list(users)
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise _missing("users", cell, row, USER)
    return cells


def codes_of_names(ids: Any, levels: Sequence[str], unseen: str) -> np.ndarray:
    """Returns the codes of names among the known levels; unknown names have the code of ``unseen``."""
    code = {name: float(position) for position, name in enumerate(levels)}
    entries = [ids] if np.ndim(ids) == 0 else list(ids)
    return np.array([[code.get(_text(entry), code[unseen])] for entry in entries])


def side_by_side(
    blocks: list[np.ndarray], label: str = "left, right, contexts, users, home and ids"
) -> np.ndarray:
    """Returns the columns of several arrays as one array; an array may have one row for all."""
    counts = sorted({len(block) for block in blocks})
    if len([count for count in counts if count != 1]) > 1:
        counts_text = " and ".join(map(str, counts))
        raise ValueError(f"{label} have {counts_text} rows: a row of each is a duel, or one has a single row")
    count = counts[-1] if counts[0] != 0 else 0
    return np.hstack([np.broadcast_to(block, (count, block.shape[1])) for block in blocks])


def memberships(
    members: Any, items: Any, count: int
) -> tuple[list, list[int], list[int], list[float] | None]:
    """Returns the names of bags, and for each membership the number of its bag, its item, and its weight if
    there are weights."""
    cells = np.asarray(members, dtype=object)
    if cells.ndim != 2 or cells.shape[1] not in (2, 3):
        raise ValueError(
            f"members have the shape {cells.shape}: each is a bag and an item, and how much it counts, if "
            "you like"
        )
    names = list(dict.fromkeys(cells[:, 0].tolist()))
    bag_numbers = {name: number for number, name in enumerate(names)}
    labels = labels_of(items)
    item_numbers = {
        name: number for number, name in enumerate(labels if labels is not None else map(str, range(count)))
    }
    unknown = [item for item in dict.fromkeys(cells[:, 1].tolist()) if _text(item) not in item_numbers]
    if unknown:
        raise ValueError(f"members name items that are not among the items: {first_names(unknown)}")
    weights = cells[:, 2].astype(float).tolist() if cells.shape[1] == 3 else None
    if weights is not None and not all(0 < weight < float("inf") for weight in weights):
        raise ValueError("members: weights are positive numbers")
    return (
        names,
        [bag_numbers[bag] for bag in cells[:, 0].tolist()],
        [item_numbers[_text(item)] for item in cells[:, 1].tolist()],
        weights,
    )


def bags_of(duels: Any, bag_names: list) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of the bags on either side."""
    cells = pairs_of(duels)
    if cells.ndim != 2 or cells.shape[1] != 2:
        raise ValueError(f"duels have the shape {cells.shape}: each is a pair of bags")
    bag_numbers = {name: number for number, name in enumerate(bag_names)}
    unknown = [name for name in dict.fromkeys(cells.ravel().tolist()) if name not in bag_numbers]
    if unknown:
        raise ValueError(f"duels name bags that members do not: {first_names(unknown)}")
    pairs_of_numbers = np.array([[bag_numbers[name] for name in pair] for pair in cells.tolist()])
    return pairs_of_numbers[:, 0], pairs_of_numbers[:, 1]


def pairs_of(duels: Any) -> np.ndarray:
    """Returns the pairs of names without conversion: numbers next to texts do not become texts."""
    duels = pairs_in(collected(duels, "duels"))
    cells = duels if isinstance(duels, np.ndarray) else np.asarray(duels, dtype=object)
    if cells.dtype.kind == "O":
        missing = next((k for k, cell in enumerate(cells.ravel()) if is_missing(cell)), None)
        if missing is not None:
            row = missing // max(1, cells.shape[-1])
            raise ValueError(
                f"duels name no item in row {row} (from 0): fill the name in or leave the duel out"
            )
    if cells.dtype.kind == "O" and cells.size and all(is_whole(cell) for cell in cells.ravel()):
        cells = cells.astype(np.int64)
    if cells.ndim == 2 and cells.shape[1] == 2 and not len(cells):
        raise ValueError("there are no duels: at least one is needed")
    return cells


def rows_of(items: Any, duels: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the row numbers of the items on either side."""
    cells = pairs_of(duels)
    if cells.ndim != 2 or cells.shape[1] != 2:
        raise ValueError(
            f"duels have the shape {cells.shape}: each is a pair of items, (winner, loser), or (left, right) "
            "with outcome"
        )
    index = getattr(items, "index", None)
    if index is not None and not callable(index):
        row_of_label: dict[Any, int] = {}
        for row, label in enumerate(index):
            if label in row_of_label:
                raise ValueError(f"the index of items has '{label}' twice: each item is one row")
            row_of_label[label] = row
        unknown = [label for label in dict.fromkeys(cells.ravel().tolist()) if label not in row_of_label]
        if unknown:
            raise ValueError(
                f"duels name items that are not in the index of items: {first_names(unknown)}; names in a "
                "column become the index by items.set_index(…)"
            )
        row_pairs = np.array([[row_of_label[label] for label in pair] for pair in cells.tolist()])
    else:
        if cells.dtype.kind not in "iu":
            raise TypeError(
                "duels are pairs of numbers of rows of items; labels need items as a data frame with these "
                "labels as its index (items.set_index(…))"
            )
        if cells.size and (cells.min() < 0 or cells.max() >= count):
            raise ValueError(
                f"duels name item {cells.min() if cells.min() < 0 else cells.max()}, but items have {count} "
                "rows, from 0"
            )
        row_pairs = cells
    return row_pairs[:, 0].astype(int), row_pairs[:, 1].astype(int)


def read_items(
    items: Any, choices: ColumnTypes | None = None
) -> tuple[list[str], list[list[str] | None], np.ndarray]:
    """Returns names and levels of columns, and the rows as numbers. ``choices`` are the column types that the
    user gives."""
    if items is None:
        raise ValueError(
            "items = None: where nothing is known of items but their names, take the model 'bradley_terry', "
            "'utility' or 'nested', or ability=True"
        )
    if isinstance(items, NameList):
        return [], [], np.zeros((len(items), 0))
    categories = read_categories(items, choices, "items")
    if categories is not None:
        return categories
    rows = numbers_of(items, None, "items")
    return names_of(collected(items)) or numbered(rows.shape[1]), [None] * rows.shape[1], rows


def numbers_of(items: Any, names: list[str] | None, label: str) -> np.ndarray:
    """Returns items as numbers, (rows, columns); a single item may be a row instead of a table."""
    cells = collected(items)
    names_of_cells = names_of(cells)
    if names_of_cells is None:
        cells = as_cells(np.atleast_2d(np.asarray(cells)), label)
    return as_numbers(cells, names or names_of_cells or numbered(cells.shape[1]), label)


def column_of(name: str, values: Any, count: int) -> np.ndarray:
    """Returns one number per duel."""
    numbers = np.asarray(values, dtype=float)
    if numbers.shape != (count,):
        raise ValueError(
            f"{name} has the shape {numbers.shape}: it has one number for each of the {count} duels"
        )
    return numbers


def kernel_and_items(items: Any, kernel: Any, choices: ColumnTypes | None = None) -> tuple[str | None, tuple]:
    """Returns the kernel of items as JSON text, ``None`` for the default one, and their names, levels and
    rows."""
    names, levels, rows = read_items(items, choices)
    table = (list(names), list(levels), rows)
    if kernel is None:
        return None, table
    kernel = as_kernel(kernel, also=", or None")
    return kernel._fitted_to(rows, names, levels)._to_json(names, levels), table
