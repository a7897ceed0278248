//! Words on standard error: notes, errors and progress. A closed or full standard error is no reason to fail.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use riesz::explanation::Fact;

/// Where a command speaks to people.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    quiet: bool,
}

impl Console {
    /// Speaks, or with `quiet` only of errors.
    pub fn new(quiet: bool) -> Self {
        Self { quiet }
    }

    /// A line for people.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            for line in text.as_ref().lines() {
                let _ = writeln!(std::io::stderr(), "{}", printable(line));
            }
        }
    }

    /// A line about something that may be a mistake.
    pub fn warn(&self, text: impl AsRef<str>) {
        self.note(format!("warning: {}", one_line(text.as_ref())));
    }

    /// A spinner with a message, shown on a terminal only.
    pub fn progress(&self, message: &str) -> Progress {
        if self.quiet || !std::io::stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{elapsed}]") {
            bar.set_style(style);
        }
        bar.set_message(message.to_string());
        bar.enable_steady_tick(Duration::from_millis(120));
        Progress(bar)
    }
}

/// Runs `work` while `share` of it, from 0 to 1, is shown in percent behind `message`.
pub fn watched<T>(
    console: &Console,
    message: &str,
    share: impl Fn() -> f64 + Sync,
    work: impl FnOnce() -> T,
) -> T {
    let progress = console.progress(message);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let (progress, share) = (&progress, &share);
        scope.spawn(move || {
            while ended.recv_timeout(Duration::from_millis(250)) == Err(RecvTimeoutError::Timeout) {
                progress.say(format!("{message}: {:.0} %", 100.0 * share()));
            }
        });
        let result = work();
        drop(end);
        result
    })
}

/// Work under way. It leaves the terminal when dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// Says how far the work is.
    pub fn say(&self, message: String) {
        self.0.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The one line that every failure ends with.
pub fn error(message: &str) {
    let _ = writeln!(std::io::stderr(), "error: {}", one_line(message));
}

/// Names from files can hold anything; a terminal must not obey them.
pub fn printable(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

fn one_line(text: &str) -> String {
    let line = text.replace("\r\n", " ").replace(['\n', '\r'], " ");
    let line = printable(&line);
    const LONGEST: usize = 1200;
    if line.chars().count() <= LONGEST {
        return line;
    }
    // A file with thousands of columns would fill the screen with their names.
    let (head, tail) = (LONGEST * 3 / 4, LONGEST / 4);
    let all: Vec<char> = line.chars().collect();
    all[..head].iter().chain(&[' ', '…', ' ']).chain(&all[all.len() - tail..]).collect()
}

/// Names in one column, values in another.
pub fn aligned(facts: &[Fact]) -> String {
    let width = facts.iter().map(|f| f.name.chars().count()).max().unwrap_or(0);
    let line = |fact: &Fact| format!("{:width$}  {}\n", printable(&fact.name), printable(&fact.value));
    facts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn terminals_are_safe() {
        assert_eq!(super::one_line("a\nb\u{1b}[2J"), "a b\\u{1b}[2J");
        assert!(super::one_line(&"x".repeat(100_000)).chars().count() < 1300);
    }
}
