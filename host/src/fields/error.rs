//! What is wrong with a stack file: each mistake with its line and what to do.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use shingle_core::impl_error;

use crate::keys::{hide_keys, hide_quoted_keys};

/// Most bytes of a stack file.
const MAX_BYTES: u64 = 1 << 20;

/// Most mistakes that are looked for and shown. Each can take as long as the file is: a suggestion looks at all names, and the place of a
/// mistake is found by going through the file. With this bound a file that is wrong everywhere takes time in proportion to its length.
pub const MAX_MISTAKES: usize = 32;

/// True if another mistake is to be looked for.
#[must_use]
pub fn has_room(mistakes: &[Diagnostic]) -> bool {
    mistakes.len() < MAX_MISTAKES
}

/// The file that a plan came from.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Its path, as given.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
}

impl Source {
    /// Reads the stack file at `path`.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let failed = |title: String, help: &str| ConfigError {
            source: Self { path: path.to_owned(), text: String::new() },
            diagnostics: vec![Diagnostic::general(title).help(help)],
        };
        let cannot_read = |error: io::Error| {
            failed(format!("cannot read the stack file: {error}"), "check the path and the permissions")
        };
        // Opening a pipe waits for a writer, and some devices never end.
        let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(path).map_err(cannot_read)?;
        if !file.metadata().map_err(cannot_read)?.is_file() {
            return Err(failed("the stack file is no regular file".into(), "write it to a file, and name that"));
        }
        let mut text = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(cannot_read)?;
        if text.len() as u64 > MAX_BYTES {
            let title = format!("the stack file has more than {MAX_BYTES} bytes");
            return Err(failed(title, "look whether it is the right file"));
        }
        let text = String::from_utf8(text).map_err(|_| {
            failed(
                "the stack file is not UTF-8 text".into(),
                "a stack file is TOML: see `man shingle-stack`, or docs/stack-file.md",
            )
        })?;
        Ok(Self { path: path.to_owned(), text })
    }
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong.
    pub title: String,
    /// Where; bytes of the text. `None` if it is nowhere in particular.
    pub span: Option<Range<usize>>,
    /// What to say about the place.
    pub label: String,
    /// A second place that it has to do with.
    pub other: Option<(Range<usize>, String)>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A mistake at `span`.
    #[must_use]
    pub fn at(span: Range<usize>, title: impl Into<String>) -> Self {
        Self { title: title.into(), span: Some(span), label: String::new(), other: None, help: None }
    }

    /// A mistake of the whole file.
    #[must_use]
    pub fn general(title: impl Into<String>) -> Self {
        Self { title: title.into(), span: None, label: String::new(), other: None, help: None }
    }

    /// With words beside the place.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// With what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// With a second place.
    #[must_use]
    pub fn other(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.other = Some((span, label.into()));
        self
    }
}

/// All mistakes of a stack file.
#[derive(Clone, Debug)]
pub struct ConfigError {
    /// The file.
    pub source: Source,
    /// What is wrong with it; never empty.
    pub diagnostics: Vec<Diagnostic>,
}

impl ConfigError {
    /// The mistakes with the lines of the file, as a compiler shows them.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let text = hide_keys(&self.source.text);
        let shown = self.diagnostics.iter().take(MAX_MISTAKES);
        let mut shown: Vec<String> = shown.map(|d| renderer.render(&[self.group(d, &text)])).collect();
        if !has_room(&self.diagnostics) {
            shown.push(format!("these are the first {MAX_MISTAKES} mistakes: correct them to see others"));
        }
        shown.join("\n\n")
    }

    /// A mistake, in the text of the file without keys.
    fn group<'a>(&'a self, diagnostic: &'a Diagnostic, text: &'a str) -> Group<'a> {
        let title = Level::ERROR.primary_title(hide_quoted_keys(&diagnostic.title));
        let path = self.source.path.display().to_string();
        let mut group = match &diagnostic.span {
            None => Group::with_title(title).element(annotate_snippets::Origin::path(path)),
            Some(span) => {
                let primary =
                    AnnotationKind::Primary.span(self.inside(span)).label(hide_quoted_keys(&diagnostic.label));
                let second = diagnostic.other.iter();
                let second = second.map(|(span, label)| {
                    AnnotationKind::Context.span(self.inside(span)).label(hide_quoted_keys(label))
                });
                let snippet = Snippet::source(text).path(path).annotation(primary).annotations(second);
                title.element(snippet)
            }
        };
        if let Some(help) = &diagnostic.help {
            group = group.element(Level::HELP.message(hide_quoted_keys(help)));
        }
        group
    }

    fn inside(&self, span: &Range<usize>) -> Range<usize> {
        let end = self.source.text.len();
        span.start.min(end)..span.end.min(end)
    }
}

impl_error!(ConfigError, |self, f| f.write_str(&self.render(false)));
