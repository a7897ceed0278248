//! The engine for games of independent parts of many players: Shapley values from sampled coalitions, with
//! standard errors.
//!
//! For all explained rows at once, a coalition's value takes the mean of each domain's kernel over the absent
//! columns given the present ones, as a matrix of distinct rows × domain rows. A coalition costs one system
//! of equations for each source, and products of matrices. Source: Hu et al. 2022 (Pref-SHAP), algorithms 1
//! and 2.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use super::absent_means::{DomainMeans, Source, ViewSide};
use super::conditional_means::{CoalitionMeans, ProductFactors};
use super::part_game::{PartGame, RowSizes};
use crate::attribution::row_batches;
use crate::attribution::sampled_shapley::{
    Budget, Coalition, CoalitionGame, CoalitionValues, SampleState, solve_from,
};
use crate::control::{Progress, check_cancelled};
use crate::embedding::{QueriedRows, multiply, split};
use crate::error::{Error, Result};
use crate::explainer::engine::GameEngine;
use crate::explanation::{Exactness, Explanation, Sampling};
use crate::game::Game;
use crate::index::ValueIndex;
use crate::kernel_model::KernelExpansion;
use crate::kernel_model::parts::{BatchPredictor, KernelView, key};
use crate::linalg::{Matrix, add_multiple, add_to};
use crate::model_card::CardEntry;
use crate::question::Question;
use crate::simd::Isa;
use crate::table::{Players, Table};

/// The largest number of factors of explained rows that are held at once: 512 MB.
const MAX_FACTORS: usize = 1 << 26;

/// Explains rows of one model under a game of independent parts, from sampled coalitions.
pub(super) struct SampledPartsEngine<'m> {
    game: PartGame<'m>,
}

impl<'m> SampledPartsEngine<'m> {
    /// Prepares the evaluation of coalitions.
    ///
    /// # Errors
    /// As [`PartGame::new`]; [`Error::Parameter`] for values other than Shapley values.
    pub(super) fn new(
        model: &'m KernelExpansion,
        question: Question,
        groups: Players,
        stop: Arc<AtomicBool>,
    ) -> Result<Self> {
        question.index.of_coalitions()?;
        Ok(Self { game: PartGame::new(model, question, groups, false, stop)? })
    }

    /// Arranges numbers of the players that can be absent by all players; the others have the value 0.
    fn with_all_players(&self, values: &Matrix) -> Vec<f64> {
        let mut out = Matrix::zeros(values.rows(), self.game.groups.players().len());
        for i in 0..values.rows() {
            self.game.active.iter().zip(values.row(i)).for_each(|(&player, v)| out[(i, player)] = *v);
        }
        out.into_data()
    }

    /// The number of rows to explain at once, which the memory for their factors limits.
    fn rows_at_once(&self) -> usize {
        let domains = self.game.domain_means.iter().map(|ground| {
            let domain = self.game.domain(ground);
            let products = ground.products(domain).map_or(1, |products| products.len());
            products * domain.rows.rows() * self.game.active_players()
        });
        MAX_FACTORS.checked_div(domains.sum()).map_or(4096, |rows| rows.clamp(16, 4096))
    }
}

