//! Thread pools that survive a fork, and work in them that Ctrl-C interrupts.
//!
//! All work that may use several threads runs in these pools, never in rayon's global pool. A forked child
//! has the memory of its parent but none of its threads, and would wait for them forever.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use riesz::{Error, Matrix, Table};

use crate::error::refuse;

/// The time between checks for Ctrl-C.
pub(crate) const PATIENCE: Duration = Duration::from_millis(200);

/// The time to wait for work after it was signalled to stop. Work in a step that cannot be stopped, such as a
/// large factorisation, ends after this step while Python continues.
const GRACE: Duration = Duration::from_millis(500);

/// A thread pool, which each process creates when it first needs it.
#[pyclass(frozen, module = "riesz._core")]
pub(crate) struct Threads {
    /// The number of threads; 0 for one per core, in a pool that all such objects share.
    count: usize,
    first: OnceLock<Box<ProcessPool>>,
}

/// The pool of a process, and the pools of its forked children.
struct ProcessPool {
    process: u32,
    pool: Option<ThreadPool>,
    next: OnceLock<Box<ProcessPool>>,
}

impl Drop for ProcessPool {
    fn drop(&mut self) {
        // A child has none of the parent's threads to join, and locks that these held stay locked.
        if self.process != std::process::id() {
            std::mem::forget(self.pool.take());
        }
    }
}

static SHARED: Threads = Threads { count: 0, first: OnceLock::new() };

#[pymethods]
impl Threads {
    /// A pool of `count` threads; `None` for one per core.
    #[new]
    pub(crate) fn new(count: Option<usize>) -> Self {
        Self { count: count.unwrap_or(0), first: OnceLock::new() }
    }
}

impl Threads {
    /// The shared pool with one thread per core.
    pub(crate) fn per_core() -> Self {
        Self::new(None)
    }

    /// A new pool with one thread per core, not shared with other work.
    pub(crate) fn separate() -> Self {
        Self::new(Some(std::thread::available_parallelism().map_or(1, usize::from)))
    }

    /// The pool of this process, created if there is none yet.
    fn pool(&self) -> PyResult<&ThreadPool> {
        let mut pool_cell = if self.count == 0 { &SHARED.first } else { &self.first };
        let process = std::process::id();
        loop {
            match pool_cell.get().map(Box::as_ref) {
                Some(ProcessPool { process: pool_process, pool: Some(pool), .. })
                    if *pool_process == process =>
                {
                    return Ok(pool);
                }
                Some(other_pool) => pool_cell = &other_pool.next,
                None => {
                    // The pool is built outside the lock, so that no fork happens while the lock is held. If
                    // another thread is faster, this pool is dropped.
                    let pool = ThreadPoolBuilder::new().num_threads(self.count).build().map_err(refuse)?;
                    let _ = pool_cell.set(Box::new(ProcessPool {
                        process,
                        pool: Some(pool),
                        next: OnceLock::new(),
                    }));
                }
            }
        }
    }
}

/// Runs `work` in a pool while this thread checks for Ctrl-C. After Ctrl-C it sets `stop`, which `work` must
/// check. No other work may use `stop`, since `work` may continue for a while after this function has
/// returned.
pub(crate) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    threads: &Threads,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    with_callback(py, threads, stop, true, no_callback, |_| work())
}

/// Runs `work` like [`interruptible`], but waits until it has ended, so that other work can use `stop` too.
pub(crate) fn interruptible_to_the_end<T: Send + 'static>(
    py: Python<'_>,
    threads: &Threads,
    stop: &Arc<AtomicBool>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let result = with_callback(py, threads, stop, false, no_callback, |_| work());
    stop.store(false, Ordering::Relaxed);
    result
}

/// The callback of work that never calls it.
fn no_callback(_: Table) -> PyResult<Matrix> {
    Err(refuse("this work has no function to call"))
}

/// The function by which work requests an evaluation in Python; the calling thread evaluates it.
type Callback<'a> = &'a mut dyn FnMut(Table) -> riesz::Result<Matrix>;

enum Message<T> {
    Asks(Table),
    Ends(std::thread::Result<T>),
}

/// Runs `work` like [`interruptible`] and evaluates `function` in this thread whenever `work` requests it.
///
/// `threads` must be a separate pool, since its threads wait for `function`, which may need threads too.
/// After an interruption with `leaves`, returns after a grace period; otherwise waits for the end of `work`.
pub(crate) fn with_callback<T: Send + 'static>(
    py: Python<'_>,
    threads: &Threads,
    stop: &Arc<AtomicBool>,
    leaves: bool,
    mut function: impl FnMut(Table) -> PyResult<Matrix>,
    work: impl FnOnce(Callback<'_>) -> T + Send + 'static,
) -> PyResult<T> {
    let (request_sender, mut receiver) = channel();
    let (answer_sender, answer_receiver) = channel();
    let mut answer_sender = Some(answer_sender);
    threads.pool()?.spawn(move || {
        let mut callback = |rows| {
            request_sender.send(Message::Asks(rows)).map_err(|_| Error::Interrupted)?;
            answer_receiver.recv().map_err(|_| Error::Interrupted)
        };
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut callback)));
        let _ = request_sender.send(Message::Ends(result));
    });
    let mut interrupted: Option<(PyErr, Instant)> = None;
    loop {
        let message;
        (receiver, message) = py.detach(move || next(receiver));
        match message {
            Ok(Message::Ends(result)) => {
                return match (interrupted, result) {
                    (Some((error, _)), _) => Err(error),
                    (None, Ok(result)) => Ok(result),
                    (None, Err(panic)) => resume_unwind(panic),
                };
            }
            Ok(Message::Asks(rows)) => match function(rows) {
                Ok(answer) => {
                    let _ = answer_sender.as_ref().map(|sender| sender.send(answer));
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
            Err(RecvTimeoutError::Disconnected) => return Err(refuse("the computation broke down")),
        }
        let Some((_, since)) = &interrupted else { continue };
        stop.store(true, Ordering::Relaxed);
        // Dropping the sender ends the wait of work that requested an answer.
        answer_sender = None;
        if leaves && since.elapsed() >= GRACE {
            return Err(interrupted.map_or_else(|| refuse("interrupted"), |(error, _)| error));
        }
    }
}

fn next<T>(receiver: Receiver<Message<T>>) -> (Receiver<Message<T>>, Result<Message<T>, RecvTimeoutError>) {
    let message = receiver.recv_timeout(PATIENCE);
    (receiver, message)
}
