//! The devices of a shard by name: disks, and mapped devices above them, which come and go while it runs.
//!
//! ```text
//!   a verb ──> Mapper ──> ticket ──┐
//!   a round: turn ──> advance ──> outcome of the ticket
//! ```

use std::collections::BTreeMap;

use shingle_core::block::{Bio, DeviceId, PriorUse, Stack, StackError, Status, Why};
use shingle_core::dm::crypt::{Ciphers, KeySource};
use shingle_core::dm::{Resolver, TableLine};
use shingle_core::mapper::{LinePlug, Mapper, MapperError, MapperErrorKind, StateName, Ticket};
use shingle_core::multipath::{Head, Node, PathHealth};
use shingle_core::time::Instant;

use crate::disk_identity::DiskPlace;
use crate::extents::{Extents, OtherDisk, check_lines, check_paths};
use crate::keys::HostKeys;
use crate::numa::node_of_disk;

/// A device of a stack that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// The kind of disk, `table`, or [`MULTIPATH`].
    pub kind: &'static str,
    /// Where its bios go.
    pub device: DeviceId,
    /// The disk below its plug; for a table the same as `device`.
    pub leaf: DeviceId,
    /// Its plug, if it is a zoned disk.
    pub plug: Option<DeviceId>,
}

impl Named {
    /// True for a disk: no table and no paths lie below it.
    #[must_use]
    pub fn is_disk(&self) -> bool {
        self.kind != TABLE && self.kind != MULTIPATH
    }
}

/// The kind of a mapped device.
const TABLE: &str = "table";

/// The kind of a device with several paths to one disk.
pub const MULTIPATH: &str = "multipath";

/// Name and UUID of a mapped device.
#[derive(Clone, Copy, Debug)]
pub struct MappedName<'a> {
    /// Name.
    pub name: &'a str,
    /// UUID; empty if it has none.
    pub uuid: &'a str,
}

/// Asks a device what there is to say since the last time.
pub type Ask = fn(&mut Stack, DeviceId) -> Vec<String>;

/// All devices of a shard that have names.
#[derive(Default)]
pub struct Devices {
    /// The mapped ones.
    pub mapper: Mapper,
    disks: Disks,
    /// Paths and identities of disks, by their leaves.
    places: BTreeMap<DeviceId, (DiskPlace, Option<Node>)>,
    /// Disks that have something to say.
    talkative: Vec<(DeviceId, Ask)>,
    /// Paths that were removed, with the heads that may still have something under way there.
    leaving: Vec<(DeviceId, DeviceId)>,
}

/// What tables lie on in the end.
#[derive(Default)]
struct Disks(Vec<Named>);

impl Resolver for Disks {
    fn device(&self, name: &str) -> Result<DeviceId, Vec<String>> {
        let found = self.0.iter().find(|disk| disk.name == name);
        found.map(|disk| disk.device).ok_or_else(|| self.0.iter().map(|disk| disk.name.clone()).collect())
    }

    fn ciphers(&self) -> &'static dyn Ciphers {
        shingle_sys::crypto::ciphers()
    }

    fn keys(&self) -> &dyn KeySource {
        &HostKeys
    }
}

/// How far mapped devices are on their way to rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuiesceProgress {
    /// All are suspended.
    Reached,
    /// Those that nothing active lies on are told to.
    Begun,
    /// They are told already, and some have something under way.
    Awaited,
}

impl Devices {
    /// Takes in a disk, and how it is asked what it has to say.
    pub fn add_disk(&mut self, disk: Named, ask: Option<Ask>) {
        self.talkative.extend(ask.map(|ask| (disk.leaf, ask)));
        self.disks.0.push(disk);
    }

    /// Notes path and identity of a disk that was just added.
    pub fn set_place(&mut self, place: DiskPlace) {
        if let Some(disk) = self.disks.0.iter().find(|disk| disk.name == place.name) {
            // Later its file system may no longer answer.
            let node = place.path.as_deref().and_then(node_of_disk);
            self.places.insert(disk.leaf, (place, node));
        }
    }

    /// Path and identity of the disk with this leaf.
    #[must_use]
    pub fn place(&self, leaf: DeviceId) -> Option<&DiskPlace> {
        self.places.get(&leaf).map(|(place, _)| place)
    }

