//! Text inside of markup.

/// Text with the characters escaped that mean something in markup.
pub struct Escaped<'a>(pub &'a str);

shingle_core::impl_display!(Escaped<'_>, |self, f| {
    let mut rest = self.0;
    while let Some(place) = rest.find(['&', '<', '>', '"', '\'']) {
        f.write_str(&rest[..place])?;
        f.write_str(match rest.as_bytes()[place] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        })?;
        rest = &rest[place + 1..];
    }
    f.write_str(rest)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_means_something_in_markup_is_escaped() {
        assert_eq!(Escaped("a<b> & \"c\" 'd' µ").to_string(), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39; µ");
    }
}
