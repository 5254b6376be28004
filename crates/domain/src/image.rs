//! Images that go with a prompt: files of the task, which a field of the scenario names.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::hash::sha256_hex;
use crate::scenario::Scenario;

/// The largest image, in bytes.
pub const MOST_BYTES: usize = 10 << 20;

/// An image as requests contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    pub media_type: &'static str,
    pub base64: String,
    /// Of its bytes; part of the cell's identity.
    pub sha256: String,
}

impl Image {
    /// An image from a file's content; the error ends the sentence "the image X …".
    pub fn new(bytes: &[u8], encode: impl Fn(&[u8]) -> String) -> Result<Self, String> {
        if bytes.len() > MOST_BYTES {
            return Err(format!(
                "has {} MB: an image may have {} MB at most",
                bytes.len() >> 20,
                MOST_BYTES >> 20
            ));
        }
        let media_type = media_type(bytes)
            .ok_or("is not a PNG, JPEG, GIF or WebP image: models take only these")?;
        Ok(Self {
            media_type,
            base64: encode(bytes),
            sha256: sha256_hex(bytes),
        })
    }
}

/// By the content, because a name can say anything.
fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

/// The files that a field of a scenario names: one, a list, or none where the field is missing.
pub fn named(scenario: &Scenario, field: &str) -> Result<Vec<String>, String> {
    let text = |value: &Value| {
        let path = value.as_str().filter(|it| is_inside(it));
        path.map(str::to_owned).ok_or_else(|| {
            format!("the field '{field}' must name files of the task's folder, such as images/a.png, and has {value}")
        })
    };
    match scenario.fields.get(field) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(path)) if path.is_empty() => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(text).collect(),
        Some(one) => Ok(vec![text(one)?]),
    }
}

/// All files that scenarios name.
pub fn all_named(scenarios: &[Scenario], field: &str) -> Result<BTreeSet<String>, String> {
    let mut all = BTreeSet::new();
    for scenario in scenarios {
        let found =
            named(scenario, field).map_err(|it| format!("scenario '{}': {it}", scenario.id))?;
        all.extend(found);
    }
    Ok(all)
}

/// Whether a path stays in the task's folder.
fn is_inside(path: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    !path.contains(['\\', ':', '\0']) && path.split('/').all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse_all;

    #[test]
    fn images_are_known_by_their_content() {
        let image = |bytes: &[u8]| Image::new(bytes, |_| String::new());
        assert_eq!(
            image(b"\x89PNG\r\n\x1a\n...").expect("PNG").media_type,
            "image/png"
        );
        assert_eq!(
            image(b"\xff\xd8\xff\xe0").expect("JPEG").media_type,
            "image/jpeg"
        );
        assert_eq!(
            image(b"RIFF1234WEBPVP8 ").expect("WebP").media_type,
            "image/webp"
        );
        assert!(image(b"<svg>").is_err() && image(b"").is_err());
        assert!(image(&vec![0; MOST_BYTES + 1]).is_err_and(|it| it.contains("10 MB")));
    }

    #[test]
    fn only_files_of_the_task_can_be_named() {
        let of = |value: &str| {
            let text = format!("{{\"id\":\"a\",\"photo\":{value}}}");
            named(&parse_all("s.jsonl", &text).expect("valid")[0], "photo")
        };
        assert_eq!(of("\"images/a.png\"").expect("one"), ["images/a.png"]);
        assert_eq!(of("[\"a.png\",\"b.png\"]").expect("two").len(), 2);
        assert!(of("\"\"").expect("none").is_empty());
        for wrong in ["\"/etc/passwd\"", "\"../a.png\"", "\"a//b\"", "1", "[1]"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
