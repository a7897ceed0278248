"""Fits of more rows than one machine's memory or patience holds, and explanations of as many: on this
machine, on Dask, on Spark.

>>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq, riesz, tempfile
>>> rng = np.random.default_rng(0); folder = tempfile.mkdtemp()
>>> x = rng.normal(size=(5000, 2)); y = np.sin(x[:, 0]) + x[:, 1] + 0.3 * rng.normal(size=5000)
>>> rows = pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})
>>> pq.write_table(rows, f"{folder}/rows.parquet", row_group_size=1000)
>>> fit = riesz.distributed.fit(f"{folder}/*.parquet", "y", landmarks=40, alpha=0.1, corrections=2)
>>> fit.rows, fit.landmarks
(5000, 40)

Rows are read in units of whole row groups. What is learnt of a unit are whole numbers, whose sums do not
depend on their order: the model is the same, bit for bit, on one machine and on many, in one go and after
workers died. An engine is whatever runs a function of a unit and adds up results:

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
