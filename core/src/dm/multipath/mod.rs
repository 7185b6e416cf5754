//! `multipath`: several paths to one disk, in groups (`drivers/md/dm-mpath.c`).
//!
//! ```text
//!                  ┌── group 1, in use ──── selector ──┬── path a ──┐
//!   bio ── [Head] ─┤                                   └── path b ──┼── the disk
//!                  └── group 2 ──────────── selector ───── path c ──┘
//! ```
//!
//! The work is done by a [`Head`](crate::multipath::Head) with dm-multipath's rules; here is what is said to it and what it says, in the
//! kernel's words. Zoned paths get a plug above: it puts writes of a zone in order, and makes writes of appends, of which a pointer tells
//! what is done when a path gives them up.
//!
//! | file | idea |
//! | --- | --- |
//! | `features.rs`, `selector.rs` | the words of a line |
//! | `device.rs` | the device: status, messages, suspend |

mod device;
mod features;
mod selector;

use alloc::sync::Arc;
use core::any::Any;
use core::fmt;

use device::Multipath;
use features::Features;
use selector::{PathWords, Selector};

use crate::block::{DeviceId, Limits};
use crate::dm::{ArgError, Args, BuildContext, DeviceArg, Mapping, Target, TargetType, View, quote};
use crate::multipath::{Group, Groups, Head, HeadError, HeadOptions, MOST_PATHS, PathConfig, Rules};
use crate::prelude::*;

pub(super) const TYPE: TargetType = TargetType {
    name: "multipath",
    version: [1, 15, 0],
    usage: "multipath <number of feature words> [<feature>...] <number of handler words> [<handler>] <number of groups> \
            <first group> (<selector> <number of arguments> [<argument>...] <number of paths> <number of arguments of \
            each> (<device> [<argument>...])...)...",
    parse,
};

/// A path as it is written.
#[derive(Debug)]
struct PathArgs {
    device: DeviceArg,
    words: PathWords,
}

/// A group as it is written.
#[derive(Debug)]
struct GroupArgs {
    selector: Selector,
    paths: Vec<PathArgs>,
}

/// A line.
#[derive(Debug)]
struct MultipathArgs {
    features: Features,
    /// The number of the group that is tried first, from 1.
    first: usize,
    groups: Vec<GroupArgs>,
}

fn parse(args: &mut Args<'_>) -> Result<Arc<dyn Target>, ArgError> {
    let features = Features::parse(args)?;
    let count: usize = args.number("the number of groups")?;
    if !(1..=MOST_PATHS).contains(&count) {
        return Err(args.blame(format!("the number of groups is {count}: write 1 to {MOST_PATHS}")));
    }
    let first: usize = args.number("the first group")?;
    if !(1..=count).contains(&first) {
        return Err(args.blame(format!("the first group is {first}: write 1 to {count}")));
    }
    let groups = (0..count).map(|_| parse_group(args)).collect::<Result<Vec<_>, _>>()?;
    args.finish()?;
    let line = MultipathArgs { features, first, groups };
    line.check_paths()?;
    Ok(Arc::new(line))
}

fn parse_group(args: &mut Args<'_>) -> Result<GroupArgs, ArgError> {
    let selector = Selector::parse(args)?;
    let count: usize = args.number("the number of paths")?;
    if !(1..=MOST_PATHS).contains(&count) {
        return Err(args.blame(format!("the number of paths is {count}: write 1 to {MOST_PATHS}")));
    }
    let (words, most): (usize, usize) =
        (args.number("the number of arguments of each path")?, selector.most_path_words());
    if words > most {
        return Err(args.blame(format!("the number of arguments of each path is {words}: write 0 to {most}")));
    }
    let paths = (0..count).map(|_| parse_path(selector, words, args)).collect::<Result<_, _>>()?;
    Ok(GroupArgs { selector, paths })
}