    /// NUMA node of the disks below a device; `None` if they have none, or several.
    pub(crate) fn node_of(&self, id: DeviceId, stack: &Stack) -> Option<Node> {
        if let Some((_, node)) = self.places.get(&id) {
            return *node;
        }
        let mut nodes = stack.below(id).iter().map(|below| self.node_of(*below, stack));
        let first = nodes.next()??;
        nodes.all(|node| node == Some(first)).then_some(first)
    }

    /// Closes a disk that nobody uses.
    ///
    /// # Errors
    /// If something lies on it, or is in it.
    pub fn remove_disk(&mut self, name: &str, stack: &mut Stack) -> Result<(), StackError> {
        let Some(place) = self.disks.0.iter().position(|disk| disk.name == name) else { return Ok(()) };
        let Named { leaf, plug, .. } = self.disks.0[place];
        let above = plug.map(|plug| stack.remove(plug)).transpose()?;
        if stack.has_own_requests_only(leaf) {
            // A disk whose file system does not answer stays locked until it does.
            stack.abandon(leaf, PriorUse::Unused);
        } else if let Err(error) = stack.remove(leaf) {
            let disk = &mut self.disks.0[place];
            if let Some(above) = above {
                let plug = stack.add(above)?;
                (disk.device, disk.plug) = (plug, Some(plug));
            }
            return Err(error);
        }
        self.talkative.retain(|(disk, _)| *disk != leaf);
        self.disks.0.remove(place);
        self.places.remove(&leaf);
        // Another device may get its place in the stack.
        self.mapper.release(leaf);
        Ok(())
    }

    /// Removes a device that has several paths and that nobody uses: they are free then.
    ///
    /// # Errors
    /// If something lies on it, or is in it.
    pub fn remove_head(&mut self, head: &Named, stack: &mut Stack) -> Result<(), StackError> {
        let paths = stack.below(head.leaf).to_vec();
        self.remove_disk(&head.name, stack)?;
        self.leaving.retain(|(of, _)| *of != head.leaf);
        paths.into_iter().for_each(|path| self.free_path(path, stack));
        Ok(())
    }

    /// Disks that have something to say: their names, where they are, and how they are asked.
    pub fn talkative(&self) -> impl Iterator<Item = (&str, DeviceId, Ask)> {
        let name = |leaf: DeviceId| self.disks.0.iter().find(|disk| disk.leaf == leaf).map(|disk| disk.name.as_str());
        self.talkative.iter().filter_map(move |(leaf, ask)| Some((name(*leaf)?, *leaf, *ask)))
    }

    /// Disks and devices with several paths in the order in which they were built, then mapped devices that have had a table.
    #[must_use]
    pub fn list(&self) -> Vec<Named> {
        let tables = self.mapper.names().filter_map(|name| self.table(name));
        self.disks.0.iter().cloned().chain(tables).collect()
    }

