"""Fits to more rows than one machine can hold or process, and explanations of them, on this machine, on Dask
or on Spark.

>>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, riesz, tempfile
>>> rng = np.random.default_rng(0); folder = tempfile.mkdtemp()
>>> x = rng.normal(size=(5000, 2)); y = np.sin(x[:, 0]) + x[:, 1] + 0.3 * rng.normal(size=5000)
>>> rows = pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})
>>> pq.write_table(rows, f"{folder}/rows.parquet", row_group_size=1000)
>>> fit = riesz.distributed.fit(f"{folder}/*.parquet", "y", n_landmarks=40, alpha=0.1, corrections=2)
>>> fit.n_rows, fit.n_landmarks
(5000, 40)

Rows are read in units of whole row groups. The statistics of a unit are integers, whose sums do not depend on
their order. The model therefore has the same bits on one machine or many, and with or without interruptions.
An engine runs a function of each unit and adds up the results:

* ``None``: this process, one unit after the other, on all of its cores;
* a ``dask.distributed.Client`` (``pip install riesz[dask]``);
* a ``pyspark.sql.SparkSession`` (``pip install riesz[spark]``).

All workers must see the files under the same names.
"""

from ._explaining import Explained, explain
from ._fitting import LandmarkFit, fit

__all__ = ["Explained", "LandmarkFit", "explain", "fit"]


def __dir__() -> list[str]:
    return sorted(__all__)
