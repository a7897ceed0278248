//! The witness function along a column, which shows where the first of two samples has more mass than the
//! second.

use riesz::discrepancy::Witness;

use super::banded_curve::BandedCurve;
use super::*;

pub(super) fn draw(w: &Witness, options: &PlotOptions) -> Svg {
    let curve = BandedCurve {
        column: &w.column,
        levels: w.levels.as_deref(),
        positions: w.grid.clone(),
        values: w.values.clone(),
        // Bands are two standard errors wide on either side.
        ends: w.values.iter().zip(&w.std_error).map(|(v, e)| [v - 2.0 * e, v + 2.0 * e]).collect(),
        has_band: true,
        quantity: "witness function".into(),
        left: 72.0,
        spacing: 50.0,
        line_paint: Paint::Up,
        bar_paint: Paint::for_sign,
    };
    let about = format!(
        "The witness function along {}, with a band of two standard errors: above 0 the first sample has \
         more mass, below 0 the second.",
        w.column
    );
    curve.draw(options, &format!("Where the samples differ along {}", w.column), &about)
}