impl GameEngine for SampledPartsEngine<'_> {
    fn players(&self) -> &Players {
        &self.game.groups
    }

    fn game(&self) -> (ValueIndex, Cow<'_, Game>) {
        (ValueIndex::Shapley, Cow::Borrowed(&self.game.question.game))
    }

    fn base_values(&self) -> &[f64] {
        &self.game.base
    }

    fn samples_coalitions(&self) -> bool {
        true
    }

    fn max_batch_rows(&self, _: bool) -> usize {
        self.rows_at_once()
    }

    fn explain(
        &self,
        rows: &Table,
        budget: Budget,
        mut sample: Option<&mut SampleState>,
    ) -> Result<Explanation> {
        let data = rows.align_to(self.game.model.columns())?;
        let (n, p) = (data.rows(), self.game.active_players());
        let predictor = BatchPredictor::new(&self.game.parts);
        let (mut values, mut base_values, mut predictions) = (Vec::new(), Vec::new(), Vec::new());
        let (mut std_error, mut bound, mut coalitions) = (None, Vec::new(), 0);
        for (number, chunk) in row_batches(n, self.rows_at_once()).enumerate() {
            let mut unused_state = SampleState::default();
            let part = sample.as_deref_mut().unwrap_or(&mut unused_state).part(number);
            let mut game = RowsOfParts::new(&self.game, &predictor, data.row_vectors(chunk))?;
            let solution = solve_from(&mut game, budget, &mut part.regression)?;
            let [empty, grand] = &solution.empty_and_grand_values;
            base_values.extend_from_slice(empty);
            predictions.extend_from_slice(grand);
            values.extend(self.with_all_players(&solution.values));
            coalitions = solution.coalitions;
            match &solution.std_error {
                Some(errors) => {
                    std_error.get_or_insert_with(Vec::new).extend(self.with_all_players(errors));
                }
                // The absolute weights of all coalitions sum to at most 2; the rest is rounding of the sum.
                None => bound.extend(game.errors()?.iter().zip(empty).zip(grand).map(
                    |((error, empty), grand)| {
                        let largest = empty.abs().max(grand.abs()) + error;
                        2.0 * error + f64::EPSILON * (coalitions + 8 * p + 8) as f64 * largest
                    },
                )),
            }
        }
        let exactness = match std_error {
            Some(std_error) => {
                let sampling = Some(Sampling { evaluations: (coalitions + 2) * n, seed: budget.seed });
                Exactness::Estimated { std_error, sampling }
            }
            None => Exactness::Exact { bound },
        };
        let mut facts = self.game.ridges();
        facts.push(CardEntry::new("coalitions valued", coalitions + 2));
        Ok(Explanation {
            index: ValueIndex::Shapley,
            values,
            base_values,
            predictions,
            exactness,
            provenance: self.game.question.provenance(self.game.model.facts(), facts),
            ..Explanation::of_rows(self.game.groups.players(), &self.game.model.output_names, data)
        })
    }

    fn unsupported(&self, request: &str) -> Error {
        let players = self.game.active_players();
        let allowed =
            format!("with sampled coalitions of {players} features it has no {request}: group them");
        Error::parameter("game", "independent parts", allowed)
    }

    fn set_isa(&mut self, isa: Isa) {
        self.game.isa = isa;
    }

    fn set_progress(&mut self, progress: Arc<Progress>) {
        self.game.progress = progress;
    }
}

/// Some rows in a game of independent parts.
struct RowsOfParts<'e> {
    game: &'e PartGame<'e>,
    predictor: &'e BatchPredictor<'e>,
    rows: Vec<Vec<f64>>,
    sources: Vec<SourceRows>,
    /// For each domain mean and product: its scale, and for each player of the part the factor between the
    /// distinct rows and the domain's rows.
    present: Vec<Vec<(f64, Vec<Vec<f64>>)>>,
    views: Vec<ViewRows>,
}

/// The distinct explained rows in the columns of the parts with one source.
struct SourceRows {
    /// The positions of the part's players among those that can be absent.
    players: Vec<usize>,
    distinct: Table,
    /// The distinct rows as the source's conditional distribution needs them, if it has one.
    queried: Option<QueriedRows>,
    /// For each domain mean, the factors between reference rows and domain rows.
    factors: Vec<ProductFactors>,
    /// For each distinct row: the largest sum of absolute weights, and the largest absolute error of a mean
    /// of factors 1, over all coalitions so far.
    mean_errors: Vec<[f64; 2]>,
}

/// The explained rows on one side of the terms.
enum ViewRows {
    /// The kernel, for columns that are always present: rows × domain rows.
    Present(Matrix),
    /// For each row, the number of its distinct row in the view's source.
    Distinct(Vec<usize>),
}

