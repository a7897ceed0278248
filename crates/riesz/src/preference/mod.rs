//! Preferences: models of the outcomes of duels between items, learnt from the items' properties.
//!
//! A model of duels is a [`KernelExpansion`](crate::KernelExpansion) over wide rows, which have the left
//! item's columns, then the right item's, then those of the duel's context. Its output changes its sign when
//! the two items are swapped. Predictions and explanations are those of any expansion; a player is a column
//! of *both* items. Source: Chau 2023 (thesis), chapters 6 and 7.

mod bilinear_skew;
mod bradley_terry;
mod choice_prediction;
mod choices;
pub mod clusters;
mod comparison_graph;
mod comparison_graph_indices;
mod difference_columns;
mod duel_columns;
mod duel_sides;
mod duels;
mod evaluation;
mod fair_preferences;
mod games;
mod gp_preference;
mod hyperparameters;
mod joint_draws;
mod landmarks;
mod left_right_columns;
mod log_odds;
mod low_rank;
mod model_evidence;
mod next_duel;
mod observed_duels;
mod outcomes;
mod pair_kernel;
mod paired_logistic;
mod pairwise_log_odds;
mod permutation_values;
mod pref_shap;
mod rankability;
mod teams;
mod wide_row_prior;

pub use crate::gp::inference::Inference;
pub use bradley_terry::{AbilityRidge, BradleyTerry, BradleyTerryFit};
pub use choice_prediction::{ChoiceProbabilities, DEFAULT_CHOICE_DRAWS, choice_probabilities};
pub use choices::{ChoiceEntries, Choices, Places, SetRows, prepare_choices, rows_of_sets};
pub use comparison_graph_indices::{Reference, SpecR, average_clustering, spec_r};
pub use difference_columns::differences;
pub use duel_columns::{DuelColumns, NamedDuelColumns, outcome_column};
pub use duel_sides::{ABILITY, DuelEntries, HOME, HomeSide, UNSEEN_RIGHT, prepare_entries};
pub use duels::{Contexts, Duels};
pub use evaluation::{
    Bin, Evaluation, LossDifference, ProbabilityScores, ScoreSummary, Split, TestDuels, calibration, split,
    times_of_levels,
};
pub use fair_preferences::FairPreferences;
pub use games::{DuelGame, DuelQuestion};
pub use gp_preference::{PreferenceFit, PreferenceProcess};
pub use landmarks::{LandmarkFit, LandmarkFunction, LandmarkParameters, LandmarkProcess};
pub use left_right_columns::LeftRightColumns;
pub use log_odds::DuelLogOdds;
pub use model_evidence::{ModelEvidence, UserEvidence};
pub use next_duel::{DuelSuggestion, InformationGoal, SuggestionRequest};
pub use outcomes::{MissingOutcome, OUTCOME_WORDS, Outcomes, Record, read_homes};
pub use pair_kernel::{
    ContextKernel, DEFAULT_KERNEL, Pair, PairKernel, default_kernel, wide_columns, wide_rows, wide_rows_in,
};
pub use pairwise_log_odds::{PairwiseLogOdds, PosteriorDraws};
pub use pref_shap::{explain, explain_average, probability_better};
pub use rankability::{
    CyclicTriad, ELO_MEAN, ELO_PER_LOG_ODDS, EloRating, Hodge, Rankability, RankingRequest,
};
pub use teams::{Competitors, ItemBags};
