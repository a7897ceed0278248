//! The settings of a question by name. The command line's flags, Python's checks and the help texts are
//! derived from this list. A new setting is one entry of [`SETTINGS`] and its use in [`Settings::question`].

use serde_json::Value;

use super::{Budget, Question, ValueEstimator};
use crate::coalition_structure::CoalitionStructure;
use crate::embedding::{Approximation, Conditioning, ConditioningKernel, Ridge};
use crate::error::{Error, Result};
use crate::game::{Background, CausalStructure, ConditionalModel, Game, baseline_row};
use crate::index::ValueIndex;
use crate::kernel::{ColumnScaling, Kernel, KernelExpression};
use crate::setting_schema::{Range, Setting, SettingValues};
use crate::table::Table;

/// The subject of a question, which decides which settings apply and determines two defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A model whose kernel is known.
    Model,
    /// A function that can only be evaluated.
    Function,
    /// A function with expensive calls that can evaluate many rows at once, such as a program. By default its
    /// coalitions are valued, while a [`Function`](Self::Function) is evaluated along random orders.
    Program,
    /// The values of features that training protects.
    Protection,
}

/// The source of rows for absent features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A background, or reference.
    Background,
    /// One row.
    Baseline,
}

/// One setting of questions.
#[derive(Debug, Clone, Copy)]
pub struct QuestionSetting {
    /// Name, range and help.
    pub setting: Setting,
    /// The questions to which the setting applies, if these are not all.
    belongs: &'static str,
    used: fn(&QuestionContext) -> bool,
}

/// The settings that decide whether other settings apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuestionContext {
    /// The subject.
    pub subject: Subject,
    /// The game, one of [`Game::NAMES`].
    pub game: &'static str,
    /// Where conditional distributions come from: `kernel`, `gaussian` or `copula`.
    pub conditional: &'static str,
    /// The estimator of a function's values: `permutation` or `kernel_shap`.
    pub estimator: &'static str,
    /// Whether a classifier's probabilities are explained.
    pub probabilities: bool,
}

impl QuestionContext {
    fn observational(&self) -> bool {
        self.game == "observational"
    }

    fn causal(&self) -> bool {
        self.game == "causal"
    }

    /// Whether absent features have conditional distributions, so that coalitions are valued one by one.
    fn has_conditionals(&self) -> bool {
        self.observational() || self.causal()
    }

    /// Whether conditional distributions are learnt by an embedding.
    fn embedded(&self) -> bool {
        self.has_conditionals() && self.conditional == "kernel"
    }

    /// Whether the kernel is known, so that more than evaluations are available.
    fn has_kernel(&self) -> bool {
        matches!(self.subject, Subject::Model | Subject::Protection)
    }

    fn by_coalitions(&self) -> bool {
        if self.has_kernel() {
            self.has_conditionals() || self.probabilities
        } else {
            self.estimator == "kernel_shap"
        }
    }
}

const CONDITIONAL: [&str; 3] = ["kernel", "gaussian", "copula"];
const ESTIMATORS: [&str; 2] = ["permutation", "kernel_shap"];
const EMBEDDED: &str =
    "the observational and the causal game, whose conditional distributions come from a kernel";
const KERNEL_MODEL_SETTINGS: &str = "the observational and the causal game of a model whose kernel is known";
const CAUSAL: &str = "the causal game";

