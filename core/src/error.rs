//! What all types of errors have in common, and all that can be printed.

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
