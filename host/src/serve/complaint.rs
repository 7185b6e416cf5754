//! What is said of clients that make trouble.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use shingle_core::impl_display;

use super::listen::Address;

/// Something that a client, or those who come to an address, did or suffer.
#[derive(Clone, Copy, Debug)]
pub struct Complaint<'a> {
    /// Where they come.
    pub address: &'a Address,
    /// What the client is called; `None`: it is about all who come there.
    pub client: Option<&'a str>,
    /// What it has chosen.
    pub export: Option<&'a str>,
    /// What there is to say.
    pub text: &'a str,
}

impl_display!(Complaint<'_>, |self, f| match self.client {
    Some(client) => write!(f, "{client}: {}", self.text),
    None => write!(f, "{}: {}", self.address, self.text),
});

/// Takes each complaint.
pub type Log = Arc<dyn Fn(&Complaint<'_>) + Send + Sync>;

/// Complaints that are passed on in each [`WINDOW`].
const MAX_COMPLAINTS: u32 = 32;
const WINDOW: Duration = Duration::from_secs(10);

/// The complaints of a window of time.
struct Window {
    since: Instant,
    passed: u32,
    dropped: u64,
}

/// Passes a bounded number of complaints on to `log`: a client that breaks rules as fast as it can fills no disk with lines. Others are counted, and the next
/// that is passed on says how many they were.
pub fn rate_limited(log: Log) -> Log {
    let window = Mutex::new(Window { since: Instant::now(), passed: 0, dropped: 0 });
    Arc::new(move |complaint| {
        let mut window = window.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dropped = 0;
        if window.since.elapsed() >= WINDOW {
            dropped = window.dropped;
            *window = Window { since: Instant::now(), passed: 0, dropped: 0 };
        }
        window.passed += 1;
        let passed = window.passed;
        window.dropped += u64::from(passed > MAX_COMPLAINTS);
        drop(window);
        if dropped > 0 {
            let text = format!("{dropped} more complaints about clients were not logged");
            log(&Complaint { client: None, export: None, text: &text, ..*complaint });
        }
        if passed < MAX_COMPLAINTS {
            log(complaint);
        } else if passed == MAX_COMPLAINTS {
            let text =
                format!("{}; more complaints of the next {} s are counted only", complaint.text, WINDOW.as_secs());
            log(&Complaint { text: &text, ..*complaint });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_that_come_too_fast_are_counted_only() {
        let said = Arc::<Mutex<Vec<String>>>::default();
        let all = said.clone();
        let log = rate_limited(Arc::new(move |complaint| all.lock().unwrap().push(complaint.to_string())));
        let address = Address::Unix("nbd.sock".into());
        for number in 0..1000 {
            log(&Complaint { address: &address, client: None, export: None, text: &format!("wrong {number}") });
        }
        let said = said.lock().unwrap();
        assert_eq!(said.len(), MAX_COMPLAINTS as usize);
        assert!(said[31].contains("wrong 31; more complaints of the next 10 s are counted only"), "{}", said[31]);
    }
}
