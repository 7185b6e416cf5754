//! Files that take the place of others, in directories that other users may write to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Replaces the file `path` by one with `bytes` and the permission bits `mode`: a reader finds all of the old file or all of the new one. The new file is
/// called `draft` until it is whole, in the same file system.
///
/// # Errors
/// If it cannot be written. The old file is there then, and no draft is left.
pub fn replace(path: &Path, draft: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let written = create(draft, mode).and_then(|mut file| file.write_all(bytes)).and_then(|()| fs::rename(draft, path));
    if written.is_err() {
        let _ = fs::remove_file(draft);
    }
    written
}

/// Makes a new file. What has its name already is removed and never opened: it may be a link that another user has put there, to a file that this process
/// may write and that user may not.
fn create(path: &Path, mode: u32) -> io::Result<File> {
    let create = || OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    match create() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::remove_file(path).and_then(|()| create()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_place_of_a_draft_is_not_followed() {
        let folder = std::env::temp_dir().join(format!("shingle-fresh-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let [path, draft, precious] = ["file", "file.new", "precious"].map(|name| folder.join(name));
        fs::write(&precious, "precious").unwrap();
        for link in [&draft, &path] {
            std::os::unix::fs::symlink(&precious, link).unwrap();
            replace(&path, &draft, b"new", 0o644).unwrap();
            assert_eq!((fs::read(&path).unwrap(), fs::read(&precious).unwrap()), (b"new".into(), b"precious".into()));
            assert!(!path.is_symlink() && !draft.exists());
            fs::remove_file(&path).unwrap();
        }
        // A draft that a killed process has left is replaced.
        fs::write(&draft, "half").unwrap();
        replace(&path, &draft, b"whole", 0o644).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        fs::remove_dir_all(&folder).unwrap();
    }
}
