//! The image of a volume that is salvaged: a new file, several that follow each other, or a block device.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use shingle_core::dm::zoned::BLOCK_BYTES;

use crate::cli::CliError;
use shingle_host::config::format_bytes;

/// Most files of an image: their names end in three digits.
const MOST_PIECES: u64 = 1000;
/// Zeroes that are written at once where the device makes none itself.
static ZEROES: [u8; 1 << 16] = [0; 1 << 16];

/// How an image is made.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Size of the volume in bytes.
    pub bytes: u64,
    /// Size of a chunk in bytes: what is written at once, and what a piece is a multiple of.
    pub chunk_bytes: u64,
    /// Size of a piece in bytes, rounded down to chunks; one file if left out.
    pub split: Option<u64>,
}

/// An image that is being written, chunk by chunk.
pub struct Image {
    /// Its name, or what the names of its pieces begin with.
    pub path: PathBuf,
    /// Size of the volume in bytes.
    pub bytes: u64,
    /// Bytes of data that were written.
    pub written: u64,
    pieces: Vec<File>,
    piece_bytes: u64,
    /// Whether what is not written reads as zeroes.
    has_holes: bool,
}

impl Image {
    /// Makes the files; none may exist. A block device is overwritten, with `force` alone.
    pub fn create(path: &Path, layout: Layout, force: bool) -> Result<Self, CliError> {
        if fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) {
            return Self::on_device(path, layout, force);
        }
        let Layout { bytes, chunk_bytes, split } = layout;
        let piece_bytes = split.map_or(bytes, |size| size - size % chunk_bytes);
        let count = if piece_bytes == 0 { u64::MAX } else { bytes.div_ceil(piece_bytes) };
        if count > MOST_PIECES {
            let (least, chunk) = (format_bytes(bytes.div_ceil(MOST_PIECES)), format_bytes(chunk_bytes));
            let message = format!("--split: at most {MOST_PIECES} pieces of whole chunks of {chunk}: at least {least}");
            return Err(CliError::Usage(message));
        }
        let piece = |number: u64| {
            let name = if split.is_none() { path.to_owned() } else { piece_name(path, number) };
            let file = create(&name)?;
            let sized = file.set_len(piece_bytes.min(bytes - number * piece_bytes));
            sized.map_err(|error| too_large(&name, &error))?;
            Ok(file)
        };
        let pieces = (0..count).map(piece).collect::<Result<_, CliError>>()?;
        Ok(Self { path: path.into(), bytes, written: 0, pieces, piece_bytes, has_holes: true })
    }

    fn on_device(path: &Path, layout: Layout, force: bool) -> Result<Self, CliError> {
        let fail = |what: String| Err(CliError::Failed(format!("{} {what}", path.display())));
        if layout.split.is_some() {
            return Err(CliError::Usage("--split is for files: a block device is written as a whole".into()));
        }
        if !force {
            return fail(
                "is a block device: all that is on it would be overwritten; use --force if that is meant".into(),
            );
        }
        // Exclusive, so that nothing that is mounted or served is written over.
        let flags = OFlags::EXCL.bits() as i32;
        let opened = OpenOptions::new().write(true).custom_flags(flags).open(path);
        let mut file = opened.map_err(|error| cannot("open", path, &error))?;
        let room = file.seek(SeekFrom::End(0)).map_err(|error| cannot("ask for the size of", path, &error))?;
        if room < layout.bytes {
            return fail(format!("has {}, the volume {}", format_bytes(room), format_bytes(layout.bytes)));
        }
        let (bytes, pieces) = (layout.bytes, vec![file]);
        Ok(Self { path: path.into(), bytes, written: 0, pieces, piece_bytes: bytes, has_holes: false })
    }

    /// Writes what is at byte `at`, which lies in one chunk. Blocks of zeroes become holes if the image can have some.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> Result<(), CliError> {
        let is_zero = |block: &[u8]| block.iter().all(|byte| *byte == 0);
        let blocks: Vec<&[u8]> = bytes.chunks(BLOCK_BYTES).collect();
        let mut first = 0;
        for run in blocks.chunk_by(|one, other| is_zero(one) == is_zero(other)) {
            let range = first..first + run.len() * BLOCK_BYTES;
            let at = at + range.start as u64;
            first = range.end;
            if is_zero(run[0]) {
                self.zero(at, range.len() as u64)?;
            } else {
                self.done(self.piece(at).write_all_at(&bytes[range.clone()], at % self.piece_bytes))?;
                self.written += range.len() as u64;
            }
        }
        Ok(())
    }

    /// Has `len` bytes from `at` on, which lie in one chunk, read as zeroes.
    pub fn zero(&self, at: u64, len: u64) -> Result<(), CliError> {
        if self.has_holes {
            return Ok(());
        }
        let file = self.piece(at);
        if fallocate(file, FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE, at, len).is_ok() {
            return Ok(());
        }
        let mut parts = (at..at + len).step_by(ZEROES.len());
        let size = |start: u64| (at + len - start).min(ZEROES.len() as u64) as usize;
        self.done(parts.try_for_each(|start| file.write_all_at(&ZEROES[..size(start)], start)))
    }

    /// Makes it durable.
    pub fn sync(&self) -> Result<(), CliError> {
        self.done(self.pieces.iter().try_for_each(File::sync_all))
    }

    /// The number of its files.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    fn piece(&self, at: u64) -> &File {
        &self.pieces[(at / self.piece_bytes) as usize]
    }

    fn done(&self, result: io::Result<()>) -> Result<(), CliError> {
        result.map_err(|error| cannot("write", &self.path, &error))
    }
}

