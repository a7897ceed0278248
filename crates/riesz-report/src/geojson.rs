//! Areas from GeoJSON documents (RFC 7946), by the names that a property of their features gives them.

use std::collections::HashMap;

use riesz::error::listed;
use riesz::{Error, Result};
use serde_json::Value;

use crate::plot::Area;

/// The areas of the rows of a map.
#[derive(Debug, Clone)]
pub struct RowAreas {
    /// The area of each row.
    pub areas: Vec<Area>,
    /// The number of areas of the document without a row, which are not drawn.
    pub undrawn: usize,
    /// Whether all coordinates are longitudes and latitudes in degrees; otherwise they are distances.
    pub degrees: bool,
}

impl RowAreas {
    /// The areas of rows with these names, from a GeoJSON document; the property `id` of its features is
    /// their name. Features of the same name are parts of one area.
    ///
    /// # Errors
    /// [`Error::Format`] if the document is not GeoJSON, a feature has no such property or no polygon, or a
    /// name occurs twice or is not in the document.
    pub fn new(document: &[u8], id: &str, names: &[String]) -> Result<Self> {
        let mut area_of_name = read_areas(document, id)?;
        let mut first_row = HashMap::new();
        for (i, name) in names.iter().enumerate() {
            if let Some(j) = first_row.insert(name, i) {
                return Err(Error::format(format!(
                    "rows {} and {} are both the area '{name}' of column '{id}': a map of areas needs one \
                     row for each area; give x and y for a map of points",
                    j + 1,
                    i + 1
                )));
            }
        }
        let missing: Vec<&String> = names.iter().filter(|name| !area_of_name.contains_key(*name)).collect();
        if !missing.is_empty() {
            return Err(Error::format(format!(
                "there is no area for these names of column '{id}': {}; add these areas, or leave their \
                 rows out",
                listed(missing)
            )));
        }
        let areas: Vec<Area> = names.iter().filter_map(|name| area_of_name.remove(name)).collect();
        let is_degrees = |point: &[f64; 2]| point[0].abs() <= 360.0 && point[1].abs() <= 90.0;
        let degrees = areas.iter().flat_map(|area| area.rings.iter().flatten()).all(is_degrees);
        Ok(Self { areas, undrawn: area_of_name.len(), degrees })
    }

    /// The names of the horizontal and the vertical coordinate.
    #[must_use]
    pub fn axes(&self) -> [&'static str; 2] {
        if self.degrees { ["longitude", "latitude"] } else { ["x", "y"] }
    }
}

/// All areas of a document by their names.
fn read_areas(document: &[u8], id: &str) -> Result<HashMap<String, Area>> {
    let document: Value = serde_json::from_slice(document).map_err(|error| {
        Error::format(format!("this is not GeoJSON: {error}; give a file with a FeatureCollection"))
    })?;
    let features = match document["type"].as_str() {
        Some("FeatureCollection") => document["features"].as_array().map_or(&[][..], Vec::as_slice),
        Some("Feature") => std::slice::from_ref(&document),
        _ => {
            return Err(Error::format(
                "this is not a GeoJSON file of features: its type must be FeatureCollection",
            ));
        }
    };
    let mut areas: HashMap<String, Area> = HashMap::new();
    for (k, feature) in features.iter().enumerate() {
        let name = feature_name(feature, id).ok_or_else(|| {
            Error::format(format!(
                "feature {} has no property '{id}'; its properties are: {}",
                k + 1,
                property_names(feature)
            ))
        })?;
        let about = |problem| Error::format(format!("area '{name}' {problem}"));
        let rings = rings_of(&feature["geometry"]).map_err(about)?;
        if rings.is_empty() {
            return Err(about("has no polygon: give a Polygon or a MultiPolygon".into()));
        }
        let area =
            areas.entry(name).or_insert_with_key(|name| Area { name: name.clone(), rings: Vec::new() });
        area.rings.extend(rings);
    }
    Ok(areas)
}

/// The name of a feature: its property `id`, or its GeoJSON identifier if that is requested as "id".
fn feature_name(feature: &Value, id: &str) -> Option<String> {
    let property = &feature["properties"][id];
    let value = if property.is_null() && id == "id" { &feature["id"] } else { property };
    match value {
        Value::String(text) => Some(text.trim().to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn property_names(feature: &Value) -> String {
    let names = feature["properties"].as_object().map_or_else(Vec::new, |map| map.keys().collect());
    listed(names)
}

/// The rings of all polygons of a geometry.
fn rings_of(geometry: &Value) -> std::result::Result<Vec<Vec<[f64; 2]>>, String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let polygons = match geometry["type"].as_str() {
        Some("Polygon") => vec![geometry["coordinates"].clone()],
        Some("MultiPolygon") => list(&geometry["coordinates"]),
        Some("GeometryCollection") => {
            let parts: std::result::Result<Vec<_>, _> =
                list(&geometry["geometries"]).iter().map(rings_of).collect();
            return Ok(parts?.concat());
        }
        Some(other) => return Err(format!("is a {other}: give a Polygon or a MultiPolygon")),
        None => return Err("has no geometry: give a Polygon or a MultiPolygon".into()),
    };
    let point = |value: &Value| match (value[0].as_f64(), value[1].as_f64()) {
        (Some(x), Some(y)) => Ok([x, y]),
        _ => Err("has a point that is not a pair of numbers".to_string()),
    };
    let ring =
        |value: &Value| match list(value).iter().map(point).collect::<std::result::Result<Vec<_>, _>>()? {
            points if points.len() >= 4 && points.first() == points.last() => Ok(points),
            _ => Err("has a ring that is not closed, with at least four points".to_string()),
        };
    polygons.iter().flat_map(list).map(|value| ring(&value)).collect()
}
