"""Base class of the models of aggregates: predictions and explanations of the map f, and of its means and
sums over bags."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .. import _core
from .. import kernels as rk
from .._data.types import DataFrameLike, GeoJSON, MatrixLike
from .._data.validation import collected, first_names, is_numbered, names_of
from .._explaining.explainer import Explainer
from .._explaining.explanation import NO_COVARIANCE, Explanation, check_suffix, named_sums
from .._models.average import ModelAverage
from .._models.expansion import Expansion, write
from .._models.loading import Imported, Part
from ._bags import ColumnRoles, Members, Tables, rows_of_bags
from ._fitting import Component


class Downscaled(BaseEstimator):
    """A map f of single rows, with one set of hyper-parameters or averaged over several."""

    expansion_: Expansion
    _parts: list[Component]
    effective_sample_size_: float | None
    #: The description of f in explanations.
    _explained = "posterior mean"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # It predicts a number for each row; fit takes two tables, so it is not a step of a pipeline.
        tags.estimator_type = "regressor"
        tags.target_tags.required = False
        tags.input_tags.string = True
        return tags

    def _store_fits(
        self, best: Component, parts: list[Component], tables: Tables, roles: ColumnRoles
    ) -> None:
        """Stores the fits for the best hyper-parameters and for draws of them, if any."""
        names = tables.rows.names
        self._parts = parts or [best]
        bag, weight = (column if isinstance(column, str) else None for column in (roles.bag, roles.weight))
        target, target_std, trials = (
            column if isinstance(column, str) else None
            for column in (roles.target, roles.target_std, roles.trials)
        )
        self._column_roles = ColumnRoles(
            bag, weight, target, target_std, features=None if is_numbered(names) else names, trials=trials
        )
        self._targets = tables.values
        self.expansion_, self.bags_, self.targets_ = best.expansion, tables.bags, tables.targets
        self.kernel_ = rk._from_json(self.expansion_._core.kernel, names)
        self.prior_mean_ = sum(part.weight * part.mean for part in self._parts)
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)

    def _explains_means(self) -> bool:
        """Whether explanations of bags are means over their rows, instead of sums."""
        return True

    def _cells(self, rows: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.expansion_._rows(rows, "rows")

    def _select_columns(self, X: Any, label: str = "X") -> Any:
        """Returns the columns on which f depends, as :class:`riesz.Explainer` takes them."""
        check_is_fitted(self)
        return self.expansion_._select_columns(X, label)

    def _mixed(self, values: Sequence[Any]) -> Any:
        return sum(part.weight * value for part, value in zip(self._parts, values))

    def _posterior(self, rows: Any, return_std: bool, return_cov: bool) -> Any:
        """Returns the mean of f at rows, and its standard deviations or covariances if requested."""
        moments = self._average()._moments(self._cells(rows), return_std, return_cov)
        return tuple(array[..., 0] for array in moments) if len(moments) > 1 else moments[0][..., 0]

    def _average(self) -> ModelAverage:
        """Returns the fits for draws of the hyper-parameters, or the only fit."""
        models, weights = [part.expansion for part in self._parts], [part.weight for part in self._parts]
        return ModelAverage(self.expansion_, models, weights, self.effective_sample_size_ or 1.0)

    def _drawn(self, rows: Any, n_samples: int, random_state: Any) -> np.ndarray:
        """Returns joint draws of f, (rows, n_samples)."""
        return self._average()._drawn(self._cells(rows), n_samples, random_state)[0]

    def _members(self, rows: Any, bag: Any, weight: Any) -> tuple[Members, list[str]]:
        """Returns the rows of bags, and the bags' names."""
        bag, weight = (
            default if value is None else value
            for value, default in zip((bag, weight), self._column_roles[:2])
        )
        if bag is None:
            raise ValueError("bag = None: it says of each row its bag, as in fit")
        named = names_of(collected(rows)) is not None
        members = rows_of_bags(
            rows, ColumnRoles(bag, weight, features=self._column_roles.features if named else None)
        )
        members.check()
        return members, list(dict.fromkeys(members.bag))

    def _weights_of(self, members: Members, names: list[str], means: bool) -> tuple[list[int], list[float]]:
        """Returns the bag of each row and its weight there, for means or sums."""
        bag_number = {name: k for k, name in enumerate(names)}
        bag_numbers = np.array([bag_number[name] for name in members.bag])
        weights = np.ones(len(bag_numbers)) if members.weight is None else members.weight
        if means:
            weights = weights / np.bincount(bag_numbers, weights)[bag_numbers]
        return bag_numbers.tolist(), weights.tolist()

    def explain_bags(
        self,
        background: MatrixLike,
        rows: MatrixLike | None = None,
        bags: Sequence[Any] | None = None,
        *,
        bag: Any = None,
        weight: Any = None,
        **options: Any,
    ) -> Explanation:
        """Explains the mean or sum of f over bags. It takes the time of explaining all rows of these bags.

        By linearity, values are weighted means or sums of the values of rows, and add up to
        :meth:`predict_bags`. Counts are not linear in f; for them values explain the weighted mean of f over
        the rows of the bag.

        Parameters
        ----------
        background : array or data frame of shape (m, d)
            Rows from which absent features take their values.
        rows : array or data frame of shape (n, d), optional
            By default the rows of the fit.
        bags : list, optional
            Names of bags of ``rows``, by default all.
        bag, weight
            As in :meth:`predict_bags`.
        **options
            As in :class:`riesz.Explainer`, without covariances, which are not known between rows.

        Returns
        -------
        Explanation
            One line per bag; :attr:`Explanation.data` has the means of its rows, and its name in the last
            column.
        """
        check_is_fitted(self)
        if options.get("covariance"):
            raise ValueError(NO_COVARIANCE)
        members, names = self._fit_members() if rows is None else self._members(rows, bag, weight)
        if bags is not None:
            requested = [str(name) for name in bags]
            unknown = [name for name in requested if name not in names]
            if unknown:
                raise ValueError(f"bags: there are no rows of {first_names(unknown)}")
            requested_set = set(requested)
            members, names = (
                members.take([i for i, name in enumerate(members.bag) if name in requested_set]),
                list(dict.fromkeys(requested)),
            )
        bag_numbers, weights = self._weights_of(members, names, self._explains_means())
        shares = np.zeros((len(names), len(bag_numbers)))
        shares[bag_numbers, range(len(bag_numbers))] = weights
        explanation = Explainer(self, background, **options)(members.rows).average(shares)
        return named_sums(explanation, shares.sum(axis=1), self._column_roles.bag or "bag", names)

    def _fit_members(self) -> tuple[Members, list[str]]:
        """Returns the rows of the fit."""
        raise ValueError(
            "a fit through inducing points does not keep its rows: give rows, whose bags are to be explained"
        )

    def _imported(self) -> Imported:
        """Returns the model in the form that :class:`riesz.Explainer` reads."""
        kind, expansion = type(self).__name__, self.expansion_
        if len(self._parts) > 1:
            return self._average()._imported(self._explained, kind)
        names, outputs = expansion.feature_names, expansion.output_names
        blocks = [[Part.from_expansion(expansion)]]
        return Imported(blocks, self._explained, names, kind, outputs, self._mean)

    def _mean(self, rows: Any) -> np.ndarray:
        return self._posterior(rows, False, False)

    def save(self, path: str | os.PathLike[str], *, posterior: bool = False) -> None:
        """Writes the map as a riesz model file, which :meth:`riesz.Expansion.load` reads, or an average over
        hyper-parameters as the file of a :class:`riesz.ModelAverage`; ``riesz predict`` reads both.

        Parameters
        ----------
        path : path
        posterior : bool, default False
            Whether the file also holds the posterior covariance, from which standard deviations follow.
        """
        check_is_fitted(self)
        model = self.expansion_ if len(self._parts) == 1 else self._average()
        model.save(path, posterior=posterior)

    def report(
        self,
        path: str | os.PathLike[str],
        rows: MatrixLike,
        x: str | ArrayLike | None = None,
        y: str | ArrayLike | None = None,
        *,
        geojson: GeoJSON | None = None,
        id: str | ArrayLike | None = None,
        background: MatrixLike | None = None,
        bag: Any = None,
        weight: Any = None,
        observed: Mapping[Any, float] | DataFrameLike | None = None,
        title: str | None = None,
    ) -> None:
        """Writes a self-contained HTML page with the map of ``rows``, its standard deviation and its
        explanation by features, as ``riesz downscale map … -o FILE.html`` does.

        Parameters
        ----------
        path : path
        rows : array or data frame
            Rows in the columns of the fit; a data frame may have further columns.
        x, y : str or array, optional
            Coordinates of the rows, from left to right and from bottom to top: columns of ``rows``, or one
            number per row. Not with ``geojson``.
        geojson : path, dict or GeoDataFrame, optional
            Polygons of the rows, which are then drawn as areas: a GeoJSON file, its content, or an object
            with ``__geo_interface__``, such as a data frame of geopandas.
        id : str or array, optional
            Names of the rows' areas: a column of ``rows``, or one name per row. A column has the name of the
            property with the areas' names in ``geojson``; for an array this property is ``"id"``.
        background : array or data frame, optional
            Rows from which absent features take their values; without it the game is the functional one.
        bag, weight : str or array, optional
            As for ``predict_bags``; with ``bag`` the page has a table of bags.
        observed : Series or dict, optional
            The observed target of each bag by its name; with ``bag``.
        title : str, optional
        """
        if title is not None and not isinstance(title, str):
            raise TypeError(f"title = {title!r}: it is a text")
        check_suffix(path, (".html", ".htm"), "report writes HTML")
        locations = self._locations(rows, (x, y), (geojson, id))
        if bag is None and (weight is not None or observed is not None):
            raise ValueError("weight and observed are of the table of bags: give bag too")
        bags = None if bag is None else self._bags_of_page(rows, bag, weight, observed)
        page = _core.map_page(
            self._average()._parts(),
            self._cells(rows),
            locations,
            self._background_cells(background),
            title,
            bags,
        )
        write(path, page.encode())

    def save_map(
        self,
        path: str | os.PathLike[str],
        rows: MatrixLike,
        x: str | ArrayLike | None = None,
        y: str | ArrayLike | None = None,
        *,
        geojson: GeoJSON | None = None,
        id: str | ArrayLike | None = None,
        quantity: str = "mean",
        background: MatrixLike | None = None,
    ) -> None:
        """Writes a picture of the map of ``rows`` as SVG, as ``riesz downscale map … -o FILE.svg`` does.

        Parameters
        ----------
        path : path
        rows, x, y, geojson, id, background
            As for :meth:`report`.
        quantity : str, default "mean"
            ``"mean"``, ``"std"``, or a feature for its Shapley values.
        """
        check_suffix(path, (".svg",), "save_map writes SVG")
        names = self.expansion_.feature_names
        if quantity not in ("mean", "std", *names):
            raise ValueError(
                f"quantity = {quantity!r}: it is 'mean', 'std' or a feature of the map: {', '.join(names)}"
            )
        if quantity in ("mean", "std") and background is not None:
            raise ValueError(f"background: quantity = {quantity!r} has no use for it: leave it out")
        number = names.index(quantity) if quantity in names else 0
        kind = quantity if quantity in ("mean", "std") else "feature"
        picture = _core.map_picture(
            self._average()._parts(),
            self._cells(rows),
            self._locations(rows, (x, y), (geojson, id)),
            (kind, number),
            self._background_cells(background),
        )
        write(path, picture.encode())

    def _background_cells(self, background: Any) -> np.ndarray | None:
        return None if background is None else self.expansion_._rows(background, "background")

    def _locations(self, rows: Any, points: tuple[Any, Any], areas: tuple[Any, Any]) -> tuple[Any, ...]:
        """Returns the locations of rows as the core takes them: the coordinates and the names of the axes, or
        a GeoJSON document, the property with the names of areas, and the rows' names."""
        check_is_fitted(self)
        table, count = collected(rows), len(self._cells(rows))
        header, (geojson, id) = names_of(table) or [], areas

        def cells_of(option: str, values: Any) -> Any:
            if not isinstance(values, str):
                return values
            if values not in header:
                raise ValueError(f"{option} = {values!r}: rows have no such column")
            return table[table.columns[header.index(values)]]

        if geojson is not None or id is not None:
            if geojson is None or id is None or points != (None, None):
                raise ValueError("a map has points, x and y, or areas, geojson and id: give one pair of both")
            names = [str(name) for name in np.asarray(cells_of("id", id)).tolist()]
            if len(names) != count:
                raise ValueError(f"id has {len(names)} names, but there are {count} rows")
            return geojson_text(geojson), id if isinstance(id, str) else "id", names
        coordinates, axes = [], []
        for axis, values in zip("xy", points):
            if values is None:
                raise ValueError(f"{axis} = None: give x and y, or geojson and id, to place the rows")
            name = values if isinstance(values, str) else getattr(values, "name", None) or axis
            values = cells_of(axis, values)
            numbers = np.asarray(values, dtype=float)
            if numbers.shape != (count,) or not np.isfinite(numbers).all():
                raise ValueError(f"{axis} is one finite number for each of the {count} rows")
            coordinates.append(numbers.tolist())
            axes.append(str(name))
        return coordinates, axes

    def _bags_of_page(self, rows: Any, bag: Any, weight: Any, observed: Any) -> tuple[Any, ...]:
        """Returns the bags of rows as the core's pages take them."""
        members, _ = self._members(rows, bag, weight)
        if len(members.bag) != len(self._cells(rows)):
            raise ValueError("report: each row is in one bag")
        names = sorted(set(members.bag))
        number = {name: k for k, name in enumerate(names)}
        targets = None
        if observed is not None:
            by_name = {str(name): float(value) for name, value in dict(observed).items()}
            label = getattr(observed, "name", None)
            targets = (str(label or "target"), [by_name.get(name, float("nan")) for name in names])
        used = self._column_roles.weight if weight is None else weight
        weights = None if members.weight is None else members.weight.tolist()
        weight_name = None if weights is None else used if isinstance(used, str) else "weight"
        column = bag if isinstance(bag, str) else "bag"
        sums = not self._explains_means()
        return column, names, [number[name] for name in members.bag], weight_name, weights, targets, sums


def geojson_text(document: GeoJSON) -> bytes:
    """Returns a GeoJSON document, which is a path, a dictionary or an object with ``__geo_interface__``."""
    if isinstance(document, (str, os.PathLike)):
        return Path(document).read_bytes()
    content = getattr(document, "__geo_interface__", document)
    if not isinstance(content, Mapping):
        raise TypeError(
            f"geojson is a {type(document).__name__}: give the path of a file, its content as a dictionary, "
            "or a data frame of geopandas"
        )
    return json.dumps(content).encode()


def few_samples_warnings(effective: float | None) -> list[str]:
    """Returns a warning if the effective number of samples of hyper-parameters is small."""
    warning = None if effective is None else _core.few_samples_warning(effective)
    return [] if warning is None else [warning]


def not_negative(name: str, value: Any, or_auto: bool = False) -> float | None:
    """Returns a nonnegative number; ``None`` for ``"auto"``, if that is allowed."""
    if or_auto and isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, (int, float, np.number)) and not isinstance(value, bool) and 0 <= value < np.inf:
        return float(value)
    raise ValueError(
        f"{name} = {value!r}: it is a number, not negative{', or ' + repr('auto') if or_auto else ''}"
    )
