//! UUIDs in messages.

/// A UUID as people write it: 32 hexadecimal digits in five groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uuid(pub [u8; 16]);

impl_display!(Uuid, |self, f| {
    for (place, byte) in self.0.iter().enumerate() {
        let dash = if [4, 6, 8, 10].contains(&place) { "-" } else { "" };
        write!(f, "{dash}{byte:02x}")?;
    }
    Ok(())
});
