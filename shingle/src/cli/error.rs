//! What a command says when it fails, and with which exit code.

use std::fmt;
use std::io::IsTerminal;

use super::output;
use crate::log;
use crate::plain_text::escape_controls;
use shingle_host::config::ConfigError;
use shingle_host::profile::ProfileError;

/// Error of a command.
#[derive(Debug)]
pub enum CliError {
    /// The command line asks for something that cannot be.
    Usage(String),
    /// It did not work.
    Failed(String),
    /// The stack file is wrong.
    Config(Box<ConfigError>),
    /// It failed, and everything was said already.
    #[cfg_attr(not(feature = "lab"), expect(dead_code, reason = "only the laboratory says all by itself"))]
    Silent,
    /// It did its work, and what it looked at is not in order; everything was said already.
    Disorder,
}

impl CliError {
    /// It did not work, and this is why.
    pub fn failed(why: impl fmt::Display) -> Self {
        Self::Failed(why.to_string())
    }

    /// The command line asks for something that cannot be, and this is why.
    pub fn usage(why: impl fmt::Display) -> Self {
        Self::Usage(why.to_string())
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Disorder => 3,
            Self::Failed(_) | Self::Config(_) | Self::Silent => 1,
        }
    }

    /// Prints it to stderr, in colour on a terminal unless `NO_COLOR` is set.
    pub fn print(&self) {
        let colour = colours(&std::io::stderr());
        let text = match self {
            Self::Silent | Self::Disorder => return,
            Self::Config(error) => format!("{}\n", error.render(colour)),
            other => {
                let title = if colour { "\x1b[1;91merror\x1b[0m" } else { "error" };
                format!("{title}: {}\n", escape_controls(&other.to_string()))
            }
        };
        if !log::last_words(&text) {
            output::remark(&text);
        }
    }
}

/// Whether output to `stream` may have colours: a terminal, and `NO_COLOR` is not set (no-color.org).
pub fn colours(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

shingle_core::impl_error!(CliError, |self, f| match self {
    Self::Usage(message) | Self::Failed(message) => f.write_str(message),
    Self::Config(error) => error.fmt(f),
    Self::Silent | Self::Disorder => Ok(()),
});

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        Self::Config(Box::new(error))
    }
}

impl From<ProfileError> for CliError {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Wrong(error) => Self::Config(Box::new(error)),
            other => Self::Usage(other.to_string()),
        }
    }
}
