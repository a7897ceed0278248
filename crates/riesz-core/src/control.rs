//! Cancellation and progress of long computations: they can be stopped within a second, and report their
//! progress.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

/// Number of multiplications that take a small fraction of a second.
pub(crate) const CHUNK_COST: usize = 1 << 28;

/// Checks whether the work was cancelled.
///
/// # Errors
/// [`Error::Interrupted`] if `stop` is set.
#[inline]
pub fn check_cancelled(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}

/// The progress of a computation, which another thread may read.
#[derive(Debug, Default)]
pub struct Progress {
    completed: AtomicUsize,
    total: AtomicUsize,
    stage: Mutex<String>,
}

impl Progress {
    /// The completed share, from 0 to 1; 0 if the total is unknown.
    pub fn share(&self) -> f64 {
        let (done, total) = (self.steps(), self.total.load(Ordering::Relaxed));
        if total == 0 { 0.0 } else { (done as f64 / total as f64).min(1.0) }
    }

    /// The number of completed steps.
    pub fn steps(&self) -> usize {
        self.completed.load(Ordering::Relaxed)
    }

    /// The name of the current stage, such as "choosing C"; empty for work without stages.
    pub fn stage(&self) -> String {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a computation of `total` steps.
    pub fn start(&self, total: usize) {
        self.completed.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    /// Starts a stage of a computation, of `total` steps, or 0 if their number is unknown. A stage of unknown
    /// length goes on if it is started again.
    pub fn start_stage(&self, stage: impl Into<String>, total: usize) {
        let stage = stage.into();
        let mut current = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if total > 0 || *current != stage {
            *current = stage;
            self.start(total);
        }
    }
}

/// Access to the cancellation flag and the progress of a computation.
#[derive(Clone, Copy)]
pub struct RunControl<'w> {
    /// Work ends with [`Error::Interrupted`] soon after this is set.
    pub stop: &'w AtomicBool,
    /// The progress of the work.
    pub progress: &'w Progress,
}

impl RunControl<'_> {
    /// A control for work that cannot be cancelled and whose progress is not read.
    pub fn none() -> RunControl<'static> {
        static STOP: AtomicBool = AtomicBool::new(false);
        static PROGRESS: Progress = Progress {
            completed: AtomicUsize::new(0),
            total: AtomicUsize::new(0),
            stage: Mutex::new(String::new()),
        };
        RunControl { stop: &STOP, progress: &PROGRESS }
    }

    /// Checks for cancellation; see [`check_cancelled`].
    #[inline]
    pub fn check_cancelled(self) -> Result<()> {
        check_cancelled(self.stop)
    }

    /// Counts one completed step.
    #[inline]
    pub fn step(self) {
        self.steps(1);
    }

    /// Counts several completed steps.
    pub fn steps(self, steps: usize) {
        self.progress.completed.fetch_add(steps, Ordering::Relaxed);
    }
}

/// Applies `work` to the range `0..count` in parts, and checks for cancellation between them. Each element
/// costs `cost` multiplications.
///
/// # Errors
/// [`Error::Interrupted`].
pub fn for_each_chunk(
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
