"""What an explainer answers: values, what they add up to, how exact they are, and where they come from."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _core
from ._data import is_missing, is_whole
from ._expansion import write
from ._sampled import Kept, Sampling


@dataclass(frozen=True)
class Certificate:
    """What can be said of exact values as a whole."""

    #: The largest ``|prediction - base value - sum of values|``.
    residual: float
    #: The largest proved bound on the error of a value.
    bound: float
    #: Whether every residual is within its own bound.
    holds: bool


@dataclass(frozen=True)
class Provenance:
    """Where an explanation comes from."""

    #: The game: what was asked.
    game: str
    #: What an absent feature means in this game.
    absent: str
    #: Facts about the model, by name.
    model: dict[str, str] = field(default_factory=dict)
    #: Facts about the run, by name.
    run: dict[str, str] = field(default_factory=dict)


class Explanation:
    """Shapley values of ``n`` rows, ``d`` features (players) and ``m`` outputs.

    Index it by row, feature and output, with numbers, names, slices, lists or masks, as in
    ``explanation[0]``, ``explanation[:, "bmi"]``, ``explanation[10:20, :, "virginica"]``. Values of some of the features do
    not add up to the predictions: such a selection has no certificate, and is not saved, reported or drawn as a waterfall.

    Attributes
    ----------
    feature_names : list of str
        The players: columns, or groups of columns.
    output_names : list of str
    row_numbers : array of int
        The number of each row in what was explained.
    column_names : list of str
        The columns of :attr:`data`.
    provenance : Provenance
    sampling : Sampling or None
        For estimated values, how often the model was asked (``evaluations``) and the ``seed``.
    """

    def __init__(
        self,
        *,
        values: np.ndarray,
        base_values: np.ndarray,
        predictions: np.ndarray,
        residual: np.ndarray,
        bound: np.ndarray | None,
        data: np.ndarray,
        column_names: Sequence[str],
        players: Sequence[tuple[str, Sequence[int]]],
        output_names: Sequence[str],
        row_numbers: np.ndarray,
        provenance: Provenance,
        squeezed: tuple[bool, bool, bool] = (False, False, False),
        std_error: np.ndarray | None = None,
        sampling: Sampling | None = None,
        whole: bool = True,
        kept: Kept | None = None,
    ) -> None:
        # Exact values have a bound, estimated ones a standard error and a sampling.
        self._std_error, self.sampling = std_error, sampling
        # What Explainer.extend goes on from; selections, files and pickles do without.
        self._kept = kept
        # Always rows × players × outputs, and rows × outputs; `squeezed` says which of the three were picked by a number or
        # name and do not show.
        self._values, self._base, self._predictions = values, base_values, predictions
        self._residual, self._bound = residual, bound
        self._data, self._squeezed = data, squeezed
        # Whether all players of the game are there.
        self._whole = whole
        self.column_names, self._players = list(column_names), [(name, list(own)) for name, own in players]
        self.feature_names = [name for name, _ in self._players]
        self.output_names = list(output_names)
        self.row_numbers = row_numbers
        self.provenance = provenance

    # Arrays ------------------------------------------------------------------------------------------------------

    def _shown(self, array: np.ndarray, axes: Sequence[int]) -> Any:
        """``array``, whose axes are rows (0), players (1) and outputs (2), without those picked by a number."""
        drop = []
        for at, axis in enumerate(axes):
            # A single output never has an axis of its own.
            if self._squeezed[axis] or (axis == 2 and len(self.output_names) == 1):
                drop.append(at)
        shown = array.squeeze(axis=tuple(drop))
        return shown if shown.ndim else shown[()]

    @property
    def values(self) -> Any:
        """The Shapley values, (n, d), or (n, d, m) with several outputs."""
        return self._shown(self._values, (0, 1, 2))

    @property
    def base_values(self) -> Any:
        """The game's value with all features absent, (n,), or (n, m) with several outputs."""
        return self._shown(self._base, (0, 2))

    @property
    def predictions(self) -> Any:
        """The model's output, (n,), or (n, m). Base value and values add up to it."""
        return self._shown(self._predictions, (0, 2))

    @property
    def residual(self) -> Any:
        """``predictions - base_values - sum of values``, where the prediction is computed on another path; (n,), or (n, m). For
        some of the features, what the others are worth."""
        return self._shown(self._residual, (0, 2))

    @property
    def bound(self) -> Any:
        """A proved bound on the error of each exact value of a row, quadrature and rounding; (n,), or (n, m). ``None`` for
        estimated values."""
        return None if self._bound is None else self._shown(self._bound, (0, 2))

    @property
    def data(self) -> Any:
        """The explained rows in the user's columns, (n, columns)."""
        return self._data[0] if self._squeezed[0] else self._data

    @property
    def exactness(self) -> str:
        """``"exact"``, that is up to rounding, within :attr:`bound`; or ``"estimated"``, with :attr:`std_error`."""
        return "exact" if self._std_error is None else "estimated"

    @property
    def std_error(self) -> Any:
        """The standard error of each estimated value, in the shape of :attr:`values`; ``None`` for exact ones."""
        return None if self._std_error is None else self._shown(self._std_error, (0, 1, 2))

    @property
    def certificate(self) -> Certificate | None:
        """Largest residual, largest bound, and whether each residual is within its bound; ``None`` for estimated values, and for
        some of the features, whose values need not add up."""
        if self._bound is None or not self._whole:
            return None
        size = np.abs(self._residual)
        return Certificate(
            residual=float(size.max(initial=0.0)),
            bound=float(self._bound.max(initial=0.0)),
            holds=bool((size <= self._bound).all()),
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of :attr:`values`."""
        return np.shape(self.values)

    def __len__(self) -> int:
        if self._squeezed[0]:
            raise TypeError("this is the explanation of a single row")
        return len(self._values)

    # Picking -----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Explanation:
        keys = list(key) if isinstance(key, tuple) else [key]
        free = [axis for axis in range(3) if not self._squeezed[axis] and not (axis == 2 and len(self.output_names) == 1)]
        at = next((at for at, one in enumerate(keys) if one is Ellipsis), None)
        if at is not None:
            keys[at : at + 1] = [slice(None)] * (len(free) - len(keys) + 1)
        if len(keys) > len(free):
            raise IndexError(f"{len(keys)} indices, but the explanation has {len(free)} axes: rows, features, outputs")
        picked: list[Any] = [slice(None)] * 3
        squeezed = list(self._squeezed)
        names = [None, self.feature_names, self.output_names]
        for axis, one in zip(free, keys):
            one = _positions(one, names[axis], ("row", "feature", "output")[axis], self._values.shape[axis])
            if isinstance(one, (int, np.integer)):
                count = self._values.shape[axis]
                if not -count <= one < count:
                    raise IndexError(f"there is no {('row', 'feature', 'output')[axis]} {one}: there are {count}")
                squeezed[axis] = True
                one = [int(one) % count]
            picked[axis] = one
        rows, players, outputs = picked
        pair = lambda array: array[rows][:, outputs]
        cube = lambda array: array[rows][:, players][:, :, outputs]
        own = np.arange(len(self._players))[players].tolist()
        whole = self._whole and sorted(own) == list(range(len(self._players)))
        values, base, predictions = cube(self._values), pair(self._base), pair(self._predictions)
        return Explanation(
            values=values,
            base_values=base,
            predictions=predictions,
            residual=pair(self._residual) if whole else predictions - base - values.sum(axis=1),
            bound=None if self._bound is None else pair(self._bound),
            std_error=None if self._std_error is None else cube(self._std_error),
            sampling=self.sampling,
            data=self._data[rows],
            column_names=self.column_names,
            players=[self._players[j] for j in own],
            output_names=[self.output_names[o] for o in np.arange(len(self.output_names))[outputs]],
            row_numbers=self.row_numbers[rows],
            provenance=self.provenance,
            squeezed=(squeezed[0], squeezed[1], squeezed[2]),
            whole=whole,
        )

    # To other tools ----------------------------------------------------------------------------------------------

    def to_shap(self) -> Any:
        """The same as a ``shap.Explanation``, for shap's plots. Groups of columns have no single value: their data are NaN."""
        import shap

        single = [own[0] if len(own) == 1 else None for _, own in self._players]
        columns = [np.full(len(self._data), np.nan) if j is None else self._data[:, j] for j in single]
        data = np.column_stack(columns) if columns else np.empty((len(self._data), 0))
        return shap.Explanation(
            values=self.values,
            base_values=self.base_values,
            data=self._shown(data, (0, 1)),
            feature_names=self.feature_names[0] if self._squeezed[1] else self.feature_names,
            output_names=None if self._squeezed[2] or len(self.output_names) == 1 else self.output_names,
        )

    def to_frame(self, library: str = "pandas") -> Any:
        """One line a row and output: ``row, output, base_value, prediction, residual``, then one column a feature: the table
        that the command line writes. ``library`` is ``"pandas"`` or ``"polars"``."""
        n, p, m = self._values.shape
        leading: dict[str, Any] = {
            "row": np.repeat(self.row_numbers, m),
            "output": list(self.output_names) * n,
            "base_value": self._base.ravel(),
            "prediction": self._predictions.ravel(),
            "residual": self._residual.ravel(),
        }
        for j, name in enumerate(self.feature_names):
            taken = name in leading or name.startswith("player:")
            leading[f"player:{name}" if taken else name] = self._values[:, j].ravel()
        if library == "pandas":
            import pandas

            return pandas.DataFrame(leading)
        if library == "polars":
            import polars

            return polars.DataFrame(leading)
        raise ValueError(f"library = '{library}': it is 'pandas' or 'polars'")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the explanation as JSON, which ``riesz plot``, ``report`` and ``inspect`` read too."""
        _check_ending(path, (".json",), "save writes JSON (for a table use .to_frame())")
        write(path, self._to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Explanation:
        """Reads what :meth:`save` or ``riesz explain -o FILE.json`` wrote."""
        content = pathlib.Path(path).read_bytes()
        if not content.lstrip().startswith(b"{"):
            raise ValueError(
                f"{path} is not JSON: load reads what save and 'riesz explain -o FILE.json' write; tables of values, CSV and "
                "Parquet, are read by the command line, 'riesz report' and 'riesz plot'"
            )
        try:
            _core.check(content)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return cls._from_record(json.loads(content))

    def report(self, path: str | os.PathLike[str], title: str = "Explanation") -> None:
        """Writes a self-contained HTML page: importance, beeswarm, dependence, each row, exactness, provenance."""
        if not isinstance(title, str):
            raise TypeError(f"title = {title!r}: it is a text")
        _check_ending(path, (".html", ".htm"), "report writes HTML")
        write(path, _core.report(self._to_json(), title).encode())

    def _to_json(self) -> bytes:
        if not self._whole:
            raise ValueError(
                "the features of this explanation are a selection, and their values do not add up to the predictions: "
                "save or report the whole explanation"
            )
        columns, numbers = [], []
        for j, name in enumerate(self.column_names):
            kind, cells = _column(self._data[:, j])
            columns.append({"name": name, "kind": kind})
            numbers.extend(cells)
        facts = lambda known: [{"name": k, "value": v} for k, v in known.items()]
        flat = lambda cube: cube.transpose(0, 2, 1).ravel().tolist()
        exactness: dict[str, Any] = {"kind": self.exactness}
        if self._bound is not None:
            exactness |= {"residual": self._residual.ravel().tolist(), "bound": self._bound.ravel().tolist()}
        elif self._std_error is not None and self.sampling is not None:
            exactness |= {"std_error": flat(self._std_error), **vars(self.sampling)}
        record = {
            "format": "riesz-explanation",
            "version": 1,
            "players": [{"name": name, "columns": own} for name, own in self._players],
            "output_names": self.output_names,
            "values": flat(self._values),
            "base_values": self._base.ravel().tolist(),
            "predictions": self._predictions.ravel().tolist(),
            "data": {"columns": columns, "rows": len(self._data), "values": numbers},
            "row_numbers": self.row_numbers.tolist(),
            "exactness": exactness,
            "provenance": {
                "game": self.provenance.game,
                "absent": self.provenance.absent,
                "model": facts(self.provenance.model),
                "run": facts(self.provenance.run),
            },
        }
        return json.dumps(record, allow_nan=False).encode()

    @classmethod
    def _from_record(cls, record: dict[str, Any]) -> Explanation:
        exactness = record["exactness"]
        exact = exactness["kind"] == "exact"
        if exactness["kind"] not in ("exact", "estimated"):
            raise ValueError(f"the explanation's values are {exactness['kind']}: exact or estimated ones can be read")
        n, m, p = len(record["row_numbers"]), len(record["output_names"]), len(record["players"])
        pair = lambda numbers: np.asarray(numbers, dtype=np.float64).reshape(n, m)
        cube = lambda numbers: np.asarray(numbers, dtype=np.float64).reshape(n, m, p).transpose(0, 2, 1)
        values, base, predictions = cube(record["values"]), pair(record["base_values"]), pair(record["predictions"])
        table = record["data"]
        data = np.asarray(table["values"], dtype=np.float64).reshape(len(table["columns"]), n).T
        levels = [c["kind"]["categorical"]["levels"] if isinstance(c["kind"], dict) else None for c in table["columns"]]
        if any(level is not None for level in levels):
            data = data.astype(object)
            for j, level in enumerate(levels):
                if level is not None:
                    names = _numbers_of(level) or level
                    data[:, j] = [names[int(code)] for code in data[:, j]]
        facts = lambda known: {fact["name"]: fact["value"] for fact in known}
        origin = record["provenance"]
        return cls(
            values=values,
            base_values=base,
            predictions=predictions,
            residual=pair(exactness["residual"]) if exact else predictions - base - values.sum(axis=1),
            bound=pair(exactness["bound"]) if exact else None,
            std_error=None if exact else cube(exactness["std_error"]),
            sampling=None if exact else Sampling(exactness["evaluations"], exactness["seed"]),
            data=data,
            column_names=[c["name"] for c in table["columns"]],
            players=[(player["name"], player["columns"]) for player in record["players"]],
            output_names=record["output_names"],
            row_numbers=np.asarray(record["row_numbers"], dtype=np.int64),
            provenance=Provenance(origin["game"], origin["absent"], facts(origin["model"]), facts(origin["run"])),
        )

    # Display -----------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        shape = " × ".join(str(size) for size in self.shape) or "1"
        certificate = self.certificate
        if not self._whole and self._bound is not None:
            state = f"some of its features, each value exact within {self._bound.max(initial=0.0):.1e}"
        elif certificate is None:
            largest = 0.0 if self._std_error is None else self._std_error.max(initial=0.0)
            state = f"estimated, standard errors up to {largest:.1e}"
        elif certificate.holds:
            state = f"exact within {certificate.bound:.1e}"
        else:
            state = f"CERTIFICATE FAILED, bound {certificate.bound:.1e}"
        return f"<riesz.Explanation: {shape} values, {self.provenance.game} game, {state}>"

    def _repr_html_(self) -> str:
        if not len(self._values) or not self.feature_names or not self._whole:
            return f"<code>{repr(self)[1:-1]}</code>"
        plot = "waterfall" if len(self._values) == 1 else "beeswarm"
        return _core.svg(self._to_json(), plot, 0, 0, 10) + f"<p><code>{repr(self)[1:-1]}</code></p>"

    def __reduce__(self):
        # By the names of the constructor's arguments, which later versions keep reading.
        state = {
            "values": self._values,
            "base_values": self._base,
            "predictions": self._predictions,
            "residual": self._residual,
            "bound": self._bound,
            "data": self._data,
            "column_names": self.column_names,
            "players": self._players,
            "output_names": self.output_names,
            "row_numbers": self.row_numbers,
            "provenance": vars(self.provenance),
            "squeezed": self._squeezed,
        }
        if self.sampling is None and self._whole:
            return _unpickle, (1, state)
        # Version 2 added estimated values, version 3 selections of features.
        sampling = None if self.sampling is None else vars(self.sampling)
        state |= {"std_error": self._std_error, "sampling": sampling}
        return _unpickle, (2, state) if self._whole else (3, state | {"whole": False})


def _unpickle(version: int, state: dict[str, Any]) -> Explanation:
    if version > 3:
        raise ValueError(f"this pickle is of version {version}, written by a newer riesz: update riesz to read it")
    state = {**state, "provenance": Provenance(**state["provenance"])}
    if state.get("sampling") is not None:
        state["sampling"] = Sampling(**state["sampling"])
    return Explanation(**state)


def _positions(key: Any, names: Sequence[str] | None, what: str, count: int) -> Any:
    """Names as numbers; a mask as numbers; numbers and slices as they are."""
    if hasattr(key, "to_numpy"):
        key = key.to_numpy()
    if isinstance(key, np.ndarray) and key.ndim == 0:
        key = key[()]
    if isinstance(key, str):
        if names is None:
            raise IndexError(f"rows have numbers, not names like '{key}'")
        if key not in names:
            raise KeyError(f"there is no {what} '{key}'; there are: {', '.join(names)}")
        return names.index(key)
    if is_whole(key) or isinstance(key, slice):
        return key
    if isinstance(key, (list, tuple, range, np.ndarray)):
        array = np.asarray(key)
        if array.dtype == bool:
            if array.shape != (count,):
                raise IndexError(f"a mask of shape {array.shape} does not pick from {count} {what}s")
            return np.flatnonzero(array)
        if array.ndim == 1 and all(isinstance(one, str) for one in key):
            return np.asarray([_positions(str(name), names, what, count) for name in key], dtype=int)
        if array.ndim == 1 and array.dtype.kind in "iu":
            return array.astype(int)
        raise IndexError(f"{what}s are picked by a list of whole numbers, of names or of truth values, not by {key!r}")
    raise IndexError(f"a {what} is picked by a whole number, a name, a slice or a list, not by {key!r}")


#: What stands for a number that is missing, among the levels that stand for the others.
MISSING = "missing"


def _column(cells: np.ndarray) -> tuple[Any, list[float]]:
    """A column's kind and numbers in the file format, which has no missing numbers: a column with some is one of levels."""
    known = cells
    if cells.dtype == object:
        known = np.array([np.nan if is_missing(cell) else cell for cell in cells], dtype=object)
    try:
        numbers = known.astype(np.float64)
    except (TypeError, ValueError):
        texts = [str(cell) for cell in cells]
        levels = sorted(set(texts))
    else:
        if np.isfinite(numbers).all():
            return "numeric", numbers.tolist()
        spelled = lambda value: MISSING if np.isnan(value) else repr(float(value)).removesuffix(".0")
        texts = [spelled(value) for value in numbers]
        # In the order of the numbers, NaN last.
        levels = [spelled(value) for value in np.unique(numbers)]
    code = {level: float(k) for k, level in enumerate(levels)}
    return {"categorical": {"levels": levels}}, [code[text] for text in texts]


def _numbers_of(levels: Sequence[str]) -> list[float] | None:
    """The numbers that the levels stand for, if they are those of a column of numbers in which some are missing."""
    try:
        numbers = [float("nan") if level == MISSING else float(level) for level in levels]
    except ValueError:
        return None
    return None if np.isfinite(numbers).all() else numbers


def _check_ending(path: str | os.PathLike[str], known: Sequence[str], why: str) -> None:
    """Refuses a name whose ending promises another format; one without ending promises nothing."""
    ending = pathlib.Path(path).suffix
    if ending and ending.lower() not in known:
        raise ValueError(f"{path} ends in {ending}, but {why}: give a name that ends in {known[0]}")
