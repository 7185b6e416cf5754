//! A file for what takes long to make.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::CliError;

/// A file that is tried before the work begins, so that one that cannot be written is known at once. What was in it stays until
/// the first byte comes.
pub struct NewFile {
    path: PathBuf,
    /// None if there was none: an empty one would look like work that went wrong.
    file: Option<File>,
    is_begun: bool,
}

impl NewFile {
    /// Opens the file if there is one, or tries whether one can be made.
    pub fn open(path: &Path) -> Result<Self, CliError> {
        let was_there = path.exists();
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let file =
            opened.and_then(|file| if was_there { Ok(Some(file)) } else { fs::remove_file(path).map(|()| None) });
        let file = file.map_err(|error| cannot_write(path, &error))?;
        Ok(Self { path: path.into(), file, is_begun: false })
    }

    /// Opens it unless there is one already, which is overwritten with `force` alone; a device or a pipe is taken.
    pub fn open_unless_there(path: &Path, force: bool) -> Result<Self, CliError> {
        if !force && path.is_file() {
            let path = path.display();
            return Err(CliError::Failed(format!("{path} exists: name another file, or overwrite it with --force")));
        }
        Self::open(path)
    }

    /// Writes all that will be in the file.
    #[cfg(feature = "lab")]
    pub fn fill(mut self, bytes: &[u8]) -> Result<(), CliError> {
        let written = self.begun().and_then(|file| file.write_all(bytes));
        written.map_err(|error| cannot_write(&self.path, &error))
    }

    /// The file, empty before the first byte.
    fn begun(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => File::create(&self.path)?,
        };
        if !self.is_begun && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        self.is_begun = true;
        Ok(self.file.insert(file))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), File::flush)
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> CliError {
    CliError::Failed(format!("cannot write {}: {error}", path.display()))
}
