//! The step length of Newton's method for concave objectives.

/// Returns the point of the longest step t of 1, ½, ¼, … whose objective is not below `objective` by more
/// than its rounding error, and that objective. Near a maximum the objective changes by less than that error.
/// Steps end at 1e-10, where the last point is returned. `point_at` returns the objective and the point at t.
pub fn halved_step<P>(objective: f64, mut point_at: impl FnMut(f64) -> (f64, P)) -> (f64, P) {
    let mut t = 1.0;
    loop {
        let (value, point) = point_at(t);
        if value >= objective - 1e-12 * objective.abs().max(1.0) || t < 1e-10 {
            return (value, point);
        }
        t *= 0.5;
    }
}
