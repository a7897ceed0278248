//! Areas from GeoJSON files (RFC 7946), by the names that a property of their features gives them.

use std::collections::HashMap;
use std::path::Path;

use riesz_report::Area;
use serde_json::Value;

use crate::console::Console;
use crate::exit::{Failure, Result};
use crate::io::columns::Columns;
use crate::io::duels::{first_of, names_of};
use crate::io::input::{name_of, read_file};

/// The areas of rows, and the names of their coordinates.
pub struct RowAreas {
    /// The area of each row.
    pub areas: Vec<Area>,
    /// The names of the horizontal and the vertical coordinate.
    pub axes: [String; 2],
}

/// The area of each row of a table: the one whose property `id` is the cell of the column of this name.
pub fn areas_of_rows(path: &Path, rows: &Columns, id: &str, console: &Console) -> Result<RowAreas> {
    let mut area_of_name = read_areas(path, id)?;
    let names = names_of(rows, id)?;
    let mut first_row = HashMap::new();
    for (i, name) in names.iter().enumerate() {
        if let Some(j) = first_row.insert(name, i) {
            return Err(Failure::input(format!(
                "{}: {} and {} are both the area '{name}' of column '{id}': a map of areas needs one row for \
                 each area; give --x and --y for a map of points",
                rows.name,
                rows.describe_row(j),
                rows.describe_row(i)
            )));
        }
    }
    let missing: Vec<String> =
        names.iter().filter(|name| !area_of_name.contains_key(*name)).cloned().collect();
    if !missing.is_empty() {
        return Err(Failure::input(format!(
            "{} has no area for {} of column '{id}' in {}: add these areas, or leave their rows out",
            name_of(path),
            first_of(&missing),
            rows.name
        )));
    }
    let areas: Vec<Area> = names.iter().filter_map(|name| area_of_name.remove(name)).collect();
    if !area_of_name.is_empty() {
        let count = area_of_name.len();
        console.note(format!("note: {count} areas of {} have no row and are not drawn", name_of(path)));
    }
    let is_degrees = |point: &[f64; 2]| point[0].abs() <= 360.0 && point[1].abs() <= 90.0;
    let axes = if areas.iter().flat_map(|area| area.rings.iter().flatten()).all(is_degrees) {
        ["longitude", "latitude"]
    } else {
        console.note(format!(
            "note: the coordinates of {} are not degrees, and are drawn as distances in a plane",
            name_of(path)
        ));
        ["x", "y"]
    };
    Ok(RowAreas { areas, axes: axes.map(String::from) })
}

/// All areas of a file by their names; features of the same name are parts of one area.
fn read_areas(path: &Path, id: &str) -> Result<HashMap<String, Area>> {
    let file = name_of(path);
    let document: Value = serde_json::from_slice(&read_file(path)?).map_err(|error| {
        Failure::input(format!("{file} is not GeoJSON: {error}; give a file with a FeatureCollection"))
    })?;
    let features = match document["type"].as_str() {
        Some("FeatureCollection") => document["features"].as_array().map_or(&[][..], Vec::as_slice),
        Some("Feature") => std::slice::from_ref(&document),
        _ => {
            return Err(Failure::input(format!(
                "{file} is not a GeoJSON file of features: its type must be FeatureCollection"
            )));
        }
    };
    let mut areas: HashMap<String, Area> = HashMap::new();
    for (k, feature) in features.iter().enumerate() {
        let name = feature_name(feature, id).ok_or_else(|| {
            Failure::input(format!(
                "{file}: feature {} has no property '{id}'; its properties are: {}",
                k + 1,
                property_names(feature)
            ))
        })?;
        let about = |problem| Failure::input(format!("{file}: area '{name}' {problem}"));
        let rings = rings_of(&feature["geometry"]).map_err(about)?;
        if rings.is_empty() {
            return Err(about("has no polygon: give a Polygon or a MultiPolygon".into()));
        }
        areas.entry(name).or_default().rings.extend(rings);
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
    riesz::error::listed(names)
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
