//! The available memory, and refusal of requests that exceed it: an allocation that fails ends the process.

use crate::error::{Error, Result};

/// Bytes of free memory in the machine and within this process's limits; `None` where it is unknown.
pub(crate) fn free_bytes() -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    // What a container's limit counts as used holds files that were read, which make way.
    let cgroup_bytes =
        system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory.saturating_sub(limits.rss));
    Some(system.available_memory().min(cgroup_bytes)).filter(|bytes| *bytes > 0)
}

/// Numbers that are always accepted: 64 MB.
const ALWAYS_ACCEPTED: usize = 1 << 23;

/// Where free memory is not known, as much as most machines have: 16 GB.
const USUAL: u64 = 1 << 34;

/// Checks that there is memory for `count` times `size` numbers; the parameter `name` determines `count`.
///
/// # Errors
/// [`Error::Parameter`] says how many there is memory for.
pub(crate) fn check_allocation(name: &str, count: usize, size: usize) -> Result<()> {
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

/// Checks that there is memory for this many numbers; otherwise returns the number that fits.
pub(crate) fn ensure_free(numbers: usize) -> std::result::Result<(), usize> {
    if numbers <= ALWAYS_ACCEPTED {
        return Ok(());
    }
    let capacity = usize::try_from(free_bytes().unwrap_or(USUAL) / 8).unwrap_or(usize::MAX);
    if numbers <= capacity { Ok(()) } else { Err(capacity) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_memory_holds_is_refused() {
        assert!(check_allocation("draws", 1000, 8).is_ok() && check_allocation("draws", 0, 0).is_ok());
        for (count, width) in [(usize::MAX, 1), (usize::MAX, usize::MAX), (1 << 50, 8)] {
            let message = check_allocation("draws", count, width).unwrap_err().to_string();
            assert!(message.starts_with("draws = ") && message.contains("ask for fewer"), "{message}");
        }
    }
}
