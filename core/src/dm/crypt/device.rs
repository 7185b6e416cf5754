//! The device that a `crypt` line makes.

use alloc::collections::VecDeque;
use core::fmt;
use core::sync::atomic::AtomicU64;

use super::bounce::{Bounce, MOST_SECTORS, Run};
use super::cipher::{CipherError, Ciphers};
use super::key::Key;
use super::segments;
use super::spec::CipherSpec;
use super::volume::{Units, VolumeCipher};
use crate::block::{
    Bio, BlockDevice, Cx, DeviceId, Event, Flags, Limits, MessageError, Op, Payload, Reason, Status, ZonedLimits,
};
use crate::prelude::*;

/// What an encrypted device is, but for its key.
#[derive(Clone, Debug)]
pub struct CryptConfig {
    /// The cipher and the IVs.
    pub cipher: CipherSpec,
    /// The units that are encrypted one by one.
    pub units: Units,
    /// Whether discards reach the device below, which then knows what is in use.
    pub allows_discards: bool,
}

/// Sectors of the device below, which holds their ciphertext (`drivers/md/dm-crypt.c`).
pub struct Crypt {
    below: [DeviceId; 1],
    limits: Limits,
    config: CryptConfig,
    provider: &'static dyn Ciphers,
    /// `None` without a key.
    cipher: Option<VolumeCipher>,
    /// What the cipher was made of, or was before it was wiped.
    key: Option<Key>,
    is_key_told: bool,
    bounce: Bounce,
    /// Writes that wait for memory, and what must not overtake them.
    waiting: VecDeque<Box<Bio>>,
    scratch: Box<[AtomicU64]>,
    /// Bios below that come back here.
    in_flight: usize,
    is_suspended: bool,
}

impl Crypt {
    /// A device without a key over all of device `below`, which has `limits`.
    ///
    /// # Errors
    /// If the device cannot be cut into units, or there is no memory.
    pub fn new(
        below: DeviceId,
        limits: &Limits,
        config: &CryptConfig,
        provider: &'static dyn Ciphers,
    ) -> Result<Self, String> {
        let limits = above(limits, config);
        limits.validate().map_err(|error| format!("units of {} bytes: {error}", config.units.bytes))?;
        let bounce = Bounce::new(limits.capacity).ok_or("no memory for ciphertext")?;
        Ok(Self {
            below: [below],
            limits,
            config: config.clone(),
            provider,
            cipher: None,
            key: None,
            is_key_told: false,
            bounce,
            waiting: VecDeque::with_capacity(64),
            scratch: segments::scratch(config.units.words()),
            in_flight: 0,
            // Until it is resumed for the first time.
            is_suspended: true,
        })
    }

    /// Uses `key` from now on.
    ///
    /// # Errors
    /// If its length does not fit.
    pub fn set_key(&mut self, key: Key) -> Result<(), CipherError> {
        let CryptConfig { cipher, units, .. } = &self.config;
        self.cipher = Some(VolumeCipher::new(cipher, *units, &key, self.provider)?);
        self.key = Some(key);
        Ok(())
    }

    /// The key that a message has set, if one has.
    pub(super) fn told_key(&self) -> Option<&Key> {
        self.key.as_ref().filter(|_| self.is_key_told)
    }

    /// Whether it lies on a zoned device.
    pub(super) fn is_zoned(&self) -> bool {
        self.limits.zoned.is_some()
    }

    /// Sends the ciphertext down in memory of our own. Without any the bio comes back.
    fn write(&mut self, mut bio: Box<Bio>, cx: &mut Cx<'_>) -> Result<(), Box<Bio>> {
        let Some(cipher) = &mut self.cipher else {
            cx.fail(bio, Reason::NoKey);
            return Ok(());
        };
        let Some(run) = self.bounce.lend(&mut bio.payload) else { return Err(bio) };
        match self.bounce.both(run) {
            (Payload::Data(data), to) => cipher.encrypt(bio.sector.0, data.words(), to),
            (payload, to) => segments::encrypt(cipher, bio.sector.0, payload.segments(), to),
        }
        self.in_flight += 1;
        cx.submit(self.below[0], bio, run.word());
        Ok(())
    }

    fn read(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if self.cipher.is_none() {
            return cx.fail(bio, Reason::NoKey);
        }
        self.in_flight += 1;
        let sector = bio.sector.0;
        cx.submit(self.below[0], bio, sector);
    }

    fn decrypt(&mut self, sector: u64, payload: &Payload) {
        let Some(cipher) = &mut self.cipher else { unreachable!("the key does not change while bios are below") };
        match payload {
            Payload::Data(data) => cipher.decrypt(sector, data.words()),
            payload => segments::decrypt(cipher, sector, payload.segments(), &self.scratch),
        }
    }

    fn wait(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        if bio.flags.has(Flags::NOWAIT) {
            return cx.fail(bio, Reason::WouldWait("there is no memory for its ciphertext"));
        }
        self.waiting.push_back(bio);
    }

