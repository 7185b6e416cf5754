//! Options of the policies that measure latencies over windows, with their ranges.

use core::ops::RangeInclusive;

use super::PolicyKind;
use crate::time::Duration;

/// Options of `latency` and `adaptive`. `None` is the default of the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyOptions {
    /// Percentage of an old latency that is kept: by `latency` over a window with too few samples, by `adaptive` when a window ends.
    pub decay: Option<u32>,
    /// Time over which samples are gathered.
    pub window: Option<Duration>,
    /// Samples that a window must have to change the latency of a path.
    pub low_water: Option<u32>,
}

/// Windows that a policy may have.
const WINDOWS: RangeInclusive<Duration> = Duration::from_micros(100)..=Duration::from_millis(3_600_000);
/// Numbers of samples that a window may need to count.
const LOW_WATERS: RangeInclusive<u32> = 1..=1_000_000;

/// Options that a policy does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyOptionsError {
    /// The policy has no option of this name.
    Unknown(&'static str, PolicyKind),
    /// A percentage that is out of the range of the policy, and the most that it takes.
    Decay(u32, u32),
    /// A window that is out of range.
    Window(Duration),
    /// A number of samples that is out of range.
    LowWater(u32),
}

impl PolicyOptionsError {
    /// Name of the option that is wrong, as in a stack file.
    #[must_use]
    pub fn option(&self) -> &'static str {
        match self {
            Self::Unknown(name, _) => name,
            Self::Decay(..) => "decay",
            Self::Window(_) => "window",
            Self::LowWater(_) => "low-water",
        }
    }
}

impl_error!(PolicyOptionsError, |self, f| match self {
    Self::Unknown(name, policy) => {
        write!(f, "policy `{}` has no option `{name}`; `latency` and `adaptive` have it", policy.name())
    }
    Self::Decay(given, most) => write!(f, "`decay` is {given} %, allowed: 0 to {most} %"),
    Self::Window(given) => write!(f, "`window` is {} us, allowed: 100 us to 1 h", given.as_nanos() as f64 / 1e3),
    Self::LowWater(given) => write!(f, "`low-water` is {given} samples, allowed: 1 to {}", LOW_WATERS.end()),
});

impl PolicyOptions {
    /// Checks that a policy has these options, and takes these values.
    ///
    /// # Errors
    /// The first option that is wrong.
    pub fn check(&self, policy: PolicyKind) -> Result<(), PolicyOptionsError> {
        let Self { decay, window, low_water } = *self;
        let Some(most) = most_decay(policy) else {
            let given = [("decay", decay.is_some()), ("window", window.is_some()), ("low-water", low_water.is_some())];
            let first = given.iter().find(|(_, is_given)| *is_given);
            return first.map_or(Ok(()), |(name, _)| Err(PolicyOptionsError::Unknown(name, policy)));
        };
        if let Some(decay) = decay.filter(|decay| *decay > most) {
            return Err(PolicyOptionsError::Decay(decay, most));
        }
        if let Some(window) = window.filter(|window| !WINDOWS.contains(window)) {
            return Err(PolicyOptionsError::Window(window));
        }
        low_water
            .filter(|samples| !LOW_WATERS.contains(samples))
            .map_or(Ok(()), |samples| Err(PolicyOptionsError::LowWater(samples)))
    }

    /// Reads pairs of a name and a value: `decay` in percent, `window` in microseconds, `low-water` in samples.
    ///
    /// # Errors
    /// The word that is wrong.
    pub fn of_words<'a>(words: &[&'a str]) -> Result<Self, &'a str> {
        let mut options = Self::default();
        for pair in words.chunks(2) {
            let &[name, value] = pair else { return Err(pair[0]) };
            match name {
                "decay" => options.decay = Some(value.parse().map_err(|_| value)?),
                "window" => {
                    let us: u32 = value.parse().map_err(|_| value)?;
                    options.window = Some(Duration::from_micros(us.into()));
                }
                "low-water" => options.low_water = Some(value.parse().map_err(|_| value)?),
                _ => return Err(name),
            }
        }
        Ok(options)
    }
}

/// The most that a policy can keep, in percent; `None` if it has no options. One that keeps all would never learn.
fn most_decay(policy: PolicyKind) -> Option<u32> {
    match policy {
        PolicyKind::Latency => Some(100),
        PolicyKind::Adaptive => Some(99),
        _ => None,
    }
}
