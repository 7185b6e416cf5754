//! Bytes that are kept in a file without a name, so that hours of writing take no memory for them.
//!
//! ```text
//!  file: | chunk | chunk | chunk ...      each has bytes of one part of the disk, which is emptied at once; an empty chunk is filled again
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a chunk.
const CHUNK: u32 = 128 << 10;

/// Where some bytes are.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    chunk: u32,
    at: u32,
    len: u32,
}

impl Place {
    /// How many they are.
    pub fn len(self) -> usize {
        self.len as usize
    }

    fn offset(self) -> u64 {
        u64::from(self.chunk) * u64::from(CHUNK) + u64::from(self.at)
    }
}

/// Such a file, in the folder for temporary ones.
pub struct Spill {
    file: File,
    /// Bytes that are kept of each chunk.
    kept: Vec<u32>,
    empty: Vec<u32>,
    /// The chunk that is filled for each part, and what of it is used.
    open: BTreeMap<u64, (u32, u32)>,
}

impl Spill {
    /// One with nothing in it.
    ///
    /// # Errors
    /// If there can be no such file.
    pub fn new() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile()?, kept: Vec::new(), empty: Vec::new(), open: BTreeMap::new() })
    }

    /// Keeps `bytes`, less than a chunk, of this part of the disk.
    ///
    /// # Errors
    /// If the file takes no more.
    pub fn keep(&mut self, part: u64, bytes: &[u8]) -> io::Result<Place> {
        let len = bytes.len() as u32;
        let (chunk, at) = match self.open.get(&part) {
            Some((chunk, used)) if used + len <= CHUNK => (*chunk, *used),
            _ => (self.begin(), 0),
        };
        let place = Place { chunk, at, len };
        self.file.write_all_at(bytes, place.offset())?;
        self.open.insert(part, (chunk, at + len));
        self.kept[chunk as usize] += len;
        Ok(place)
    }

    /// What is kept at `place`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self, place: Place, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, place.offset())
    }

    /// Keeps what is at `place` no longer.
    pub fn forget(&mut self, part: u64, place: Place) {
        let kept = &mut self.kept[place.chunk as usize];
        *kept -= place.len;
        if *kept == 0 {
            // Nothing comes behind what was there.
            if self.open.get(&part).is_some_and(|(open, _)| *open == place.chunk) {
                self.open.remove(&part);
            }
            self.empty.push(place.chunk);
        }
    }

    /// A chunk with nothing in it.
    fn begin(&mut self) -> u32 {
        self.empty.pop().unwrap_or_else(|| {
            self.kept.push(0);
            self.kept.len() as u32 - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_chunks_of_which_nothing_is_kept_are_filled_again() {
        let mut spill = Spill::new().unwrap();
        let piece = |number: u32| vec![number as u8; CHUNK as usize / 4];
        let read = |spill: &Spill, place: Place| {
            let mut bytes = vec![0; place.len()];
            spill.read(place, &mut bytes).unwrap();
            bytes
        };
        let part = |number: u32| u64::from(number % 2);
        let keep = |spill: &mut Spill, numbers: std::ops::Range<u32>| -> Vec<(u32, Place)> {
            numbers.map(|number| (number, spill.keep(part(number), &piece(number)).unwrap())).collect()
        };
        let mut places = keep(&mut spill, 0..16);
        // One part is emptied, and then the chunks of the other are still there.
        places.extract_if(.., |(number, _)| part(*number) == 0).for_each(|(_, place)| spill.forget(0, place));
        places.extend(keep(&mut spill, 20..28));
        assert!(places.iter().all(|(number, place)| read(&spill, *place) == piece(*number)));
        assert_eq!(spill.file.metadata().unwrap().len(), u64::from(CHUNK) * 4);
    }
}
