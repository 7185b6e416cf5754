//! The order of dm-multipath's selectors: of equal paths the one that was not taken for longest.

use super::{Access, PathView};
use crate::prelude::*;

/// Numbers of paths, the one that was taken last at the end.
#[derive(Debug, Default)]
pub(super) struct Turns(Vec<usize>);

impl Turns {
    /// The first usable path in that order that `is_better` than no other one is: it is the last from now on.
    pub fn take(&mut self, paths: &[PathView], mut is_better: impl FnMut(usize, usize) -> bool) -> Option<usize> {
        (self.0.len()..paths.len()).for_each(|number| self.0.push(number));
        let class = paths.iter().map(|path| path.access).min().filter(|access| *access != Access::Unusable)?;
        let mut best: Option<(usize, usize)> = None;
        for (turn, number) in self.0.iter().copied().enumerate() {
            let is_candidate = paths.get(number).is_some_and(|path| path.access == class);
            if is_candidate && best.is_none_or(|(_, best)| is_better(number, best)) {
                best = Some((turn, number));
            }
        }
        let (turn, number) = best?;
        self.0[turn..].rotate_left(1);
        Some(number)
    }
}
