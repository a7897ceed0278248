//! What is known of a sum by a count of it, whatever family it is of.

/// What a count says of its sum g.
#[derive(Debug, Clone, Copy)]
pub(super) struct Said {
    /// The logarithm of its probability.
    pub value: f64,
    /// Its first and second derivatives by g.
    pub slope: f64,
    pub bend: f64,
    /// What a count is expected to say of g, the Fisher information, and its derivative.
    pub information: f64,
    pub turn: f64,
    /// Of the count.
    pub mean: f64,
    pub variance: f64,
    /// What g moves with its link.
    pub by_link: f64,
    /// What value, slope and information move with the logarithm of the dispersion, if there is one.
    pub by_dispersion: [f64; 3],
}
