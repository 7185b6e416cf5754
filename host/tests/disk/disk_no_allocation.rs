//! Real disks allocate nothing once they are warm: not for reads, writes, zeroes, resets or flushes.

use shingle_core::block::{Bio, BlockDevice, Data, DeviceId, Flags, Op, Payload, PortId};
use shingle_core::sector::Sector;
use shingle_host::disk::{file, zoned_dir};
use shingle_host::shard::Shard;

use crate::allocator;
use crate::common::{Scratch, ZONE, create, small_shape};

/// Sends the same bios round and round, and counts the allocations of the last rounds.
fn allocations(shard: &mut Shard, disk: DeviceId, port: PortId, bios: &[(Op, u64, u32, Flags)]) -> u64 {
    let memory = |op: Op, sectors: u32, n: usize| match (op.has_data(), n % 2) {
        (false, _) => Payload::None,
        (true, 0) => Payload::Data(Data::zeroed(sectors as usize * 512)),
        _ => Payload::Segments((0..sectors / 8).map(|_| Data::zeroed(4096)).collect()),
    };
    let mut pool: Vec<Option<Box<Bio>>> = bios
        .iter()
        .enumerate()
        .map(|(n, (op, sector, sectors, flags))| {
            let bio = Bio::new(*op, Sector(*sector), *sectors, memory(*op, *sectors, n));
            Some(Box::new(bio.with_flags(*flags)))
        })
        .collect();
    let mut before = 0;
    for round in 0..40 {
        if round == 20 {
            before = allocator::allocations();
        }
        for (tag, bio) in pool.iter_mut().enumerate() {
            shard.stack.submit(port, tag as u64, disk, bio.take().unwrap());
        }
        while shard.stack.outstanding(port) > 0 {
            shard.round().unwrap();
            while let Some(done) = shard.stack.poll_completion(port) {
                assert!(done.status.is_ok(), "{:?}: {}", done.bio, done.status);
                pool[done.tag as usize] = Some(done.bio);
            }
        }
    }
    allocator::allocations() - before
}

fn furnish<D: BlockDevice>(open: impl FnOnce(&Shard) -> D) -> (Shard, DeviceId, PortId) {
    let mut shard = Shard::new().unwrap();
    let disk = Box::new(open(&shard));
    let disk = shard.stack.add(disk).unwrap();
    let port = shard.stack.open_port();
    (shard, disk, port)
}

#[test]
fn a_warm_zoned_directory_allocates_nothing() {
    let scratch = Scratch::new();
    let path = scratch.path("disk");
    create(&path, &small_shape());
    // While the directory's times are those of now, they do not tell whether names change, and the disk looks at the names.
    while std::fs::metadata(&path).unwrap().modified().unwrap().elapsed().is_ok_and(|age| age.as_secs() < 4) {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    for direct in [false, true] {
        let options = zoned_dir::Options { direct, ..zoned_dir::Options::default() };
        let (mut shard, disk, port) = furnish(|shard| zoned_dir::open(&path, &options, shard.ring()).unwrap());
        let mut bios = vec![(Op::ZoneResetAll, 0, 0, Flags::NONE)];
        for zone in 2..6 {
            let start = zone * ZONE;
            bios.extend([(Op::Write, start, 64, Flags::NONE), (Op::Write, start + 64, 64, Flags::FUA)]);
            bios.extend([(Op::WriteZeroes, start + 128, 64, Flags::NONE), (Op::Read, start, 256, Flags::NONE)]);
            bios.push((Op::Write, (zone - 2) * 64, 64, Flags::PREFLUSH));
        }
        bios.push((Op::Flush, 0, 0, Flags::NONE));
        assert_eq!(allocations(&mut shard, disk, port, &bios), 0, "direct: {direct}");
    }
}

#[test]
fn a_warm_file_allocates_nothing() {
    let scratch = Scratch::new();
    let path = scratch.path("disk.img");
    std::fs::File::create(&path).unwrap().set_len(4 << 20).unwrap();
    let options = file::Options::default();
    let (mut shard, disk, port) = furnish(|shard| file::open(&path, &options, shard.ring()).unwrap());
    let mut bios = vec![(Op::Flush, 0, 0, Flags::NONE), (Op::Discard, 4096, 64, Flags::NONE)];
    for n in 0..8 {
        bios.extend([(Op::Write, n * 64, 64, Flags::FUA), (Op::Read, n * 64, 64, Flags::NONE)]);
        bios.push((Op::WriteZeroes, 2048 + n * 64, 64, Flags::PREFLUSH));
    }
    assert_eq!(allocations(&mut shard, disk, port, &bios), 0);
}
