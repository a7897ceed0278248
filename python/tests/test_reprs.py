"""Results print a summary, not their arrays."""

import numpy as np
import pandas as pd

import riesz
from riesz.kernels import RBF


def test_global_importance_shows_its_largest_values(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["age", "bmi", "dose", "sex"])
    model = riesz.KernelRidge(0.1, kernel=RBF(2.0)).fit(frame, y)
    indices = riesz.sobol_indices(model, frame)
    first = indices.to_frame().iloc[0]
    shown = f"<riesz.SobolIndices: Shapley effects: {first.name} {first.shapley_effect:.4g}, "
    assert repr(indices).startswith(shown) and "array" not in repr(indices)
    several = riesz.KernelRidge(0.1, kernel=RBF(2.0)).fit(frame, np.column_stack([y, y**2]))
    assert repr(riesz.sobol_indices(several, frame)).startswith(
        "<riesz.SobolIndices: 4 features, 2 outputs, "
    )
    values = riesz.sage_values(model, frame, y)
    first = values.to_frame().iloc[0]
    mean_error = f"{np.mean((model.predict(frame) - y) ** 2):.4g}"
    assert repr(values).startswith(
        f"<riesz.SageValues: squared error {mean_error}, of the constant prediction"
    )
    assert f"values: {first.name} {first.value:.4g}, " in repr(values) and "array" not in repr(values)


def test_protection_paths_show_scores_and_importances(data):
    X, y = data
    model = riesz.KernelRidge(0.1, kernel=RBF(2.0), protect=[0])
    path = riesz.protection_path(model, X, y, [0.0, 1e6])
    lines = repr(path).splitlines()
    assert lines[0] == "<riesz.ProtectionPath: x0 protected, by strength:" and len(lines) == 3
    assert lines[1] == f"  0: score {path.scores[0]:.4g}, importance {path.importances[0, 0]:.4g}"


def test_fits_to_files_show_their_size(data, tmp_path):
    X, y = data
    pd.DataFrame(X, columns=list("abcd")).assign(y=y).to_parquet(tmp_path / "rows.parquet")
    fit = riesz.distributed.fit(str(tmp_path / "rows.parquet"), "y", n_landmarks=10, alpha=0.5)
    assert repr(fit) == "<riesz.distributed.LandmarkFit: 10 landmarks from 50 rows, alpha 0.5>"
