//! The fields of a request, taken one by one; what is left over is a mistake.

use serde_json::{Map, Value};

use super::{ControlError, ErrorKind};

/// What is left of a request.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    pub fn new(fields: Map<String, Value>) -> Self {
        Self(fields)
    }

    pub fn text(&mut self, key: &str) -> Result<Option<String>, ControlError> {
        match self.0.shift_remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(bad(format!("`{key}` is {other}: write a string"))),
        }
    }

    /// A field that has to be there.
    pub fn needed(&mut self, key: &str) -> Result<String, ControlError> {
        self.text(key)?.ok_or_else(|| bad(format!("the request has no `{key}`")))
    }

    pub fn number(&mut self, key: &str) -> Result<Option<u64>, ControlError> {
        match self.0.shift_remove(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                value.as_u64().map(Some).ok_or_else(|| bad(format!("`{key}` is {value}: write a number from 0 up")))
            }
        }
    }

    /// False if it is left out.
    pub fn flag(&mut self, key: &str) -> Result<bool, ControlError> {
        match self.0.shift_remove(key) {
            None | Some(Value::Null) => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| bad(format!("`{key}` is {value}: write true or false"))),
        }
    }

    pub fn finish(self) -> Result<(), ControlError> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(key) => Err(bad(format!("this operation has no field `{key}`: see docs/control-protocol.md"))),
        }
    }
}

/// A request that is none.
pub(super) fn bad(message: String) -> ControlError {
    ControlError::new(ErrorKind::BadRequest, message)
}