impl<'e> RowsOfParts<'e> {
    fn new(game: &'e PartGame<'e>, predictor: &'e BatchPredictor<'e>, rows: Vec<Vec<f64>>) -> Result<Self> {
        let mut numbers: Vec<HashMap<Vec<u64>, usize>> = Vec::new();
        let mut sources = Vec::new();
        for (s, source) in game.sources.iter().enumerate() {
            let (source_numbers, distinct) = game.distinct_rows(s, &rows);
            numbers.push(source_numbers);
            let players: Vec<usize> =
                (0..game.active_players()).filter(|p| source.owner.contains(p)).collect();
            let factors = game.reference_factors(s, &players)?;
            let distinct = Table::from_named_rows(source.names.clone(), &distinct)?;
            let queried = source.conditional.as_ref().map(|means| means.queried_rows(&distinct, &game.stop));
            sources.push(SourceRows {
                players,
                mean_errors: vec![[1.0, 0.0]; distinct.rows()],
                distinct,
                queried: queried.transpose()?,
                factors,
            });
        }
        let present_factors = |ground: &DomainMeans| -> Result<Vec<(f64, Vec<Vec<f64>>)>> {
            let Some(SourceRows { players, distinct, .. }) = ground.source.map(|s| &sources[s]) else {
                return Ok(Vec::new());
            };
            let domain = game.domain(ground);
            let selected = distinct.select_columns(&ground.places);
            let x = Table::from_named_rows(
                domain.rows.columns().to_vec(),
                &selected.row_vectors(0..selected.rows()),
            )?;
            let products = ground.products(domain)?;
            let factors = products.iter().map(|product| {
                let kernels = product.kernels(game.active_players());
                let factor = |&p: &usize| kernels[p].cross_gram(&x, &domain.rows).into_data();
                (product.scale, players.iter().map(factor).collect())
            });
            Ok(factors.collect())
        };
        let present = game.domain_means.iter().map(present_factors).collect::<Result<_>>()?;
        let view_rows = |(view, &on): (&KernelView, &usize)| {
            let ground = &game.domain_means[on];
            match ground.source {
                Some(s) => {
                    let number = |x: &Vec<f64>| {
                        let part_values: Vec<f64> = game.columns[view.part].iter().map(|&j| x[j]).collect();
                        numbers[s][&key(&part_values)]
                    };
                    ViewRows::Distinct(rows.iter().map(number).collect())
                }
                None => {
                    let domain = game.domain(ground);
                    let kernel = |x: &Vec<f64>| {
                        let view_values: Vec<f64> = view.columns.iter().map(|&j| x[j]).collect();
                        ground.kernel_at(domain, &view_values, game.isa)
                    };
                    let kernels: Vec<f64> = rows.iter().flat_map(kernel).collect();
                    ViewRows::Present(Matrix::from_row_major(rows.len(), domain.rows.rows(), kernels))
                }
            }
        };
        let views = game.parts.views.iter().zip(&game.means_of_view).map(view_rows).collect();
        Ok(Self { game, predictor, rows, sources, present, views })
    }

    /// Returns the means over the absent columns of source `s` given a coalition: for each domain mean and
    /// product a matrix of distinct rows × domain rows, `None` if all columns are present; and the sizes of
    /// the weights.
    fn source_means(&self, s: usize, coalition: &Coalition) -> Result<(CoalitionMeans, Vec<bool>)> {
        let SourceRows { players, distinct, queried, factors, .. } = &self.sources[s];
        let present: Vec<bool> = players.iter().map(|&p| coalition.present()[p]).collect();
        let Source { conditional, reference, .. } = &self.game.sources[s];
        if let (Some(means), Some(queried)) = (conditional, queried) {
            return Ok((self.game.coalition_means(means, &present, queried, factors)?, present));
        }
        check_cancelled(&self.game.stop)?;
        let weight_sizes = vec![[1.0, 0.0]; distinct.rows()];
        if !present.contains(&false) {
            return Ok(((None, weight_sizes), present));
        }
        let count = reference.weights.len();
        let product_means = |factors: &Vec<Vec<f64>>| {
            let rows = factors.first().map_or(0, |factor| factor.len() / count);
            let (mut absent, mut mean) = (vec![0.0; rows * count], vec![0.0; rows]);
            multiply(&split(factors, &present, false), 0..rows * count, &mut absent);
            for (weight, absent) in reference.weights.iter().zip(absent.chunks_exact(rows.max(1))) {
                add_multiple(&mut mean, *weight, absent);
            }
            Matrix::from_row_major(distinct.rows(), rows, mean.repeat(distinct.rows()))
        };
        let means = factors.iter().map(|products| products.iter().map(product_means).collect()).collect();
        Ok(((Some(means), weight_sizes), present))
    }

