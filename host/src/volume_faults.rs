//! Volumes that fail or turn read-only, and that work again: seen now and then.

use std::collections::BTreeMap;

use shingle_core::block::Stack;
use shingle_core::mapper::Mapper;

/// The mapped devices that were in trouble when they were looked at last, and why.
#[derive(Debug, Default)]
pub struct VolumeFaults(BTreeMap<String, String>);

/// A change of a mapped device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeNotice {
    /// The mapped device.
    pub device: String,
    /// Reason for which the device cannot be used or written; `None` if it works again.
    pub fault: Option<String>,
}

impl VolumeFaults {
    /// Changes since the last look. A mapped device that was removed is forgotten.
    pub fn look(&mut self, mapper: &Mapper, stack: &Stack) -> Vec<VolumeNotice> {
        let now: BTreeMap<String, String> = mapper.faults(stack).map(|(name, why)| (name.to_owned(), why)).collect();
        let news = now.iter().filter(|(name, why)| self.0.get(*name) != Some(*why));
        let mut notices: Vec<VolumeNotice> =
            news.map(|(name, why)| VolumeNotice { device: name.clone(), fault: Some(why.clone()) }).collect();
        let gone = self.0.keys().filter(|name| !now.contains_key(*name) && mapper.names().any(|known| known == *name));
        notices.extend(gone.map(|name| VolumeNotice { device: name.clone(), fault: None }));
        self.0 = now;
        notices
    }
}
