//! The limits of a server's params and tags, and storage for values that exceed them.
//!
//! MLflow truncates long values silently. So a value that is too long, or whose key is not allowed,
//! is stored in the file `more.json` of its run. A placeholder is stored in its place, and a tag
//! marks the run. Reading restores the values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::wire::Tracked;

pub(crate) const FILE: &str = "more.json";
/// The tag that holds the hash of the file.
pub(crate) const TAG: &str = "assize.more";
const PLACEHOLDER: &str = "(too long for a tracking server: it is in more.json)";

const KEY: usize = 250;
const PARAM: usize = 6_000;
const TAG_VALUE: usize = 8_000;

pub(crate) type Pairs = Vec<(String, String)>;

/// The values that exceed the limits.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Overflow {
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

impl Overflow {
    /// Removes the values that exceed the limits and returns them.
    pub fn split(params: &mut Pairs, tags: &mut Pairs) -> Self {
        Self {
            params: take(params, PARAM),
            tags: take(tags, TAG_VALUE),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.params.is_empty() && self.tags.is_empty()
    }

    /// Restores the removed values.
    pub fn restore(self, run: &mut Tracked) {
        run.params.extend(self.params);
        run.tags.extend(self.tags);
    }
}

fn take(pairs: &mut Pairs, most: usize) -> BTreeMap<String, String> {
    let mut more = BTreeMap::new();
    pairs.retain_mut(|(key, value)| {
        let is_key = is_key(key);
        if is_key && value.chars().count() <= most {
            return true;
        }
        more.insert(
            key.clone(),
            std::mem::replace(value, PLACEHOLDER.to_owned()),
        );
        is_key
    });
    more
}

/// Whether a server accepts this key: a restricted character set, and a normalised path.
fn is_key(key: &str) -> bool {
    let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    key.chars().count() <= KEY
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || "/_.- :".contains(c))
        && key.split('/').all(plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_does_not_fit_is_taken_out_and_put_back() {
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let long = "\u{e9}".repeat(PARAM + 1);
        let original = vec![
            pair("ok", "1"),
            pair("long", &long),
            pair("a$b", "2"),
            pair("a//b", ""),
        ];
        let (mut params, mut tags) = (original.clone(), vec![pair("ok", &long)]);
        let more = Overflow::split(&mut params, &mut tags);
        assert_eq!(params, [pair("ok", "1"), pair("long", PLACEHOLDER)]);
        assert_eq!(tags.len(), 1);
        let mut run: Tracked = serde_json::from_value(json!({"info": {"run_id": "r"}})).unwrap();
        run.params = params.into_iter().collect();
        more.restore(&mut run);
        assert_eq!(run.params, original.into_iter().collect());
    }

    #[test]
    fn short_things_stay() {
        let mut params = vec![("k".repeat(KEY), "v".repeat(PARAM))];
        let mut tags = vec![("artifact:a/b.json/1".to_owned(), "v".repeat(TAG_VALUE))];
        assert!(Overflow::split(&mut params, &mut tags).is_empty());
        assert!(!is_key(&"k".repeat(KEY + 1)) && !is_key("") && !is_key("a/../b"));
    }
}
