//! What a device knows of itself, for operators.

/// A figure; its name and the device's page tell what it counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// A number of things.
    Count(u64),
    /// A number of times.
    Ratio(f64),
    /// One of a few words.
    Word(&'static str),
}

impl_display!(Figure, |self, f| match self {
    Figure::Count(count) => count.fmt(f),
    Figure::Ratio(ratio) => write!(f, "{ratio:.3}"),
    Figure::Word(word) => f.write_str(word),
});
