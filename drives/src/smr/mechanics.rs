//! Where the head is, and when it is over a sector: the radial layout, the seek curve and the angle of the platters.
//!
//! ```text
//!   addresses   zone 0 ............................................ last zone
//!   platters    outer edge, full rate ............ inner edge, inner_ratio of it    (conventional zones moved aside)
//! ```
//!
//! Bits lie equally dense along every track, so a track's length, and with it the rate, falls with the radius, and the
//! capacity outside of a radius with its square. The angle of a sector is the time since the platters' mark at which it
//! passes under the head: sectors of a zone that follow each other follow in time,
//! so a stream waits only where a zone begins.

use alloc::boxed::Box;
use core::ops::Range;

use super::config::{Media, Seek, SmrConfig};
use shingle_core::random::Rng;
use shingle_core::sector::{SECTOR_BYTES, Sector};
use shingle_core::time::{Duration, Instant};
use shingle_core::zone::{ZoneGeometry, ZoneNo};

/// The unchanging half of the mechanics.
pub(super) struct Mechanics {
    geometry: ZoneGeometry,
    media: Media,
    curve: Curve,
    /// The places of the conventional zones, counted from the outer edge.
    conventional: Range<u32>,
    /// The angle of each place's first sector, in ns after the mark.
    angles: Box<[u32]>,
}

/// Seek time over distance: from the neighbouring track with the root of the distance to the average seek at a third of
/// the stroke, from there straight to the full stroke (Ruemmler and Wilkes, "An introduction to disk drive modeling", 1994).
struct Curve {
    near: f64,
    root: f64,
    average: f64,
    slope: f64,
}

/// The head: what it has last done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    /// The sector behind the last one that it has read or written.
    pub next: Sector,
    /// When it was done with that.
    pub free_at: Instant,
}

impl Curve {
    fn new(seek: &Seek) -> Self {
        let [near, average, full] = [seek.track, seek.average, seek.full].map(|time| time.0 as f64);
        let third = 1.0 / 3.0;
        Self { near, root: (average - near) / libm::sqrt(third), average, slope: (full - average) / (1.0 - third) }
    }

    /// Time for `distance`, as a share of the stroke.
    fn time(&self, distance: f64) -> Duration {
        let beyond = distance - 1.0 / 3.0;
        let near = || self.near + self.root * libm::sqrt(distance);
        Duration(if beyond > 0.0 { self.average + self.slope * beyond } else { near() } as u64)
    }
}

impl Mechanics {
    pub(super) fn new(config: &SmrConfig, geometry: ZoneGeometry) -> Self {
        let outside = (config.conventional_at * f64::from(geometry.sequential())) as u32;
        // Guard tracks, spares and defects lie between zones: where one begins has nothing to do with where the last one ended.
        let angle = |place: u32| Rng::new(place.into()).below(config.media.turn.0) as u32;
        Self {
            geometry,
            media: config.media,
            curve: Curve::new(&config.seek),
            conventional: outside..outside + geometry.conventional(),
            angles: (0..geometry.zones()).map(angle).collect(),
        }
    }

    /// A zone's place on the platters, counted from the outer edge.
    fn place(&self, zone: ZoneNo) -> u32 {
        let (conventional, outside) = (self.geometry.conventional(), self.conventional.start);
        match zone.0.checked_sub(conventional) {
            None => outside + zone.0,
            Some(sequential) if sequential < outside => sequential,
            Some(_) => zone.0,
        }
    }

    /// The radius of a place, as a share of the outermost one.
    fn radius(&self, place: u32) -> f64 {
        let outside = (f64::from(place) + 0.5) / f64::from(self.geometry.zones());
        let inner = self.media.inner_ratio;
        libm::sqrt(1.0 - outside * (1.0 - inner * inner))
    }

    /// The sustained rate in `zone`, in bytes per second.
    pub(super) fn rate(&self, zone: ZoneNo) -> f64 {
        let place = self.place(zone);
        let density = if self.conventional.contains(&place) { self.media.conventional_ratio } else { 1.0 };
        self.media.outer_rate * self.radius(place) * density
    }

    /// Time that `sectors` at `at`, within one zone, take to pass under the head.
    pub(super) fn transfer(&self, at: Sector, sectors: u32) -> Duration {
        let rate = self.rate(self.geometry.zone_of(at));
        Duration((f64::from(sectors) * f64::from(SECTOR_BYTES) / rate * 1e9) as u64)
    }

    /// Time to move between two zones.
    pub(super) fn seek(&self, from: ZoneNo, to: ZoneNo) -> Duration {
        let (from, to) = (self.radius(self.place(from)), self.radius(self.place(to)));
        let stroke = 1.0 - self.media.inner_ratio;
        let distance = (from - to).abs() / stroke;
        self.curve.time(if stroke > 0.0 { distance } else { 0.0 })
    }

    /// When a head that sets out at `now` is over `sector`. It is there already if that is where it has just arrived.
    pub(super) fn reach(&self, head: &Head, sector: Sector, now: Instant) -> Instant {
        let to = self.geometry.zone_of(sector);
        if head.next == sector && head.free_at == now && self.geometry.offset_in_zone(sector) > 0 {
            return now;
        }
        // The sector behind the last one of the disk has no zone; the head is over the last one then.
        let from = ZoneNo(self.geometry.zone_of(head.next).0.min(self.geometry.zones() - 1));
        let arrived = now + self.seek(from, to);
        let turn = self.media.turn.0;
        let offset = self.transfer(self.geometry.start(to), self.geometry.offset_in_zone(sector));
        let angle = (u64::from(self.angles[self.place(to) as usize]) + offset.0) % turn;
        arrived + Duration((angle + turn - arrived.0 % turn) % turn)
    }
}
