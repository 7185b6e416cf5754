//! What every operation has in common: its fields in, its answer out.

use serde_json::{Map, Value};

use super::protocol::Operation;
use super::{ControlError, ErrorKind, bad};

/// Carries out a request with these fields.
pub(super) fn serve<O: Operation>(
    mut fields: Map<String, Value>,
    carry_out: impl FnOnce(O) -> Result<O::Answer, ControlError>,
) -> Result<Value, ControlError> {
    // A field that is null counts as left out.
    fields.retain(|_, value| !value.is_null());
    let request = serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| wrong(O::NAME, &error))?;
    serde_json::to_value(carry_out(request)?).map_err(|error| unwritable(&error))
}

fn wrong(name: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> ControlError {
    let (place, error) = (error.path().to_string(), error.inner());
    let place = if place == "." { String::new() } else { format!("`{place}`: ") };
    bad(format!("{place}{error}; `man shingle-control-protocol` (docs/control-protocol.md) has what `{name}` takes"))
}

fn unwritable(error: &serde_json::Error) -> ControlError {
    ControlError::new(ErrorKind::Io, format!("the answer cannot be written: {error}"))
}
