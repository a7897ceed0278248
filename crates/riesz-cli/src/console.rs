//! Messages on standard error: notes, errors and progress. A closed or full standard error is no reason to
//! fail.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use riesz::model_card::CardEntry;

/// Whether notes are left out, and those that were written.
static NOTES: Mutex<(bool, BTreeSet<String>)> = Mutex::new((false, BTreeSet::new()));

/// A note about a table, which may be read several times and is spoken of once.
pub fn note_once(text: &str) {
    let Ok(mut notes) = NOTES.lock() else { return };
    let quiet = notes.0;
    if notes.1.insert(text.to_string()) {
        let text = if text.starts_with("warning: ") { text.to_string() } else { format!("note: {text}") };
        Console { quiet }.note(one_line(&text));
    }
}

/// Where a command speaks to people.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    quiet: bool,
}

impl Console {
    /// Speaks, or with `quiet` only of errors.
    pub fn new(quiet: bool) -> Self {
        if let Ok(mut notes) = NOTES.lock() {
            notes.0 = quiet;
        }
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

/// Runs `work` while the progress `done` is shown behind `message`.
pub fn watched<T>(console: &Console, message: &str, done: &riesz::Progress, work: impl FnOnce() -> T) -> T {
    let progress = console.progress(message);
    let (end, end_signal) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let progress = &progress;
        scope.spawn(move || {
            let start = Instant::now();
            let (mut before, mut left) = (0.0, None);
            while end_signal.recv_timeout(Duration::from_millis(250)) == Err(RecvTimeoutError::Timeout) {
                let (share, now) = (done.share(), start.elapsed());
                if share != before {
                    (before, left) = (share, remaining(share, now).map(|left| left + now));
                }
                progress.say(format!("{message}{}", so_far(share, done.steps(), left, now)));
            }
        });
        let result = work();
        drop(end);
        result
    })
}

/// The estimated remaining time after a share of the work took `took`; `None` while the share is too small to
/// tell.
fn remaining(share: f64, took: Duration) -> Option<Duration> {
    (share >= 0.01).then(|| took.mul_f64((1.0 - share) / share))
}

/// The percents done, or the steps where it is not known how many there will be, and how long it is until the
/// expected `end`.
fn so_far(share: f64, steps: usize, end: Option<Duration>, now: Duration) -> String {
    if share == 0.0 {
        return if steps == 0 { String::new() } else { format!(": step {steps}") };
    }
    let left = end.map(|end| end.saturating_sub(now).as_secs());
    let left = match left {
        None | Some(0) => String::new(),
        Some(seconds) if seconds < 90 => format!(", {seconds} s left"),
        Some(seconds) => format!(", {} min left", seconds.div_ceil(60)),
    };
    format!(": {:.0} %{left}", 100.0 * share)
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
    let characters: Vec<char> = line.chars().collect();
    characters[..head].iter().chain(&[' ', '…', ' ']).chain(&characters[characters.len() - tail..]).collect()
}

/// Names in one column, values in another.
pub fn aligned(facts: &[CardEntry]) -> String {
    let width = facts.iter().map(|f| f.name.chars().count()).max().unwrap_or(0);
    let line = |fact: &CardEntry| format!("{:width$}  {}\n", printable(&fact.name), printable(&fact.value));
    facts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn progress_says_what_is_left() {
        let seconds = std::time::Duration::from_secs;
        let progress_text = |share: f64, steps, took: u64| {
            let end = super::remaining(share, seconds(took)).map(|left| left + seconds(took));
            super::so_far(share, steps, end, seconds(took))
        };
        assert_eq!(progress_text(0.0, 0, 3), "");
        assert_eq!(progress_text(0.0, 7, 3), ": step 7");
        assert_eq!(progress_text(0.5, 7, 30), ": 50 %, 30 s left");
        assert_eq!(progress_text(0.2, 7, 60), ": 20 %, 4 min left");
        // Work that takes longer than was expected does not say so again and again.
        assert_eq!(super::so_far(0.5, 1, Some(seconds(60)), seconds(70)), ": 50 %");
    }

    #[test]
    fn terminals_are_safe() {
        assert_eq!(super::one_line("a\nb\u{1b}[2J"), "a b\\u{1b}[2J");
        assert!(super::one_line(&"x".repeat(100_000)).chars().count() < 1300);
    }
}
