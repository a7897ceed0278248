//! Caveats of an effect across studies that is identified: they are reported with it, not refused.

use std::fmt;

use super::effect::{Effect, Model};
use super::identification::Identification;
use super::study_chain::{ChainedOutcome, StudyLink};
use crate::name_lists::and;

/// A warning that is reported with an effect. The fields count studies from 0, the text from 1.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Caveat {
    /// Rows that lack a value and are omitted.
    Holes {
        /// The study.
        study: usize,
        /// The number of rows.
        rows: usize,
        /// The total number of rows.
        total: usize,
        /// The columns in which values are missing.
        columns: Vec<String>,
    },
    /// Rows that occur more than once.
    Repeated {
        /// The study.
        study: usize,
        /// The number of rows that repeat an earlier one.
        rows: usize,
        /// The total number of rows.
        total: usize,
    },
    /// Mediator values of a study that do not occur in the next study.
    Unmatched {
        /// The mediator.
        name: String,
        /// The study that has them.
        study: usize,
        /// The values that the next study lacks, in words: "below 3", a level.
        places: Vec<String>,
        /// The share of the study's rows with these values.
        share: f64,
    },
    /// An outcome of two classes, whose mean is a probability.
    TwoClasses {
        /// The outcome.
        outcome: String,
        /// The class that counts as 1.
        positive: String,
    },
    /// A treatment that covariates almost determine.
    Decided {
        /// The treatment.
        treatment: String,
        /// The covariates.
        covariates: Vec<String>,
        /// The share of the treatment's variance that the covariates leave unexplained.
        left: f64,
        /// Whether the model assumes that treatments and covariates do not interact, so that bands are wide
        /// instead of too narrow.
        additive: bool,
    },
    /// A model that assumes that treatments and covariates do not interact.
    NoInteraction {
        /// The factor by which standard deviations of contrasts grow if they may interact.
        factor: f64,
    },
    /// Treatments without an effect when the others are set.
    Unneeded {
        /// The treatments.
        treatments: Vec<String>,
        /// The others.
        alternatives: Vec<String>,
    },
    /// Landmarks that leave much of a study's rows unexplained.
    Landmarks {
        /// The study.
        study: usize,
        /// The mean share of the rows' noise variance that is variance unexplained by landmarks.
        share: f64,
    },
    /// Draws of hyper-parameters with a small effective sample size.
    FewDraws {
        /// The number of draws.
        draws: usize,
        /// The effective sample size of the draws.
        effective: f64,
    },
    /// A study with almost no noise, in which a single draw has nearly all weight.
    NoNoise {
        /// The study.
        study: usize,
    },
}

/// Share of the noise due to landmarks above which they are reported.
const MAX_UNEXPLAINED_SHARE: f64 = 0.2;

/// Factor of standard deviations from which an effect depends on the absence of interactions.
const MAX_INTERACTION_FACTOR: f64 = 1.5;

/// Effective sample size of the draws below which they are reported.
const MIN_EFFECTIVE_DRAWS: f64 = 3.0;

/// Share of the variance below which a study counts as having no noise.
const NO_NOISE: f64 = 1e-5;

/// Returns the caveats of a learnt effect, in addition to [those of its
/// studies](super::PreparedStudies::caveats); `draws` is as in [`CausalFusion`](super::CausalFusion).
pub fn caveats(identification: &Identification, effect: &Effect, draws: usize) -> Vec<Caveat> {
    let effective = effect.effective_draws();
    let few_draws = (effective < MIN_EFFECTIVE_DRAWS).then(|| match first_noiseless_study(effect) {
        Some(study) => Caveat::NoNoise { study },
        None => Caveat::FewDraws { draws, effective },
    });
    let unneeded = (!identification.without_effect.is_empty()).then(|| Caveat::Unneeded {
        treatments: identification.without_effect.clone(),
        alternatives: identification.treatments.clone(),
    });
    let landmarks = effect.unexplained().into_iter().filter(|(_, share)| *share > MAX_UNEXPLAINED_SHARE);
    let landmarks = landmarks.map(|(study, share)| Caveat::Landmarks { study, share });
    let interaction = effect.interaction_factor().map(|factor| Caveat::NoInteraction { factor });
    few_draws.into_iter().chain(unneeded).chain(landmarks).chain(interaction).collect()
}

