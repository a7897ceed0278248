"""Duels between bags of items, in the forms that models of duels take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class BagDuels:
    """Duels between bags of items."""

    #: The rows of all items in the model's columns, as items on the left and as items on the right.
    side_rows: tuple[np.ndarray, np.ndarray]
    #: The names of the bags, and for each membership the bag, the item, and its weight if there are weights.
    bag_names: list
    bag: list[int]
    item: list[int]
    weight: list[float] | None
    #: The bags on either side of each duel.
    left: np.ndarray
    right: np.ndarray
    #: The context of each duel, if there are contexts.
    contexts: np.ndarray | None

    def names(self) -> tuple[list[str], list[str]]:
        """Returns the names of the bags on either side."""
        left, right = ([str(self.bag_names[bag]) for bag in side] for side in (self.left, self.right))
        return left, right

    def between_members(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns duels between members of bags as wide rows, and the number and the share of each row's bag
        duel."""
        members_of_bag: list[list[tuple[int, float]]] = [[] for _ in self.bag_names]
        for k, (b, i) in enumerate(zip(self.bag, self.item)):
            members_of_bag[b].append((i, 1.0 if self.weight is None else self.weight[k]))
        total = [sum(share for _, share in group) for group in members_of_bag]
        pairs = [
            (d, i, j, m * q / (total[a] * total[b]))
            for d, (a, b) in enumerate(zip(self.left, self.right))
            for i, m in members_of_bag[a]
            for j, q in members_of_bag[b]
        ]
        duel_number, first, second, share = (np.array(column) for column in zip(*pairs))
        blocks = [self.side_rows[0][first], self.side_rows[1][second]]
        if self.contexts is not None:
            blocks.append(self.contexts[duel_number])
        return np.ascontiguousarray(np.hstack(blocks), dtype=float), duel_number, share

    def between_bags(self) -> tuple[np.ndarray, tuple, list[tuple[int, int]]]:
        """Returns the rows of items, the memberships, and pairs of bags. If an item differs between the
        sides, each side has its own items and bags."""
        left_rows, right_rows = self.side_rows
        bag, item, weight, count = self.bag, self.item, self.weight, len(self.bag_names)
        if np.array_equal(left_rows, right_rows):
            rows, right, bags = left_rows, self.right, count
        else:
            rows, right, bags = np.vstack([left_rows, right_rows]), self.right + count, 2 * count
            bag = bag + [number + count for number in bag]
            item = item + [number + len(left_rows) for number in item]
            weight = None if weight is None else weight * 2
        rows = np.ascontiguousarray(rows, dtype=float)
        return rows, (bags, bag, item, weight), list(zip(self.left.tolist(), right.tolist()))
