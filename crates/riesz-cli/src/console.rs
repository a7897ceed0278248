//! Messages on standard error: notes, errors and progress. A closed or full standard error is not a failure.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use riesz::model_card::CardEntry;

/// Whether notes are suppressed, and the notes that were printed.
static NOTES: Mutex<(bool, BTreeSet<String>)> = Mutex::new((false, BTreeSet::new()));

/// Prints a note about a table; a note that was printed before is not repeated, since tables are read several
/// times.
pub fn note_once(text: &str) {
    let Ok(mut notes) = NOTES.lock() else { return };
    let quiet = notes.0;
    if notes.1.insert(text.to_string()) {
        let text = if text.starts_with("warning: ") { text.to_string() } else { format!("note: {text}") };
        Console { quiet }.note(one_line(&text));
    }
}

/// Destination of the messages of a command.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    quiet: bool,
}

impl Console {
    /// Prints all messages, or with `quiet` only errors.
    pub fn new(quiet: bool) -> Self {
        if let Ok(mut notes) = NOTES.lock() {
            notes.0 = quiet;
        }
        Self { quiet }
    }

    /// Prints each line of the text.
    pub fn note(&self, text: impl AsRef<str>) {
        if !self.quiet {
            for line in text.as_ref().lines() {
                let _ = writeln!(std::io::stderr(), "{}", printable(line));
            }
        }
    }

    /// Prints a warning on one line.
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

/// Runs `work` and shows its progress `done` after `message`: the stage, its completed share and its
/// remaining time.
pub fn with_progress<T>(
    console: &Console,
    message: &str,
    done: &riesz::Progress,
    work: impl FnOnce() -> T,
) -> T {
    let progress = console.progress(message);
    let (end_sender, end_signal) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let progress = &progress;
        scope.spawn(move || {
            let (mut start, mut earlier_stage) = (Instant::now(), String::new());
            let (mut earlier_share, mut end_time) = (0.0, None);
            while end_signal.recv_timeout(Duration::from_millis(250)) == Err(RecvTimeoutError::Timeout) {
                let stage = done.stage();
                if stage != earlier_stage {
                    (start, earlier_stage, earlier_share, end_time) = (Instant::now(), stage, 0.0, None);
                }
                let (share, elapsed) = (done.share(), start.elapsed());
                if share != earlier_share {
                    (earlier_share, end_time) =
                        (share, remaining(share, elapsed).map(|end_time| end_time + elapsed));
                }
                let stage = if earlier_stage.is_empty() { "" } else { &format!(": {earlier_stage}") };
                let suffix = progress_suffix(share, done.steps(), end_time, elapsed);
                progress.say(format!("{message}{stage}{suffix}"));
            }
        });
        let result = work();
        drop(end_sender);
        result
    })
}

/// The estimated remaining time after a share of the work took the time `elapsed`; `None` for shares below
/// 1 %.
fn remaining(share: f64, elapsed: Duration) -> Option<Duration> {
    (share >= 0.01).then(|| elapsed.mul_f64((1.0 - share) / share))
}

/// The percentage done and the time until the expected `end`; or the number of steps, if the share is
/// unknown.
fn progress_suffix(share: f64, steps: usize, end: Option<Duration>, elapsed: Duration) -> String {
    if share == 0.0 {
        return if steps == 0 { String::new() } else { format!(": step {steps}") };
    }
    let remaining_time = end.map(|end| end.saturating_sub(elapsed).as_secs());
    let remaining_time = match remaining_time {
        None | Some(0) => String::new(),
        Some(seconds) if seconds < 90 => format!(", {seconds} s left"),
        Some(seconds) => format!(", {} min left", seconds.div_ceil(60)),
    };
    format!(": {:.0} %{remaining_time}", 100.0 * share)
}

/// Progress display of running work, which is cleared when dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// Replaces the message.
    pub fn say(&self, message: String) {
        self.0.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Prints the one line with which every failure ends.
pub fn error(message: &str) {
    let _ = writeln!(std::io::stderr(), "error: {}", one_line(message));
}

/// The text with control characters escaped: names from files must not control a terminal.
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
    fn progress_states_the_remaining_time() {
        let seconds = std::time::Duration::from_secs;
        let progress_text = |share: f64, steps, seconds_elapsed: u64| {
            let end = super::remaining(share, seconds(seconds_elapsed))
                .map(|remaining_time| remaining_time + seconds(seconds_elapsed));
            super::progress_suffix(share, steps, end, seconds(seconds_elapsed))
        };
        assert_eq!(progress_text(0.0, 0, 3), "");
        assert_eq!(progress_text(0.0, 7, 3), ": step 7");
        assert_eq!(progress_text(0.5, 7, 30), ": 50 %, 30 s left");
        assert_eq!(progress_text(0.2, 7, 60), ": 20 %, 4 min left");
        // Work that takes longer than expected shows no remaining time.
        assert_eq!(super::progress_suffix(0.5, 1, Some(seconds(60)), seconds(70)), ": 50 %");
    }

    #[test]
    fn terminals_are_safe() {
        assert_eq!(super::one_line("a\nb\u{1b}[2J"), "a b\\u{1b}[2J");
        assert!(super::one_line(&"x".repeat(100_000)).chars().count() < 1300);
    }
}
