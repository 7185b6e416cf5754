//! The schema of the protocol, for clients in other languages.

use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::Failure;
use super::requests::describe_all;

/// A JSON schema (draft 2020-12): `operations` has for each name the fields of its request and its answer, `error` is that of any.
#[must_use]
pub fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let operations = describe_all(&mut generator);
    let error = generator.subschema_for::<Failure>();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The control protocol of Shingle, version 1",
        "operations": operations,
        "error": error,
        "$defs": generator.take_definitions(true),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_schema_in_the_docs_is_that_of_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/control-protocol.schema.json");
        let text = format!("{:#}\n", schema());
        if std::env::var_os("SHINGLE_WRITE_SCHEMA").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written == text, "it is not: run this test with SHINGLE_WRITE_SCHEMA=1 and commit what it writes");
    }

    #[test]
    fn every_operation_is_described_on_the_page_of_the_protocol() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/control-protocol.md");
        let page = std::fs::read_to_string(path).unwrap();
        for name in super::super::OPERATIONS {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}
