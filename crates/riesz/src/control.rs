//! Cancellation and progress of long work: it can be stopped within a second, and reports its progress.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// Multiplications that take a small fraction of a second.
pub(crate) const CHUNK_COST: usize = 1 << 28;

/// # Errors
/// [`Error::Interrupted`] once `stop` is set.
pub(crate) fn check_cancelled(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}

/// The progress of work, for another thread to read.
#[derive(Debug, Default)]
pub struct Progress {
    completed: AtomicUsize,
    total: AtomicUsize,
}

impl Progress {
    /// The share that is done, from 0 to 1; 0 where nobody knows how much there is to do.
    pub fn share(&self) -> f64 {
        let (done, total) = (self.steps(), self.total.load(Ordering::Relaxed));
        if total == 0 { 0.0 } else { (done as f64 / total as f64).min(1.0) }
    }

    /// The steps that are done.
    pub fn steps(&self) -> usize {
        self.completed.load(Ordering::Relaxed)
    }

    /// Work of so many steps begins.
    pub(crate) fn start(&self, total: usize) {
        self.completed.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }
}

/// Where work looks whether it is to go on, and says how far it is.
#[derive(Clone, Copy)]
pub(crate) struct RunControl<'w> {
    pub(crate) stop: &'w AtomicBool,
    pub(crate) progress: &'w Progress,
}

impl RunControl<'_> {
    /// A control for work that cannot be cancelled and whose progress is not read.
    pub(crate) fn none() -> RunControl<'static> {
        static STOP: AtomicBool = AtomicBool::new(false);
        static PROGRESS: Progress = Progress { completed: AtomicUsize::new(0), total: AtomicUsize::new(0) };
        RunControl { stop: &STOP, progress: &PROGRESS }
    }

    /// See [`check`].
    pub(crate) fn check_cancelled(self) -> Result<()> {
        check_cancelled(self.stop)
    }

    /// A step is done.
    pub(crate) fn step(self) {
        self.steps(1);
    }

    /// Several steps are done.
    pub(crate) fn steps(self, steps: usize) {
        self.progress.completed.fetch_add(steps, Ordering::Relaxed);
    }
}

/// Does `work` on `0..count`, each of which costs so many multiplications, in parts between which it can be
/// stopped.
///
/// # Errors
/// [`Error::Interrupted`].
pub(crate) fn for_each_chunk(
    count: usize,
    cost: usize,
    stop: &AtomicBool,
    mut work: impl FnMut(Range<usize>),
) -> Result<()> {
    let step = (CHUNK_COST / cost.max(1)).clamp(1, count.max(1));
    for start in (0..count).step_by(step) {
        check_cancelled(stop)?;
        work(start..count.min(start + step));
    }
    Ok(())
}
