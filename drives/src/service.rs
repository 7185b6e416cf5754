//! How long something takes, when that is not always the same.

use alloc::boxed::Box;
use alloc::format;

use super::error::{Fault, check};
use shingle_core::random::Rng;
use shingle_core::time::Duration;

/// A distribution of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceTime {
    /// Always the same.
    Constant(Duration),
    /// Anything from the first to the second, each equally likely.
    Uniform(Duration, Duration),
    /// Without memory, with this mean: arrivals, and servers of queueing theory.
    Exponential(Duration),
    /// A logarithm that is normal, with a mean and a standard deviation: latencies with a long tail.
    LogNormal(Duration, Duration),
    /// The sum of exponential steps, with a mean and a standard deviation: a way through several queues.
    Gamma(Duration, Duration),
    /// Measured times in ascending order, as quantiles that are equally far apart; in between it is linear.
    Measured(Box<[Duration]>),
}

/// Invalid distribution of service times. The message names the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceTimeError {
    /// The range ends before it begins.
    Backwards(Duration, Duration),
    /// The mean, or the deviation where one is needed, is zero.
    Zero(&'static str),
    /// A longest mean or deviation of an hour is exceeded.
    TooLong(Duration),
    /// Fewer than two measured times.
    TooFew,
    /// The measured time of this number is below the one before.
    NotAscending(usize),
}

const LONGEST: Duration = Duration::from_millis(3_600_000);

impl ServiceTime {
    /// No time at all.
    pub const NONE: ServiceTime = ServiceTime::Constant(Duration::ZERO);

    /// Checks that the parameters are those of a distribution.
    pub fn validate(&self) -> Result<(), ServiceTimeError> {
        match self {
            Self::Uniform(from, to) if from > to => Err(ServiceTimeError::Backwards(*from, *to)),
            Self::Uniform(_, time) | Self::Constant(time) => check_length(*time),
            Self::Exponential(mean) => check_positive("mean", *mean),
            Self::LogNormal(mean, sd) | Self::Gamma(mean, sd) => {
                check_positive("mean", *mean)?;
                check_positive("deviation", *sd)
            }
            Self::Measured(times) if times.len() < 2 => Err(ServiceTimeError::TooFew),
            Self::Measured(times) => {
                let falls = times.windows(2).position(|pair| pair[0] > pair[1]);
                falls.map_or(Ok(()), |at| Err(ServiceTimeError::NotAscending(at + 1)))?;
                check_length(times[times.len() - 1])
            }
        }
    }

    /// The same, of the parameter `name` of a drive.
    pub(crate) fn check(&self, name: &'static str) -> Result<(), Fault> {
        let wrong = self.validate().err();
        check(wrong.map(|error| (false, name, format!("is no time: {error}"))))
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self {
            Self::Constant(mean) | Self::Exponential(mean) | Self::LogNormal(mean, _) | Self::Gamma(mean, _) => *mean,
            Self::Uniform(from, to) => Duration((from.0 + to.0) / 2),
            Self::Measured(times) => {
                let pieces = times.windows(2).map(|pair| u128::from(pair[0].0) + u128::from(pair[1].0));
                Duration((pieces.sum::<u128>() / (2 * (times.len() as u128 - 1)).max(1)) as u64)
            }
        }
    }

    /// A time. The same generator gives the same times on every machine: there is no rounding but IEEE 754's.
    pub fn draw(&self, rng: &mut Rng) -> Duration {
        match self {
            Self::Constant(time) => *time,
            Self::Uniform(from, to) => Duration(from.0 + rng.below(to.0.saturating_sub(from.0).saturating_add(1))),
            Self::Exponential(mean) => duration(-libm::log(unit(rng)) * real(*mean)),
            Self::LogNormal(mean, sd) => log_normal(real(*mean), real(*sd), rng),
            Self::Gamma(mean, sd) => {
                let (mean, sd) = (real(*mean), real(*sd));
                let shape = mean / sd * (mean / sd);
                duration(standard_gamma(shape, rng) * mean / shape)
            }
            Self::Measured(times) => between(times, rng),
        }
    }
}