/// All settings, except rows and players.
pub static SETTINGS: [QuestionSetting; 23] = [
    QuestionSetting {
        setting: Setting::new(
            "game",
            "GAME",
            Range::Choice(&Game::NAMES),
            "The meaning of an absent feature [default: interventional; with a baseline: baseline; \
             without either: functional]",
        ),
        belongs: "",
        used: |_| true,
    },
    QuestionSetting {
        setting: Setting::new(
            "index",
            "INDEX",
            Range::Index,
            "The kind of value of a feature: shapley (with --unions owen); banzhaf, or banzhaf(T), \
             its average contribution if each other feature is present with probability T = .5; \
             beta-shapley(ALPHA, BETA), with Beta distributed probabilities; semivalue(T: WEIGHT, …), \
             with probabilities drawn by weights; leave-one-out; or first-order, the feature alone. \
             With pairs of features: sii, k-sii, stii, fsii, bii, fbii, moebius; with sets of up to K \
             features: sii(K), k-sii(K) and so on. Values of shapley, k-sii, stii and fsii add up to \
             the prediction [default: shapley]",
        ),
        belongs: "models whose kernel is known, in games other than the observational and the causal one",
        used: |context| context.subject == Subject::Model && !context.has_conditionals(),
    },
    QuestionSetting {
        setting: Setting::new(
            "unions",
            "LISTS",
            Range::Unions,
            "Owen values: unions of features, which first get a value together and then share it \
             among their members. Lists of names and lists, as in '[[\"s1\", \"s2\"], [\"age\", \
             \"sex\"]]'; each other feature is a union on its own",
        ),
        belongs: "Shapley values of models whose kernel is known, in games other than the observational and \
                  the causal one",
        used: |context| context.subject == Subject::Model && !context.has_conditionals(),
    },
    QuestionSetting {
        setting: Setting::new(
            "ordering",
            "LISTS",
            Range::Unions,
            "Asymmetric Shapley values: groups of features in causal order, 'age; income, debt'. The average \
             is over the orders in which earlier groups come first; each group has a budget of coalitions",
        ),
        belongs: "models whose kernel is known, in the observational and the causal game",
        used: |context| context.subject == Subject::Model && context.has_conditionals(),
    },
    QuestionSetting {
        setting: Setting::new(
            "components",
            "LISTS",
            Range::Unions,
            "Causal game: components of columns in causal order, 'age; income, debt'. Columns of a \
             component depend on each other, and are caused by all earlier columns unless --parents says \
             otherwise",
        ),
        belongs: CAUSAL,
        used: |context| context.subject == Subject::Model && context.causal(),
    },
    QuestionSetting {
        setting: Setting::new(
            "confounded",
            "COLUMNS",
            Range::Unions,
            "Causal game: columns whose components are confounded by unobserved common causes, so that \
             setting one column leaves the others unchanged; columns of other components interact",
        ),
        belongs: CAUSAL,
        used: |context| context.subject == Subject::Model && context.causal(),
    },
    QuestionSetting {
        setting: Setting::new(
            "parents",
            "LISTS",
            Range::Unions,
            "Causal game: the causes of components, each named by one of its columns, 'debt=age,income; \
             income=' [default: all columns of earlier components]",
        ),
        belongs: CAUSAL,
        used: |context| context.subject == Subject::Model && context.causal(),
    },
    QuestionSetting {
        setting: Setting::new(
            "probabilities",
            "BOOL",
            Range::Switch,
            "Explain a classifier's probabilities instead of the outputs from which they are computed. \
             For up to 13 features all coalitions are valued, each exactly (for up to 12 if the kernel \
             has linear, polynomial or exponential factors); for more features values are estimated \
             from as many coalitions as --coalitions gives",
        )
        .with_bare("true"),
        belongs: "classifiers whose kernel is known, in the baseline and the interventional game",
        used: |context| {
            context.subject == Subject::Model && ["baseline", "interventional"].contains(&context.game)
        },
    },
    QuestionSetting {
        setting: Setting::new(
            "covariance",
            "BOOL",
            Range::Switch,
            "Also compute the uncertainty of each value: its standard deviation and the covariance of \
             the values, under the posterior of a Gaussian process (in the functional game if all \
             factors are anova), or from refits ('riesz fit --bootstrap'); in the observational game \
             for up to 12 features. The model file must hold them ('riesz fit --posterior')",
        )
        .with_bare("true"),
        belongs: "Shapley, Banzhaf and Beta-Shapley values of models whose kernel is known, in games other \
                  than the causal one",
        used: |context| context.subject == Subject::Model && !context.causal(),
    },
    QuestionSetting {
        setting: Setting::new(
            "conditional_ridge",
            "RIDGE",
            Range::Positive { share: false },
            "Observational and causal game: ridge of the conditional distributions, a number like 0.001; \
             larger numbers smooth more [default: the best for predicting left-out rows]",
        ),
        belongs: EMBEDDED,
        used: QuestionContext::embedded,
    },
    QuestionSetting {
        setting: Setting::new(
            "centered",
            "BOOL",
            Range::Switch,
            "Observational and causal game: whether predictions are shrunk towards their mean, so that all \
             values of a constant model are 0; 'false' shrinks them towards the intercept, as \
             published [default: true]",
        ),
        belongs: EMBEDDED,
        used: QuestionContext::embedded,
    },
    QuestionSetting {
        setting: Setting::new(
            "conditional_uncertainty",
            "BOOL",
            Range::Switch,
            "Observational game: also compute the uncertainty of each value that comes from estimating \
             the conditional distributions from the reference rows; for up to 12 features",
        )
        .with_bare("true"),
        belongs: "the observational game, whose conditional distributions come from a kernel",
        used: |context| context.embedded() && context.observational() && context.subject == Subject::Model,
    },
    QuestionSetting {
        setting: Setting::new(
            "conditioning_kernel",
            "KERNEL",
            Range::Kernel,
            "Observational and causal game: the kernel of the conditioning features, an expression as of \
             'fit --kernel', or 'own': the model's kernel, of any form, restricted to the present columns \
             [default: the model's kernel if it is one bounded product over all columns, else a \
             Gaussian with median length scales]",
        ),
        belongs: EMBEDDED,
        used: QuestionContext::embedded,
    },
    QuestionSetting {
        setting: Setting::new(
            "n_conditional_landmarks",
            "M",
            Range::Count(1),
            "Observational and causal game: learn conditional distributions through M of the reference \
             rows, for thousands of rows",
        ),
        belongs: EMBEDDED,
        used: QuestionContext::embedded,
    },
    QuestionSetting {
        setting: Setting::new(
            "n_random_features",
            "M",
            Range::Count(1),
            "Observational and causal game: learn conditional distributions through M random Fourier \
             features",
        ),
        belongs: EMBEDDED,
        used: QuestionContext::embedded,
    },
    QuestionSetting {
        setting: Setting::new(
            "cg_tol",
            "TOLERANCE",
            Range::Positive { share: true },
            "Observational and causal game: use all reference rows, even if their matrices exceed the \
             memory, by conjugate gradients to this tolerance, which is part of the proved bound",
        )
        .with_bare("1e-6"),
        belongs: KERNEL_MODEL_SETTINGS,
        used: |context| context.embedded() && context.has_kernel(),
    },
    QuestionSetting {
        setting: Setting::new(
            "conditional",
            "WAY",
            Range::Choice(&CONDITIONAL),
            "Observational game of a function: the model of the conditional distributions [default: \
             kernel, a conditional mean embedding]",
        ),
        belongs: "the observational game of a function or program",
        used: |context| context.observational() && !context.has_kernel(),
    },
    QuestionSetting {
        setting: Setting::new(
            "n_conditional_samples",
            "N",
            Range::Count(2),
            "Gaussian and copula distributions: number of draws for each coalition and row [default: \
             100]",
        ),
        belongs: "conditional distributions that are gaussian or copula",
        used: |context| context.observational() && !context.has_kernel() && context.conditional != "kernel",
    },
    QuestionSetting {
        setting: Setting::new(
            "estimator",
            "WAY",
            Range::Choice(&ESTIMATORS),
            "The estimator of a function's values: random orders of its features, or the values of \
             coalitions [default: permutation, but kernel_shap for programs and the observational \
             game]",
        ),
        belongs: "functions and programs",
        used: |context| !context.has_kernel(),
    },
    QuestionSetting {
        setting: Setting::new(
            "n_coalitions",
            "N",
            Range::Count(1),
            "Observational and causal game, and kernel_shap: value at most N coalitions of features; if \
             there are more, values are estimated. A larger number adds coalitions to the same ones, which \
             the seed determines; to continue until values are accurate enough, give a standard error \
             [default: 4096, which are all coalitions of up to 12 features]",
        ),
        belongs: "the observational and the causal game and kernel_shap, which value coalitions",
        used: QuestionContext::by_coalitions,
    },
    QuestionSetting {
        setting: Setting::new(
            "target_std_error",
            "E",
            Range::Positive { share: false },
            "Observational and causal game, and kernel_shap: stop as soon as no standard error is larger \
             than E",
        ),
        belongs: "the observational and the causal game and kernel_shap, which value coalitions",
        used: |context| context.by_coalitions() && context.subject != Subject::Protection,
    },
    QuestionSetting {
        setting: Setting::new(
            "n_orders",
            "N",
            Range::Count(2),
            "Permutations: number of random orders of the features for each background row, each with \
             its reverse. There are at least 16 orders in total; all coalitions are valued instead if \
             they take no more evaluations [default: 2]",
        ),
        belongs: "the estimator by permutations",
        used: |context| !context.has_kernel() && context.estimator == "permutation",
    },
    QuestionSetting {
        setting: Setting::new(
            "random_state",
            "N",
            Range::Count(0),
            "Seed of all random numbers [default: 0]",
        ),
        belongs: "",
        used: |_| true,
    },
];

