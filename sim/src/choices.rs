//! Random choices of a simulated scenario: drawn from a seed, recorded, or read back from a [`Recording`].
//!
//! ```text
//!   seed ──> Rng ──> Choices ── decide(label) ──> disks, hosts, operators, power cuts
//!                      │  ^
//!            recording v  │ replay: what is not in the file is the calm value
//!                    Recording: scope, label, value
//! ```
//!
//! Each choice has a label within a scope: `life 1/host 2/op 17: kind=write block=12`. Of a choice only the value is recorded, never how it
//! was drawn, so a recording stays valid when the generator draws other things, more of them, or in another order. A choice that a recording
//! does not have takes its calm value: no fault, no delay, nothing survives in a cache.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Debug;

use crate::recording::{Recording, Scope};
use shingle_core::random::Rng;
use spin::Mutex;

/// A value that can be written into a recording and read back.
pub trait Choice: Clone + Debug + PartialEq {
    /// The value as one word without spaces.
    fn word(&self) -> String {
        format!("{self:?}").chars().filter(|c| !c.is_whitespace()).collect()
    }

    /// The value of `word`, or `None` if it has no meaning. `among`: the values that the generator draws from.
    fn read(word: &str, among: &[Self]) -> Option<Self> {
        among.iter().find(|one| one.word() == word).cloned()
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Choice for $number {
            fn read(word: &str, _: &[Self]) -> Option<Self> {
                word.parse().ok()
            }
        }
    )*};
}

numbers!(u64 u32 usize bool);

/// Makes values of a type choices, each by its `Debug` text. Reading one back takes a list of values to choose from.
macro_rules! choices_by_name {
    ($($type:ty),* $(,)?) => {$(impl crate::choices::Choice for $type {})*};
}
pub(crate) use choices_by_name;

/// A recording that all parts of a run write to or read from. A run has one thread; the lock is for devices that can be sent to another.
pub(crate) type SharedRecording = Arc<Mutex<Recording>>;

/// Source of the choices of a run, and the recording that they are added to.
#[derive(Clone, Debug, Default)]
pub(crate) enum Origin {
    /// The seed.
    #[default]
    Seed,
    /// The seed; they are recorded.
    Recorder(SharedRecording),
    /// A recording.
    Player(SharedRecording),
}

/// The choices of one part of a scenario.
#[derive(Clone, Debug)]
pub struct Choices {
    rng: Rng,
    at: Option<At>,
}

