"""Pref-SHAP: Shapley values of the properties of both items, for models of duels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from .._data.parameters import is_whole
from .._data.validation import as_cells, as_numbers, collected, names_of
from .._explaining.explanation import NO_COVARIANCE, Explanation
from .._models.average import ModelAverage
from .._models.expansion import Expansion

#: The number of coalitions that are valued if only a standard error is requested.
DEFAULT_COALITIONS = 4096

#: The distributions of absent columns of contexts.
CONTEXT_GAMES = ("independent", "observational")

GAMES = ("independent", "paired", "matches", "baseline", "functional", "observational", "contexts")


#: A table of items, wide rows or contexts: names, levels, rows.
_Table = tuple[list[str], list[list[str] | None], np.ndarray]


def explain(
    model: Expansion | ModelAverage,
    rows: Any,
    background: Any = None,
    *,
    game: str = "independent",
    background_weights: Any = None,
    contexts: Any = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    index: str = "shapley",
    covariance: bool = False,
    conditional_ridge: float | None = None,
    centered: bool = True,
    n_conditional_landmarks: int | None = None,
    cg_tol: float | None = None,
    n_coalitions: int | None = None,
    target_std_error: float | None = None,
    context_game: str = "independent",
    shifts: int = 16,
    n_orders: int | None = None,
    random_state: int = 0,
    names: tuple[Sequence[str], Sequence[str]] | None = None,
    shares: tuple[list[int], list[float]] | None = None,
) -> Explanation:
    """Returns the values of duels for a model of duels, such as ``PreferenceClassifier.expansion_`` or a
    model from a file: the contribution of each property of both items to the left item's log odds.

    :meth:`riesz.PreferenceClassifier.explain` takes the two sides separately; here ``rows`` are wide:
    ``left_…``, then ``right_…``, then contexts. ``names`` are the names of the items on the left and on the
    right for plots and pages, one per row or one for all. With ``shares``, a row is a pair of members of two
    bags, and ``shares`` gives for each row the number of the bags' duel and its weight."""
    if not isinstance(model, (Expansion, ModelAverage)):
        raise TypeError(
            f"model is a {type(model).__name__}: it is a riesz.Expansion over columns left_… and right_…, or "
            "a riesz.ModelAverage of such models"
        )
    if game not in GAMES:
        raise ValueError(f"game = {game!r}: it is one of {', '.join(map(repr, GAMES))}")
    if background_weights is not None and game in ("matches", "baseline", "functional", "contexts"):
        raise ValueError(
            f"background_weights: the game {game!r} has no use for them; repeat rows of the background "
            "instead"
        )
    if not is_whole(random_state) or not 0 <= random_state < 2**64:
        raise ValueError(f"random_state = {random_state!r}: it is a whole number, 0 or more")
    for name, members in (groups or {}).items():
        if isinstance(members, str):
            raise TypeError(f"group '{name}' is {members!r}: it is a list of columns")
    if not is_whole(shifts) or shifts < 2:
        raise ValueError(f"shifts = {shifts!r}: it is a whole number, at least 2")
    if n_orders is not None and (not is_whole(n_orders) or n_orders < 16):
        raise ValueError(f"n_orders = {n_orders!r}: it is None or a whole number, at least 16")
    if context_game not in CONTEXT_GAMES:
        raise ValueError(
            f"context_game = {context_game!r}: it is one of {', '.join(map(repr, CONTEXT_GAMES))}"
        )
    if n_coalitions is not None and (not is_whole(n_coalitions) or n_coalitions < 1):
        raise ValueError(f"n_coalitions = {n_coalitions!r}: it is None or a positive whole number")
    if n_conditional_landmarks is not None and (
        not is_whole(n_conditional_landmarks) or n_conditional_landmarks < 1
    ):
        raise ValueError(
            f"n_conditional_landmarks = {n_conditional_landmarks!r}: it is None or a positive whole number"
        )
    if n_conditional_landmarks is not None and cg_tol is not None:
        raise ValueError("n_conditional_landmarks and cg_tol are alternatives: give one of the two")
    if context_game == "observational" and contexts is None:
        raise ValueError(
            "context_game = 'observational' describes absent contexts: give the contexts from which their "
            "conditional distribution is learnt"
        )
    if game in ("functional", "contexts") and background is not None:
        raise ValueError(f"the game {game!r} takes no background of items")
    if game not in ("functional", "contexts") and background is None:
        rows_text = (
            "duels, as wide rows" if game == "matches" else "one item" if game == "baseline" else "items"
        )
        raise ValueError(f"the game {game!r} takes a background of {rows_text}")
    best = model.best if isinstance(model, ModelAverage) else model
    all_columns, levels = best.feature_names, best._core.levels
    left_columns = [
        j
        for j, name in enumerate(all_columns)
        if name.startswith("left_") and f"right_{name[5:]}" in all_columns
    ]
    items = [all_columns[j][5:] for j in left_columns]
    sides = {f"{side}_{name}" for side in ("left", "right") for name in items}
    context_columns = [j for j, name in enumerate(all_columns) if name not in sides]
    table: _Table | None = None
    if background is not None:
        is_wide = game == "matches"
        columns = (all_columns, levels) if is_wide else (items, [levels[j] for j in left_columns])
        table = (*columns, as_numbers(_rows(background), columns[0], "the background", columns[1]))
    context_table: _Table | None = None
    if contexts is not None:
        columns = ([all_columns[j] for j in context_columns], [levels[j] for j in context_columns])
        context_table = (*columns, as_numbers(_rows(contexts), columns[0], "contexts", columns[1]))
    count = 0 if table is None else len(table[2])
    if background_weights is not None and np.shape(background_weights) != (count,):
        raise ValueError(
            f"background_weights have the shape {np.shape(background_weights)}: the background has {count} "
            "rows"
        )
    players = [(str(name), [str(column) for column in columns]) for name, columns in (groups or {}).items()]
    player_columns = [*items, *(all_columns[j] for j in context_columns)]
    for name, members in players:
        for column in members:
            if column not in player_columns:
                raise ValueError(
                    f"group '{name}' names a column '{column}'; the columns are: {', '.join(player_columns)}"
                )
    if covariance and shares is not None:
        raise ValueError(NO_COVARIANCE)
    cells = best._rows(rows, "rows")
    budget: tuple[int, float | None] | None = None
    if n_coalitions is not None or target_std_error is not None:
        coalitions = DEFAULT_COALITIONS if n_coalitions is None else int(n_coalitions)
        budget = (coalitions, None if target_std_error is None else float(target_std_error))
    core = _core.explain_duels(
        model._parts(),
        (all_columns, levels, cells),
        (
            game,
            table,
            None if background_weights is None else [float(w) for w in background_weights],
            None if context_table is None else (context_table, context_game == "observational"),
        ),
        players,
        str(index),
        bool(covariance),
        {
            "ridge": None if conditional_ridge is None else float(conditional_ridge),
            "centered": bool(centered),
            "landmarks": None if n_conditional_landmarks is None else int(n_conditional_landmarks),
            "cg_tol": None if cg_tol is None else float(cg_tol),
        },
        (
            int(shifts),
            None if n_orders is None else int(n_orders),
            budget,
            int(random_state),
        ),
        _side_names(names, len(cells), shares),
    )
    return Explanation(core)


def _side_names(names: Any, count: int, shares: Any) -> tuple[list[str], list[str], Any]:
    """Returns names on either side, one per duel; by default the numbers of duels."""
    if names is None:
        names = [[f"{side} {i}" for i in range(count)] for side in ("left", "right")]
    duels = count if shares is None else max(shares[0], default=-1) + 1
    left, right = (
        [str(name) for name in side_names] * (duels if len(side_names) == 1 else 1) for side_names in names
    )
    for side, side_names in (("left", left), ("right", right)):
        if len(side_names) != duels:
            raise ValueError(
                f"names on the {side} are {len(side_names)}, but there are {duels} duels: one a duel"
            )
    return left, right, shares


def _rows(X: Any) -> Any:
    """Returns rows; a single row may have one dimension."""
    cells = collected(X)
    return cells if names_of(cells) is not None else as_cells(np.atleast_2d(np.asarray(cells)))
