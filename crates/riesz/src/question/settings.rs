//! The settings of a question by name: the one list from which the command line's flags, Python's checks and
//! the help texts derive. A new setting is one entry of [`SETTINGS`] and its use in [`Settings::question`].

use serde_json::Value;

use super::{Budget, Question, ValueEstimator};
use crate::coalition_structure::CoalitionStructure;
use crate::embedding::{Approximation, Conditioning, ConditioningKernel, ConjugateGradients, Ridge};
use crate::error::{Error, Result};
use crate::game::{Background, ConditionalModel, Game, baseline_row};
use crate::index::ValueIndex;
use crate::kernel::{ColumnScaling, Kernel, KernelExpression};
use crate::setting_schema::{Range, Setting, SettingValues};
use crate::table::Table;

/// The subject of a question. It decides which settings apply, and two defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A model whose kernel is known.
    Model,
    /// A function that is known by its answers alone.
    Function,
    /// A function that is costly to ask and cheap to ask about many rows at once, such as a program: by
    /// default its coalitions are valued, where those of a [`Function`](Self::Function) are passed along
    /// random orders.
    Program,
    /// The values of features that training is to protect.
    Protection,
}

/// Where rows for absent features come from.
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
    /// Its name, range and help.
    pub setting: Setting,
    /// The questions to which the setting applies, where these are not all.
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

    /// Whether conditional distributions are learnt by an embedding.
    fn embedded(&self) -> bool {
        self.observational() && self.conditional == "kernel"
    }

    /// Whether there is a kernel, and the answers are not all that is known.
    fn has_kernel(&self) -> bool {
        matches!(self.subject, Subject::Model | Subject::Protection)
    }

    /// Whether anything can be random. Training has a seed of its own for protection, whatever it asks.
    fn drawn(&self) -> bool {
        !self.has_kernel() || self.by_coalitions() || self.subject == Subject::Protection
    }

    fn by_coalitions(&self) -> bool {
        if self.has_kernel() {
            self.observational() || self.probabilities
        } else {
            self.estimator == "kernel_shap"
        }
    }
}

const CONDITIONAL: [&str; 3] = ["kernel", "gaussian", "copula"];
const ESTIMATORS: [&str; 2] = ["permutation", "kernel_shap"];
const EMBEDDED: &str = "the observational game, whose conditional distributions come from a kernel";
const KERNEL_MODEL_SETTINGS: &str = "the observational game of a model whose kernel is known";