/// `image.000` and so on.
fn piece_name(path: &Path, number: u64) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number:03}"));
    name.into()
}

/// A file that is not there yet.
pub fn create(path: &Path) -> Result<File, CliError> {
    OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            CliError::Failed(format!("{} exists already: choose another name, or remove it", path.display()))
        }
        _ => cannot("make", path, &error),
    })
}

fn too_large(path: &Path, error: &io::Error) -> CliError {
    if error.kind() != ErrorKind::FileTooLarge {
        return cannot("make", path, error);
    }
    let path = path.display();
    CliError::Failed(format!(
        "cannot make {path}: {error} for this file system; make several files of it, as with --split=1TiB, and remove {path}"
    ))
}

/// The error that says so.
pub fn cannot(doing: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::Failed(format!("cannot {doing} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = 16 * BLOCK_BYTES as u64;

    #[test]
    fn what_a_device_held_before_is_gone_where_the_image_has_zeroes() {
        let path = std::env::temp_dir().join(format!("shingle-image-{}", std::process::id()));
        fs::write(&path, vec![0xee; 2 * CHUNK as usize]).unwrap();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        let mut image = Image {
            path: path.clone(),
            bytes: 2 * CHUNK,
            written: 0,
            pieces: vec![file],
            piece_bytes: 2 * CHUNK,
            has_holes: false,
        };
        let mut chunk = vec![0; CHUNK as usize];
        chunk[5 * BLOCK_BYTES] = 7;
        image.write(0, &chunk).unwrap();
        image.zero(CHUNK, CHUNK).unwrap();
        let found = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(found == [chunk, vec![0; CHUNK as usize]].concat());
        assert_eq!(image.written, BLOCK_BYTES as u64);
    }

    #[test]
    fn too_many_pieces_and_pieces_of_less_than_a_chunk_are_refused() {
        let layout = Layout { bytes: 2000 * CHUNK, chunk_bytes: CHUNK, split: Some(CHUNK) };
        for split in [CHUNK, CHUNK - 1, 0] {
            let made = Image::create(Path::new("/nowhere/image"), Layout { split: Some(split), ..layout }, false);
            assert!(matches!(made, Err(CliError::Usage(message)) if message.contains("at least")), "{split}");
        }
    }
}
