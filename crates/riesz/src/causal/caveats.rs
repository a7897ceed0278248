//! Caveats of an effect across studies that is identified: they are reported with it, not refused.

use std::fmt;

use super::effect::{Effect, Model};
use super::identification::Identification;
use super::study_chain::{ChainedOutcome, StudyLink};
use crate::refusal::and;

/// Something that a reader of an effect should know. Studies are counted from 0 in the fields, from 1 in
/// words.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Caveat {
    /// Rows that lack a value, and are left out.
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
    /// Rows that are there more than once.
    Repeated {
        /// The study.
        study: usize,
        /// The number of rows that repeat an earlier one.
        rows: usize,
        /// The total number of rows.
        total: usize,
    },
    /// Mediators that the next study does not know.
    Unmatched {
        /// The mediator.
        name: String,
        /// The study that has them.
        study: usize,
        /// Where they are, in words: "below 3", a level.
        places: Vec<String>,
        /// The share of its rows that are there.
        share: f64,
    },
    /// An outcome of two classes, whose mean is a probability.
    TwoClasses {
        /// The outcome.
        outcome: String,
        /// The class that counts as 1.
        positive: String,
    },
    /// A treatment that covariates all but decide.
    Decided {
        /// The treatment.
        treatment: String,
        /// The covariates.
        covariates: Vec<String>,
        /// The share of its variance that they leave.
        left: f64,
    },
    /// Treatments that do nothing beside others.
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
        /// The mean share of what counts as noise of its rows.
        share: f64,
    },
    /// Draws of hyper-parameters that say little of these.
    FewDraws {
        /// The number of draws.
        draws: usize,
        /// The effective sample size of the draws.
        effective: f64,
    },
    /// A study with hardly any noise, of which one draw says all.
    NoNoise {
        /// The study.
        study: usize,
    },
}

/// Where landmarks make up more of the noise than that they are in doubt.
const UNEXPLAINED: f64 = 0.2;

/// Draws that say less than so many of their distribution itself are in doubt.
const FEWEST_DRAWS: f64 = 3.0;

/// Noise that has less than that share of the variance is hardly any.
const NO_NOISE: f64 = 1e-5;

/// The caveats of a learnt effect, besides [those of its studies](super::PreparedStudies::caveats); `draws`
/// as in [`CausalFusion`](super::CausalFusion).
pub fn caveats(identification: &Identification, effect: &Effect, draws: usize) -> Vec<Caveat> {
    let effective = effect.effective_draws();
    let few_draws = (effective < FEWEST_DRAWS).then(|| match first_noiseless_study(effect) {
        Some(study) => Caveat::NoNoise { study },
        None => Caveat::FewDraws { draws, effective },
    });
    let unneeded = (!identification.without_effect.is_empty()).then(|| Caveat::Unneeded {
        treatments: identification.without_effect.clone(),
        alternatives: identification.treatments.clone(),
    });
    let landmarks = effect.unexplained().into_iter().filter(|(_, share)| *share > UNEXPLAINED);
    let landmarks = landmarks.map(|(study, share)| Caveat::Landmarks { study, share });
    few_draws.into_iter().chain(unneeded).chain(landmarks).collect()
}

/// The first study that has hardly any noise in all draws.
fn first_noiseless_study(effect: &Effect) -> Option<usize> {
    let quiet: Vec<Vec<bool>> = effect
        .models()
        .map(|(_, model)| match model {
            Model::Link(link) => without_noise_by(link),
            Model::Iterated(iterated) => vec![iterated.has_no_noise(NO_NOISE)],
        })
        .collect();
    (0..quiet.first().map_or(0, Vec::len)).find(|&study| quiet.iter().all(|flags| flags[study]))
}

/// For each study whether it has hardly any noise.
fn without_noise_by(link: &StudyLink) -> Vec<bool> {
    let mut flags = vec![link.ridge < NO_NOISE];
    match &link.outcome {
        ChainedOutcome::Link(next) => flags.extend(without_noise_by(next)),
        ChainedOutcome::Process(process) => flags.push(process.has_no_noise(NO_NOISE)),
    }
    flags
}

/// One sentence, without its full stop.
impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holes { study, rows, total: of, columns } => write!(
                f,
                "study {}: {rows} of {of} rows have no value in {}, and are left out",
                study + 1,
                columns.join(" or ")
            ),
            Self::Repeated { study, rows, total: of } => write!(
                f,
                "study {}: {rows} of {of} rows repeat others to the last digit: if they are the same \
                 people, leave them out, as rows count as independent",
                study + 1
            ),
            Self::Unmatched { name, study, places, share } => write!(
                f,
                "study {} has no {name} {}; {:.0}% of study {}'s rows are there, where it says nothing of \
                 what comes after",
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
            Self::Decided { treatment, covariates: by, left } => write!(
                f,
                "{} all but {} {treatment}, {:.0}% of whose variance is left: other doses for the same \
                 people are hardly seen, so that effects are drawn towards none, with bands that are too \
                 narrow",
                by.join(", "),
                if by.len() == 1 { "decides" } else { "decide" },
                100.0 * left
            ),
            Self::Unneeded { treatments, alternatives: beside } => write!(
                f,
                "{} {} nothing beside {}: leave it out",
                and(treatments),
                if treatments.len() == 1 { "does" } else { "do" },
                and(beside)
            ),
            Self::Landmarks { study, share } => write!(
                f,
                "{:.0}% of what counts as noise of study {}'s rows is what landmarks leave unexplained, so \
                 that bands are wider than by all rows: give more landmarks",
                100.0 * share,
                study + 1
            ),
            Self::FewDraws { draws, effective } => write!(
                f,
                "the {draws} draws of hyper-parameters say no more than {effective:.1} independent ones \
                 would: the part \"hyper-parameters\" of bands is rough; give more draws"
            ),
            Self::NoNoise { study } => write!(
                f,
                "study {} has hardly any noise, as if what it measured had been computed: one draw of \
                 hyper-parameters then has nearly all weight, however many there are, and bands take these \
                 for known",
                study + 1
            ),
        }
    }
}
