//! Structures as the driver reads and writes them, byte by byte: a test compares their places with the kernel's header.

/// Most requests of one queue at once (`UBLK_MAX_QUEUE_DEPTH`).
pub const MOST_DEPTH: u16 = 4096;
/// Longest request, in bytes: what the offset of a copy has bits for (`UBLK_IO_BUF_BITS`).
pub const MOST_IO_BYTES: u32 = 32 << 20;

/// Numbers of control commands (`UBLK_U_CMD_*`).
pub(super) mod control_command {
    pub const GET_INFO: u32 = 0x8020_7502;
    pub const ADD: u32 = 0xc020_7504;
    pub const DELETE: u32 = 0xc020_7505;
    pub const START: u32 = 0xc020_7506;
    pub const STOP: u32 = 0xc020_7507;
    pub const SET_PARAMETERS: u32 = 0xc020_7508;
    pub const GET_PARAMETERS: u32 = 0x8020_7509;
    pub const START_RECOVERY: u32 = 0xc020_7510;
    pub const END_RECOVERY: u32 = 0xc020_7511;
    pub const GET_FEATURES: u32 = 0x8020_7513;
    pub const UPDATE_SIZE: u32 = 0xc020_7515;
}

/// Numbers of queue commands (`UBLK_U_IO_*`).
pub(super) mod queue_command {
    pub const FETCH: u32 = 0xc010_7520;
    pub const COMMIT_AND_FETCH: u32 = 0xc010_7521;
}

/// Where in `/dev/ublkcN` the data of requests begins (`UBLKSRV_IO_BUF_OFFSET`), and how the place is made of numbers.
pub(super) const DATA_START: u64 = 0x8000_0000;
pub(super) const TAG_SHIFT: u32 = 25;
pub(super) const QUEUE_SHIFT: u32 = 41;

/// That a request comes also when its memory cannot be registered, and says so (`UBLK_AUTO_BUF_REG_FALLBACK`).
pub(super) const REGISTER_OR_TELL: u64 = 1;

/// How the driver is to register the memory of a request (`struct ublk_auto_buf_reg`, as a word).
pub(super) fn register_as(number: u16) -> u64 {
    u64::from(number) | REGISTER_OR_TELL << 16
}

/// What a device or a driver can do (`UBLK_F_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    /// The memory of requests can be registered with the ring of their server.
    pub const ZERO_COPY: Self = Self(1);
    /// And the driver does that by itself.
    pub const AUTO_REGISTER: Self = Self(1 << 11);
    /// A device whose server is gone waits for another one.
    pub const RECOVERY: Self = Self(1 << 3);
    /// And its requests that were not answered come again.
    pub const REISSUE: Self = Self(1 << 4);
    /// Commands are numbered as ioctls are.
    pub const IOCTL_NUMBERS: Self = Self(1 << 6);
    /// The server copies the data of requests itself.
    pub const USER_COPY: Self = Self(1 << 7);
    /// The device has zones.
    pub const ZONED: Self = Self(1 << 8);
    /// The size can change while it runs.
    pub const UPDATE_SIZE: Self = Self(1 << 10);

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is there.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// What a device is, as its block device shows it (`UBLK_ATTR_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Attributes(pub u32);

impl Attributes {
    /// Writes are refused.
    pub const READ_ONLY: Self = Self(1);
    /// The medium turns.
    pub const ROTATIONAL: Self = Self(2);
    /// What was written can be lost until a flush; and writes can be durable by themselves.
    pub const WRITE_CACHE: Self = Self(4 | 8);

    /// These and `other` if `condition` holds.
    #[must_use]
    pub fn with(self, other: Self, condition: bool) -> Self {
        if condition { Self(self.0 | other.0) } else { self }
    }
}

/// How far a device is on its way (`UBLK_S_DEV_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is not there, or no more.
    Dead,
    /// It is served.
    Live,
    /// Its server is gone; it waits for the next one.
    Quiesced,
    /// Its server is gone, and its requests fail.
    FailIo,
}

/// What a new device is to be.
#[derive(Clone, Copy, Debug)]
pub struct NewDevice {
    /// Its number; `None`: the driver chooses.
    pub number: Option<u32>,
    /// Queues; the driver may give fewer.
    pub queues: u16,
    /// Requests of a queue at once.
    pub depth: u16,
    /// Longest request, in bytes.
    pub io_bytes: u32,
    /// What it has to be able to do.
    pub features: Features,
    /// A number of the server's own, which the driver keeps for who comes after.
    pub mark: u64,
}

/// What a device is (`struct ublksrv_ctrl_dev_info`).
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct DeviceInfo {
    /// Queues.
    pub queues: u16,
    /// Requests of a queue at once.
    pub depth: u16,
    pub(super) state: u16,
    pad0: u16,
    /// Longest request, in bytes.
    pub io_bytes: u32,
    /// Its number: of `/dev/ublkbN` and `/dev/ublkcN`.
    pub number: u32,
    /// Its server; of a quiesced device the one that is gone, or -1.
    pub server: i32,
    pad1: u32,
    pub(super) flags: u64,
    /// See [`NewDevice::mark`].
    pub mark: u64,
    owner_user: u32,
    owner_group: u32,
    reserved: [u64; 2],
}

impl DeviceInfo {
    /// What is asked for with [`Control::add`](super::Control::add).
    pub(super) fn wanted(new: &NewDevice) -> Self {
        Self {
            queues: new.queues,
            depth: new.depth,
            io_bytes: new.io_bytes,
            number: new.number.unwrap_or(u32::MAX),
            flags: new.features.0,
            mark: new.mark,
            ..Self::default()
        }
    }

