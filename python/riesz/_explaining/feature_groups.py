"""Players: columns, or groups of columns that are present or absent together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._core import UnsupportedModelError
from .._data.parameters import is_whole

Groups = Mapping[str, Sequence[str | int]]


def players_of(groups: Groups | None, imported: Any, names: list[str]) -> list[tuple[str, list[int]]]:
    """Returns the players over the user's columns."""
    if groups is None:
        parts = imported.parts
        stored = parts[0].expansion._core.groups if parts and parts[0].transform is None else []
        return stored or [(name, [j]) for j, name in enumerate(names)]
    if not isinstance(groups, Mapping):
        raise TypeError("groups is a dict from a group's name to its columns")
    owner: dict[int, str] = {}
    players = []
    for group, columns in groups.items():
        members = []
        if not isinstance(columns, Iterable):
            raise TypeError(f"group '{group}' is {columns!r}: it is a list of columns, by name or number")
        for column in [columns] if isinstance(columns, str) else columns:
            if isinstance(column, str):
                if column not in names:
                    raise ValueError(
                        f"group '{group}' names a column '{column}'; the columns are: {', '.join(names)}"
                    )
                column = names.index(column)
            elif not is_whole(column):
                raise TypeError(
                    f"group '{group}' names a column {column!r}: columns are names or whole numbers"
                )
            elif not 0 <= column < len(names):
                raise ValueError(
                    f"group '{group}' names column {column}, but there are {len(names)} columns, from 0"
                )
            if column in owner:
                raise ValueError(
                    f"column '{names[column]}' is in the groups '{owner[column]}' and '{group}': choose one"
                )
            owner[int(column)] = str(group)
            members.append(int(column))
        if not members:
            raise ValueError(f"group '{group}' has no columns")
        players.append((str(group), members))
    single_players = [(name, [j]) for j, name in enumerate(names) if j not in owner]
    return sorted(players + single_players, key=lambda player: min(player[1]))


def model_players(
    players: list[tuple[str, list[int]]], owners: Sequence[int | tuple[int, ...]]
) -> list[tuple[str, list[int]]]:
    """Returns the players over the model's columns. A column that is computed from several of the user's
    columns belongs to the player that has all of them; if there is none, :class:`UnsupportedModelError` is
    raised."""
    player_of = {column: name for name, members in players for column in members}
    model_columns_of: dict[int, list[int]] = {}
    for column, owner in enumerate(owners):
        user_columns = (owner,) if isinstance(owner, int) else owner
        if len({player_of[j] for j in user_columns}) > 1:
            names_text = ", ".join(f"'{player_of[j]}'" for j in user_columns)
            raise UnsupportedModelError(
                f"a column of the model is made of {names_text} together: as one group, "
                f"groups={{'NAME': [...]}}, they have exact "
                "values"
            )
        model_columns_of.setdefault(user_columns[0], []).append(column)
    return [(name, [c for j in members for c in model_columns_of.get(j, [])]) for name, members in players]


def named_unions(unions: Any, names: list[str], setting: str = "unions") -> list[Any]:
    """Returns the lists of players of a setting, such as unions and unions of unions, by name."""
    if isinstance(unions, str) or not isinstance(unions, Iterable):
        raise TypeError(
            f"{setting} is {unions!r}: it is a list of features and of lists of them, "
            "[['a', 'b'], ['c', 'd']]"
        )
    structure: list[Any] = []
    for member in unions:
        if isinstance(member, str):
            if member not in names:
                raise ValueError(
                    f"{setting} names a feature '{member}'; the features are: {', '.join(names)}"
                )
            structure.append(member)
        elif is_whole(member):
            if not 0 <= member < len(names):
                raise ValueError(f"{setting} names feature {member}, but there are {len(names)}, from 0")
            structure.append(names[member])
        else:
            structure.append(named_unions(member, names, setting))
    return structure


def model_structure(settings: Mapping[str, Any], names: list[str], part: Any) -> dict[str, Any]:
    """Returns the settings of a causal structure over the user's columns, over the columns of a part of the
    model."""
    columns: dict[str, list[str]] = {name: [] for name in names}
    for name, owner in zip(part.expansion.feature_names, part.owners):
        if not isinstance(owner, int):
            made_of = ", ".join(f"'{names[j]}'" for j in owner)
            raise UnsupportedModelError(
                f"a column of the model is made of {made_of} together, which the causal game does not allow"
            )
        columns[names[owner]].append(name)
    unread = [name for name in names if not columns[name]]
    if unread:
        raise UnsupportedModelError(
            f"the model, or a part of it, does not read the column '{unread[0]}', which the causal game needs"
        )

    def translated(lists: list[list[str]]) -> list[list[str]]:
        return [[column for name in members for column in columns[name]] for members in lists]

    confounded = settings.get("confounded")
    parents = [
        [columns[first][0], *translated([causes])[0]] for first, *causes in settings.get("parents") or []
    ]
    return {
        "components": translated(settings["components"]),
        "confounded": translated([confounded])[0] if confounded else None,
        "parents": parents or None,
    }


def unions_among(unions: list[Any], names: set[str]) -> list[Any]:
    """Returns the unions restricted to some of the players."""
    structure = [member if isinstance(member, str) else unions_among(member, set(names)) for member in unions]
    return [member for member in structure if member and (not isinstance(member, str) or member in names)]
