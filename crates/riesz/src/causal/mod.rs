//! Causal data fusion: effects across studies of which none measured both the treatment and the outcome.
//!
//! [`Graph`] says what causes what. [`identify`] says whether, how and under which assumptions an effect
//! follows from it and the columns that studies have, or refuses with the path that is open and what would
//! help ([`IdentificationError`]). A graph is never learnt from data. [`gather`] makes [`Studies`] of tables,
//! [`Fusion`] learns the effect from these, and [`Effect`] says it with a joint band, by what leaves it
//! unsure, of all people or of others ([`TargetPopulation`]); an [`Estimand`] is what is asked of it.
//! [`AcquisitionSearch`] says which treatments to try next, and [`UpdatedEffect`] what is believed after some
//! were.
//! [`effect_formula`] decides by the complete algorithm whether any formula of what was measured gives an
//! effect, [`sequential_adjustment`] finds covariates for treatments in time, and [`instrument`] instruments.
//! Source: Chau 2023 (thesis), chapter 4; Pearl 2009; van der Zander, Liśkiewicz and Textor 2019.

mod acquisition;
mod adjustment;
mod assumptions;
mod bayesian_optimisation;
mod caveats;
mod chain_construction;
mod conditional_regression;
mod defaults;
mod domain;
mod effect;
mod effect_prior;
mod estimand;
mod fitc_kernel;
mod formula;
mod fusion;
mod general;
mod graph;
mod identification;
mod identify;
mod instrument;
mod iterated;
mod kernel_integrals;
mod kernel_regression;
mod mediator_sums;
mod normal_draws;
mod outcome_at_mediators;
mod outcome_gp;
mod parse;
mod pointwise;
mod population_effect;
mod positivity;
mod posterior_draws;
mod product_kernel;
mod projection;
mod published_posteriors;
mod query_embedding;
mod separation;
mod sequential;
mod sequential_update;
mod shared_covariates;
mod stages;
mod studies;
mod study_chain;
mod study_landmarks;
mod study_tables;
mod support;
mod target_population;
mod transport_bridges;
mod treatment_variation;
mod tune_stages;
mod uncertainty_parts;
mod user_sets;
mod value_of_information;

pub use crate::error::IdentificationError;
pub use acquisition::{Acquisition, log_expected_improvement};
pub use bayesian_optimisation::{AcquisitionSearch, Incumbent, Suggestion, TreatmentArm};
pub use caveats::{Caveat, caveats};
pub use domain::Domain;
pub use effect::{Effect, Told};
pub use effect_prior::EffectPrior;
pub use estimand::{Estimand, EstimandWeights};
pub use formula::{EffectFormula, Formula};
pub use fusion::Fusion;
pub use general::{Hedge, effect_formula};
pub use graph::Graph;
pub use identification::{Bridge, How, Identification, Query, Source, Strategy};
pub use identify::identify;
pub use instrument::{Instrument, instrument};
pub use kernel_integrals::MediatorMeasure;
pub use mediator_sums::MediatorSum;
pub use outcome_gp::OutcomeGpParameters;
pub use pointwise::{DEFAULT_DOSE_COUNT, Pointwise, default_doses, usual_combinations};
pub use published_posteriors::{IntegralForm, PublishedPosterior};
pub use sequential::{SequentialStep, sequential_adjustment};
pub use sequential_update::{DiscrepancyParameters, EffectPosterior, Trials, UpdatedEffect};
pub use stages::{SingleTable, Stage, StageParameters};
pub use studies::{IdentificationRoute, Parameters, Studies, Study, StudyParameters};
pub use study_tables::{MeasuredColumns, PreparedStudies, gather};
pub use support::DataSupport;
pub use target_population::TargetPopulation;
pub use uncertainty_parts::UncertaintyCause;