/// Everything that can be set, besides rows and players.
pub static SETTINGS: [QuestionSetting; 18] = [
    QuestionSetting {
        setting: Setting {
            name: "game",
            placeholder: "GAME",
            range: Range::Choice(&Game::NAMES),
            bare: None,
            help: "What an absent feature means [default: interventional; with a baseline baseline, without \
                   either functional]",
        },
        belongs: "",
        used: |_| true,
    },
    QuestionSetting {
        setting: Setting {
            name: "index",
            placeholder: "INDEX",
            range: Range::Index,
            bare: None,
            help: "Which value a feature gets: shapley (with --unions owen); banzhaf, or banzhaf(T), what \
                   it adds where each of the others is present with chance T = .5; beta-shapley(ALPHA, \
                   BETA), where chances are Beta distributed; semivalue(T: WEIGHT, …), where they are drawn \
                   by weights; leave-one-out; or first-order, alone. With pairs of features: sii, k-sii, \
                   stii, fsii, bii, fbii, moebius; with sets of up to K features: sii(K), k-sii(K) and so \
                   on. Values of shapley, k-sii, stii and fsii add up to the prediction [default: shapley]",
        },
        belongs: "models whose kernel is known, in games other than the observational one",
        used: |context| context.subject == Subject::Model && !context.observational(),
    },
    QuestionSetting {
        setting: Setting {
            name: "unions",
            placeholder: "LISTS",
            range: Range::Unions,
            bare: None,
            help: "Owen values: features that stand together, and share out among them what their union is \
                   worth. Lists of names and lists, as in '[[\"s1\", \"s2\"], [\"age\", \"sex\"]]'; other \
                   features stand alone",
        },
        belongs: "Shapley values of models whose kernel is known, in games other than the observational one",
        used: |context| context.subject == Subject::Model && !context.observational(),
    },
    QuestionSetting {
        setting: Setting {
            name: "probabilities",
            placeholder: "BOOL",
            range: Range::Switch,
            bare: Some("true"),
            help: "Explain a classifier's probabilities, and not the outputs that they are made of. All \
                   coalitions of up to 13 features are valued, each exactly (of up to 12 where the kernel \
                   has linear, polynomial or exponential factors); of more, as many as --coalitions says, \
                   and values are estimated",
        },
        belongs: "classifiers whose kernel is known, in the baseline and the interventional game",
        used: |context| {
            context.subject == Subject::Model && ["baseline", "interventional"].contains(&context.game)
        },
    },
    QuestionSetting {
        setting: Setting {
            name: "covariance",
            placeholder: "BOOL",
            range: Range::Switch,
            bare: Some("true"),
            help: "Also say how sure each value is: its standard deviation, and how values vary together, \
                   under the posterior of a Gaussian process (in the functional game where all factors are \
                   anova), or from refits ('riesz fit --bootstrap'); in the observational game for up to 12 \
                   features. The model file has to hold them ('riesz fit --posterior')",
        },
        belongs: "Shapley, Banzhaf and Beta-Shapley values of models whose kernel is known",
        used: |context| context.subject == Subject::Model,
    },
    QuestionSetting {
        setting: Setting {
            name: "ridge",
            placeholder: "RIDGE",
            range: Range::Positive { share: false },
            bare: None,
            help: "Observational game: how much conditional distributions are smoothed, a number like 0.001 \
                   [default: what predicts left-out rows best]",
        },
        belongs: EMBEDDED,
        used: QuestionContext::embedded,
    },
    QuestionSetting {
        setting: Setting {
            name: "centred",
            placeholder: "BOOL",
            range: Range::Switch,
            bare: None,
            help: "Observational game: whether what is predicted is shrunk towards its mean, so that a \
                   constant model gives nobody any value; 'false' shrinks it towards the intercept, as \
                   published [default: true]",
        },
        belongs: EMBEDDED,
        used: QuestionContext::embedded,
    },
    QuestionSetting {
        setting: Setting {
            name: "conditioning_kernel",
            placeholder: "KERNEL",
            range: Range::Kernel,
            bare: None,
            help: "Observational game: the kernel that says how alike rows are in what is conditioned on, \
                   an expression as of 'fit --kernel', or 'own': the model's own, whatever its form, on the \
                   columns that are present [default: the model's own if it is one bounded product over all \
                   columns, else a Gaussian with median length scales]",
        },
        belongs: EMBEDDED,
        used: QuestionContext::embedded,
    },
    QuestionSetting {
        setting: Setting {
            name: "landmarks",
            placeholder: "M",
            range: Range::Count(1),
            bare: None,
            help: "Observational game: learn conditional distributions through so many of the reference \
                   rows, for thousands of rows",
        },
        belongs: EMBEDDED,
        used: QuestionContext::embedded,
    },
    QuestionSetting {
        setting: Setting {
            name: "random_features",
            placeholder: "M",
            range: Range::Count(1),
            bare: None,
            help: "Observational game: learn conditional distributions through so many random Fourier \
                   features",
        },
        belongs: EMBEDDED,
        used: QuestionContext::embedded,
    },
    QuestionSetting {
        setting: Setting {
            name: "conjugate_gradients",
            placeholder: "TOLERANCE",
            range: Range::Positive { share: true },
            bare: Some("1e-6"),
            help: "Observational game: take all reference rows, where their matrices are too large for \
                   memory, by conjugate gradients to this tolerance, which is part of the proved bound",
        },
        belongs: KERNEL_MODEL_SETTINGS,
        used: |context| context.embedded() && context.has_kernel(),
    },
    QuestionSetting {
        setting: Setting {
            name: "conditional",
            placeholder: "WAY",
            range: Range::Choice(&CONDITIONAL),
            bare: None,
            help: "Observational game of a function: where conditional distributions come from [default: \
                   kernel, a conditional mean embedding]",
        },
        belongs: "the observational game of a function or program",
        used: |context| context.observational() && !context.has_kernel(),
    },
    QuestionSetting {
        setting: Setting {
            name: "draws",
            placeholder: "N",
            range: Range::Count(2),
            bare: None,
            help: "Gaussian and copula distributions: draws for each coalition and row [default: 100]",
        },
        belongs: "conditional distributions that are gaussian or copula",
        used: |context| context.observational() && !context.has_kernel() && context.conditional != "kernel",
    },
    QuestionSetting {
        setting: Setting {
            name: "estimator",
            placeholder: "WAY",
            range: Range::Choice(&ESTIMATORS),
            bare: None,
            help: "How the values of a function are found: along random orders of its features, or by \
                   valuing coalitions [default: permutation, but kernel_shap for programs and the \
                   observational game]",
        },
        belongs: "functions and programs",
        used: |context| !context.has_kernel(),
    },
    QuestionSetting {
        setting: Setting {
            name: "coalitions",
            placeholder: "N",
            range: Range::Count(1),
            bare: None,
            help: "Observational game, and kernel_shap: value at most so many coalitions of features; if \
                   there are more, values are estimated. A larger number takes the same ones, drawn with \
                   the seed, and more; to go on until values are sure enough, give a standard error \
                   [default: 4096, all of them up to 12 features]",
        },
        belongs: "the observational game and kernel_shap, which value coalitions",
        used: QuestionContext::by_coalitions,
    },
    QuestionSetting {
        setting: Setting {
            name: "std_error",
            placeholder: "E",
            range: Range::Positive { share: false },
            bare: None,
            help: "Observational game, and kernel_shap: stop as soon as no standard error is larger than \
                   this",
        },
        belongs: "the observational game and kernel_shap, which value coalitions",
        used: |context| context.by_coalitions() && context.subject != Subject::Protection,
    },
    QuestionSetting {
        setting: Setting {
            name: "permutations",
            placeholder: "N",
            range: Range::Count(2),
            bare: None,
            help: "Permutations: random orders of the features for each background row, each with its \
                   reverse; at least 16 in all, and where all coalitions take no more, these [default: 2]",
        },
        belongs: "the estimator by permutations",
        used: |context| !context.has_kernel() && context.estimator == "permutation",
    },
    QuestionSetting {
        setting: Setting {
            name: "seed",
            placeholder: "N",
            range: Range::Count(0),
            bare: None,
            help: "Seed of everything random [default: 0]",
        },
        belongs: "values that are drawn: those of functions, and the observational game",
        used: QuestionContext::drawn,
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

    /// Whether this word can be chosen in some question about `subject`.
    pub fn offers(&self, subject: Subject, word: &str) -> bool {
        matches!(self.setting.range, Range::Choice(words) if words.contains(&word))
            && (self.setting.name != "game" || allowed(subject, word))
    }
}

/// Whether a game can be asked for.
fn allowed(subject: Subject, game: &str) -> bool {
    match subject {
        Subject::Model => true,
        Subject::Function | Subject::Program => {
            ["baseline", "interventional", "observational"].contains(&game)
        }
        Subject::Protection => ["interventional", "observational"].contains(&game),
    }
}

/// Settings by name, each with a value that it can have.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    values: SettingValues,
    seed: u64,
}

