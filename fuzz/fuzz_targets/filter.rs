//! Parses arbitrary text as a filter and as an order: a result or an error, never a panic.

#![no_main]

use assize_store::mlflow::filter::{Subject, parse, parse_order};
use libfuzzer_sys::fuzz_target;

const SUBJECTS: [Subject; 5] = [
    Subject::Runs,
    Subject::Experiments,
    Subject::RegisteredModels,
    Subject::ModelVersions,
    Subject::LoggedModels,
];

fuzz_target!(|text: &str| {
    for subject in SUBJECTS {
        if let Ok(comparisons) = parse(text) {
            for comparison in comparisons {
                let _ = subject.condition(comparison);
            }
        }
        if let Ok(order) = parse_order(text) {
            let _ = subject.order(&order);
        }
    }
});