impl QuestionSetting {
    /// Whether the setting applies to some question about `subject`.
    pub fn applies_to(&self, subject: Subject) -> bool {
        let games = Game::NAMES.into_iter().filter(|game| allowed(subject, game));
        let ways = games.flat_map(|game| CONDITIONAL.map(|conditional| (game, conditional)));
        ways.flat_map(|(game, conditional)| {
            ESTIMATORS.map(|estimator| QuestionContext {
                subject,
                game,
                conditional,
                estimator,
                probabilities: false,
            })
        })
        .any(|context| (self.used)(&context))
    }

    /// Whether this word is allowed in some question about `subject`.
    pub fn offers(&self, subject: Subject, word: &str) -> bool {
        matches!(self.setting.range, Range::Choice(words) if words.contains(&word))
            && (self.setting.name != "game" || allowed(subject, word))
    }
}

/// Whether a game is allowed for a subject.
fn allowed(subject: Subject, game: &str) -> bool {
    match subject {
        Subject::Model => true,
        Subject::Function | Subject::Program => {
            ["baseline", "interventional", "observational"].contains(&game)
        }
        Subject::Protection => ["interventional", "observational"].contains(&game),
    }
}

/// Values of the settings of a question by name; each is in its setting's range.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    values: SettingValues,
    seed: u64,
}