impl Settings {
    /// Settings from names and values; null values are ignored.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a value that the setting cannot have, or a name that is none.
    pub fn new(pairs: impl IntoIterator<Item = (String, Value)>) -> Result<Self> {
        let values = SettingValues::new(&SETTINGS.each_ref().map(|known| &known.setting), pairs)?;
        Ok(Self { values, seed: 0 })
    }

    /// Whether values of a model whose kernel is known are to be found from its answers all the same.
    pub fn asks_for_answers(&self) -> bool {
        let drawn = self.values.choice("conditional", &CONDITIONAL).is_some_and(|way| way != "kernel");
        drawn || self.values.get("estimator").is_some()
    }

    /// These settings with this default seed, which an explicit seed overrides.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// These settings without those of sampling, to find out whether a model has exact values.
    #[must_use]
    pub fn without_sampling(&self) -> Self {
        Self { values: self.values.excluding(&["permutations", "seed"]), seed: self.seed() }
    }

    fn seed(&self) -> u64 {
        self.values.get("seed").and_then(Value::as_u64).unwrap_or(self.seed)
    }

    /// Checks the settings against `subject`, for which there are rows from `source`.
    ///
    /// # Errors
    /// [`Error::Unused`] for a setting that has no use in the game; [`Error::Parameter`] for what cannot be
    /// asked.
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
            // Everything has Shapley values.
            let shapley = setting.range == Range::Index && self.index() == ValueIndex::Shapley;
            if self.values.get(setting.name).is_some() && !used(&context) && !shapley {
                return Err(Error::Unused { setting: setting.name.into(), belongs: (*belongs).into() });
            }
        }
        if estimator == "permutation" && game == "observational" {
            let allowed =
                "permutations estimate the interventional game: the observational one takes kernel_shap";
            return Err(Error::parameter("estimator", estimator, allowed));
        }
        Ok(context)
    }

    /// The question that these settings ask of `subject`. `source` says which rows for absent features there
    /// are, and `rows` gives them for the game of this name; without a source it is asked for those of the
    /// observational game alone, which are the model's own support points.
    ///
    /// # Errors
    /// Those of [`check`](Self::check) and of `rows`.
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
                // What cannot be is said before anything is read.
                let conditioning = self.conditioning(seed)?;
                let (draws, reference) = (self.values.count("draws").unwrap_or(100), rows(game)?);
                let conditional = match conditional {
                    "gaussian" => ConditionalModel::Gaussian { draws },
                    "copula" => ConditionalModel::Copula { draws },
                    _ => {
                        let kernel = self.conditioning_kernel(&reference.rows)?;
                        ConditionalModel::Embedding(Conditioning { kernel, ..conditioning })
                    }
                };
                Game::Observational { reference, conditional }
            }
        };
        let budget = Budget {
            coalitions: self.values.count("coalitions").unwrap_or(Budget::default().coalitions),
            std_error: self.values.number("std_error"),
            seed,
        };
        let estimator = match estimator {
            "permutation" => {
                ValueEstimator::Permutation { per_reference: self.values.count("permutations").unwrap_or(2) }
            }
            _ => ValueEstimator::KernelShap,
        };
        let covariance = self.values.switch("covariance").unwrap_or(false);
        let unions = self.unions();
        let index = match (self.index(), unions.is_empty()) {
            (ValueIndex::Shapley | ValueIndex::Owen, false) => ValueIndex::Owen,
            (ValueIndex::Owen, true) => {
                return Err(Error::parameter("index", ValueIndex::Owen, "it takes unions of features").into());
            }
            (index, true) => index,
            (index, false) => {
                return Err(Error::parameter("index", index, "unions of features have Owen values").into());
            }
        };
        Ok(Question { index, unions, estimator, budget, covariance, probabilities, ..game.into() })
    }

    /// The unions, which were checked when they were set.
    fn unions(&self) -> Vec<CoalitionStructure> {
        let setting = self.values.get("unions").cloned();
        setting.and_then(|lists| serde_json::from_value(lists).ok()).unwrap_or_default()
    }

    /// The index, which was checked when it was set.
    fn index(&self) -> ValueIndex {
        self.values
            .get("index")
            .and_then(Value::as_str)
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    }

    /// The game's name, checked against what there is.
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
                    "it takes a model whose kernel is known; a function has the interventional, the \
                     baseline and the observational game",
                ),
            };
        }
        match (game, source) {
            ("functional", Some(_)) => {
                refuse("it has no use for a background: leave the background out, or name another game")
            }
            ("functional", None) => Ok(game),
            ("observational", None) if matches!(subject, Subject::Model) => Ok(game),
            ("baseline", None) => refuse("it needs a reference row: a baseline, or a background of one row"),
            (_, None) => {
                refuse("it needs a background: rows that say what features could have been otherwise")
            }
            ("baseline", Some(_)) | (_, Some(Source::Background)) => Ok(game),
            (_, Some(Source::Baseline)) => refuse("it takes a background, not a baseline"),
        }
    }

    /// The settings of conditional distributions.
    fn conditioning(&self, seed: u64) -> Result<Conditioning> {
        let ways = ["landmarks", "random_features", "conjugate_gradients"];
        let mut chosen = ways.into_iter().filter_map(|name| Some((name, self.values.get(name)?)));
        if let (Some((name, value)), Some((other, _))) = (chosen.next(), chosen.next()) {
            let why = format!("{other} is an alternative to it: choose one of the two");
            return Err(Error::parameter(name, value, why));
        }
        let approximation = match (self.values.count("landmarks"), self.values.count("random_features")) {
            (Some(count), _) => Approximation::Landmarks(count),
            (_, Some(count)) => Approximation::RandomFeatures(count),
            _ => self.values.number("conjugate_gradients").map_or(Approximation::Exact, |tolerance| {
                Approximation::ConjugateGradients(ConjugateGradients { tolerance, ..Default::default() })
            }),
        };
        Ok(Conditioning {
            ridge: self.values.number("ridge").map_or(Ridge::CrossValidated, Ridge::Fixed),
            kernel: ConditioningKernel::Auto,
            approximation,
            centred: self.values.switch("centred").unwrap_or(true),
            seed,
            memory: crate::memory::free_bytes(),
        })
    }

    /// The kernel of the conditioning, for columns such as those of `reference`.
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
