//! Sittings: one judge, one bundle of blind cases, one rubric.

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::hash::hex;
use crate::judge::Tier;
use crate::verdict::RubricRef;

/// The record that makes an exported file's opaque case ids mean something again.
///
/// It stays in the tracking store; the salt is never in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sitting {
    pub id: String,
    pub experiment: String,
    pub tier: Tier,
    pub rubric: RubricRef,
    /// RFC 3339, UTC.
    pub opened_at: String,
    pub seed: u64,
    pub salt: String,
    /// The runs whose cases were handed out, each with the candidates that were.
    pub runs: Vec<(String, Vec<u32>)>,
}

/// The opaque id of a case: an HMAC of run and index under the sitting's salt.
pub fn case_id(salt: &str, run_id: &str, candidate: u32) -> String {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(salt.as_bytes()) else {
        return String::new();
    };
    mac.update(run_id.as_bytes());
    mac.update(b"#");
    mac.update(&candidate.to_le_bytes());
    hex(&mac.finalize().into_bytes()[..10])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_ids_depend_on_salt_run_and_index() {
        let id = case_id("salt", "run", 1);
        assert_eq!(id.len(), 20);
        assert_eq!(id, case_id("salt", "run", 1));
        for other in [
            case_id("other", "run", 1),
            case_id("salt", "nur", 1),
            case_id("salt", "run", 2),
        ] {
            assert_ne!(id, other);
        }
    }
}