impl Settings {
    /// Settings from names and values; null values are ignored.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a value outside its setting's range, or an unknown name.
    pub fn new(pairs: impl IntoIterator<Item = (String, Value)>) -> Result<Self> {
        let values = SettingValues::new(&SETTINGS.each_ref().map(|entry| &entry.setting), pairs)?;
        Ok(Self { values, seed: 0 })
    }

    /// Whether the settings require values by evaluating the model, although its kernel is known.
    pub fn asks_for_answers(&self) -> bool {
        let drawn = self.values.choice("conditional", &CONDITIONAL).is_some_and(|way| way != "kernel");
        drawn || self.values.get("estimator").is_some()
    }

    /// These settings with another default seed, which an explicit seed overrides.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// These settings without the settings of sampling, to find out whether a model has exact values.
    #[must_use]
    pub fn without_sampling(&self) -> Self {
        Self { values: self.values.excluding(&["n_orders", "random_state"]), seed: self.seed() }
    }

    fn seed(&self) -> u64 {
        self.values.get("random_state").and_then(Value::as_u64).unwrap_or(self.seed)
    }

    /// Checks the settings for `subject`; `source` is the source of rows for absent features.
    ///
    /// # Errors
    /// [`Error::Unused`] for a setting that has no effect in the game; [`Error::Parameter`] for a combination
    /// that is not allowed.
    pub fn check(&self, subject: Subject, source: Option<Source>) -> Result<QuestionContext> {
        let game = self.game(subject, source)?;
        let conditional = self.values.choice("conditional", &CONDITIONAL).unwrap_or(CONDITIONAL[0]);
        let estimator = self.values.choice("estimator", &ESTIMATORS).unwrap_or_else(|| match subject {
            Subject::Function if game != "observational" => ESTIMATORS[0],
            _ => ESTIMATORS[1],
        });
        let probabilities = self.values.switch("probabilities").unwrap_or(false);
        let context = QuestionContext { subject, game, conditional, estimator, probabilities };
        for QuestionSetting { setting, belongs, used } in &SETTINGS {
            // Shapley values are available for every subject.
            let shapley = setting.range == Range::Index && self.index() == ValueIndex::Shapley;
            if self.values.get(setting.name).is_some() && !used(&context) && !shapley {
                return Err(Error::Unused { setting: setting.name.into(), belongs: (*belongs).into() });
            }
        }
        if estimator == "permutation" && game == "observational" {
            let allowed =
                "permutations estimate the interventional game: use kernel_shap for the observational one";
            return Err(Error::parameter("estimator", estimator, allowed));
        }
        Ok(context)
    }

