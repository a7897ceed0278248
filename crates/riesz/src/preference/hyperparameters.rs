//! The hyper-parameters of a model of duels with their priors, in one list: variances, parameters of kernels
//! and the margin of ties.

use super::pair_kernel::{ContextKernel, PairKernel, PairKernelGradient};
use crate::gp::hyperparameters::{HyperParameter, HyperPrior, ThetaReader};
use crate::kernel::{Kernel, Parameter};
use crate::table::Table;

/// The prior of duels, and the margin of ties if ties are modelled.
#[derive(Debug, Clone)]
pub(super) struct PreferenceHyperParameters {
    pub prior: PairKernel,
    pub margin: Option<f64>,
}

/// Mean and standard deviation of the normal prior of a log variance: a median of 1.5² and a factor of e³.
const SHARE_PRIOR: (f64, f64) = (0.810_930_216_216_328_8, 3.0);

/// Further utilities next to a kernel of items, such as abilities, have log variances with this prior: a
/// median of 0.5² and a factor of e^1.5.
const FURTHER_PRIOR: (f64, f64) = (-1.386_294_361_119_890_6, 1.5);

fn hyperparameter(name: &str, log_value: f64, (mean, sd): (f64, f64)) -> HyperParameter {
    let prior = Some(HyperPrior::Normal { mean, sd });
    HyperParameter { parameter: Parameter { name: name.into(), log_value }, prior }
}

/// Returns the hyper-parameters of a kernel. Its first scale is fixed, because other parameters contain it.
fn kernel_hyperparameters(kernel: &Kernel) -> impl Iterator<Item = HyperParameter> {
    kernel.parameters().into_iter().enumerate().map(|(i, parameter)| {
        let sd = if parameter.is_length_scale() { 1.0 } else { 1.5 };
        if i == 0 {
            HyperParameter::fixed(parameter)
        } else {
            HyperParameter::with_normal_prior(parameter, sd)
        }
    })
}

impl PreferenceHyperParameters {
    /// Returns all hyper-parameters in the order of θ: the logarithms of the positive variances of the
    /// utility and of the generalised part, and of the scales of further utilities; the parameters of the
    /// item kernel; with contexts the logit of the shared part, if it is between 0 and 1, and the parameters
    /// of the context kernel; the logarithm of the margin. `factors` multiply the two variances.
    pub fn parameters(&self, factors: [f64; 2]) -> Vec<HyperParameter> {
        let PairKernel { items, utility_variance, generalised_variance, extra_utility_kernel, contexts } =
            &self.prior;
        let variances =
            [("utility", utility_variance, factors[0]), ("generalised", generalised_variance, factors[1])];
        let mut parameters: Vec<HyperParameter> = (variances.iter().filter(|(_, v, _)| **v > 0.0))
            .map(|(name, v, factor)| hyperparameter(name, (*v * factor).ln(), SHARE_PRIOR))
            .collect();
        let terms = extra_utility_kernel.iter().flat_map(|k| &k.terms);
        let has_item_kernel = utility_variance + generalised_variance > 0.0;
        let prior = if has_item_kernel { FURTHER_PRIOR } else { SHARE_PRIOR };
        parameters.extend(terms.map(|term| hyperparameter("further utility", term.scale.ln(), prior)));
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
        let mut reader = ThetaReader::new(theta);
        let mut hyperparameters = self.clone();
        let PairKernel { items, utility_variance, generalised_variance, extra_utility_kernel, contexts } =
            &mut hyperparameters.prior;
        for variance in [utility_variance, generalised_variance].into_iter().filter(|v| **v > 0.0) {
            *variance = reader.exp();
        }
        extra_utility_kernel.iter_mut().flat_map(|k| &mut k.terms).for_each(|term| term.scale = reader.exp());
        *items = reader.kernel(items);
        if let Some(ContextKernel { kernel, shared }) = contexts {
            if is_free(*shared) {
                *shared = 1.0 / (1.0 + (-reader.number()).exp());
            }
            *kernel = reader.kernel(kernel);
        }
        hyperparameters.margin = hyperparameters.margin.map(|_| reader.exp());
        reader.finish();
        hyperparameters
    }

    /// Returns the gradient in all [parameters](Self::parameters), from the gradient in gram matrices and
    /// variances (`slopes`) and the derivative in the margin.
    pub fn gradient(
        &self,
        items: &Table,
        contexts: Option<&Table>,
        slopes: &PairKernelGradient,
        margin_derivative: f64,
    ) -> Vec<f64> {
        let PairKernel { utility_variance, generalised_variance, extra_utility_kernel, .. } = &self.prior;
        let variances = [
            (utility_variance, slopes.utility_variance),
            (generalised_variance, slopes.generalised_variance),
        ];
        let mut gradient: Vec<f64> =
            variances.iter().filter(|(v, _)| **v > 0.0).map(|(v, slope)| *v * slope).collect();
        if let Some((kernel, extra_gradient)) =
            extra_utility_kernel.as_ref().zip(slopes.grams.extra_utility_kernel.as_ref())
        {
            // The first parameter of each term is its scale.
            let derivatives = kernel.gradient(items, extra_gradient);
            let counts = kernel
                .terms
                .iter()
                .map(|term| 1 + term.factors.iter().map(|f| f.parameters().len()).sum::<usize>());
            let scale_indices = counts.scan(0, |start, count| Some(std::mem::replace(start, *start + count)));
            gradient.extend(scale_indices.map(|index| derivatives[index]));
        }
        gradient.extend(self.prior.items.gradient(items, &slopes.grams.items));
        if let (Some(ContextKernel { kernel, shared }), Some(table), Some(context_gradient)) =
            (&self.prior.contexts, contexts, &slopes.grams.contexts)
        {
            if is_free(*shared) {
                gradient.push(shared * (1.0 - shared) * slopes.shared);
            }
            gradient.extend(kernel.gradient(table, context_gradient));
        }
        gradient.extend(self.margin.map(|m| m * margin_derivative));
        gradient
    }
}

fn is_free(shared: f64) -> bool {
    shared > 0.0 && shared < 1.0
}
