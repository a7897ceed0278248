//! Thread pools that outlive a fork, and work in them that Ctrl-C stops.
//!
//! Everything that may use several threads runs in these pools and nothing in rayon's global one: a forked
//! child has the memory of its parent but none of its threads, for which it would wait for ever.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use riesz::{Error, Matrix, Table};

use crate::error::refuse;

/// How long to compute before looking whether the user pressed Ctrl-C.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);

/// How long to wait for work that was told to stop. What is then still in a step that cannot be stopped, such
/// as a large factorisation, ends with it while Python goes on.
const GRACE: Duration = Duration::from_millis(500);

/// So many threads, in every process that needs them.
#[pyclass(frozen, module = "riesz._core")]
pub(crate) struct Threads {
    /// 0 for one a core, shared by all who say no number.
    count: usize,
    first: OnceLock<Box<Own>>,
}

/// The pool of a process, and those of the children that it was inherited by.
struct Own {
    process: u32,
    pool: Option<ThreadPool>,
    next: OnceLock<Box<Own>>,
}

impl Drop for Own {
    fn drop(&mut self) {
        // A child has no threads of its parent to end, and locks that they held are held for ever.
        if self.process != std::process::id() {
            std::mem::forget(self.pool.take());
        }
    }
}

static SHARED: Threads = Threads { count: 0, first: OnceLock::new() };

#[pymethods]
impl Threads {
    /// `None` is one a core.
    #[new]
    pub(crate) fn new(count: Option<usize>) -> Self {
        Self { count: count.unwrap_or(0), first: OnceLock::new() }
    }
}

impl Threads {
    /// One a core.
    pub(crate) fn all() -> Self {
        Self::new(None)
    }

    /// One a core that are nobody else's.
    pub(crate) fn own() -> Self {
        Self::new(Some(std::thread::available_parallelism().map_or(1, usize::from)))
    }

    /// This process's pool, made where there is none yet.
    fn pool(&self) -> PyResult<&ThreadPool> {
        let mut place = if self.count == 0 { &SHARED.first } else { &self.first };
        let process = std::process::id();
        loop {
            match place.get().map(Box::as_ref) {
                Some(Own { process: own, pool: Some(pool), .. }) if *own == process => return Ok(pool),
                Some(another) => place = &another.next,
                None => {
                    // Made outside of the lock, which no fork must find held. If another thread is faster,
                    // this pool is dropped.
                    let pool = ThreadPoolBuilder::new().num_threads(self.count).build().map_err(refuse)?;
                    let _ = place.set(Box::new(Own { process, pool: Some(pool), next: OnceLock::new() }));
                }
            }
        }
    }
}

/// Runs `work` while this thread looks whether the user pressed Ctrl-C, and then sets `stop`, which `work` is
/// to heed. `stop` is of this work alone: it may stay behind for a while.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    threads: &Threads,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    asking(py, threads, stop, true, unasked, |_| work())
}

/// As [`interruptible`] with a `stop` that others use too: waits until the work has ended.
pub(crate) fn interruptible_to_the_end<T: Send + 'static>(
    py: Python<'_>,
    threads: &Threads,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let found = asking(py, threads, stop, false, unasked, |_| work());
    stop.store(false, Ordering::Relaxed);
    found
}

/// The function of work that asks none.
fn unasked(_: Table) -> PyResult<Matrix> {
    Err(refuse("there is nothing to ask"))
}

/// How work asks a function in Python, which this thread calls.
type Ask<'a> = &'a mut dyn FnMut(Table) -> riesz::Result<Matrix>;

enum Said<T> {
    Asks(Table),
    Ends(std::thread::Result<T>),
}

/// As [`interruptible`], with work that asks a function of this thread. Its `threads` must be its own: they
/// wait for the function, which may need threads too. Unless it `leaves`, the end of the work is waited for.
pub(crate) fn asking<T: Send + 'static>(
    py: Python<'_>,
    threads: &Threads,
    stop: &Arc<AtomicBool>,
    leaves: bool,
    mut function: impl FnMut(Table) -> PyResult<Matrix>,
    work: impl FnOnce(Ask<'_>) -> T + Send + 'static,
) -> PyResult<T> {
    let (says, mut hears) = channel();
    let (answers, answered) = channel();
    let mut answers = Some(answers);
    threads.pool()?.spawn(move || {
        let mut ask = |asked| {
            says.send(Said::Asks(asked)).map_err(|_| Error::Interrupted)?;
            answered.recv().map_err(|_| Error::Interrupted)
        };
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut ask)));
        let _ = says.send(Said::Ends(result));
    });
    let mut interrupted: Option<(PyErr, Instant)> = None;
    loop {
        let said;
        (hears, said) = py.detach(move || next(hears));
        match said {
            Ok(Said::Ends(result)) => {
                return match (interrupted, result) {
                    (Some((error, _)), _) => Err(error),
                    (None, Ok(found)) => Ok(found),
                    (None, Err(panic)) => resume_unwind(panic),
                };
            }
            Ok(Said::Asks(asked)) => match function(asked) {
                Ok(answer) => {
                    let _ = answers.as_ref().map(|answers| answers.send(answer));
                }
                Err(error) => {
                    interrupted.get_or_insert((error, Instant::now()));
                }
            },
            Err(RecvTimeoutError::Timeout) => {
                if interrupted.is_none() {
                    interrupted = py.check_signals().err().map(|error| (error, Instant::now()));
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Err(refuse("the computation broke off")),
        }
        let Some((_, since)) = &interrupted else { continue };
        stop.store(true, Ordering::Relaxed);
        // Whoever waits for an answer is told that there is none.
        answers = None;
        if leaves && since.elapsed() >= GRACE {
            return Err(interrupted.map_or_else(|| refuse("interrupted"), |(error, _)| error));
        }
    }
}

fn next<T>(hears: Receiver<Said<T>>) -> (Receiver<Said<T>>, Result<Said<T>, RecvTimeoutError>) {
    let said = hears.recv_timeout(PATIENCE);
    (hears, said)
}
