//! From arguments to a game and its players. `explain` and `report` share this.

use std::path::Path;

use riesz::attribution::coalitions::Budget;
use riesz::error::listed;
use riesz::explanation::Fact;
use riesz::format::model::SavedModel;
use riesz::game::Absence;
use riesz::kernel::Units;
use riesz::{
    Approximation, Background, Column, Conditioning, ConjugateGradients, Expansion, Explainer, Game, Groups,
    Ridge, Table,
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
            _ if !observational && args.conditional.is_some() => Some("--conditional"),
            _ if args.conditional.as_deref().is_some_and(|way| way != "kernel") => {
                return Err(Failure::input(
                    "--conditional gaussian and copula are for programs, 'cmd:COMMAND' in place of the model",
                ));
            }
            _ if args.draws.is_some() => Some("--draws"),
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
                Game::Observational { reference, conditioning: learnt_through(args, seed)? }
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
        let given = [
            ("--ridge", args.ridge.is_some()),
            ("--landmarks", args.landmarks.is_some()),
            ("--random-features", args.random_features.is_some()),
        ];
        let embedding = given.iter().find(|(_, given)| *given).map(|(option, _)| *option);
        let misplaced = match conditional {
            _ if !observational && args.conditional.is_some() => {
                Some(("--conditional", "--game observational"))
            }
            _ if !observational => embedding.map(|option| (option, "--game observational")),
            "kernel" if args.draws.is_some() => Some(("--draws", "--conditional gaussian or copula")),
            "kernel" => None,
            _ => embedding.map(|option| (option, "--conditional kernel")),
        };
        if let Some((option, owner)) = misplaced {
            return Err(Failure::input(format!("{option} belongs to {owner}: leave it out")));
        }
        if args.robustness.is_some() {
            return Err(Failure::input(
                "--robustness takes a model whose kernel is known, which a program is not: leave it out",
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
            _ => Absence::Embedding { reference, conditioning: learnt_through(args, seed)? },
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

fn learnt_through(args: &GameArgs, seed: u64) -> Result<Conditioning> {
    let through = [("--landmarks", args.landmarks), ("--random-features", args.random_features)];
    let conditioning = conditioning(args.ridge, through, seed)?;
    match (args.conjugate_gradients, conditioning.approximation) {
        (None, _) => Ok(conditioning),
        (Some(tolerance), Approximation::Exact) => {
            let settings = ConjugateGradients { tolerance, ..ConjugateGradients::default() };
            Ok(Conditioning { approximation: Approximation::ConjugateGradients(settings), ..conditioning })
        }
        _ => Err(Failure::input(
            "--landmarks, --random-features and --conjugate-gradients are ways to the same end: choose one",
        )),
    }
}

/// How conditional distributions are learnt, from the options for landmarks and random features.
pub fn conditioning(
    ridge: Option<f64>,
    [landmarks, random_features]: [(&str, Option<usize>); 2],
    seed: u64,
) -> Result<Conditioning> {
    let approximation = match (landmarks.1, random_features.1) {
        (Some(_), Some(_)) => {
            return Err(Failure::input(format!(
                "{} and {} are two ways to the same end: choose one",
                landmarks.0, random_features.0
            )));
        }
        (Some(count), None) => Approximation::Landmarks(count),
        (None, Some(count)) => Approximation::RandomFeatures(count),
        (None, None) => Approximation::Exact,
    };
    let ridge = ridge.map_or(Ridge::CrossValidated, Ridge::Fixed);
    Ok(Conditioning { ridge, approximation, seed, memory: free_memory(), ..Conditioning::default() })
}

/// Bytes of memory that are free, in the machine and in what of it this process may use; `None` where it is not known.
fn free_memory() -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    // What a container's limit counts as used holds files that were read, which make way.
    let own =
        system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory.saturating_sub(limits.rss));
    Some(system.available_memory().min(own)).filter(|bytes| *bytes > 0)
}

/// The bound of `--robustness`, if it is asked for: what columns move by, and how far values can.
pub fn robustness(args: &GameArgs, explainer: &Explainer<'_>, model: &Expansion) -> Result<Vec<Fact>> {
    let Some(text) = args.robustness.as_deref() else { return Ok(Vec::new()) };
    let columns = model.columns();
    let number = |text: &str| match text.trim().parse::<f64>() {
        Ok(delta) if delta.is_finite() && delta >= 0.0 => Ok(delta),
        _ => Err(Failure::input(format!(
            "--robustness: '{text}' is not understood: write a number that is not negative, or column=number,column=number"
        ))),
    };
    let (delta, moves) = if text.contains('=') {
        let mut delta = vec![0.0; columns.len()];
        for part in text.split(',') {
            let (name, by) = part.rsplit_once('=').unwrap_or(("", part));
            let j = columns.iter().position(|c| c.name == name.trim()).ok_or_else(|| {
                Failure::input(format!(
                    "--robustness: there is no column '{}'; the columns are: {}",
                    name.trim(),
                    listed(columns.iter().map(|c| &c.name))
                ))
            })?;
            delta[j] = number(by)?;
        }
        (delta, text.to_string())
    } else {
        let count = number(text)?;
        let deviations = Units::standardised(&model.points).scale;
        (
            deviations.iter().map(|s| count * s).collect(),
            format!("{count} standard deviations of each column"),
        )
    };
    let bounds = explainer.robustness(&delta)?;
    let said = "no value moves by more than";
    let found = match bounds.as_slice() {
        [bound] => Fact::measured(said, *bound),
        several => {
            let each = model.output_names.iter().zip(several);
            let each: Vec<String> =
                each.map(|(name, bound)| format!("{} ({name})", Fact::measured("", *bound).value)).collect();
            Fact::new(said, each.join(", "))
        }
    };
    Ok(vec![Fact::new("robustness to", moves), found])
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
    let kept = rows.sample_rows(count, seed);
    let weights = weights.map(|w| kept.iter().map(|&i| w[i]).collect());
    Ok(Background { rows: rows.select_rows(&kept), weights })
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
    fn groups_are_read() {
        let columns = ["a", "b", "c"].map(Column::numeric);
        assert_eq!(read_groups("g = a, c", &columns).unwrap().players().len(), 2);
        assert!(read_groups("g=a;h", &columns).is_err());
        assert!(read_groups("g=z", &columns).is_err());
    }
}
