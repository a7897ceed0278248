"""The settings of an :class:`~riesz.Explainer`: everything but the model, its background and the players."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ._data import is_whole

GAMES = ("functional", "baseline", "interventional", "marginal_product", "observational")

#: More threads than any machine has cores for are a slip, and could bring it down.
MAX_THREADS = 1024


@dataclass(frozen=True)
class Settings:
    """Settings that are consistent, with defaults filled in; see :class:`~riesz.Explainer`."""

    game: str
    threads: int | None
    ridge: float | None
    landmarks: int | None
    random_features: int | None
    conjugate_gradients: float | None
    coalitions: int
    std_error: float | None
    conditional: str
    draws: int
    #: ``"permutation"`` or ``"kernel_shap"``: how a function is explained.
    estimator: str
    #: Whether a model is to be asked for its answers though its kernel may be known.
    asked: bool
    permutations: int
    seed: int

    @property
    def absence(self) -> str:
        """What absent features of a function are filled in with: "background", "gaussian", "copula" or "kernel"."""
        return self.conditional if self.game == "observational" else "background"


def settings(
    *,
    has_background: bool,
    has_weights: bool,
    game: Any,
    threads: Any,
    ridge: Any,
    landmarks: Any,
    random_features: Any,
    conjugate_gradients: Any,
    coalitions: Any,
    std_error: Any,
    conditional: Any,
    draws: Any,
    estimator: Any,
    permutations: Any,
    seed: Any,
) -> Settings:
    """What the user asked for, or an error that names what is wrong with it."""
    game = _game(game, has_background)
    through = {"landmarks": landmarks, "random_features": random_features, "conjugate_gradients": conjugate_gradients}
    embedding = [("ridge", ridge), *through.items()]
    if game != "observational":
        for name, value in embedding:
            if value is not None:
                raise ValueError(f"ridge, {', '.join(through)} are settings of the observational game: leave out {name}")
        if std_error is not None and estimator != "kernel_shap":
            raise ValueError("std_error is a target of the observational game and of KernelSHAP: leave it out")
    for name, value in [("landmarks", landmarks), ("random_features", random_features)]:
        if value is not None and (not is_whole(value) or value < 1):
            raise ValueError(f"{name} = {value!r}: it is a positive whole number")
    if conjugate_gradients is not None and not 0 < conjugate_gradients < 1:
        raise ValueError(f"conjugate_gradients = {conjugate_gradients!r}: it is a tolerance between 0 and 1, such as 1e-6")
    if sum(value is not None for value in through.values()) > 1:
        raise ValueError(f"{', '.join(through)} are ways to the same end: choose one")
    if not isinstance(coalitions, (int, np.integer)) or coalitions < 1:
        raise ValueError(f"coalitions = {coalitions}: it is a positive whole number")
    if threads is not None and (not isinstance(threads, (int, np.integer)) or not 1 <= threads <= MAX_THREADS):
        raise ValueError(f"threads = {threads!r}: it is a whole number from 1 to {MAX_THREADS}, or None for one a core")
    if has_weights and not has_background:
        raise ValueError("weights are those of a background: give one")
    if not isinstance(permutations, (int, np.integer)) or permutations < 2:
        raise ValueError(f"permutations = {permutations}: it is a whole number from 2, or there is no standard error")
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ValueError(f"seed = {seed}: it is a whole number from 0 to 2**64 - 1")
    if conditional not in ("kernel", "gaussian", "copula"):
        raise ValueError(f"conditional = {conditional!r}: it is 'kernel', 'gaussian' or 'copula'")
    if conditional != "kernel" and game != "observational":
        raise ValueError(f"conditional is a setting of the observational game, not of the {game} game")
    if estimator not in (None, "permutation", "kernel_shap"):
        raise ValueError(f"estimator = {estimator!r}: it is 'permutation' or 'kernel_shap'")
    if estimator == "permutation" and game == "observational":
        raise ValueError("permutations estimate the interventional game: use estimator='kernel_shap'")
    if draws is not None and (not is_whole(draws) or draws < 2):
        raise ValueError(f"draws = {draws!r}: it is a whole number from 2, or there is no standard error")
    if conditional == "kernel" and draws is not None:
        raise ValueError("draws are those of conditional='gaussian' and 'copula': leave them out")
    if conditional != "kernel":
        for name, value in embedding:
            if value is not None:
                raise ValueError(f"{name} is a setting of conditional='kernel', not of '{conditional}': leave it out")
    return Settings(
        game=game,
        threads=None if threads is None else int(threads),
        ridge=ridge,
        landmarks=landmarks,
        random_features=random_features,
        conjugate_gradients=conjugate_gradients,
        coalitions=int(coalitions),
        std_error=std_error,
        conditional=conditional,
        draws=100 if draws is None else int(draws),
        estimator=estimator or ("kernel_shap" if game == "observational" else "permutation"),
        asked=estimator is not None or conditional != "kernel",
        permutations=int(permutations),
        seed=int(seed),
    )


def _game(game: Any, has_background: bool) -> str:
    if not isinstance(game, str):
        raise TypeError(f"game = {game!r}: it is one of {', '.join(GAMES)}, or auto")
    if game == "auto":
        game = "interventional" if has_background else "functional"
    game = game.replace("-", "_")
    if game not in GAMES:
        raise ValueError(f"game = '{game}': it is one of {', '.join(GAMES)}, or auto")
    if game == "functional" and has_background:
        raise ValueError("the functional game has no use for a background: leave it out, or name another game")
    if game not in ("functional", "observational") and not has_background:
        raise ValueError(f"the {game} game needs a background: rows that say what features could have been otherwise")
    return game
