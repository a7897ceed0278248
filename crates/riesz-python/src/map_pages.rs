//! Pages and pictures of maps for Python.

use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use riesz::Table;
use riesz::aggregate::TargetUnit;
use riesz_report::{
    MapContent, MapQuantity, NamedBags, Places, PlotOptions, RowAreas, downscale_report, map_values,
    render_map,
};

use crate::fit::WeightedModels;
use crate::{Expansion, raise, refuse, table};

/// The locations of rows: their coordinates with the names of the axes, or a GeoJSON document, the property
/// with the names of its areas, and the name of each row's area.
#[derive(FromPyObject)]
pub(crate) enum Locations {
    Points([Vec<f64>; 2], [String; 2]),
    Areas(Vec<u8>, String, Vec<String>),
}

/// Locations that a map can draw, with the names of the axes.
enum Drawable {
    Points([Vec<f64>; 2], [String; 2]),
    Areas(RowAreas),
}

impl Drawable {
    fn new(locations: Locations) -> PyResult<Self> {
        Ok(match locations {
            Locations::Points(coordinates, axes) => Self::Points(coordinates, axes),
            Locations::Areas(document, id, names) => {
                Self::Areas(RowAreas::new(&document, &id, &names).map_err(raise)?)
            }
        })
    }

    fn places(&self) -> Places<'_> {
        match self {
            Self::Points([x, y], _) => Places::Points([x, y]),
            Self::Areas(found) => Places::Areas(&found.areas),
        }
    }

    fn axes(&self) -> [&str; 2] {
        match self {
            Self::Points(_, axes) => axes.each_ref().map(String::as_str),
            Self::Areas(found) => found.axes(),
        }
    }
}

/// The bags of rows: the name of their column, their names, the bag of each row, the name of the weights'
/// column, the weights, the observed quantity with a value for each bag, and whether bags are sums.
type BagInput =
    (String, Vec<String>, Vec<usize>, Option<String>, Option<Vec<f64>>, Option<(String, Vec<f64>)>, bool);

/// A map and the rows for which it is drawn.
struct MapInput {
    models: WeightedModels,
    rows: Table,
    background: Option<Table>,
}

impl MapInput {
    fn new(
        models: &[(f64, Py<Expansion>)],
        rows: &PyReadonlyArray2<'_, f64>,
        background: Option<&PyReadonlyArray2<'_, f64>>,
    ) -> PyResult<Self> {
        let columns = models.first().map_or(&[][..], |(_, model)| model.get().model.columns());
        let read = |rows: &PyReadonlyArray2<'_, f64>| table(columns, rows.as_array()).map_err(refuse);
        let (rows, background) = (read(rows)?, background.map(read).transpose()?);
        Ok(Self { models: WeightedModels::with_posteriors(models)?, rows, background })
    }
}

/// The page of a map.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "called by name from one place in Python")]
pub(crate) fn map_page(
    py: Python<'_>,
    models: Vec<(f64, Py<Expansion>)>,
    rows: PyReadonlyArray2<'_, f64>,
    locations: Locations,
    background: Option<PyReadonlyArray2<'_, f64>>,
    title: Option<String>,
    bags: Option<BagInput>,
) -> PyResult<String> {
    let MapInput { models, rows, background } = MapInput::new(&models, &rows, background.as_ref())?;
    let drawable = Drawable::new(locations)?;
    let work = move || -> riesz::Result<String> {
        let posteriors = models.posteriors()?;
        let content = MapContent::new(&posteriors, &rows, background.as_ref())?;
        let title = title.unwrap_or_else(|| content.title());
        let mut page = content.page(&title, drawable.places(), drawable.axes());
        let Some((column, names, bag_of_row, weight, weights, observed, sums)) = bags else {
            return downscale_report(&page);
        };
        let unit = if sums { TargetUnit::Sum } else { TargetUnit::Mean };
        let members = NamedBags::new(names, &bag_of_row, weight, weights.as_deref())?;
        let aggregates = content.over_bags(&members, unit)?;
        let observed = observed.as_ref().map(|(name, values)| (&name[..], &values[..]));
        page.bags = Some(aggregates.page(&members, &column, observed));
        downscale_report(&page)
    };
    py.detach(work).map_err(raise)
}

/// A picture of a map as SVG: its "mean", its "std", or the values of the feature with a number.
#[pyfunction]
pub(crate) fn map_picture(
    py: Python<'_>,
    models: Vec<(f64, Py<Expansion>)>,
    rows: PyReadonlyArray2<'_, f64>,
    locations: Locations,
    quantity: (String, usize),
    background: Option<PyReadonlyArray2<'_, f64>>,
) -> PyResult<String> {
    let MapInput { models, rows, background } = MapInput::new(&models, &rows, background.as_ref())?;
    let drawable = Drawable::new(locations)?;
    let quantity = match (&quantity.0[..], quantity.1) {
        ("mean", _) => MapQuantity::Mean,
        ("std", _) => MapQuantity::Std,
        (_, feature) => MapQuantity::Feature(feature),
    };
    let work = move || -> riesz::Result<String> {
        let posteriors = models.posteriors()?;
        let (values, title) = map_values(quantity, &posteriors, &rows, background.as_ref())?;
        let options = PlotOptions::default();
        Ok(render_map(drawable.places(), &values, drawable.axes(), &title, &options)?.text)
    };
    py.detach(work).map_err(raise)
}
