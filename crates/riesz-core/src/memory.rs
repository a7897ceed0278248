//! Free memory, and checks of requests against it: an allocation that fails would end the process.

use crate::error::{Error, Result};

/// Free memory in bytes, within the limits of the machine and of this process; `None` if it is unknown.
pub fn free_bytes() -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    // A container's usage includes cached files, which can be evicted; only the resident set size counts.
    let cgroup_bytes =
        system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory.saturating_sub(limits.rss));
    Some(system.available_memory().min(cgroup_bytes)).filter(|bytes| *bytes > 0)
}

/// Number of doubles that are always accepted: 64 MB.
const ALWAYS_ACCEPTED: usize = 1 << 23;

/// Assumed free memory if it is unknown, as on most machines: 16 GB.
const USUAL: u64 = 1 << 34;

/// Checks that there is memory for `count` times `size` doubles; the parameter `name` determines `count`.
///
/// # Errors
/// [`Error::Parameter`], whose message gives the largest possible count.
pub fn check_allocation(name: &str, count: usize, size: usize) -> Result<()> {
    let size = size.max(1);
    ensure_free(count.saturating_mul(size)).map_err(|numbers| {
        let allowed = format!(
            "each takes {} bytes, and there is memory for {} of them: ask for fewer",
            size.saturating_mul(8),
            numbers / size
        );
        Error::parameter(name, count, allowed)
    })
}

/// Checks that there is memory for `numbers` doubles; otherwise returns the number that fits.
pub fn ensure_free(numbers: usize) -> std::result::Result<(), usize> {
    if numbers <= ALWAYS_ACCEPTED {
        return Ok(());
    }
    let capacity = usize::try_from(free_bytes().unwrap_or(USUAL) / 8).unwrap_or(usize::MAX);
    if numbers <= capacity { Ok(()) } else { Err(capacity) }
}

/// Empties a buffer and fills it with copies of a value.
#[inline]
pub fn refill<T: Clone>(buffer: &mut Vec<T>, len: usize, value: T) {
    buffer.clear();
    buffer.resize(len, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_allocations_are_refused() {
        assert!(check_allocation("draws", 1000, 8).is_ok() && check_allocation("draws", 0, 0).is_ok());
        for (count, width) in [(usize::MAX, 1), (usize::MAX, usize::MAX), (1 << 50, 8)] {
            let message = check_allocation("draws", count, width).unwrap_err().to_string();
            assert!(message.starts_with("draws = ") && message.contains("ask for fewer"), "{message}");
        }
    }
}