    /// The question about `subject` that these settings define. `source` is the source of rows for absent
    /// features, and `rows` returns the rows for the game of the given name. Without a source, `rows` is
    /// called only for the observational game, and returns the model's support points.
    ///
    /// # Errors
    /// The errors of [`check`](Self::check) and of `rows`.
    pub fn question<E: From<Error>>(
        &self,
        subject: Subject,
        source: Option<Source>,
        rows: impl FnOnce(&'static str) -> Result<Background, E>,
    ) -> Result<Question, E> {
        let QuestionContext { game, conditional, estimator, probabilities, .. } =
            self.check(subject, source)?;
        let seed = self.seed();
        let game = match game {
            "functional" => Game::Functional,
            "baseline" => Game::Baseline { point: baseline_row(&rows(game)?.rows)? },
            "interventional" => Game::Interventional { background: rows(game)? },
            "marginal-product" => Game::MarginalProduct { background: rows(game)? },
            _ => {
                // Settings are checked before any rows are read.
                let conditioning = self.conditioning(seed)?;
                let structure = (game == "causal").then(|| self.causal_structure()).transpose()?;
                let (draws, reference) =
                    (self.values.count("n_conditional_samples").unwrap_or(100), rows(game)?);
                let kernel = || self.conditioning_kernel(&reference.rows);
                match (structure, conditional) {
                    (Some(structure), _) => {
                        let conditioning = Conditioning { kernel: kernel()?, ..conditioning };
                        Game::Causal { reference, structure, conditioning }
                    }
                    (None, conditional) => {
                        let conditional = match conditional {
                            "gaussian" => ConditionalModel::Gaussian { draws },
                            "copula" => ConditionalModel::Copula { draws },
                            _ => Conditioning { kernel: kernel()?, ..conditioning }.into(),
                        };
                        Game::Observational { reference, conditional }
                    }
                }
            }
        };
        let budget = Budget {
            coalitions: self.values.count("n_coalitions").unwrap_or(Budget::default().coalitions),
            std_error: self.values.number("target_std_error"),
            seed,
        };
        let estimator = match estimator {
            "permutation" => {
                ValueEstimator::Permutation { per_reference: self.values.count("n_orders").unwrap_or(2) }
            }
            _ => ValueEstimator::KernelShap,
        };
        let covariance = self.values.switch("covariance").unwrap_or(false);
        let conditional_uncertainty = self.values.switch("conditional_uncertainty").unwrap_or(false);
        let unions = self.unions();
        let index = match (self.index(), unions.is_empty()) {
            (ValueIndex::Shapley | ValueIndex::Owen, false) => ValueIndex::Owen,
            (ValueIndex::Owen, true) => {
                return Err(Error::parameter("index", ValueIndex::Owen, "it needs unions of features").into());
            }
            (index, true) => index,
            (index, false) => {
                return Err(Error::parameter("index", index, "unions of features need the index owen").into());
            }
        };
        Ok(Question {
            index,
            unions,
            estimator,
            budget,
            covariance,
            conditional_uncertainty,
            probabilities,
            ordering: self.name_lists("ordering")?,
            ..game.into()
        })
    }

    /// The lists of names of a setting; a name alone is a list of one. Empty if the setting is not set.
    fn name_lists(&self, setting: &str) -> Result<Vec<Vec<String>>> {
        let Some(value) = self.values.get(setting) else { return Ok(Vec::new()) };
        let lists: Vec<CoalitionStructure> = serde_json::from_value(value.clone()).unwrap_or_default();
        let name = |member: CoalitionStructure| match member {
            CoalitionStructure::Player(name) => Ok(name),
            CoalitionStructure::Of(_) => {
                let allowed = "it is a list of names and of lists of names, without further lists";
                Err(Error::parameter(setting, value, allowed))
            }
        };
        let list = |entry| match entry {
            CoalitionStructure::Player(name) => Ok(vec![name]),
            CoalitionStructure::Of(members) => members.into_iter().map(name).collect(),
        };
        lists.into_iter().map(list).collect()
    }

    /// The causal structure. In the setting `parents`, the first name of each list is a column, and the
    /// others are the parents of its component.
    fn causal_structure(&self) -> Result<CausalStructure> {
        let components = self.name_lists("components")?;
        if components.is_empty() {
            let allowed = "it needs the causal structure: give components, lists of columns in causal order";
            return Err(Error::parameter("game", "causal", allowed));
        }
        let mut parents = Vec::new();
        for mut list in self.name_lists("parents")? {
            if list.is_empty() {
                let allowed = "each list begins with a column of the component whose parents follow";
                return Err(Error::parameter("parents", "[]", allowed));
            }
            let column = list.remove(0);
            parents.push((column, list));
        }
        CausalStructure::from_lists(components, &self.name_lists("confounded")?.concat(), parents)
    }

    /// The unions; their format was checked when they were set.
    fn unions(&self) -> Vec<CoalitionStructure> {
        let setting = self.values.get("unions").cloned();
        setting.and_then(|lists| serde_json::from_value(lists).ok()).unwrap_or_default()
    }

    /// The index; its format was checked when it was set.
    fn index(&self) -> ValueIndex {
        self.values
            .get("index")
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    }

    /// The game's name, checked against the subject and the source.
    fn game(&self, subject: Subject, source: Option<Source>) -> Result<&'static str> {
        let default = match (subject, source) {
            (Subject::Model, None) => "functional",
            (_, Some(Source::Baseline)) => "baseline",
            _ => "interventional",
        };
        let game = self.values.choice("game", &Game::NAMES).unwrap_or(default);
        let refuse = |why: &str| Err(Error::parameter("game", game, why));
        if !allowed(subject, game) {
            return match subject {
                Subject::Protection => {
                    refuse("features are protected in the interventional or the observational game")
                }
                _ => refuse(
                    "it takes a model whose kernel is known; a function has only the interventional, the \
                     baseline and the observational game",
                ),
            };
        }
        match (game, source) {
            ("functional", Some(_)) => {
                refuse("it has no use for a background: leave the background out, or choose another game")
            }
            ("functional", None) => Ok(game),
            ("observational" | "causal", None) if matches!(subject, Subject::Model) => Ok(game),
            ("baseline", None) => refuse("it needs a reference row: a baseline, or a background of one row"),
            (_, None) => {
                refuse("it needs a background: the rows from which absent features take their values")
            }
            ("baseline", Some(_)) | (_, Some(Source::Background)) => Ok(game),
            (_, Some(Source::Baseline)) => refuse("it takes a background, not a baseline"),
        }
    }

