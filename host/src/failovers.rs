//! Paths that fail and come back by themselves: seen now and then, at what the heads have counted anyway.

use std::collections::BTreeMap;

use shingle_core::block::{DeviceId, Stack};
use shingle_core::multipath::{Head, PathHealth, PathReport};

use crate::devices::Devices;

/// How paths were when they were looked at last.
#[derive(Debug, Default)]
pub struct Failovers(BTreeMap<(DeviceId, usize), Seen>);

/// A path of a head, by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// Another path can have its number later.
    device: DeviceId,
    health: PathHealth,
    failures: u64,
}

/// Something that has happened to a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathNotice {
    /// The device that has the path.
    pub device: String,
    /// Whether it works now.
    pub works: bool,
    /// What happened, in words.
    pub text: String,
}

impl Failovers {
    /// What has happened since the last look. What operators do is not in it.
    pub fn look(&mut self, devices: &Devices, stack: &Stack) -> Vec<PathNotice> {
        let (mut seen, mut notices) = (BTreeMap::new(), Vec::new());
        for named in devices.heads() {
            let paths = stack.device::<Head>(named.leaf).into_iter().flat_map(Head::paths);
            for PathReport { number, device, health, counters, .. } in paths {
                let place = (named.leaf, number);
                let now = Seen { device, health, failures: counters.failures };
                // One that was removed and added again counts anew.
                let is_same = |before: &Seen| before.device == device && before.failures <= counters.failures;
                let before = self.0.get(&place).copied().filter(is_same);
                let told = before.and_then(|before| tell(before, now));
                notices.extend(told.map(|told| PathNotice {
                    device: named.name.clone(),
                    works: health == PathHealth::Live,
                    text: format!("path `{}` {told}", devices.label(device)),
                }));
                seen.insert(place, now);
            }
        }
        self.0 = seen;
        notices
    }
}

/// What has happened to a path between two looks.
fn tell(before: Seen, now: Seen) -> Option<String> {
    use PathHealth::{Failed, Live};
    let times = match now.failures - before.failures {
        0 | 1 => String::new(),
        more => format!(" {more} times"),
    };
    match now.health {
        Failed if now.failures > before.failures => {
            Some(format!("has failed{times}: others are used until it works again"))
        }
        Live if now.failures > before.failures => Some(format!("has failed{times} and works again")),
        Live if before.health == Failed => Some("works again".into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(health: PathHealth, failures: u64) -> Seen {
        Seen { device: DeviceId(0), health, failures }
    }

    #[test]
    fn a_path_that_went_down_or_came_back_is_told_once_and_what_operators_do_is_not() {
        use PathHealth::{Failed, Live, Offline};
        let told = |before: (PathHealth, u64), now: (PathHealth, u64)| {
            tell(seen(before.0, before.1), seen(now.0, now.1)).unwrap_or_default()
        };
        assert_eq!(told((Live, 0), (Failed, 1)), "has failed: others are used until it works again");
        assert_eq!(told((Failed, 1), (Failed, 1)), "");
        assert_eq!(told((Failed, 1), (Live, 1)), "works again");
        assert_eq!(told((Live, 1), (Live, 2)), "has failed and works again");
        assert_eq!(told((Failed, 2), (Failed, 5)), "has failed 3 times: others are used until it works again");
        assert_eq!(told((Live, 1), (Offline, 1)), "");
        assert_eq!(told((Offline, 1), (Live, 1)), "");
    }
}
