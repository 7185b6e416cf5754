//! Memory of the program itself: its code, constants and libraries.

use std::collections::HashSet;
use std::{fs, io};

/// Mapping of a file in this process, from a line of `/proc/self/maps`.
struct Mapping<'a> {
    start: usize,
    end: usize,
    permissions: &'a str,
    path: &'a str,
}

/// Parses a line of `/proc/self/maps`. Returns `None` for a mapping without a file.
fn parse(line: &str) -> Option<Mapping<'_>> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    let permissions = fields.next()?;
    let path = fields.nth(3)?.trim_start();
    path.starts_with('/').then_some(Mapping { start: address(start)?, end: address(end)?, permissions, path })
}

/// Makes all pages of the program and of its loaded libraries resident. With `mlockall` and `MCL_ONFAULT` they stay resident; a page that was
/// never used is not locked by that alone. In a file system in memory the kernel could swap it out, to a device that this process serves.
///
/// # Errors
/// If the mappings cannot be read, or memory is short.
pub fn populate_program() -> io::Result<()> {
    let maps = fs::read_to_string("/proc/self/maps")?;
    let mappings: Vec<_> = maps.lines().filter_map(parse).collect();
    let programs: HashSet<_> = mappings.iter().filter(|m| m.permissions.contains('x')).map(|m| m.path).collect();
    let readable = mappings.iter().filter(|m| m.permissions.starts_with('r') && programs.contains(m.path));
    for Mapping { start, end, .. } in readable {
        // SAFETY: populating changes no content, and the kernel checks the range.
        let result = unsafe { libc::madvise(*start as *mut _, end - start, libc::MADV_POPULATE_READ) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run_ignored_test_alone;

    #[test]
    fn every_page_of_the_program_is_locked() {
        run_ignored_test_alone("program_memory::tests::locks_the_program");
    }

    #[test]
    #[ignore = "every_page_of_the_program_is_locked runs it in another process"]
    fn locks_the_program() {
        // SAFETY: the call takes no pointer.
        let result = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
        assert_eq!(result, 0, "mlockall: {}", io::Error::last_os_error());
        populate_program().unwrap();
        let program = std::env::current_exe().unwrap();
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut mapped = None;
        let mut checked = 0;
        for line in maps.lines() {
            if let Some(mapping) = parse(line) {
                let own = program.to_str() == Some(mapping.path) && mapping.permissions.starts_with('r');
                mapped = own.then_some((mapping.end - mapping.start) >> 10);
            } else if let (Some(size), Some(resident)) = (mapped, line.strip_prefix("Rss:")) {
                assert_eq!(format!("{size} kB"), resident.trim(), "{maps}");
            } else if let (Some(_), Some(flags)) = (mapped, line.strip_prefix("VmFlags:")) {
                assert!(flags.contains(" lo"), "locked: {maps}");
                (mapped, checked) = (None, checked + 1);
            }
        }
        assert!(checked >= 3, "code, constants and data are mapped: {maps}");
    }
}
