//! Runs on their way to the disk: pages that are filled with extents in order, and the list of them.

use super::checkpoint::{Part, write_parts};
use super::format::{PageRow, PageWriter, Piece, PieceKind, place_page};
use super::log::Pool;
use super::map::{RunNo, Span};
use super::nodes::{Draft, write_all};
use super::state::Shared;
use super::{Lba, Pba};
use crate::block::Reason;
use crate::prelude::*;

/// Pages that are not written yet.
#[derive(Default)]
pub(super) struct Pages {
    full: Vec<Page>,
    last: PageWriter,
}

/// A page for no place yet.
struct Page {
    first: Lba,
    bytes: Vec<u8>,
}

impl Pages {
    /// Those of these extents.
    pub fn of<'a>(extents: impl Iterator<Item = Span<'a>>) -> Self {
        let mut pages = Self::default();
        extents.for_each(|extent| pages.put(extent));
        pages
    }

    /// The next extent.
    pub fn put(&mut self, extent: Span<'_>) {
        let mut left = self.last.put(extent);
        while let Some(rest) = left {
            self.close();
            left = self.last.put(rest);
        }
    }

    /// Full ones.
    pub fn full(&self) -> usize {
        self.full.len()
    }

    fn close(&mut self) {
        if let Some(first) = self.last.first() {
            self.full.push(Page { first, bytes: self.last.finish() });
        }
    }

    /// Writes those that are full; where they are.
    pub async fn write_full(&mut self, shared: &Shared, share: Pool) -> Result<Vec<PageRow>, Reason> {
        let drafts: Vec<Draft<'_>> = self.full.iter().map(Page::draft).collect();
        let places = write_all(shared, share, &drafts).await?;
        drop(drafts);
        let full = core::mem::take(&mut self.full);
        Ok(full.iter().zip(places).map(|(page, place)| PageRow { first: page.first, place }).collect())
    }

    /// Writes all of them; where they are.
    pub async fn write(mut self, shared: &Shared, share: Pool) -> Result<Vec<PageRow>, Reason> {
        self.close();
        self.write_full(shared, share).await
    }
}

impl Page {
    fn draft(&self) -> Draft<'_> {
        let encode = |place: Pba| {
            let mut bytes = self.bytes.clone();
            place_page(&mut bytes, place);
            bytes
        };
        Draft { blocks: 1, encode: Box::new(encode) }
    }
}

/// Writes the list of the pages of a run.
pub(super) async fn write_list(shared: &Shared, share: Pool, run: RunNo, pages: &[PageRow]) -> Result<Piece, Reason> {
    let list = Part::new(PieceKind::Run, run.0.into(), PageRow::encode_all(pages));
    Ok(write_parts(shared, share, &[list]).await?[0])
}