    /// The device called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Named> {
        let disk = self.disks.0.iter().find(|disk| disk.name == name);
        disk.cloned().or_else(|| self.table(name))
    }

    fn table(&self, name: &str) -> Option<Named> {
        let device = self.mapper.device(name).ok()?;
        Some(Named { name: name.to_owned(), kind: TABLE, device, leaf: device, plug: None })
    }

    /// The plugs of a device: that of a zoned disk, or those of the lines of a mapped device, each with the number of its line.
    #[must_use]
    pub fn plugs_of(&self, named: &Named, stack: &Stack) -> Vec<(Option<LinePlug>, DeviceId)> {
        match named.plug {
            Some(plug) => vec![(None, plug)],
            None => self.mapper.plugs(&named.name, stack).into_iter().map(|it| (Some(it), it.plug)).collect(),
        }
    }

    /// Kind of the disk or head with this name.
    #[must_use]
    pub fn kind_of(&self, name: &str) -> Option<&'static str> {
        self.disks.0.iter().find(|disk| disk.name == name).map(|disk| disk.kind)
    }

    /// The devices that have several paths to their disk.
    pub fn heads(&self) -> impl Iterator<Item = &Named> {
        self.disks.0.iter().filter(|disk| disk.kind == MULTIPATH)
    }

    /// What people call the device in a place of the stack. What lies inside of a named one is named after it.
    #[must_use]
    pub fn label(&self, id: DeviceId) -> String {
        if let Some(disk) = self.disks.0.iter().find(|disk| disk.device == id) {
            return disk.name.clone();
        }
        if let Some(disk) = self.disks.0.iter().find(|disk| disk.leaf == id) {
            return format!("{}/disk", disk.name);
        }
        if let Some(name) = self.mapper.name_of(id) {
            return name.to_owned();
        }
        self.mapper.owner_of(id).map_or_else(|| format!("#{}", id.0), |(name, part)| format!("{name}/{part}"))
    }

    /// Why a bio failed, with names.
    #[must_use]
    pub fn tell(&self, bio: &Bio, status: Status) -> String {
        bio.why().map_or_else(|| status.name().to_owned(), |why| self.tell_why(why))
    }

    /// A reason with the names of devices.
    #[must_use]
    pub fn tell_why(&self, why: &Why) -> String {
        why.with_names(&|id, f| f.write_str(&self.label(id))).to_string()
    }

    /// Extents of the device called `name`; `None` if tables do not tell. `changed` has another table.
    fn extents(&self, name: &str, changed: Option<(&str, &[TableLine])>) -> Option<Extents> {
        let disk = |name: &str| {
            let leaf = self.disks.0.iter().find(|disk| disk.name == name)?.leaf;
            Some(self.place(leaf)?.identity.clone())
        };
        let lines = |name: &str| {
            let new = changed.filter(|(changed, _)| *changed == name).map(|(_, lines)| lines);
            new.or_else(|| self.mapper.lines(name))
        };
        Extents::of(name, &disk, &lines)
    }

    /// Checks that the devices of these names lead to one disk, as far as tables tell.
    ///
    /// # Errors
    /// The first one that leads to another disk.
    pub(crate) fn check_paths(&self, paths: &[&str]) -> Result<(), OtherDisk> {
        check_paths(paths, &|name| self.extents(name, None))
    }

    /// Names of the paths of a head that are not being removed.
    pub(crate) fn paths_of(&self, head: DeviceId, stack: &Stack) -> Vec<String> {
        let paths = stack.device::<Head>(head).into_iter().flat_map(Head::paths);
        paths.filter(|path| path.health != PathHealth::Leaving).map(|path| self.label(path.device)).collect()
    }

    /// Checks `lines` as the table of `name`: the disks of its paths and members, and those of the paths of devices above it.
    fn check_table(&self, name: &str, lines: &[TableLine], stack: &Stack) -> Result<(), MapperError> {
        let changed = Some((name, lines));
        let extents = |name: &str| self.extents(name, changed);
        check_lines(lines, &extents).map_err(|error| {
            let message = format!("the table of `{name}` is wrong: {error}");
            MapperError { table: Some(error), ..MapperError::new(MapperErrorKind::Table, message) }
        })?;
        let fail = |above: &str, why: String| {
            let message = format!("the table of `{name}` does not fit the paths of `{above}`: {why}");
            MapperError::new(MapperErrorKind::Table, message)
        };
        for head in self.heads() {
            let paths = self.paths_of(head.leaf, stack);
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            check_paths(&paths, &extents).map_err(|other| fail(&head.name, format!("{other}; {}", other.advice)))?;
        }
        for above in self.mapper.names().filter(|above| *above != name) {
            let lines = self.mapper.lines(above).unwrap_or_default();
            check_lines(lines, &extents).map_err(|error| fail(above, error.message))?;
        }
        Ok(())
    }

    /// Makes a mapped device and lets bios in; after an error there is none.
    ///
    /// # Errors
    /// If the name or the UUID is taken, or the table is wrong.
    pub fn make(
        &mut self,
        MappedName { name, uuid }: MappedName<'_>,
        lines: Vec<TableLine>,
        read_only: bool,
        (stack, now): (&mut Stack, Instant),
    ) -> Result<(), MapperError> {
        self.mapper.create(name, uuid)?;
        let made = self.load(name, lines, read_only, stack).and_then(|()| {
            let ticket = self.mapper.resume(name, false, stack)?;
            // Nothing is in flight in a new device, so there is nothing to wait for.
            self.mapper.poll(now, (stack, &self.disks));
            self.mapper.outcome(ticket).unwrap_or(Ok(()))
        });
        if made.is_err() {
            // What was just made is in nobody's use.
            let _ = self.mapper.remove(name, true, stack);
        }
        made
    }

    /// Builds a table into the inactive slot of a mapped device.
    ///
    /// # Errors
    /// As [`Mapper::load`].
    pub fn load(
        &mut self,
        name: &str,
        lines: Vec<TableLine>,
        read_only: bool,
        stack: &mut Stack,
    ) -> Result<(), MapperError> {
        self.check_table(name, &lines, stack)?;
        self.mapper.load(name, lines, read_only, (stack, &self.disks))
    }

    /// Begins to let bios in again; with an inactive table, through that.
    ///
    /// # Errors
    /// As [`Mapper::resume`], or if the inactive table no longer leads paths to one disk.
    pub fn resume(&mut self, name: &str, noflush: bool, stack: &mut Stack) -> Result<Ticket, MapperError> {
        if let Some(lines) = self.mapper.inactive_lines(name) {
            self.check_table(name, lines, stack)?;
        }
        self.mapper.resume(name, noflush, stack)
    }

    /// Loads a table on which everything fails.
    ///
    /// # Errors
    /// As [`Mapper::load_error`].
    pub fn load_error(&mut self, name: &str, stack: &mut Stack) -> Result<(), MapperError> {
        self.mapper.load_error(name, (stack, &self.disks))
    }

    /// The device called `name`, for somebody who uses it until [`Mapper::close`]: a mapped one is not removed meanwhile.
    #[must_use]
    pub fn open(&mut self, name: &str) -> Option<DeviceId> {
        match self.disks.0.iter().find(|disk| disk.name == name) {
            Some(disk) => Some(disk.device),
            None => self.mapper.open(name).ok(),
        }
    }

    /// Goes on with changes of mapped devices and of paths; once a round, after the stack's turn.
    pub(crate) fn advance(&mut self, now: Instant, stack: &mut Stack) {
        if self.mapper.is_busy() {
            self.mapper.poll(now, (stack, &self.disks));
            self.heads().for_each(|head| _ = Head::follow_size(stack, head.leaf));
        }
        if !self.leaving.is_empty() {
            self.free_paths(stack);
        }
    }

    /// Notes that `head` was told to remove a path: that is free as soon as nothing of it is under way there.
    pub(crate) fn begin_to_leave(&mut self, head: DeviceId, path: DeviceId) {
        self.leaving.push((head, path));
    }

    /// Frees the removed paths that have nothing under way any more.
    pub(crate) fn free_paths(&mut self, stack: &Stack) {
        let is_free = |(head, path): &mut (DeviceId, DeviceId)| !stack.below(*head).contains(path);
        let free: Vec<(DeviceId, DeviceId)> = self.leaving.extract_if(.., is_free).collect();
        free.into_iter().for_each(|(_, path)| self.free_path(path, stack));
    }

    /// Has others use a device that was a path.
    fn free_path(&mut self, path: DeviceId, stack: &Stack) {
        // A zoned disk that was made as a path has no plug, so nobody but a head can keep the order of its writes.
        let is_kept = self.disks.0.iter().any(|disk| disk.device == path) && stack.limits(path).zoned.is_some();
        if !is_kept {
            self.mapper.release(path);
            self.mapper.close(path);
        }
    }

    /// Begins to suspend the topmost mapped devices that are active, unless some are being suspended; then waits for the targets of
    /// those that were removed.
    pub(crate) fn suspend_from_top(&mut self, stack: &mut Stack) -> QuiesceProgress {
        if self.mapper.states().any(|(_, state)| state == StateName::Suspending) {
            return QuiesceProgress::Awaited;
        }
        match self.mapper.suspend_highest(stack) {
            0 if stack.has_abandoned() => QuiesceProgress::Awaited,
            0 => QuiesceProgress::Reached,
            _ => QuiesceProgress::Begun,
        }
    }

    /// Lets in what waits at the doors of mapped devices, through the tables that they have: the shard is about to end.
    pub(crate) fn let_in(&mut self, stack: &mut Stack) {
        self.mapper.cancel_all(stack);
        let shut = self.mapper.states().filter(|(_, state)| *state != StateName::Active);
        let shut: Vec<String> = shut.map(|(name, _)| name.to_owned()).collect();
        for name in shut {
            // What cannot be let in, for want of a table or of a key, has no way to a disk.
            let _ = self.mapper.clear(&name, stack);
            let _ = self.mapper.resume(&name, false, stack);
        }
    }
}