    /// The settings of conditional distributions.
    fn conditioning(&self, seed: u64) -> Result<Conditioning> {
        let ways = ["n_conditional_landmarks", "n_random_features", "cg_tol"];
        let mut chosen = ways.into_iter().filter_map(|name| Some((name, self.values.get(name)?)));
        if let (Some((name, value)), Some((other, _))) = (chosen.next(), chosen.next()) {
            let why = format!("{other} is an alternative to it: choose one of the two");
            return Err(Error::parameter(name, value, why));
        }
        let landmarks = self.values.count("n_conditional_landmarks");
        let approximation = match self.values.count("n_random_features") {
            Some(count) => Approximation::RandomFeatures(count),
            None => Approximation::selected(landmarks, self.values.number("cg_tol")),
        };
        Ok(Conditioning {
            ridge: self.values.number("conditional_ridge").map_or(Ridge::CrossValidated, Ridge::Fixed),
            kernel: ConditioningKernel::Auto,
            approximation,
            centered: self.values.switch("centered").unwrap_or(true),
            seed,
            memory: crate::memory::free_bytes(),
        })
    }

    /// The conditioning kernel, resolved for the columns of `reference`.
    fn conditioning_kernel(&self, reference: &Table) -> Result<ConditioningKernel> {
        match self.values.get("conditioning_kernel") {
            None => Ok(ConditioningKernel::Auto),
            Some(Value::String(text)) if text == "own" => Ok(ConditioningKernel::OwnFamily),
            Some(Value::String(text)) => {
                let units = ColumnScaling::raw(reference.width());
                KernelExpression::parse(text)?.resolve(reference, &units).map(ConditioningKernel::Given)
            }
            Some(record) => Ok(serde_json::from_value::<Kernel>(record.clone()).ok().into()),
        }
    }
}
