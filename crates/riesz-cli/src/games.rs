//! From arguments to a game and its players. `explain` and `report` share this.

use std::path::Path;

use riesz::attribution::coalitions::Budget;
use riesz::explanation::Fact;
use riesz::format::model::SavedModel;
use riesz::game::Absence;
use riesz::{
    Approximation, Background, Column, Conditioning, ConjugateGradients, Game, Groups, Ridge, Table,
};

use crate::args::{GameArgs, TableArgs};
use crate::console::Console;
use crate::failure::{Failure, Result};
use crate::io::input::read_file;
use crate::io::typing::{Columns, Conforming};

/// A question, its players, and what to say of it.
pub struct Question {
    /// The game.
    pub game: Game,
    /// The players; `None` for one a column.
    pub groups: Option<Groups>,
    /// How many coalitions are valued, in games that value any.
    pub budget: Budget,
    /// Where its inputs come from.
    pub facts: Vec<Fact>,
}

impl Question {
    /// Reads the files that the arguments name.
    pub fn read(args: &GameArgs, table: &TableArgs, saved: &SavedModel, seed: u64) -> Result<Self> {
        let columns = saved.model.columns();
        let mut facts = Vec::new();
        let name = match (args.game.as_deref(), &args.background, &args.baseline) {
            (Some(name), _, _) => name,
            (None, Some(_), Some(_)) => {
                return Err(Failure::input("give a background or a baseline, not both, or say which --game"));
            }
            (None, Some(_), None) => "interventional",
            (None, None, Some(_)) => "baseline",
            (None, None, None) => "functional",
        };
        let observational = name == "observational";
        let unused = match name {
            _ if !observational && args.ridge.is_some() => Some("--ridge"),
            _ if !observational && args.landmarks.is_some() => Some("--landmarks"),
            _ if !observational && args.random_features.is_some() => Some("--random-features"),
            _ if !observational && args.conjugate_gradients.is_some() => Some("--conjugate-gradients"),
            _ if !observational && args.coalitions.is_some() => Some("--coalitions"),
            _ if !observational && args.std_error.is_some() => Some("--std-error"),
            _ if args.conditional.as_deref().is_some_and(|way| way != "kernel") => {
                return Err(Failure::input(
                    "--conditional gaussian and copula are for programs, 'cmd:COMMAND' in place of the model",
                ));
            }
            "functional" if args.background.is_some() => Some("--background"),
            "functional" | "interventional" | "marginal-product" | "observational"
                if args.baseline.is_some() =>
            {
                Some("--baseline")
            }
            "baseline" if args.background.is_some() => Some("--background"),
            _ => None,
        };
        if let Some(option) = unused {
            return Err(Failure::input(format!("the {name} game has no use for {option}: leave it out")));
        }
        let game = match name {
            "functional" => Game::Functional,
            "baseline" => {
                let path = args.baseline.as_deref().ok_or_else(|| {
                    Failure::input("the baseline game needs a reference row: --baseline FILE (one row)")
                })?;
                facts.push(Fact::new("baseline", path.display()));
                Game::Baseline { point: read_rows(path, table, columns)? }
            }
            "observational" => {
                let reference = match args.background.as_deref() {
                    None => saved.model.points.clone().into(),
                    Some(path) => {
                        facts.push(Fact::new("background", path.display()));
                        read_background(path, args, table, columns, seed)?
                    }
                };
                facts.push(Fact::new("reference rows", reference.rows.rows()));
                Game::Observational { reference, conditioning: conditioning(args, seed)? }
            }
            _ => {
                let path = args.background.as_deref().ok_or_else(|| {
                    Failure::input(format!(
                        "the {name} game needs rows for absent features: --background FILE"
                    ))
                })?;
                let background = read_background(path, args, table, columns, seed)?;
                facts.push(Fact::new("background", path.display()));
                facts.push(Fact::new("background rows", background.rows.rows()));
                if args.background_rows.is_some() {
                    facts.push(Fact::new("seed", seed));
                }
                if name == "interventional" {
                    Game::Interventional { background }
                } else {
                    Game::MarginalProduct { background }
                }
            }
        };
        let groups = match &args.groups {
            Some(text) => Some(read_groups(text, columns)?),
            None => saved.groups.clone(),
        };
        Ok(Self { game, groups, budget: budget(args, seed), facts })
    }
}

/// A question about a program.
pub struct ProgramQuestion {
    /// What absent features are filled in with.
    pub absence: Absence,
    /// The players.
    pub groups: Groups,
    /// How many coalitions are valued.
    pub budget: Budget,
    /// Where its inputs come from.
    pub facts: Vec<Fact>,
}

