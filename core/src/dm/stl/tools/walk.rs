//! The whole map, leaf by leaf.

use core::ops::Range;

use super::finding::{Finding, Findings};
use super::media::Media;
use super::volume::Volume;
use crate::dm::stl::Pba;
use crate::dm::stl::format::{LeafRow, PageRow};
use crate::dm::stl::map::{Extent, LeafNo, Node, Pending, pages_from};
use crate::prelude::*;

/// Goes over the map of a volume, best from its first leaf to its last.
pub struct Walk<'a> {
    volume: &'a Volume,
    /// The page of each run that was read last.
    pages: Vec<Option<(Pba, Vec<Extent>)>>,
}

impl<'a> Walk<'a> {
    /// A walk over the map of `volume`.
    #[must_use]
    pub fn new(volume: &'a Volume) -> Self {
        Self { volume, pages: vec![None; volume.runs.len()] }
    }

    /// What the map has in a leaf; whether that is all of it. What cannot be read is told.
    pub fn leaf(&mut self, media: &mut dyn Media, leaf: LeafNo, findings: &mut Findings) -> (Pending, bool) {
        let Range { start: from, end: to } = self.volume.leaf_size().range(leaf);
        let (mut all, mut is_whole) = (Pending::default(), true);
        match self.read_leaf(media, leaf) {
            Ok(extents) => extents.iter().for_each(|extent| all.put(extent.span())),
            Err(None) => is_whole = false,
            Err(Some(finding)) => {
                findings.add(finding);
                is_whole = false;
            }
        }
        for (run, (first, pages)) in self.volume.runs.iter().enumerate() {
            // Those before have all of it, and may have what is newer.
            if leaf < *first {
                continue;
            }
            for PageRow { place, .. } in pages_from(pages, from).iter().take_while(|page| page.first < to).copied() {
                if let Err(why) = self.read_page(media, run, place) {
                    findings.add(Finding::Page { place, why });
                    (is_whole, self.pages[run]) = (false, Some((place, Vec::new())));
                }
                let extents = self.pages[run].iter().flat_map(|(_, extents)| extents);
                let touching = extents.filter(|extent| extent.lba < to && extent.end() > from);
                touching.for_each(|extent| all.put(extent.span().part(from, to)));
            }
        }
        self.volume.pending.touching(from, to).for_each(|extent| all.put(extent.part(from, to)));
        (all, is_whole)
    }

    fn read_leaf(&self, media: &mut dyn Media, leaf: LeafNo) -> Result<Vec<Extent>, Option<Finding>> {
        let row = match self.volume.leaves[leaf.0 as usize] {
            Some(LeafRow { blocks: 0, .. }) => return Ok(Vec::new()),
            Some(row) => row,
            // Its table is damaged, which was told.
            None => return Err(None),
        };
        self.read_node(media, Node::Leaf(leaf, row)).map_err(|why| {
            let (lba, place) = (self.volume.leaf_size().start(leaf), row.place);
            Some(Finding::Leaf { lba, place, why })
        })
    }

    fn read_page(&mut self, media: &mut dyn Media, run: usize, place: Pba) -> Result<(), String> {
        if self.pages[run].as_ref().is_none_or(|(there, _)| *there != place) {
            self.pages[run] = Some((place, self.read_node(media, Node::Page(place))?));
        }
        Ok(())
    }

    fn read_node(&self, media: &mut dyn Media, node: Node) -> Result<Vec<Extent>, String> {
        let bytes = self.volume.space.read(media, node.place(), node.blocks()).map_err(|error| error.to_string())?;
        node.decode(self.volume.leaf_size(), &bytes)
    }
}
