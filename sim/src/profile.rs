//! The profiles of the swarm.

/// The part of the stack that a simulated scenario exercises most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Writes at depth through a plug, and policies that change.
    #[default]
    Plug,
    /// Appends, native and emulated.
    Append,
    /// Zone management, and more zones than may be open.
    Zones,
    /// Everything.
    All,
    /// Mapped devices of all targets, whose tables change while they are used.
    Mapper,
    /// dm-zoned over zoned disks, and power cuts after any of their commands.
    DmZoned,
    /// The server of a ublk device, which is killed and started again, over zoned disks, dm-zoned and disks that forget.
    Ublk,
    /// Several faulty paths to one disk, and the head above them.
    Paths,
    /// A volume over several disks that promises that a power loss leaves a prefix of the writes.
    Stl,
}

impl Profile {
    /// All profiles of which there is something to run, the default first.
    pub const ALL: [Self; 9] = [
        Self::Plug,
        Self::Append,
        Self::Zones,
        Self::All,
        Self::Mapper,
        Self::DmZoned,
        Self::Ublk,
        Self::Paths,
        Self::Stl,
    ];

    /// True if a scenario of the profile examines the effect of a power loss at many of its commands.
    #[must_use]
    pub const fn has_branches(self) -> bool {
        matches!(self, Self::DmZoned | Self::Stl)
    }

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        ["plug", "append", "zones", "all", "mapper", "dmzoned", "ublk", "paths", "stl"][self as usize]
    }
}
