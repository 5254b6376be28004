//! Reading reference figures and comparing with them.

use assize_stats::Interval;
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

pub fn load(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

#[track_caller]
pub fn close(found: f64, expected: &Value) {
    let expected = number(expected);
    assert!(
        (found - expected).abs() <= TOLERANCE,
        "found {found}, expected {expected}"
    );
}

#[track_caller]
pub fn close_interval(found: Interval, expected: &Value) {
    close(found.low, &expected[0]);
    close(found.high, &expected[1]);
}

pub fn index(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// Numbers with gaps.
pub fn optional_numbers(value: &Value) -> Vec<Option<f64>> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(Value::as_f64)
        .collect()
}
