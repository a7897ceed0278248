"""The user's column from which each column of scikit-learn's transformers is computed (its owner)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._core import UnsupportedModelError
from .._data.validation import numbered


def owners(step: Any, width: int, name: str, column_count: int | None = None) -> list[int]:
    """Returns the owner of each column that a fitted transformer computes from ``width`` columns.
    ``column_count`` is the number of its columns, if known."""
    if step is None or isinstance(step, str):
        return [] if step == "drop" else list(range(width))
    # A subclass may do anything, so only classes of scikit-learn and riesz are known.
    is_known = type(step).__module__.startswith(("sklearn.", "riesz."))
    find_owners = _OWNERS.get(type(step).__name__) if is_known else None
    step_owners = (
        find_owners(step, width) if find_owners is not None else _selected(step) if is_known else None
    )
    if step_owners is not None:
        return step_owners
    if type(step).__name__ == "Pipeline" and is_known:
        return _pipeline(step, width, column_count)
    if width == 1:
        # All columns computed from a single column are owned by it.
        return [0] * (_count(step, name) if column_count is None else column_count)
    raise UnsupportedModelError(
        f"the step '{name}' ({type(step).__name__}) is not known to compute each of its columns from one "
        "input column, so its "
        "columns have no owner; the model behind it can be explained exactly on the transformed rows, "
        "riesz.Explainer(pipeline[-1], background=pipeline[:-1].transform(X)), and a transformer of one "
        "column alone is that "
        "column's"
    )


def _count(step: Any, name: str) -> int:
    try:
        return len(step.get_feature_names_out())
    except Exception:
        raise UnsupportedModelError(
            f"the step '{name}' ({type(step).__name__}) does not say how many columns it makes "
            "(get_feature_names_out)"
        ) from None


def _pipeline(step: Any, width: int, column_count: int | None) -> list[int]:
    owners_of_columns, steps = (
        list(range(width)),
        [inner for inner in step.steps if inner[1] not in (None, "passthrough")],
    )
    for k, (name, transformer) in enumerate(steps):
        width_after = getattr(steps[k + 1][1], "n_features_in_", None) if k + 1 < len(steps) else column_count
        owners_of_columns = [
            owners_of_columns[j] for j in owners(transformer, len(owners_of_columns), name, width_after)
        ]
    return owners_of_columns


def _one_to_one(_: Any, width: int) -> list[int]:
    return list(range(width))


def _repeated(counts: Sequence[int]) -> list[int]:
    return [j for j, count in enumerate(counts) for _ in range(count)]


def _function(step: Any, width: int) -> list[int] | None:
    return list(range(width)) if step.func is None or isinstance(step.func, np.ufunc) else None


def _imputer(step: Any, width: int) -> list[int] | None:
    if len(step.statistics_) != width:
        return None
    missing = lambda value: isinstance(value, (float, np.floating)) and np.isnan(value)
    kept_columns = [j for j in range(width) if step.keep_empty_features or not missing(step.statistics_[j])]
    return kept_columns + step.indicator_.features_.tolist() if step.add_indicator else kept_columns


def _target_encoder(step: Any, width: int) -> list[int]:
    return _repeated([len(step.classes_) if step.target_type_ == "multiclass" else 1] * width)


def _selected(step: Any) -> list[int] | None:
    from sklearn.feature_selection import SelectorMixin

    return np.flatnonzero(step.get_support()).tolist() if isinstance(step, SelectorMixin) else None


def _feature_union(step: Any, width: int) -> list[int]:
    return [j for name, transformer in step.transformer_list for j in owners(transformer, width, name)]


def _column_transformer(step: Any, width: int) -> list[int]:
    names = [str(n) for n in getattr(step, "feature_names_in_", numbered(width))]
    owners_of_columns = [-1] * max((part.stop for part in step.output_indices_.values()), default=0)
    for name, transformer, columns in step.transformers_:
        columns, part = _columns(columns, names), step.output_indices_[name]
        size = part.stop - part.start
        inner = owners(transformer, len(columns), name, size) if columns else []
        if len(inner) != size:
            raise UnsupportedModelError(f"the step '{name}' makes {size} columns, not {len(inner)}")
        owners_of_columns[part] = [columns[j] for j in inner]
    return owners_of_columns


#: For each class of scikit-learn, the owners of its columns; ``None`` if they have no single owner with these
#: settings.
_OWNERS: dict[str, Callable[[Any, int], list[int] | None]] = {
    "StandardScaler": _one_to_one,
    "MinMaxScaler": _one_to_one,
    "MaxAbsScaler": _one_to_one,
    "RobustScaler": _one_to_one,
    "PowerTransformer": _one_to_one,
    "QuantileTransformer": _one_to_one,
    "OrdinalEncoder": _one_to_one,
    "Binarizer": _one_to_one,
    "FunctionTransformer": _function,
    "SimpleImputer": _imputer,
    "MissingIndicator": lambda step, _: step.features_.tolist(),
    "OneHotEncoder": lambda step, _: _repeated(step._n_features_outs),
    "TargetEncoder": _target_encoder,
    "KBinsDiscretizer": lambda step, width: _repeated(
        [1] * width if step.encode == "ordinal" else step.n_bins_
    ),
    "SplineTransformer": lambda step, width: _repeated([step.n_features_out_ // width] * width),
    "FeatureUnion": _feature_union,
    "ColumnTransformer": _column_transformer,
}


def _columns(columns: Any, names: list[str]) -> list[int]:
    """Returns the column numbers for a column selection of a ColumnTransformer."""
    if isinstance(columns, str):
        return [names.index(columns)]
    if isinstance(columns, (int, np.integer)):
        return [int(columns) % len(names)]
    if isinstance(columns, slice):
        bounds = [names.index(b) if isinstance(b, str) else b for b in (columns.start, columns.stop)]
        if isinstance(columns.stop, str):
            bounds[1] += 1
        return list(range(len(names)))[slice(bounds[0], bounds[1], columns.step)]
    columns = list(columns)
    if columns and isinstance(columns[0], (bool, np.bool_)):
        return np.flatnonzero(columns).tolist()
    return [names.index(c) if isinstance(c, str) else int(c) % len(names) for c in columns]
