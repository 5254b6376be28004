//! Decisions like those of a service with ten candidates, and models of twelve dimensions.

use assize_store::policies::{CandidateRecord, Decision, DecisionId, DecisionRecord, Model};
use serde_json::value::RawValue;

/// Numbers that look random (`SplitMix64`).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// An id whose order is not the order of the numbers, like most ids of users.
pub fn user(number: u64) -> String {
    format!("{:016x}-{number:08}", Random(number).next())
}

/// 90 numbers and a header, as a model of 12 dimensions has.
pub fn model(number: u64) -> Model {
    let mut random = Random(number);
    Model {
        dimension: 12,
        updates: 1,
        bytes: (0..92).flat_map(|_| random.next().to_le_bytes()).collect(),
    }
}

pub fn decision(id: DecisionId, user: String, at_ms: i64) -> Decision {
    let json = |text: &str| RawValue::from_string(text.to_owned()).unwrap_or_default();
    let candidate = |number: u32| CandidateRecord {
        id: format!("tip-{number}"),
        arm: None,
        task_match: Some(f64::from(number) / 7.0),
        features: None,
        source: None,
        other: None,
        score: f64::from(number) / 3.0,
        propensity: 0.1,
    };
    Decision {
        id,
        at_ms,
        user,
        policy: "egreedy-v2".to_owned(),
        policy_version: "1".to_owned(),
        feature_version: 2,
        chosen: 3,
        features: vec![0.123_456_789; 12],
        record: DecisionRecord {
            context: json(r#"{"hour":13.5,"weekend":false,"open_tasks":4,"urgency":0.37}"#),
            profile: Some(json(
                r#"{"completion_rate":0.61,"dismiss_rate":0.13,"mean_dwell_s":41.5,"preferred_hour":8,"tip_volume":57}"#,
            )),
            seed: None,
            candidates: (0..10).map(candidate).collect(),
        },
    }
}
