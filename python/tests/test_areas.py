"""One table of areas, and maps of areas with polygons."""

import json

import numpy as np
import pandas as pd
import pytest

import riesz
from conftest import run, with_command


@pytest.fixture(scope="module")
def areas():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"area": [f"a{i}" for i in range(12)], "deprivation": rng.normal(size=12)})
    table["people"] = rng.integers(1000, 3000, 12)
    return table.assign(cases=rng.poisson(table.people * np.exp(table.deprivation - 3)))


@pytest.fixture(scope="module")
def squares():
    """A square for each area, in a row from west to east, and one without a row."""

    def square(i):
        corners = [[i, 50], [i + 1, 50], [i + 1, 51], [i, 51], [i, 50]]
        geometry = {"type": "Polygon", "coordinates": [corners]}
        return {"type": "Feature", "properties": {"area": f"a{i}"}, "geometry": geometry}

    return {"type": "FeatureCollection", "features": [square(i) for i in range(13)]}


SETTINGS = {"target": "cases", "weight": "people"}


@pytest.mark.parametrize("family", [riesz.AggregateCountProcess, riesz.AggregateGaussianProcess])
def test_one_table_of_areas_is_the_same_two_tables(areas, family):
    model = lambda: family(random_state=0, n_hyperparameter_samples=0)
    rows, bags = areas[["area", "deprivation", "people"]], areas[["area", "cases"]]
    expected = model().fit(rows, bags, bag="area", **SETTINGS).predict(areas)
    np.testing.assert_array_equal(model().fit(areas, bag="area", **SETTINGS).predict(areas), expected)
    # By default areas have the names of the index.
    unnamed = model().fit(areas.set_index("area"), **SETTINGS)
    np.testing.assert_array_equal(unnamed.predict(areas), expected)
    assert list(unnamed.bags_) == list(areas.area)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mediators": ["deprivation"]}, "mediators relates two tables"),
        ({"drop_unmatched": True}, "drop_unmatched relates two tables"),
        ({"row": "area"}, "row relates two tables"),
    ],
)
def test_options_of_two_tables_are_refused(areas, options, message):
    with pytest.raises(ValueError, match=message):
        riesz.AggregateGaussianProcess().fit(areas, bag="area", **SETTINGS, **options)


def test_tables_without_bags_are_refused(areas):
    with pytest.raises(ValueError, match="bags = None: then rows is a data frame"):
        riesz.AggregateGaussianProcess().fit(np.ones((3, 2)))
    with pytest.raises(ValueError, match="bag = None: give the column of both tables"):
        riesz.AggregateGaussianProcess().fit(areas, areas, target="cases")


@with_command
def test_maps_of_polygons_match_the_command_line(tmp_path, areas, squares):
    model = riesz.AggregateCountProcess(random_state=0, n_hyperparameter_samples=0)
    model.fit(areas, bag="area", **SETTINGS).save(tmp_path / "m.riesz", posterior=True)
    areas.to_csv(tmp_path / "areas.csv", index=False)
    path = tmp_path / "squares.geojson"
    path.write_text(json.dumps(squares))
    run(tmp_path, "downscale map m.riesz areas.csv --geojson squares.geojson --id area -o printed.svg")
    printed = (tmp_path / "printed.svg").read_text()

    class Frame:
        __geo_interface__ = squares

    by_id = dict(squares, features=[dict(f, id=f["properties"]["area"]) for f in squares["features"]])
    for geojson, names in [(path, "area"), (squares, "area"), (Frame(), "area"), (by_id, areas.area)]:
        model.save_map(tmp_path / "ours.svg", areas, geojson=geojson, id=names)
        assert (tmp_path / "ours.svg").read_text() == printed
    model.report(tmp_path / "ours.html", areas, geojson=squares, id="area")
    assert (tmp_path / "ours.html").read_text().count('fill-rule="evenodd"') >= 4 * 12


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "x = None: give x and y, or geojson and id"),
        ({"geojson": {}}, "geojson and id: give one pair"),
        ({"geojson": {}, "id": "area", "x": "people"}, "geojson and id: give one pair"),
        ({"geojson": {}, "id": "town"}, "rows have no such column"),
        ({"geojson": {}, "id": "area"}, "its type must be FeatureCollection"),
        ({"geojson": {}, "id": ["a", "b"]}, "id has 2 names, but there are 12 rows"),
    ],
)
def test_places_that_do_not_fit_are_refused(tmp_path, areas, options, message):
    model = riesz.AggregateGaussianProcess(optimizer=None).fit(areas, bag="area", **SETTINGS)
    with pytest.raises(ValueError, match=message):
        model.save_map(tmp_path / "map.svg", areas, **options)
    with pytest.raises(TypeError, match="geojson is a list"):
        model.save_map(tmp_path / "map.svg", areas, geojson=[], id="area")