    /// How far it is.
    #[must_use]
    pub fn state(&self) -> State {
        match self.state {
            1 => State::Live,
            2 => State::Quiesced,
            3 => State::FailIo,
            _ => State::Dead,
        }
    }

    /// What it can do: of what was asked for what the driver knows, and what it does in any case.
    #[must_use]
    pub fn features(&self) -> Features {
        Features(self.flags)
    }
}

/// What the block device accepts (`struct ublk_params`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Parameters {
    bytes: u32,
    pub(super) kinds: u32,
    pub(super) basic: Basic,
    pub(super) discard: Discard,
    pub(super) device_numbers: [u32; 4],
    pub(super) zoned: Zoned,
}

/// Of every device (`struct ublk_param_basic`). Units of sizes are exponents of two, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Basic {
    /// What it is.
    pub attributes: Attributes,
    /// Logical block.
    pub logical_shift: u8,
    /// Physical block.
    pub physical_shift: u8,
    /// Best unit of I/O.
    pub optimal_shift: u8,
    /// Smallest unit of I/O that costs nothing extra.
    pub minimal_shift: u8,
    /// Longest read or write, in sectors.
    pub most_sectors: u32,
    /// Zone size, in sectors; 0 if it has none.
    pub chunk_sectors: u32,
    /// Capacity, in sectors.
    pub sectors: u64,
    /// Of no use here.
    pub boundary_mask: u64,
}

/// Of a device that forgets or zeroes ranges (`struct ublk_param_discard`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Discard {
    /// Where granules begin, in bytes.
    pub alignment: u32,
    /// Unit of what is forgotten, in bytes; never 0.
    pub granularity: u32,
    /// Longest discard, in sectors; 0: there is none.
    pub most_sectors: u32,
    /// Longest write of zeroes, in sectors; 0: there is none.
    pub most_zeroes_sectors: u32,
    /// Ranges of one discard: 1 if there is one.
    pub most_segments: u16,
    reserved: u16,
}

/// Of a device with zones (`struct ublk_param_zoned`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Zoned {
    /// Most open zones; 0: no limit.
    pub most_open: u32,
    /// Most active zones; 0: no limit.
    pub most_active: u32,
    /// Longest append, in sectors; never 0.
    pub most_append_sectors: u32,
    reserved: [u8; 20],
}

impl Zoned {
    /// With these limits, in zones and sectors.
    #[must_use]
    pub fn new(most_open: u32, most_active: u32, most_append_sectors: u32) -> Self {
        Self { most_open, most_active, most_append_sectors, reserved: [0; 20] }
    }
}

impl Discard {
    /// With this unit, in bytes, and these longest requests, in sectors, 0 for what there is not.
    #[must_use]
    pub fn new(granularity: u32, most_sectors: u32, most_zeroes_sectors: u32) -> Self {
        let most_segments = u16::from(most_sectors > 0);
        Self { granularity, most_sectors, most_zeroes_sectors, most_segments, ..Self::default() }
    }
}

impl Parameters {
    /// Of a device that is `basic`, and the others if it is that too.
    #[must_use]
    pub fn new(basic: Basic, discard: Option<Discard>, zoned: Option<Zoned>) -> Self {
        let kinds = 1 | u32::from(discard.is_some()) << 1 | u32::from(zoned.is_some()) << 3;
        Self {
            bytes: size_of::<Self>() as u32,
            kinds,
            basic,
            discard: discard.unwrap_or_default(),
            device_numbers: [0; 4],
            zoned: zoned.unwrap_or_default(),
        }
    }

    /// An empty structure for the driver to fill.
    pub(super) fn blank() -> Self {
        Self { bytes: size_of::<Self>() as u32, ..Self::default() }
    }

    /// Whether users of a device with the parameters `other` notice no difference.
    #[must_use]
    pub fn are(&self, other: &Self) -> bool {
        let comparable = |one: &Self| (one.kinds & 0xb, one.basic, one.discard, one.zoned);
        comparable(self) == comparable(other)
    }

    /// Capacity, in sectors.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.basic.sectors
    }
}

/// A command to the driver (`struct ublksrv_ctrl_cmd`).
#[derive(Clone, Copy, Debug)]
pub(super) struct ControlPayload {
    pub number: u32,
    pub queue: u16,
    pub bytes: u16,
    pub address: u64,
    pub word: u64,
}

/// A command to a queue (`struct ublksrv_io_cmd`).
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuePayload {
    pub queue: u16,
    pub tag: u16,
    pub result: i32,
    pub sector: u64,
}

impl QueuePayload {
    pub fn bytes(self) -> [u8; 16] {
        let Self { queue, tag, result, sector } = self;
        let mut bytes = [0; 16];
        bytes[0..2].copy_from_slice(&queue.to_ne_bytes());
        bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&result.to_ne_bytes());
        bytes[8..16].copy_from_slice(&sector.to_ne_bytes());
        bytes
    }
}

impl ControlPayload {
    /// As it stands in the 80 bytes that an entry has room for.
    pub fn bytes(self) -> [u8; 80] {
        let Self { number, queue, bytes: length, address, word } = self;
        let mut bytes = [0; 80];
        bytes[0..4].copy_from_slice(&number.to_ne_bytes());
        bytes[4..6].copy_from_slice(&queue.to_ne_bytes());
        bytes[6..8].copy_from_slice(&length.to_ne_bytes());
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&word.to_ne_bytes());
        bytes
    }
}

const _: () = assert!(size_of::<DeviceInfo>() == 64);
const _: () = assert!(size_of::<Parameters>() == 108 + 4, "with the padding that an alignment of 8 brings");
