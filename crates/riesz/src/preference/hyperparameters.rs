//! What is tuned of a model of duels, and how far from its start it is believed to be: shares, parameters of
//! kernels, the margin of ties, in one list.

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

fn hyperparameter(name: &str, at: f64, (mean, sd): (f64, f64)) -> HyperParameter {
    let weak = Some(HyperPrior::Normal { mean, sd });
    HyperParameter { parameter: Parameter { name: name.into(), log_value: at }, weak }
}

/// Those of a kernel whose first scale other numbers know.
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
    /// The logarithms of the shares that are not 0, the first that of a utility, and of the scales of further
    /// utilities; the kernel's parameters; of contexts the logit of what they share, if it is neither all nor
    /// nothing, and their kernel's parameters; the logarithm of the margin. `times` multiplies the first two.
    pub fn parameters(&self, times: [f64; 2]) -> Vec<HyperParameter> {
        let PairKernel {
            items,
            utility_variance: utility,
            generalised_variance: generalised,
            extra_utility_kernel: alone,
            contexts,
        } = &self.prior;
        let shares = [("utility", utility, times[0]), ("generalised", generalised, times[1])];
        let mut all: Vec<HyperParameter> = (shares.iter().filter(|(_, share, _)| **share > 0.0))
            .map(|(name, share, times)| hyperparameter(name, (*share * times).ln(), SHARE_PRIOR))
            .collect();
        let terms = alone.iter().flat_map(|k| &k.terms);
        all.extend(terms.map(|term| hyperparameter("further utility", term.scale.ln(), SHARE_PRIOR)));
        all.extend(kernel_hyperparameters(items));
        if let Some(ContextKernel { kernel, shared }) = contexts {
            if is_free(*shared) {
                let logit = (shared / (1.0 - shared)).ln();
                all.push(hyperparameter("shared (logit)", logit, (logit, 1.5)));
            }
            all.extend(kernel_hyperparameters(kernel));
        }
        all.extend(self.margin.map(|m| hyperparameter("margin", m.ln(), (m.ln(), 1.5))));
        all
    }

    pub fn with_parameters(&self, theta: &[f64]) -> Self {
        let mut rest = theta;
        let mut take = |count: usize| {
            let (own, others) = rest.split_at(count);
            rest = others;
            own
        };
        let mut own = self.clone();
        let PairKernel {
            items,
            utility_variance: utility,
            generalised_variance: generalised,
            extra_utility_kernel: alone,
            contexts,
        } = &mut own.prior;
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
        own.margin = own.margin.map(|_| take(1)[0].exp());
        own
    }

    /// Slopes by all [coordinates](Self::coordinates), from those by matrices and numbers.
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
        let mut all: Vec<f64> =
            shares.iter().filter(|(share, _)| **share > 0.0).map(|(share, slope)| *share * slope).collect();
        if let Some((kernel, by)) = alone.as_ref().zip(slopes.grams.extra_utility_kernel.as_ref()) {
            // Of each term's parameters the first, its scale.
            let every = kernel.gradient(items, by);
            let counts = kernel
                .terms
                .iter()
                .map(|term| 1 + term.factors.iter().map(|f| f.parameters().len()).sum::<usize>());
            let firsts = counts.scan(0, |from, count| Some(std::mem::replace(from, *from + count)));
            all.extend(firsts.map(|first| every[first]));
        }
        all.extend(kernel.gradient(items, &slopes.grams.items));
        if let (Some(ContextKernel { kernel, shared }), Some(table), Some(by)) =
            (between, contexts, &slopes.grams.contexts)
        {
            if is_free(*shared) {
                all.push(shared * (1.0 - shared) * slopes.shared);
            }
            all.extend(kernel.gradient(table, by));
        }
        all.extend(self.margin.map(|m| m * margin));
        all
    }
}

fn is_free(shared: f64) -> bool {
    shared > 0.0 && shared < 1.0
}
