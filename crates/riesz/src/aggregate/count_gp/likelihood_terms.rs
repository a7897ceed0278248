//! Derivatives of the log likelihood of a count, common to all families.

/// The log likelihood of a count given its sum g, and its derivatives.
#[derive(Debug, Clone, Copy)]
pub(super) struct LikelihoodTerms {
    /// The logarithm of the count's probability.
    pub value: f64,
    /// First and second derivatives in g; the second with the opposite sign for `neg_second`.
    pub first_derivative: f64,
    pub second_derivative: f64,
    /// The Fisher information about g, and its derivative in g.
    pub information: f64,
    pub d_information: f64,
    /// Mean and variance of the count.
    pub mean: f64,
    pub variance: f64,
    /// Derivative of g in its link.
    pub link_derivative: f64,
    /// Derivatives of the log probability, the first derivative and the information in the logarithm of the
    /// dispersion, if there is one.
    pub dispersion_derivatives: [f64; 3],
}