    /// Sends on what waits, as far as memory goes.
    #[inline(never)]
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        while let Some(bio) = self.waiting.pop_front() {
            if bio.op != Op::Write {
                cx.remap(self.below[0], bio);
            } else if let Err(bio) = self.write(bio, cx) {
                return self.waiting.push_front(bio);
            }
        }
    }

    /// `key set <hex>` or `key wipe` (`drivers/md/dm-crypt.c:crypt_message`).
    fn change_key(&mut self, words: &[&str]) -> Result<(), String> {
        if !self.is_suspended || self.in_flight > 0 || !self.waiting.is_empty() {
            return Err(String::from("the key changes only while the device is suspended: suspend it first"));
        }
        match words {
            [set, digits] if set.eq_ignore_ascii_case("set") => self.tell_key(digits),
            [wipe] if wipe.eq_ignore_ascii_case("wipe") => {
                self.wipe();
                Ok(())
            }
            _ => Err(String::from("a key message is `key set <hexadecimal digits>` or `key wipe`")),
        }
    }

    fn tell_key(&mut self, digits: &str) -> Result<(), String> {
        if digits.starts_with(':') {
            return Err(String::from("a message brings the key itself: write its hexadecimal digits"));
        }
        let key = Key::from_hex(digits)?;
        if let Some(old) = self.key.as_ref().filter(|old| old.len() != key.len()) {
            return Err(format!("the key has {} bytes, and so must the new one have, not {}", old.len(), key.len()));
        }
        let old = self.key.clone();
        self.set_key(key).map_err(|error| format!("{error}"))?;
        old.iter().for_each(Key::wipe);
        self.is_key_told = true;
        Ok(())
    }

    fn wipe(&mut self) {
        self.cipher = None;
        self.key.iter().for_each(Key::wipe);
    }
}

/// What an encrypted device accepts. Zeroes are data here and appends would not know their IVs, so both are for the
/// layers above; and no bio is longer than the memory for it.
fn above(below: &Limits, config: &CryptConfig) -> Limits {
    let block = below.logical_block_bytes.max(config.units.bytes);
    let whole_blocks = |sectors: u32| sectors - sectors % (block / 512);
    let zoned = below.zoned.as_ref().map(|zoned| ZonedLimits {
        max_append: None,
        write_granularity_bytes: zoned.write_granularity_bytes.max(block),
        ..zoned.clone()
    });
    Limits {
        logical_block_bytes: block,
        physical_block_bytes: below.physical_block_bytes.max(block),
        max_sectors: Some(whole_blocks(below.max_sectors.unwrap_or(u32::MAX).min(MOST_SECTORS))),
        max_write_zeroes: None,
        max_discard: below.max_discard.filter(|_| config.allows_discards).map(whole_blocks),
        zoned,
        ..below.clone()
    }
}

impl BlockDevice for Crypt {
    keeps_limits_and_below!();

    fn submit(&mut self, bio: Box<Bio>, cx: &mut Cx<'_>) {
        match bio.op {
            Op::Read => self.read(bio, cx),
            // Its ciphertext depends on where it lands, which nobody knows yet.
            Op::ZoneAppend => cx.fail(bio, Reason::NotSupported),
            _ if bio.op.is_write() && !self.waiting.is_empty() => self.wait(bio, cx),
            Op::Write => {
                if let Err(bio) = self.write(bio, cx) {
                    self.wait(bio, cx);
                }
            }
            _ => cx.remap(self.below[0], bio),
        }
    }

    fn end_io(&mut self, mut bio: Box<Bio>, status: Status, word: u64, cx: &mut Cx<'_>) {
        self.in_flight -= 1;
        if bio.op == Op::Read {
            if status.is_ok() {
                self.decrypt(word, &bio.payload);
            }
            return cx.complete(bio, status);
        }
        self.bounce.give_back(Run::from_word(word), &mut bio.payload);
        cx.complete(bio, status);
        if !self.waiting.is_empty() {
            self.go_on(cx);
        }
    }

    fn on_event(&mut self, event: Event, _: &mut Cx<'_>) {
        match event {
            Event::Suspend { .. } => self.is_suspended = true,
            Event::Resume => self.is_suspended = false,
            _ => {}
        }
    }

    fn held(&self, visit: &mut dyn FnMut(&Bio)) {
        self.waiting.iter().for_each(|bio| visit(bio));
    }

    fn message(&mut self, words: &[&str], _: &mut Cx<'_>) -> Result<String, MessageError> {
        match words.split_first() {
            Some((first, rest)) if first.eq_ignore_ascii_case("key") => {
                self.change_key(rest).map(|()| String::new()).map_err(MessageError)
            }
            _ => Err(MessageError(String::from("crypt takes `key set <hexadecimal digits>` and `key wipe`"))),
        }
    }

    fn is_ready(&self) -> Result<(), String> {
        let missing = || String::from("it has no key: send it the message `key set <hexadecimal digits>`");
        self.cipher.as_ref().map(drop).ok_or_else(missing)
    }

    fn describe(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let (cipher, bytes, below) = (&self.config.cipher, self.config.units.bytes, self.below[0].0);
        write!(out, "crypt, {cipher}, units of {bytes} bytes over device {below}")
    }
}
