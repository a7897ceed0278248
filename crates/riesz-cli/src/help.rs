//! Help in two lengths: `--help` has the options that most uses need, with one sentence each, on two screens;
//! `--help-all` and the manual pages have every option with its whole description.

use clap::{Arg, ArgAction, Command};

/// Options that `--help` leaves out where a command has them and does not require them.
const ADVANCED: [&str; 75] = [
    // Reading tables.
    "delimiter",
    "decimal",
    "encoding",
    "sheet",
    "column",
    "na-values",
    "scale",
    "unseen",
    // Solvers and searches of 'fit'.
    "corrections",
    "solver",
    "tolerance",
    "folds",
    "search-rows",
    "fixed-kernel",
    "fit-intercept",
    "max-iter",
    "tol",
    "epsilon",
    "row-noise",
    "class-weight",
    "jackknife",
    "strength",
    "protect-range",
    "protect-equal",
    "protect-game",
    "protect-conditional-ridge",
    "protect-centered",
    "protect-conditioning-kernel",
    "protect-conditional-landmarks",
    "protect-random-features",
    "protect-cg-tol",
    "protect-coalitions",
    "checkpoint",
    "plan-only",
    // The causal game.
    "graph",
    "components",
    "confounded",
    "parents",
    "ordering",
    // Estimators of values.
    "conditional-ridge",
    "centered",
    "conditioning-kernel",
    "conditional-landmarks",
    "random-features",
    "cg-tol",
    "conditional",
    "conditional-samples",
    "conditional-uncertainty",
    "estimator",
    "orders",
    "target-std-error",
    "background-weights",
    "robustness",
    "max-pairs",
    "variance",
    // Tests of two samples and of independence.
    "block-size",
    "wild-bootstrap",
    "length-scale-multiples",
    "max-display",
    "title",
    // Duels.
    "ability",
    "wins",
    "drop-self",
    "context-landmarks",
    "absent-contexts",
    "context-game",
    "subsamples",
    "scores",
    // Aggregates.
    "drop-unmatched",
    "dispersion",
    "published",
    "exact-totals",
    // Causal effects.
    "acquisition",
    "prior",
    "hyperparameter-samples",
];

/// The command line `command` with its help in two lengths.
pub fn in_two_lengths(command: Command) -> Command {
    let command = command
        .disable_help_flag(true)
        .arg(help_flag("help", "Print the most common options", ArgAction::HelpShort).short('h'))
        .arg(help_flag("help-all", "Print all options and their whole descriptions", ArgAction::HelpLong));
    shortened(command)
}

fn help_flag(name: &'static str, text: &'static str, action: ArgAction) -> Arg {
    Arg::new(name).long(name).help(text).action(action).global(true).display_order(1000)
}

/// `command` and its subcommands with short texts beside the whole ones.
fn shortened(command: Command) -> Command {
    let command = match command.get_before_help().map(ToString::to_string) {
        None => command,
        Some(text) => command
            .before_help(text.split("\n\n").next().unwrap_or_default().to_string())
            .before_long_help(text),
    };
    command.mut_args(shortened_argument).mut_subcommands(shortened)
}

fn shortened_argument(argument: Arg) -> Arg {
    let is_advanced = argument.get_long().is_some_and(|long| ADVANCED.contains(&long));
    let argument = match argument.get_help().map(ToString::to_string) {
        None => argument,
        Some(text) => {
            let description = argument.get_long_help().map_or_else(|| text.clone(), ToString::to_string);
            argument.help(first_sentence(&text)).long_help(description)
        }
    };
    let is_required = argument.is_required_set();
    argument.hide_short_help(is_advanced && !is_required)
}

/// The first sentence of a description, or a longer beginning if the sentence is too short to be understood
/// alone; and its default where the description states one at its end.
fn first_sentence(text: &str) -> String {
    const SHORTEST: usize = 35;
    let (description, default) = match text.rfind(" [default: ") {
        Some(start) => text.split_at(start),
        None => (text, ""),
    };
    let is_whole = |beginning: &str| {
        beginning.len() >= SHORTEST && beginning.matches('(').count() == beginning.matches(')').count()
    };
    let ends = description.match_indices([';', ':', '.']).map(|(mark, _)| mark);
    let end = ends
        .filter(|mark| description[mark + 1..].starts_with(' '))
        .find(|mark| is_whole(&description[..*mark]));
    format!("{}{default}", &description[..end.unwrap_or(description.len())])
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Calls `visit` with the name of each command of the tree, and the command.
    fn for_each_command(command: &mut Command, visit: &mut impl FnMut(&mut Command)) {
        visit(command);
        command.get_subcommands_mut().for_each(|inner| for_each_command(inner, visit));
    }

    #[test]
    fn help_fits_two_screens() {
        let mut command = in_two_lengths(crate::Cli::command());
        command.build();
        for_each_command(&mut command, &mut |command| {
            let lines = command.render_help().to_string().lines().count();
            assert!(lines <= 80, "{}: {lines} lines", command.get_name());
        });
    }

    #[test]
    fn advanced_options_exist_and_whole_help_has_them() {
        let mut command = in_two_lengths(crate::Cli::command());
        command.build();
        let mut unseen: Vec<&str> = ADVANCED.to_vec();
        for_each_command(&mut command, &mut |command| {
            let long_help = command.render_long_help().to_string();
            let longs: Vec<_> =
                command.get_arguments().filter_map(Arg::get_long).map(str::to_string).collect();
            unseen.retain(|name| !longs.iter().any(|long| long == name));
            for long in command.get_arguments().filter(|a| !a.is_hide_set()).filter_map(Arg::get_long) {
                assert!(long_help.contains(&format!("--{long}")), "{}: --{long}", command.get_name());
            }
        });
        assert!(unseen.is_empty(), "{unseen:?}");
    }

    #[test]
    fn first_sentences_keep_the_default() {
        let text =
            "Number of rows of the background (for instance 100; not all); more are drawn [default: all]";
        let expected = "Number of rows of the background (for instance 100; not all) [default: all]";
        assert_eq!(first_sentence(text), expected);
        let short = "With a program: columns that are no inputs";
        assert_eq!(first_sentence(short), short);
    }
}