/// How long `bytes` take at `rate` bytes per second.
pub(crate) fn time_of(bytes: u64, rate: u64) -> Duration {
    Duration((u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64)
}

/// How long `bios` wait for as many servers of mean time `mean`, once all of these are busy.
pub(crate) fn queue_time(mean: Duration, bios: u64, servers: u32) -> Duration {
    Duration((u128::from(mean.0) * u128::from(bios) / u128::from(servers.max(1))) as u64)
}

fn check_length(time: Duration) -> Result<(), ServiceTimeError> {
    if time > LONGEST { Err(ServiceTimeError::TooLong(time)) } else { Ok(()) }
}

fn check_positive(what: &'static str, time: Duration) -> Result<(), ServiceTimeError> {
    if time == Duration::ZERO { Err(ServiceTimeError::Zero(what)) } else { check_length(time) }
}

fn real(time: Duration) -> f64 {
    time.0 as f64
}

fn duration(ns: f64) -> Duration {
    Duration(libm::round(ns) as u64)
}

/// Above 0, up to and with 1.
fn unit(rng: &mut Rng) -> f64 {
    ((rng.draw() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A standard normal number (Box and Muller 1958).
fn normal(rng: &mut Rng) -> f64 {
    let (radius, angle) = (libm::sqrt(-2.0 * libm::log(unit(rng))), 2.0 * core::f64::consts::PI * unit(rng));
    radius * libm::cos(angle)
}

fn log_normal(mean: f64, sd: f64, rng: &mut Rng) -> Duration {
    let variance = libm::log(1.0 + sd / mean * (sd / mean));
    duration(libm::exp(libm::log(mean) - variance / 2.0 + libm::sqrt(variance) * normal(rng)))
}

/// A gamma number of scale 1 (Marsaglia and Tsang 2000).
fn standard_gamma(shape: f64, rng: &mut Rng) -> f64 {
    if shape < 1.0 {
        let boost = libm::pow(unit(rng), 1.0 / shape);
        return standard_gamma(shape + 1.0, rng) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal(rng);
        let v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x);
        // Accepted in at least 95 of 100 turns, whatever the shape.
        if v > 0.0 && libm::log(unit(rng)) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

fn between(times: &[Duration], rng: &mut Rng) -> Duration {
    let Some(pieces) = times.len().checked_sub(1).filter(|pieces| *pieces > 0) else {
        return times.first().copied().unwrap_or_default();
    };
    let piece = rng.below(pieces as u64) as usize;
    let (from, to) = (times[piece].0, times[piece + 1].0);
    Duration(from + rng.below(to.saturating_sub(from).saturating_add(1)))
}

shingle_core::impl_display!(ServiceTime, |self, f| match self {
    Self::Constant(time) => write!(f, "{} ns", time.0),
    Self::Uniform(from, to) => write!(f, "{} to {} ns", from.0, to.0),
    Self::Exponential(mean) => write!(f, "exponential, mean {} ns", mean.0),
    Self::LogNormal(mean, sd) => write!(f, "log-normal, mean {} ns, deviation {} ns", mean.0, sd.0),
    Self::Gamma(mean, sd) => write!(f, "gamma, mean {} ns, deviation {} ns", mean.0, sd.0),
    Self::Measured(times) => write!(f, "{} measured times, mean {} ns", times.len(), self.mean().0),
});

shingle_core::impl_error!(ServiceTimeError, |self, f| match self {
    Self::Backwards(from, to) => {
        write!(f, "a range from {} ns to {} ns ends before it begins: swap them", from.0, to.0)
    }
    Self::Zero(what) => write!(f, "the {what} of this distribution has to be above 0"),
    Self::TooLong(time) => write!(f, "{} ns are more than an hour: use a shorter time", time.0),
    Self::TooFew => f.write_str("measured times have to be two at least"),
    Self::NotAscending(at) => write!(f, "measured time {at} is below the one before: sort them"),
});

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    const fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    /// Mean and standard deviation of many draws, in us.
    fn moments(of: &ServiceTime) -> (f64, f64) {
        let mut rng = Rng::new(4);
        let times: Vec<f64> = (0..200_000).map(|_| of.draw(&mut rng).0 as f64 / 1e3).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|time| (time - mean) * (time - mean)).sum::<f64>() / times.len() as f64;
        (mean, libm::sqrt(variance))
    }

    #[test]
    fn drawn_times_have_the_mean_and_the_deviation_that_was_asked_for() {
        let cases = [
            (ServiceTime::Constant(us(150)), 150.0, 0.0, 1e-9),
            (ServiceTime::Uniform(us(100), us(200)), 150.0, 100.0 / libm::sqrt(12.0), 0.01),
            (ServiceTime::Exponential(us(150)), 150.0, 150.0, 0.01),
            (ServiceTime::LogNormal(us(149), us(66)), 149.0, 66.0, 0.02),
            (ServiceTime::LogNormal(us(186), us(331)), 186.0, 331.0, 0.05),
            (ServiceTime::Gamma(us(149), us(66)), 149.0, 66.0, 0.01),
            (ServiceTime::Gamma(us(186), us(331)), 186.0, 331.0, 0.02),
            (ServiceTime::Measured([us(0), us(100), us(100), us(400)].into()), 400.0 / 3.0, 100.0, 0.01),
        ];
        for (of, mean, sd, tolerance) in cases {
            of.validate().unwrap();
            let (measured, spread) = moments(&of);
            assert!((measured - mean).abs() <= mean * tolerance, "{of}: mean {measured} us");
            assert!((spread - sd).abs() <= sd * tolerance + 1e-6, "{of}: deviation {spread} us");
            assert!((of.mean().0 as f64 / 1e3 - mean).abs() < 0.01, "{of} says its mean is {}", of.mean().0);
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_times_on_every_machine() {
        let draw = |of: ServiceTime| -> Vec<u64> {
            let mut rng = Rng::new(11);
            (0..3).map(|_| of.draw(&mut rng).0).collect()
        };
        assert_eq!(draw(ServiceTime::LogNormal(us(149), us(66))), LOG_NORMAL);
        assert_eq!(draw(ServiceTime::Gamma(us(149), us(66))), GAMMA);
    }

    const LOG_NORMAL: [u64; 3] = [105_211, 123_625, 123_275];
    const GAMMA: [u64; 3] = [103_822, 95_398, 228_745];

    #[test]
    fn what_is_no_distribution_is_refused() {
        let cases = [
            (ServiceTime::Uniform(us(2), us(1)), "swap"),
            (ServiceTime::Exponential(us(0)), "mean"),
            (ServiceTime::Gamma(us(1), us(0)), "deviation"),
            (ServiceTime::Constant(Duration(u64::MAX)), "hour"),
            (ServiceTime::Measured([us(1)].into()), "two"),
            (ServiceTime::Measured([us(1), us(3), us(2)].into()), "time 2"),
        ];
        for (of, words) in cases {
            let message = of.validate().unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }
}
