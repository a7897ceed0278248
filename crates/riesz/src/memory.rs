//! How much memory there is, and refusing what takes more: an allocation that fails ends the process.

use crate::error::{Error, Result};

/// Bytes of memory that are free, in the machine and in what of it this process may use; `None` where it is
/// not known.
pub(crate) fn free_bytes() -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    // What a container's limit counts as used holds files that were read, which make way.
    let own =
        system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory.saturating_sub(limits.rss));
    Some(system.available_memory().min(own)).filter(|bytes| *bytes > 0)
}

/// Numbers that are no matter, whatever is free: 64 MB.
const FEW: usize = 1 << 23;

/// Where free memory is not known, as much as most machines have: 16 GB.
const USUAL: u64 = 1 << 34;

/// Whether there is memory for `each` numbers for each of `count`, of which the parameter `name` asks for so
/// many.
///
/// # Errors
/// [`Error::Parameter`] says how many there is memory for.
pub(crate) fn check_allocation(name: &str, count: usize, each: usize) -> Result<()> {
    let each = each.max(1);
    ensure_free(count.saturating_mul(each)).map_err(|numbers| {
        let allowed = format!(
            "each takes {} bytes, and there is memory for {} of them: ask for fewer",
            each.saturating_mul(8),
            numbers / each
        );
        Error::parameter(name, count, allowed)
    })
}

/// Whether there is memory for so many numbers; if not, for how many there is.
pub(crate) fn ensure_free(numbers: usize) -> std::result::Result<(), usize> {
    if numbers <= FEW {
        return Ok(());
    }
    let most = usize::try_from(free_bytes().unwrap_or(USUAL) / 8).unwrap_or(usize::MAX);
    if numbers <= most { Ok(()) } else { Err(most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_memory_holds_is_refused() {
        assert!(check_allocation("draws", 1000, 8).is_ok() && check_allocation("draws", 0, 0).is_ok());
        for (count, each) in [(usize::MAX, 1), (usize::MAX, usize::MAX), (1 << 50, 8)] {
            let told = check_allocation("draws", count, each).unwrap_err().to_string();
            assert!(told.starts_with("draws = ") && told.contains("ask for fewer"), "{told}");
        }
    }
}
