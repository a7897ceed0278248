//! Work that can be stopped within a second.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Multiplications that take a fraction of a second.
pub(crate) const PART: usize = 1 << 31;

/// # Errors
/// [`Error::Interrupted`] once `stop` is set.
pub(crate) fn check(stop: &AtomicBool) -> Result<()> {
    if stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}

/// Does `work` on `0..count`, each of which costs so many multiplications, in parts between which it can be stopped.
///
/// # Errors
/// [`Error::Interrupted`].
pub(crate) fn in_parts(
    count: usize,
    cost: usize,
    stop: &AtomicBool,
    mut work: impl FnMut(Range<usize>),
) -> Result<()> {
    let step = (PART / cost.max(1)).clamp(1, count.max(1));
    for start in (0..count).step_by(step) {
        check(stop)?;
        work(start..count.min(start + step));
    }
    Ok(())
}
