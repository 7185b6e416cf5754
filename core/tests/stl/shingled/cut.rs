//! Disks in memory that lose their power while a tool changes them.

use shingle_core::dm::stl::tools::{Disk, Media, MediaError, MemoryMedia, Spot};

/// Disks that lose their power before a change, and then all that was not flushed, or nothing of it.
pub struct Cut {
    pub media: MemoryMedia,
    pub flushed: MemoryMedia,
    left: u32,
}

impl Cut {
    /// After so many changes.
    pub fn after(left: u32, media: &MemoryMedia) -> Self {
        Self { media: media.clone(), flushed: media.clone(), left }
    }

    fn change(&mut self) -> Result<(), MediaError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| MediaError("no power".into()))?;
        Ok(())
    }
}

impl Media for Cut {
    fn disks(&self) -> &[Disk] {
        self.media.disks()
    }

    fn read(&mut self, from: Spot, to: &mut [u8]) -> Result<(), MediaError> {
        self.media.read(from, to)
    }

    fn write(&mut self, to: Spot, from: &[u8]) -> Result<(), MediaError> {
        self.change()?;
        self.media.write(to, from)
    }

    fn reset(&mut self, start: Spot) -> Result<(), MediaError> {
        self.change()?;
        self.media.reset(start)
    }

    fn flush(&mut self) -> Result<(), MediaError> {
        self.flushed = self.media.clone();
        Ok(())
    }
}
