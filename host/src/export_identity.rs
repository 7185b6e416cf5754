//! Identity of an export, by which the next daemon recognises its data: UUIDs of volumes; anything else by disks and tables.

use std::time::Duration;

use shingle_core::block::{Bio, Data, DeviceId, Op, Payload};
use shingle_core::dm::stl::format::{BatchKind, Header};
use shingle_core::dm::stl::{BLOCK_BYTES, BLOCK_SECTORS, ROOT_ZONES};
use shingle_core::dm::{TableLine, View};
use shingle_core::sector::Sector;
use uuid::Uuid;

use crate::devices::MULTIPATH;
use crate::mailbox::{MailboxError, Reply};
use crate::serve::ExportIdentity;
use crate::shard::{Mailbox, Shard};

/// Time for a disk to read a block. One below a suspended device does not answer.
const MAX_READ: Duration = Duration::from_secs(30);

/// Determines the identity of the export of `device`.
///
/// # Errors
/// If the shard or a disk does not answer.
pub(crate) fn identify(mailbox: &Mailbox, device: DeviceId) -> Result<ExportIdentity, MailboxError> {
    let Below { mut identity, volumes } = mailbox.ask(move |shard: &mut Shard| {
        let mut below = Below::default();
        below.add(shard, device, false);
        below
    })?;
    for StlVolume { table, members, zone_sectors } in volumes {
        let id = read_set(mailbox, &members, zone_sectors)?;
        identity.parts.push(id.map_or(table, |id| format!("stl volume {id}")));
    }
    identity.parts.sort();
    Ok(identity)
}

/// An `stl` volume whose UUID is not read yet.
struct StlVolume {
    /// Table, which is the identity of a volume without a root.
    table: String,
    members: Vec<DeviceId>,
    zone_sectors: u64,
}

/// Disks, tables and volumes below an export.
#[derive(Default)]
struct Below {
    identity: ExportIdentity,
    volumes: Vec<StlVolume>,
}

impl Below {
    /// Adds `device` and all below it. `is_member`: a volume above has a UUID, so that only places of disks are of interest.
    fn add(&mut self, shard: &Shard, device: DeviceId, is_member: bool) {
        let mapper = &shard.devices.mapper;
        if let Some((name, lines)) = mapper.name_of(device).and_then(|name| Some((name, mapper.lines(name)?))) {
            return self.add_mapped(shard, (name, lines), is_member);
        }
        let Some(disk) = shard.devices.list().into_iter().find(|disk| disk.device == device) else { return };
        if disk.kind == MULTIPATH {
            return shard.stack.below(disk.leaf).iter().for_each(|path| self.add(shard, *path, is_member));
        }
        let place = shard.devices.place(disk.leaf).filter(|place| place.path.is_some());
        let Some(place) = place else { return };
        if !is_member && !self.identity.parts.contains(&place.identity.to_string()) {
            self.identity.parts.push(place.identity.to_string());
        }
        self.identity.disks.push(place.clone());
    }

    fn add_mapped(&mut self, shard: &Shard, (name, lines): (&str, &[TableLine]), is_member: bool) {
        let needed = lines.iter().flat_map(|line| line.needs()).filter_map(|name| shard.devices.find(name));
        let members: Vec<DeviceId> = needed.map(|named| named.device).collect();
        let info = shard.devices.mapper.info_if_any(name, &shard.stack);
        let uuid = info.map(|info| info.uuid).filter(|uuid| uuid.starts_with("dmz-"));
        let is_volume = match lines {
            [line] if line.kind.name == "stl" => {
                let zoned = members.iter().find_map(|member| shard.stack.limits(*member).zoned.as_ref());
                let zone_sectors = zoned.map_or(0, |zoned| zoned.zone_sectors.into());
                let volume = StlVolume { table: text(lines), members: members.clone(), zone_sectors };
                self.volumes.extend((!is_member).then_some(volume));
                true
            }
            [line] if line.kind.name == "zoned" && uuid.is_some() => {
                let part = uuid.map(|uuid| format!("dm-zoned volume {}", uuid.trim_start_matches("dmz-")));
                self.identity.parts.extend(part.filter(|_| !is_member));
                true
            }
            _ => {
                self.identity.parts.extend((!is_member).then(|| text(lines)));
                false
            }
        };
        members.into_iter().for_each(|member| self.add(shard, member, is_member || is_volume));
    }
}

/// A table without its keys.
fn text(lines: &[TableLine]) -> String {
    let mut text = String::from("table");
    for line in lines {
        text += if text == "table" { " " } else { "; " };
        // Writing to a string does not fail.
        let _ = line.write(&View { shows_keys: false, device: None }, &mut text);
    }
    text
}

/// Reads the UUID of a volume from the first root that one of its members has.
fn read_set(mailbox: &Mailbox, members: &[DeviceId], zone_sectors: u64) -> Result<Option<Uuid>, MailboxError> {
    for member in members {
        for zone in 0..ROOT_ZONES {
            let block = read_block(mailbox, *member, Sector(zone * zone_sectors))?;
            if let Some(id) = block.and_then(|block| set_of_root(&block)) {
                return Ok(Some(id));
            }
        }
    }
    Ok(None)
}

/// Reads a block of a device; `None` if that fails.
fn read_block(mailbox: &Mailbox, device: DeviceId, sector: Sector) -> Result<Option<Vec<u8>>, MailboxError> {
    mailbox.ask_slowly(MAX_READ, move |shard: &mut Shard, reply: Reply<Option<Vec<u8>>>| {
        let data = Data::zeroed(BLOCK_BYTES);
        let bio = Bio::new(Op::Read, sector, BLOCK_SECTORS, Payload::Data(data.clone()));
        shard.submit(device, bio, move |_, _, status| reply.send(status.is_ok().then(|| data.to_vec())));
    })
}

