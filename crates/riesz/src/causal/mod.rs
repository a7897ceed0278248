//! Causal data fusion: effects across studies of which none measured both the treatment and the outcome.
//!
//! A [`Graph`] holds the causal structure; it is never learnt from data. [`identify`] decides whether, how
//! and under which assumptions an effect follows from the graph and the columns of the studies. It refuses
//! with the open path and helpful variables ([`IdentificationError`]). [`gather`] prepares [`Studies`] from
//! tables, [`CausalFusion`] learns the effect from these, and an [`Effect`] holds its joint posterior, with
//! the uncertainty by cause, for the study's population or another one ([`TargetPopulation`]); an
//! [`Estimand`] is the quantity that is estimated. [`AcquisitionSearch`] suggests treatments to try next, and
//! [`UpdatedEffect`] is the posterior after some trials. [`effect_formula`] decides with the complete
//! algorithm whether any formula of the measured variables gives an effect, [`sequential_adjustment`] finds
//! covariates for treatments in time, and [`instrument`] finds instruments. Sources: Chau 2023 (thesis),
//! chapter 4; Pearl 2009; van der Zander, Liśkiewicz and Textor 2019.

mod acquisition;
mod adjustment;
mod assumptions;
mod bayesian_optimisation;
mod caveats;
mod chain_components;
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
mod interaction_check;
mod iterated;
mod kernel_integrals;
mod kernel_regression;
mod mediator_sums;
mod names;
mod normal_draws;
mod outcome_at_mediators;
mod outcome_gp;
mod outcome_prior;
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
mod target_population;
mod transport_bridges;
mod treatment_variation;
mod tune_stages;
mod uncertainty_parts;
mod user_sets;
mod value_of_information;

pub use crate::error::{Hedge, IdentificationError, Instrument};
pub use acquisition::{Acquisition, log_expected_improvement};
pub use bayesian_optimisation::{AcquisitionSearch, Incumbent, Suggestion, TreatmentArm};
pub use caveats::{Caveat, caveats};
pub use domain::Domain;
pub use effect::{Effect, EffectEstimate};
pub use effect_prior::EffectPrior;
pub use estimand::{Estimand, EstimandWeights};
pub use formula::{EffectFormula, Formula};
pub use fusion::CausalFusion;
pub use general::effect_formula;
pub use graph::Graph;
pub use identification::{Bridge, CausalQuery, EffectStrategy, Identification, Provenance, Strategy};
pub use identify::identify;
pub use instrument::instrument;
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
pub use target_population::TargetPopulation;
pub use uncertainty_parts::{DataSupport, UncertaintyCause};
