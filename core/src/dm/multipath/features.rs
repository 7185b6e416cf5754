//! Features and hardware handlers: the words at the front of a line.

use core::fmt;

use crate::dm::{ArgError, Args};
use crate::prelude::*;

/// Most words of features.
const MOST_FEATURE_WORDS: usize = 8;
/// Bounds of numbers, as the kernel has them.
const MOST_RETRIES: u32 = 50;
const MOST_DELAY_MS: u32 = 60_000;

/// Whether a line says how the kernel is to queue. Here all is bios; a line that says `rq`, `mq` or nothing is one of requests there, and
/// prints otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QueueMode {
    #[default]
    Request,
    Bio,
}

/// What was written. Only the first is acted upon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Features {
    pub queues: bool,
    retries: Option<u32>,
    delay_ms: Option<u32>,
    queue_mode: QueueMode,
    handler: Option<&'static str>,
}

impl Features {
    /// Reads `<#features> [features] <#handler args> [handler args]`.
    pub fn parse(args: &mut Args<'_>) -> Result<Self, ArgError> {
        let mut features = Self::default();
        let mut words = group(args, "feature words", MOST_FEATURE_WORDS)?;
        while words.left() > 0 {
            features.read(&mut words)?;
        }
        features.read_handler(&mut group(args, "handler words", 1)?)?;
        if features.queue_mode == QueueMode::Bio {
            // So does the kernel: a handler belongs to request queues.
            features.handler = None;
        }
        Ok(features)
    }

    fn read(&mut self, words: &mut Args<'_>) -> Result<(), ArgError> {
        match words.word("a feature")? {
            "queue_if_no_path" => self.queues = true,
            // Since version 1.15.0 the kernel does so in any case, and prints nothing.
            "retain_attached_hw_handler" => {}
            "pg_init_retries" => self.retries = Some(bounded(words, "pg_init_retries", (1, MOST_RETRIES))?),
            "pg_init_delay_msecs" => self.delay_ms = Some(bounded(words, "pg_init_delay_msecs", (0, MOST_DELAY_MS))?),
            "queue_mode" => {
                self.queue_mode = match words.word("the queue mode")? {
                    "bio" => QueueMode::Bio,
                    "rq" | "mq" => QueueMode::Request,
                    other => return Err(words.blame(format!("queue_mode is `{other}`: write bio, rq or mq"))),
                }
            }
            other => {
                let known = "queue_if_no_path, retain_attached_hw_handler, pg_init_retries <n>, pg_init_delay_msecs <n> \
                             and queue_mode <mode>";
                return Err(words.blame(format!("there is no feature `{other}`: there are {known}")));
            }
        }
        Ok(())
    }

    fn read_handler(&mut self, words: &mut Args<'_>) -> Result<(), ArgError> {
        if words.left() == 0 {
            return Ok(());
        }
        self.handler = match words.word("the hardware handler")? {
            "alua" => Some("alua"),
            other => {
                return Err(words.blame(format!("there is no hardware handler `{other}`: write `0` or `1 alua`")));
            }
        };
        Ok(())
    }

    /// Writes them as a table has them.
    pub fn write(&self, queues: bool, out: &mut dyn fmt::Write) -> fmt::Result {
        let Self { retries, delay_ms, queue_mode, .. } = self;
        let mut words = Vec::new();
        words.extend(queues.then(|| "queue_if_no_path".to_string()));
        words.extend(retries.iter().flat_map(|retries| ["pg_init_retries".to_string(), retries.to_string()]));
        words.extend(delay_ms.iter().flat_map(|ms| ["pg_init_delay_msecs".to_string(), ms.to_string()]));
        if *queue_mode == QueueMode::Bio {
            words.extend(["queue_mode", "bio"].map(String::from));
        }
        write!(out, "{} ", words.len())?;
        words.iter().try_for_each(|word| write!(out, "{word} "))?;
        match self.handler {
            Some(handler) => write!(out, "1 {handler} "),
            None => out.write_str("0 "),
        }
    }
}

/// A counted group, whose number has to be there.
fn group<'a>(args: &mut Args<'a>, what: &str, most: usize) -> Result<Args<'a>, ArgError> {
    args.clone().word(&format!("the number of {what}"))?;
    args.group(what, most)
}

fn bounded(words: &mut Args<'_>, what: &str, (least, most): (u32, u32)) -> Result<u32, ArgError> {
    let number: u32 = words.number(what)?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err(words.blame(format!("{what} is {number}: write {least} to {most}")))
}