impl ProgramQuestion {
    /// Reads the background, whose columns are those that the program is asked about, and what else the arguments name.
    pub fn read(args: &GameArgs, table: &TableArgs, seed: u64, console: &Console) -> Result<Self> {
        let game = args.game.as_deref().unwrap_or("interventional");
        let path = match (game, &args.background) {
            ("interventional" | "observational", Some(path)) => path,
            ("interventional" | "observational", None) => {
                return Err(Failure::input("a program needs rows for absent features: --background FILE"));
            }
            _ => {
                return Err(Failure::input(format!(
                    "the {game} game takes a model whose kernel is known; a program has the interventional and the observational game"
                )));
            }
        };
        if path.as_os_str() == "-" {
            return Err(Failure::input(
                "the background of a program cannot come from standard input: give a file",
            ));
        }
        if args.baseline.is_some() {
            return Err(Failure::input(
                "a program has no use for --baseline: give it as a --background of one row",
            ));
        }
        let observational = game == "observational";
        let conditional = args.conditional.as_deref().unwrap_or("kernel");
        if !observational && (args.conditional.is_some() || args.ridge.is_some()) {
            return Err(Failure::input(
                "--conditional and --ridge belong to --game observational: leave them out",
            ));
        }
        let rows = table.source(path).open()?;
        let names: Vec<String> =
            rows.header().iter().filter(|c| args.background_weights.as_ref() != Some(c)).cloned().collect();
        let columns = Columns::read(rows, &names)?.table(&names, &[], console)?.columns().to_vec();
        let reference = read_background(path, args, table, &columns, seed)?;
        let mut facts = vec![Fact::new("background", path.display())];
        facts.push(Fact::new("background rows", reference.rows.rows()));
        let draws = args.draws.unwrap_or(100);
        let absence = match conditional {
            _ if !observational => Absence::Background(reference),
            "gaussian" => Absence::Gaussian { reference, draws },
            "copula" => Absence::Copula { reference, draws },
            _ => Absence::Embedding { reference, conditioning: conditioning(args, seed)? },
        };
        let groups = match &args.groups {
            Some(text) => read_groups(text, &columns)?,
            None => Groups::singletons(&columns),
        };
        Ok(Self { absence, groups, budget: budget(args, seed), facts })
    }

    /// The columns that the program is asked about.
    pub fn columns(&self) -> &[Column] {
        self.absence.background().rows.columns()
    }
}

/// How conditional distributions are learnt.
fn conditioning(args: &GameArgs, seed: u64) -> Result<Conditioning> {
    let approximation = match (args.landmarks, args.random_features, args.conjugate_gradients) {
        (None, None, None) => Approximation::Exact,
        (Some(count), None, None) => Approximation::Landmarks(count),
        (None, Some(count), None) => Approximation::RandomFeatures(count),
        (None, None, Some(tolerance)) => {
            Approximation::ConjugateGradients(ConjugateGradients { tolerance, ..Default::default() })
        }
        _ => {
            return Err(Failure::input(
                "--landmarks, --random-features and --conjugate-gradients are ways to the same end: choose one",
            ));
        }
    };
    let ridge = args.ridge.map_or(Ridge::CrossValidated, Ridge::Fixed);
    Ok(Conditioning { ridge, approximation, seed, ..Conditioning::default() })
}

fn budget(args: &GameArgs, seed: u64) -> Budget {
    let coalitions = args.coalitions.unwrap_or(Budget::default().coalitions);
    Budget { coalitions, std_error: args.std_error, seed }
}

fn read_rows(path: &Path, table: &TableArgs, columns: &[Column]) -> Result<Table> {
    Conforming::new(table.source(path).open()?, columns, columns.len())?.all()
}

fn read_background(
    path: &Path,
    args: &GameArgs,
    table: &TableArgs,
    columns: &[Column],
    seed: u64,
) -> Result<Background> {
    let rows = read_rows(path, table, columns)?;
    let weights = match &args.background_weights {
        None => None,
        Some(_) if path.as_os_str() == "-" => {
            return Err(Failure::input(
                "a background with weights cannot come from standard input: give a file",
            ));
        }
        Some(name) => {
            let column = [name.clone()];
            Some(Columns::read(table.source(path).open()?, &column)?.numbers(name)?)
        }
    };
    let Some(count) = args.background_rows.map(std::num::NonZeroUsize::get).filter(|c| *c < rows.rows())
    else {
        return Ok(Background { rows, weights });
    };
    let kept = sample(rows.rows(), count, seed);
    let weights = weights.map(|w| kept.iter().map(|&i| w[i]).collect());
    Ok(Background { rows: rows.select_rows(&kept), weights })
}

/// `count` of `0..n` in ascending order, drawn without replacement.
pub fn sample(n: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    let mut all: Vec<usize> = (0..n).collect();
    let count = count.min(n);
    for i in 0..count {
        // SplitMix64 (Steele, Lea and Flood 2014).
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        all.swap(i, i + (z % (n - i) as u64) as usize);
    }
    all.truncate(count);
    all.sort_unstable();
    all
}

/// `name=col,col;name=col`, or a file with one `name=col,col` a line.
pub fn read_groups(text: &str, columns: &[Column]) -> Result<Groups> {
    let content = if text.contains('=') {
        text.replace(';', "\n")
    } else {
        String::from_utf8(read_file(Path::new(text))?)
            .map_err(|_| Failure::input(format!("the groups file {text} is not UTF-8 text")))?
    };
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for line in content.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        let Some((name, members)) = line.split_once('=') else {
            return Err(Failure::input(format!(
                "the group '{line}' is not understood: write name=column,column, groups separated by ';' or lines"
            )));
        };
        let members = members.split(',').map(|m| m.trim().to_string()).filter(|m| !m.is_empty()).collect();
        groups.push((name.trim().to_string(), members));
    }
    Ok(Groups::named(columns, &groups)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_distinct_and_repeatable() {
        let kept = sample(50, 20, 7);
        assert_eq!(kept, sample(50, 20, 7));
        assert_ne!(kept, sample(50, 20, 8));
        assert!(kept.windows(2).all(|w| w[0] < w[1]) && kept.len() == 20);
        assert_eq!(sample(3, 10, 0), [0, 1, 2]);
    }

    #[test]
    fn groups_are_read() {
        let columns = ["a", "b", "c"].map(Column::numeric);
        assert_eq!(read_groups("g = a, c", &columns).unwrap().players().len(), 2);
        assert!(read_groups("g=a;h", &columns).is_err());
        assert!(read_groups("g=z", &columns).is_err());
    }
}