/// The place of [`Choices`] in a recording.
#[derive(Clone, Debug)]
struct At {
    origin: Origin,
    scope: Scope,
    /// The item that [`Choices::next_item`] has begun; the choices up to the next one belong to it.
    item: Option<(&'static str, u64)>,
    /// Labels that were used in this scope or item so far, and how often.
    used: Vec<(&'static str, u32)>,
}

impl Choices {
    /// Choices of `rng` alone, which are not recorded.
    #[must_use]
    pub const fn new(rng: Rng) -> Self {
        Self { rng, at: None }
    }

    /// Has `choose` make choices of `rng`, which are not recorded.
    pub fn of<R>(rng: &mut Rng, choose: impl FnOnce(&mut Self) -> R) -> R {
        let mut choices = Self::new(rng.clone());
        let chosen = choose(&mut choices);
        *rng = choices.rng;
        chosen
    }

    /// Choices in the scope `name` of a recording.
    pub(crate) fn root(rng: Rng, origin: &Origin, name: &'static str) -> Self {
        Self::in_scope(rng, origin, &[(name, 0)])
    }

    /// Choices in a scope of a recording. `path`: the parts of the scope, the outermost first.
    pub(crate) fn in_scope(rng: Rng, origin: &Origin, path: &[(&'static str, u64)]) -> Self {
        if matches!(origin, Origin::Seed) {
            return Self::new(rng);
        }
        let scope = path.iter().fold(Scope::default(), |scope, (name, number)| scope.child(name, *number));
        Self { rng, at: Some(At { origin: origin.clone(), scope, item: None, used: Vec::new() }) }
    }

    /// Choices in a scope within this one, which do not affect the choices of others.
    pub fn fork(&mut self, name: &'static str, number: u64) -> Self {
        let rng = self.rng.fork();
        self.within(rng, name, number)
    }

    /// Choices in a scope within this one, drawn by `rng`.
    pub fn within(&self, rng: Rng, name: &'static str, number: u64) -> Self {
        let at = |at: &At| At {
            scope: at.full().child(name, number),
            origin: at.origin.clone(),
            item: None,
            used: Vec::new(),
        };
        Self { rng, at: self.at.as_ref().map(at) }
    }

    /// Has `choose` make its choices in a scope within this one.
    pub fn scoped<R>(&mut self, name: &'static str, number: u64, choose: impl FnOnce(&mut Self) -> R) -> R {
        let inner = self.within(self.rng.clone(), name, number).at;
        let outer = core::mem::replace(&mut self.at, inner);
        let chosen = choose(self);
        self.at = outer;
        chosen
    }

    /// True if the choices are read from a recording.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.at.as_ref().is_some_and(|at| matches!(at.origin, Origin::Player(_)))
    }

    /// The generator, for a device whose choices are not recorded.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Begins the next item of a list such as the operations of a host: the choices that follow belong to it. Returns its number, from 1;
    /// `None` if the choices are read from a recording that has no further item.
    pub fn next_item(&mut self, name: &'static str) -> Option<u64> {
        let Some(at) = &mut self.at else { return Some(0) };
        let last = at.item.filter(|item| item.0 == name).map_or(0, |item| item.1);
        let next = match &at.origin {
            Origin::Player(recording) => recording.lock().next_item(&at.scope, name, last)?,
            _ => last + 1,
        };
        self.begin(name, next);
        if let Some(at) = &self.at
            && let Origin::Recorder(recording) = &at.origin
        {
            recording.lock().add_item(at.full());
        }
        Some(next)
    }

    /// Begins the item `number` of a list such as the commands of a disk: the choices that follow belong to it.
    pub fn begin(&mut self, name: &'static str, number: u64) {
        if let Some(at) = &mut self.at {
            (at.item, at.used) = (Some((name, number)), Vec::new());
        }
    }

    /// Makes one choice: by `draw`, or from the recording of a replay. A value equal to `calm` is not recorded.
    /// `among`: see [`Choice::read`].
    pub fn decide<T: Choice>(
        &mut self,
        label: &'static str,
        (calm, among): (T, &[T]),
        draw: impl FnOnce(&mut Rng) -> T,
    ) -> T {
        let Some(at) = &mut self.at else { return draw(&mut self.rng) };
        let label = at.label(label);
        match &at.origin {
            Origin::Player(recording) => {
                let mut recording = recording.lock();
                let Some(word) = recording.take(&at.full(), &label) else { return calm };
                let read = T::read(&word, among);
                read.unwrap_or_else(|| {
                    recording.misfit(format!("{}: {label}={word} is not a value of this choice", at.full()));
                    calm
                })
            }
            Origin::Recorder(recording) => {
                let drawn = draw(&mut self.rng);
                if drawn != calm {
                    recording.lock().add(at.full(), label, drawn.word());
                }
                drawn
            }
            Origin::Seed => draw(&mut self.rng),
        }
    }

    /// A value that was drawn already; calm is `calm`.
    pub fn pin<T: Choice>(&mut self, label: &'static str, calm: T, drawn: T) -> T {
        self.decide(label, (calm, &[]), |_| drawn)
    }

    /// A number below `bound`; calm is 0. A recorded number that is too large now becomes the largest.
    pub fn below(&mut self, label: &'static str, bound: u64) -> u64 {
        let number = self.decide(label, (0, &[]), |rng| rng.below(bound));
        if self.at.is_some() { number.min(bound.saturating_sub(1)) } else { number }
    }

    /// A number from `least` to `most`; calm is `least`.
    pub fn between(&mut self, label: &'static str, least: u64, most: u64) -> u64 {
        self.decide(label, (least, &[]), |rng| least + rng.below(most - least + 1))
    }

    /// True in `of` out of `n` cases; calm is false.
    pub fn chance(&mut self, label: &'static str, of: u64, n: u64) -> bool {
        self.decide(label, (false, &[]), |rng| rng.chance(of, n))
    }

    /// True in `of` out of `n` cases; calm is true.
    pub fn usual(&mut self, label: &'static str, of: u64, n: u64) -> bool {
        self.decide(label, (true, &[]), |rng| rng.chance(of, n))
    }

    /// Any number, such as a seed or an identity; calm is 0.
    pub fn number(&mut self, label: &'static str) -> u64 {
        self.decide(label, (0, &[]), Rng::draw)
    }

    /// Chooses a value of `of`, all with the same probability; calm is the first.
    ///
    /// # Panics
    /// If `of` is empty.
    pub fn one<T: Choice>(&mut self, label: &'static str, of: &[T]) -> T {
        self.decide(label, (of[0].clone(), of), |rng| of[rng.below(of.len() as u64) as usize].clone())
    }

    /// Chooses a value of `of` with a probability in proportion to its weight; calm is the first, whose weight is not 0.
    ///
    /// # Panics
    /// If `of` is empty.
    pub fn weighted<T: Choice>(&mut self, label: &'static str, of: &[T], weights: &[u64]) -> T {
        self.decide(label, (of[0].clone(), of), |rng| {
            let mut at = rng.below(weights.iter().sum());
            let drawn = of.iter().zip(weights).find(|(_, weight)| {
                let hit = at < **weight;
                at = at.saturating_sub(**weight);
                hit
            });
            drawn.map_or(of[0].clone(), |(one, _)| one.clone())
        })
    }

    /// Removes from a recording what was recorded in this scope, as it has shown nothing.
    pub(crate) fn forget(&self) {
        if let Some(At { origin: Origin::Recorder(recording), scope, .. }) = &self.at {
            recording.lock().forget(scope);
        }
    }
}

impl At {
    /// The scope, and the item in it.
    fn full(&self) -> Scope {
        self.item.map_or_else(|| self.scope.clone(), |(name, number)| self.scope.child(name, number))
    }

    /// `label`, with a number if it was used here before: `cut`, `cut.2`, `cut.3`.
    fn label(&mut self, label: &'static str) -> String {
        let Some((_, times)) = self.used.iter_mut().find(|(used, _)| *used == label) else {
            self.used.push((label, 1));
            return label.to_string();
        };
        *times += 1;
        format!("{label}.{times}")
    }
}