fn parse_path(selector: Selector, count: usize, args: &mut Args<'_>) -> Result<PathArgs, ArgError> {
    let device = args.device()?;
    let words = selector.parse_path(&mut args.take(count, &format!("an argument of `{}`", device.name))?)?;
    Ok(PathArgs { device, words })
}

impl MultipathArgs {
    fn paths(&self) -> impl Iterator<Item = &PathArgs> {
        self.groups.iter().flat_map(|group| &group.paths)
    }

    fn check_paths(&self) -> Result<(), ArgError> {
        let paths: Vec<&PathArgs> = self.paths().collect();
        for (number, PathArgs { device, .. }) in paths.iter().enumerate() {
            if number == MOST_PATHS {
                let message = format!("multipath: it has {} paths: a disk has 1 to {MOST_PATHS}", paths.len());
                return Err(ArgError::at(device.word, message));
            }
            if paths[..number].iter().any(|other| other.device.name == device.name) {
                let message = format!("multipath: `{}` is a path twice: name each once", device.name);
                return Err(ArgError::at(device.word, message));
            }
        }
        Ok(())
    }

    fn groups(&self) -> Groups {
        let group = |group: &GroupArgs| {
            let throughputs = group.paths.iter().map(|path| path.words.throughput).collect();
            Group::new(group.selector.kind(), group.selector.policy(), throughputs)
        };
        Groups::new(self.groups.iter().map(group).collect(), self.first - 1)
    }

    fn blame(&self, error: &HeadError) -> ArgError {
        let number = match error {
            HeadError::OtherDisk(number, ..) | HeadError::OtherSize(number, ..) => *number,
            HeadError::Limits(number, _) | HeadError::Serves(number, _) => *number,
            HeadError::Twice(number) | HeadError::Removing(number) => *number,
            HeadError::Count(_) => 0,
        };
        let word = self.paths().nth(number).map(|path| path.device.word);
        ArgError { word, message: format!("multipath: {error}") }
    }
}

impl Target for MultipathArgs {
    fn devices(&self) -> Vec<&DeviceArg> {
        self.paths().map(|path| &path.device).collect()
    }

    /// Who writes past the head moves pointers that it relies on.
    fn is_sole_writer(&self) -> bool {
        true
    }

    /// As the kernel prints it, with a space at the end.
    fn arguments(&self, view: &View<'_>, out: &mut dyn fmt::Write) -> fmt::Result {
        let device = view.device.and_then(|device| (device as &dyn Any).downcast_ref::<Multipath>());
        self.features.write(device.map_or(self.features.queues, Multipath::queues), out)?;
        write!(out, "{} {} ", self.groups.len(), device.map_or(self.first, Multipath::group))?;
        for GroupArgs { selector, paths } in &self.groups {
            selector.write(out)?;
            write!(out, "{} {} ", paths.len(), selector.most_path_words())?;
            for PathArgs { device, words } in paths {
                write!(out, "{} ", quote(&device.name))?;
                selector.write_path(*words, out)?;
            }
        }
        Ok(())
    }

    fn build(&self, context: &mut BuildContext<'_>) -> Result<Mapping, ArgError> {
        let devices: Vec<DeviceId> =
            self.paths().map(|path| context.part_device(&path.device, 0)).collect::<Result<_, _>>()?;
        let limits: Vec<Limits> = devices.iter().map(|device| context.stack.limits(*device).clone()).collect();
        let config =
            |device: &DeviceId| PathConfig { silence: context.stack.silence(*device), ..PathConfig::new(*device) };
        let paths: Vec<(PathConfig, &Limits)> = devices.iter().map(config).zip(&limits).collect();
        let options = HeadOptions { rules: Rules::Dm, no_path_timeout: None, ..HeadOptions::default() };
        let head = Head::grouped(&paths, self.groups(), options).map_err(|error| self.blame(&error))?;
        let names = self.paths().map(|path| path.device.name.clone()).collect();
        let selectors = self.groups.iter().map(|group| group.selector).collect();
        context.map(Box::new(Multipath::new(head, (names, selectors), self.features.queues)))
    }
}
