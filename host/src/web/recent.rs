//! Answers that are good for all who ask within a moment: many who watch cost a stack no more than one.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Bytes;
use serde_json::Value;

/// How long an answer is good.
const GOOD: Duration = Duration::from_millis(800);

/// The last answers.
#[derive(Default)]
pub(super) struct Recent(Mutex<BTreeMap<&'static str, (Instant, Bytes)>>);

impl Recent {
    /// The answer to this question: the last one while it is good, else a new one. Who comes at the same time waits for it.
    pub fn answer(&self, question: &'static str, ask: impl FnOnce() -> Result<Value, String>) -> Result<Bytes, String> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, answer)) = answers.get(question).filter(|(asked, _)| asked.elapsed() < GOOD) {
            return Ok(answer.clone());
        }
        let answer = Bytes::from(ask()?.to_string());
        answers.insert(question, (Instant::now(), answer.clone()));
        Ok(answer)
    }
}