    /// Returns the values of a coalition, rows × outputs, and for each source the sizes of its weights.
    fn value(&self, coalition: &Coalition) -> Result<(Matrix, Vec<Vec<[f64; 2]>>)> {
        let source_means: Vec<_> =
            (0..self.sources.len()).map(|s| self.source_means(s, coalition)).collect::<Result<_>>()?;
        let averaged_kernel = |(g, ground): (usize, &DomainMeans)| {
            let Some(s) = ground.source else { return Matrix::zeros(0, 0) };
            let ((means, _), present) = &source_means[s];
            let (rows, points) = (self.sources[s].distinct.rows(), self.game.domain(ground).rows.rows());
            let (mut sum, mut product) = (vec![0.0; rows * points], vec![0.0; rows * points]);
            for (q, (scale, factors)) in self.present[g].iter().enumerate() {
                let mut factors = split(factors, present, true);
                if let Some(means) = means {
                    factors.push(means[g][q].data());
                }
                multiply(&factors, 0..rows * points, &mut product);
                add_multiple(&mut sum, *scale, &product);
            }
            Matrix::from_row_major(rows, points, sum)
        };
        let averaged: Vec<Matrix> = self.game.domain_means.iter().enumerate().map(averaged_kernel).collect();
        let view_kernels = self.views.iter().zip(&self.game.means_of_view).map(|(rows, &on)| match rows {
            ViewRows::Present(kernel) => Cow::Borrowed(kernel),
            ViewRows::Distinct(numbers) => Cow::Owned(averaged[on].select_rows(numbers)),
        });
        let kernels: Vec<Cow<'_, Matrix>> = view_kernels.collect();
        let values = self.with_intercepts(self.predictor.combine(self.rows.len(), &kernels));
        Ok((values, source_means.into_iter().map(|((_, sizes), _)| sizes).collect()))
    }

    /// Adds the intercepts to outputs, rows × outputs.
    fn with_intercepts(&self, mut outputs: Matrix) -> Matrix {
        for i in 0..outputs.rows() {
            add_to(outputs.row_mut(i), &self.game.model.intercept);
        }
        outputs
    }

    /// Returns bounds on the errors of the values of the coalitions so far, rows × outputs.
    fn errors(&self) -> Result<Vec<f64>> {
        let mut out = Vec::new();
        for (i, x) in self.rows.iter().enumerate() {
            let (mut sides, mut mean_errors): (Vec<ViewSide>, Vec<[f64; 2]>) = Default::default();
            for ((view, rows), &on) in
                self.game.parts.views.iter().zip(&self.views).zip(&self.game.means_of_view)
            {
                let ground = &self.game.domain_means[on];
                let view_values: Vec<f64> = view.columns.iter().map(|&j| x[j]).collect();
                let domain = self.game.domain(ground);
                sides.push(ground.side(domain, &view_values, self.game.active_players(), self.game.isa)?);
                mean_errors.push(match (rows, ground.source) {
                    (ViewRows::Distinct(numbers), Some(s)) => self.sources[s].mean_errors[numbers[i]],
                    _ => [1.0, 0.0],
                });
            }
            out.extend(self.game.errors(RowSizes { sides: &sides, mean_errors: &mean_errors }));
        }
        Ok(out)
    }
}

impl CoalitionGame for RowsOfParts<'_> {
    type Error = Error;

    fn players(&self) -> usize {
        self.game.active_players()
    }

    fn empty_and_grand_values(&mut self) -> Result<[Vec<f64>; 2]> {
        let predictions = self.with_intercepts(self.predictor.predict(&self.rows));
        let empty = if self.game.base.iter().any(|v| v.is_nan()) {
            self.value(&Coalition::new(vec![false; self.players()]))?.0.into_data()
        } else {
            self.game.base.repeat(self.rows.len())
        };
        Ok([empty, predictions.into_data()])
    }

    fn values(&mut self, coalitions: &[Coalition]) -> Result<CoalitionValues> {
        let results: Vec<_> =
            coalitions.par_iter().with_max_len(1).map(|c| self.value(c)).collect::<Result<_>>()?;
        let games = self.rows.len() * self.game.model.outputs();
        let mut values = Vec::with_capacity(coalitions.len() * games);
        for (coalition_values, sizes) in results {
            values.extend_from_slice(coalition_values.data());
            for (source, sizes) in self.sources.iter_mut().zip(sizes) {
                for (largest, size) in source.mean_errors.iter_mut().zip(sizes) {
                    *largest = [largest[0].max(size[0]), largest[1].max(size[1])];
                }
            }
        }
        Ok(Matrix::from_row_major(coalitions.len(), games, values).into())
    }
}
