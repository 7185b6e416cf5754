//! What all types of errors have in common, and all that can be printed or has a name.

/// Makes a type print as what the expression writes.
#[macro_export]
macro_rules! impl_display {
    ($type:ty, |$self:ident, $f:ident| $text:expr) => {
        impl ::core::fmt::Display for $type {
            fn fmt(&$self, $f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                $text
            }
        }
    };
}

/// Makes a type an error that says what the expression writes, and that others turn into by `?`:
///
/// ```
/// use std::num::ParseIntError;
///
/// #[derive(Debug)]
/// enum PageError {
///     Number(ParseIntError),
///     Missing(u32),
/// }
///
/// shingle_core::impl_error!(PageError, Number(ParseIntError), |self, f| match self {
///     Self::Number(error) => write!(f, "the page has no number: {error}"),
///     Self::Missing(page) => write!(f, "there is no page {page}"),
/// });
///
/// let number = || -> Result<u32, PageError> { Ok("x".parse()?) };
/// assert!(number().unwrap_err().to_string().starts_with("the page has no number: "));
/// assert_eq!(PageError::Missing(3).to_string(), "there is no page 3");
/// ```
#[macro_export]
macro_rules! impl_error {
    ($error:ty, $($variant:ident($source:ty),)* |$self:ident, $f:ident| $text:expr) => {
        $crate::impl_display!($error, |$self, $f| $text);

        impl ::core::error::Error for $error {}

        $(impl From<$source> for $error {
            fn from(source: $source) -> Self {
                Self::$variant(source)
            }
        })*
    };
}

/// Makes an enum in which each variant has a word of its own, and that can be gone through:
///
/// ```
/// shingle_core::named_enum! {
///     /// A way to write.
///     #[derive(Clone, Copy)]
///     pub enum Direction {
///         /// From left to right.
///         Right => "right",
///         /// From right to left.
///         Left => "left",
///     }
///
///     /// The word for it.
///     fn name(self) -> &'static str;
/// }
///
/// assert_eq!(Direction::ALL.map(Direction::name), ["right", "left"]);
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$of_enum:meta])*
        pub enum $enum:ident { $($(#[$of_variant:meta])* $variant:ident $(= $value:literal)? => $word:literal,)+ }

        $(#[$of_name:meta])*
        fn $name:ident(self) -> $type:ty;
    ) => {
        $(#[$of_enum])*
        pub enum $enum { $($(#[$of_variant])* $variant $(= $value)?,)+ }

        impl $enum {
            /// All of them, in the order of their values.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            $(#[$of_name])*
            #[must_use]
            pub const fn $name(self) -> $type {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}