/// Returns the first study that has almost no noise in all draws.
fn first_noiseless_study(effect: &Effect) -> Option<usize> {
    let noiseless_by_draw: Vec<Vec<bool>> = effect
        .models()
        .map(|(_, model)| match model {
            Model::Link(link) => noiseless_by_study(link),
            Model::Iterated(iterated) => vec![iterated.has_no_noise(NO_NOISE)],
        })
        .collect();
    (0..noiseless_by_draw.first().map_or(0, Vec::len))
        .find(|&study| noiseless_by_draw.iter().all(|flags| flags[study]))
}

/// Returns for each study from this link on whether it has almost no noise.
fn noiseless_by_study(link: &StudyLink) -> Vec<bool> {
    let mut flags = vec![link.ridge < NO_NOISE];
    match &link.outcome {
        ChainedOutcome::Link(next) => flags.extend(noiseless_by_study(next)),
        ChainedOutcome::Process(process) => flags.push(process.has_no_noise(NO_NOISE)),
    }
    flags
}

/// Writes one sentence, without its full stop.
impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holes { study, rows, total, columns } => write!(
                f,
                "study {}: {rows} of {total} rows have no value in {}, and are left out",
                study + 1,
                columns.join(" or ")
            ),
            Self::Repeated { study, rows, total } => write!(
                f,
                "study {}: {rows} of {total} rows repeat others to the last digit: if they are the same \
                 people, leave them out, as rows count as independent",
                study + 1
            ),
            Self::Unmatched { name, study, places, share } => write!(
                f,
                "study {} has no {name} {}; {:.0}% of study {}'s rows have such values, for which the \
                 later study has no information",
                study + 2,
                places.join(" or "),
                100.0 * share,
                study + 1
            ),
            Self::TwoClasses { outcome, positive } => write!(
                f,
                "{outcome} has two classes: its mean is the probability of {positive}, and contrasts are \
                 differences of probabilities; the regression has normal noise, so that intervals may reach \
                 beyond 0 and 1"
            ),
            Self::Decided { treatment, covariates, left, additive } => write!(
                f,
                "{} almost {} {treatment}, {:.0}% of whose variance is unexplained: the \
                 same people are hardly ever seen at other doses, so that {}",
                covariates.join(", "),
                if covariates.len() == 1 { "determines" } else { "determine" },
                100.0 * left,
                match additive {
                    true =>
                        "the effect is known only under the assumption that treatment and covariates do \
                             not interact; bands are wide, and rows with other doses would narrow them",
                    false => "effects shrink to none, with bands that are too narrow",
                }
            ),
            Self::NoInteraction { factor } => write!(
                f,
                "if treatment and covariates may interact, standard deviations of contrasts are {factor:.1} \
                 times as large: {}",
                match *factor < MAX_INTERACTION_FACTOR {
                    true => "the effect hardly depends on the assumption that they do not",
                    false => "without the assumption that they do not, these rows do not support the effect",
                }
            ),
            Self::Unneeded { treatments, alternatives } => write!(
                f,
                "{} {} no effect in addition to {}: leave it out",
                and(treatments),
                if treatments.len() == 1 { "has" } else { "have" },
                and(alternatives)
            ),
            Self::Landmarks { study, share } => write!(
                f,
                "{:.0}% of the noise variance of study {}'s rows is variance that landmarks leave \
                 unexplained, so that bands are wider than with all rows: give more landmarks",
                100.0 * share,
                study + 1
            ),
            Self::FewDraws { draws, effective } => write!(
                f,
                "the {draws} draws of hyper-parameters have an effective sample size of {effective:.1}: \
                 the part \"hyper-parameters\" of bands is imprecise; give more draws"
            ),
            Self::NoNoise { study } => write!(
                f,
                "study {} has hardly any noise, as if its columns had been computed: one draw of \
                 hyper-parameters then has nearly all weight, however many draws there are, and bands \
                 take hyper-parameters as known",
                study + 1
            ),
        }
    }
}
