//! Content hashes: everything in Assize is identified by its content.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// SHA-256 of some bytes, in lower-case hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&sha256(bytes))
}

/// Lower-case hex of some bytes.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// SHA-256 over named fields, so that no two lists of fields run into each other: every
/// name and value is preceded by its length.
pub fn sha256_fields(fields: &[(&str, &str)]) -> String {
    let mut hasher = Sha256::new();
    for (name, value) in fields {
        for part in [name, value] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    hex(&hasher.finalize())
}

/// JSON with the keys of every object in order, so that equal values have equal text.
pub fn canonical_json(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (position, (key, item)) in entries.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sha256_of_nothing_is_the_known_one() {
        assert_eq!(
            sha256_hex(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn fields_do_not_run_into_each_other() {
        assert_ne!(
            sha256_fields(&[("a", "bc"), ("d", "")]),
            sha256_fields(&[("a", "b"), ("cd", "")])
        );
    }

    #[test]
    fn canonical_json_ignores_the_order_of_keys() {
        let one = json!({"b": [1, {"y": 1, "x": "é\"\n"}], "a": null});
        let other = json!({"a": null, "b": [1, {"x": "é\"\n", "y": 1}]});
        assert_eq!(canonical_json(&one), canonical_json(&other));
        assert_eq!(
            canonical_json(&one),
            "{\"a\":null,\"b\":[1,{\"x\":\"é\\\"\\n\",\"y\":1}]}"
        );
    }
}