fn set_of_root(block: &[u8]) -> Option<Uuid> {
    let (header, _) = Header::decode(block).ok()?;
    matches!(header.kind, BatchKind::Root(_)).then(|| Uuid::from_bytes(header.batch.set.0))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use shingle_core::dm::stl::format::SetId;
    use shingle_core::dm::stl::tools;
    use shingle_core::dm::zoned::format::{FormatOptions, Label, format};
    use shingle_core::zone::ZoneGeometry;

    use super::*;
    use crate::config::{Plan, Source, build_shard};
    use crate::daemon::DaemonError;
    use crate::disk::zoned_dir::{Shape, create};
    use crate::disk_identity::DiskIdentity;
    use crate::dmz::{Access, Disks};
    use crate::shard::ShardThread;
    use crate::stl;

    /// A directory that is gone when it is dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            static COUNT: AtomicU32 = AtomicU32::new(0);
            let name = format!("shingle-export-identity-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        /// A disk of 16 zones of 1 MiB, four of them conventional.
        fn zoned(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            create(&path, &Shape::new(ZoneGeometry::new(16 * 2048, 2048, 2048, 4).unwrap()), &mut |_| ()).unwrap();
            path
        }

        fn file(&self, name: &str) -> PathBuf {
            let path = self.0.join(name);
            std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// The identity of the device `top` of a stack file.
    fn identity_of(stack: &str) -> ExportIdentity {
        let plan = Plan::parse(Source { path: "test".into(), text: stack.to_owned() })
            .unwrap_or_else(|error| panic!("{error}"));
        let furnish = move |shard: &mut Shard| -> Result<_, DaemonError> {
            build_shard(&plan, 0, shard).map_err(Box::new)?;
            Ok(shard.devices.find("top").expect("there is a device `top`").device)
        };
        let (thread, top) = ShardThread::start("identity", furnish).unwrap_or_else(|error| panic!("{error}"));
        let identity = identify(thread.mailbox(), top).unwrap();
        thread.stop().unwrap();
        identity
    }

    fn disk(name: &str, kind: &str, path: &Path) -> String {
        format!("[disk.{name}]\ntype = \"{kind}\"\npath = {path:?}\n")
    }

    fn top(table: &str) -> String {
        format!("[device.top]\ntable = \"{table}\"\n")
    }

    /// Makes an `stl` volume of one disk; returns its length in sectors.
    fn make_stl(path: &Path, set: u8) -> u64 {
        let mut disks = stl::Disks::open(&[path.to_owned()], Access::Write).unwrap();
        let options = tools::FormatOptions { set: SetId([set; 16]), disks: vec![[set; 16]], reserve: 70 };
        tools::format(&mut disks, &options, &mut |_, _| ()).unwrap().sectors
    }

    #[test]
    fn an_stl_volume_is_its_uuid_whatever_its_disks_are_called() {
        let scratch = Scratch::new();
        let path = scratch.zoned("smr");
        let sectors = make_stl(&path, 7);
        let of = |name: &str| identity_of(&(disk(name, "zoned-dir", &path) + &top(&format!("0 {sectors} stl {name}"))));
        let (one, renamed) = (of("a"), of("b"));
        assert_eq!(one.parts, [format!("stl volume {}", Uuid::from_bytes([7; 16]))]);
        assert_eq!((renamed.parts, one.disks[0].identity.clone()), (one.parts, DiskIdentity::of(&path).unwrap()));
        make_stl(&path, 8);
        assert_eq!(
            of("a").parts,
            [format!("stl volume {}", Uuid::from_bytes([8; 16]))],
            "another volume on the same disk"
        );
    }

    #[test]
    fn a_dm_zoned_volume_is_its_uuid_and_its_disks_are_known() {
        let scratch = Scratch::new();
        let path = scratch.zoned("smr");
        let mut disks = Disks::open(std::slice::from_ref(&path), Access::Write).unwrap();
        let label = Label::new("test").unwrap();
        let options =
            FormatOptions { version: 2, label, set_uuid: [9; 16], device_uuids: vec![[1; 16]], reserved: Some(2) };
        format(&mut disks, &options, &mut |_, _| ()).unwrap();
        drop(disks);
        let identity = identity_of(&(disk("smr", "zoned-dir", &path) + &top("0 1 zoned smr")));
        assert_eq!(identity.parts, [format!("dm-zoned volume {}", Uuid::from_bytes([9; 16]))]);
        assert_eq!(identity.disks_text(), format!("`smr` ({})", path.canonicalize().unwrap().display()));
    }

    #[test]
    fn another_table_is_its_text_without_keys_and_its_disks() {
        let scratch = Scratch::new();
        let path = scratch.file("image");
        let key = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
        let stack = disk("file", "file", &path)
            + "[device.part]\ntable = \"0 1024 linear file 8\"\n"
            + &top(&format!("0 1024 crypt aes-xts-plain64 {key} 0 part 0"));
        let identity = identity_of(&stack);
        let file = DiskIdentity::of(&path).unwrap().to_string();
        assert!(identity.parts.contains(&file) && identity.parts.contains(&"table 0 1024 linear file 8".to_owned()));
        let crypt = identity.parts.iter().find(|part| part.starts_with("table 0 1024 crypt"));
        assert!(crypt.is_some_and(|part| !part.contains("00112233")), "{:?}", identity.parts);
        assert_eq!(identity.parts.len(), 3);
    }
}
