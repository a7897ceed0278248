//! The hyper-parameters of a model of duels with their priors, in one list: variances, parameters of kernels,
//! the margin of ties.

use super::pair_kernel::{ContextKernel, PairKernel, PairKernelGradient};
use crate::fit::hyperparameter_search::{HyperParameter, HyperPrior};
use crate::kernel::{Kernel, Parameter};
use crate::table::Table;

/// A prior of duels, and the margin of ties if they have one.
#[derive(Debug, Clone)]
pub(super) struct PreferenceHyperParameters {
    pub prior: PairKernel,
    pub margin: Option<f64>,
}

/// Shares are believed to be around 1.5², within a factor of e³.
const SHARE_PRIOR: (f64, f64) = (0.810_930_216_216_328_8, 3.0);

fn hyperparameter(name: &str, log_value: f64, (mean, sd): (f64, f64)) -> HyperParameter {
    let weak = Some(HyperPrior::Normal { mean, sd });
    HyperParameter { parameter: Parameter { name: name.into(), log_value }, weak }
}

/// Hyper-parameters of a kernel whose first scale is fixed, because other parameters hold it.
fn kernel_hyperparameters(kernel: &Kernel) -> impl Iterator<Item = HyperParameter> {
    kernel.parameters().into_iter().enumerate().map(|(i, parameter)| {
        let sd = if parameter.name.starts_with("lengthscale") { 1.0 } else { 1.5 };
        if i == 0 {
            HyperParameter { parameter, weak: None }
        } else {
            HyperParameter::with_normal_prior(parameter, sd)
        }
    })
}

impl PreferenceHyperParameters {
    /// The logarithms of the variances that are not 0, the first that of the utility, and of the scales of
    /// further utilities; the kernel's parameters; for contexts the logit of the shared part, if it is
    /// between 0 and 1, and their kernel's parameters; the logarithm of the margin. `times` multiplies the
    /// first two.
    pub fn parameters(&self, times: [f64; 2]) -> Vec<HyperParameter> {
        let PairKernel {
            items,
            utility_variance: utility,
            generalised_variance: generalised,
            extra_utility_kernel: alone,
            contexts,
        } = &self.prior;
        let shares = [("utility", utility, times[0]), ("generalised", generalised, times[1])];
        let mut parameters: Vec<HyperParameter> = (shares.iter().filter(|(_, share, _)| **share > 0.0))
            .map(|(name, share, times)| hyperparameter(name, (*share * times).ln(), SHARE_PRIOR))
            .collect();
        let terms = alone.iter().flat_map(|k| &k.terms);
        parameters.extend(terms.map(|term| hyperparameter("further utility", term.scale.ln(), SHARE_PRIOR)));
        parameters.extend(kernel_hyperparameters(items));
        if let Some(ContextKernel { kernel, shared }) = contexts {
            if is_free(*shared) {
                let logit = (shared / (1.0 - shared)).ln();
                parameters.push(hyperparameter("shared (logit)", logit, (logit, 1.5)));
            }
            parameters.extend(kernel_hyperparameters(kernel));
        }
        parameters.extend(self.margin.map(|m| hyperparameter("margin", m.ln(), (m.ln(), 1.5))));
        parameters
    }

    pub fn with_parameters(&self, theta: &[f64]) -> Self {
        let mut remaining = theta;
        let mut take = |count: usize| {
            let (values, following) = remaining.split_at(count);
            remaining = following;
            values
        };
        let mut hyperparameters = self.clone();
        let PairKernel {
            items,
            utility_variance: utility,
            generalised_variance: generalised,
            extra_utility_kernel: alone,
            contexts,
        } = &mut hyperparameters.prior;
        for share in [utility, generalised].into_iter().filter(|share| **share > 0.0) {
            *share = take(1)[0].exp();
        }
        alone.iter_mut().flat_map(|k| &mut k.terms).for_each(|term| term.scale = take(1)[0].exp());
        *items = items.with_parameters(take(items.parameters().len()));
        if let Some(ContextKernel { kernel, shared }) = contexts {
            if is_free(*shared) {
                *shared = 1.0 / (1.0 + (-take(1)[0]).exp());
            }
            *kernel = kernel.with_parameters(take(kernel.parameters().len()));
        }
        hyperparameters.margin = hyperparameters.margin.map(|_| take(1)[0].exp());
        hyperparameters
    }

    /// Derivatives in all [parameters](Self::parameters), from those in matrices and numbers.
    pub fn gradient(
        &self,
        items: &Table,
        contexts: Option<&Table>,
        slopes: &PairKernelGradient,
        margin: f64,
    ) -> Vec<f64> {
        let PairKernel {
            items: kernel,
            utility_variance: utility,
            generalised_variance: generalised,
            extra_utility_kernel: alone,
            contexts: between,
        } = &self.prior;
        let shares = [(utility, slopes.utility_variance), (generalised, slopes.generalised_variance)];
        let mut gradient: Vec<f64> =
            shares.iter().filter(|(share, _)| **share > 0.0).map(|(share, slope)| *share * slope).collect();
        if let Some((kernel, extra_gradient)) = alone.as_ref().zip(slopes.grams.extra_utility_kernel.as_ref())
        {
            // The first parameter of each term is its scale.
            let every = kernel.gradient(items, extra_gradient);
            let counts = kernel
                .terms
                .iter()
                .map(|term| 1 + term.factors.iter().map(|f| f.parameters().len()).sum::<usize>());
            let firsts = counts.scan(0, |from, count| Some(std::mem::replace(from, *from + count)));
            gradient.extend(firsts.map(|first| every[first]));
        }
        gradient.extend(kernel.gradient(items, &slopes.grams.items));
        if let (Some(ContextKernel { kernel, shared }), Some(table), Some(context_gradient)) =
            (between, contexts, &slopes.grams.contexts)
        {
            if is_free(*shared) {
                gradient.push(shared * (1.0 - shared) * slopes.shared);
            }
            gradient.extend(kernel.gradient(table, context_gradient));
        }
        gradient.extend(self.margin.map(|m| m * margin));
        gradient
    }
}

fn is_free(shared: f64) -> bool {
    shared > 0.0 && shared < 1.0
}
