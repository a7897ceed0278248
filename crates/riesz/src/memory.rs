//! How much memory there is.

/// Bytes of memory that are free, in the machine and in what of it this process may use; `None` where it is not known.
pub(crate) fn free() -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    // What a container's limit counts as used holds files that were read, which make way.
    let own =
        system.cgroup_limits().map_or(u64::MAX, |limits| limits.total_memory.saturating_sub(limits.rss));
    Some(system.available_memory().min(own)).filter(|bytes| *bytes > 0)
}
