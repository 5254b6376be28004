//! Generated names for runs without one, in MLflow's style: `bold-otter-417`.

const ADJECTIVES: [&str; 32] = [
    "able", "agile", "amber", "bold", "brave", "bright", "calm", "clean", "clever", "crisp",
    "eager", "fair", "fond", "gentle", "glad", "grand", "keen", "kind", "lively", "loyal", "lucky",
    "mellow", "merry", "neat", "noble", "proud", "quick", "quiet", "sharp", "swift", "warm",
    "wise",
];
const ANIMALS: [&str; 32] = [
    "ant", "badger", "bear", "bee", "bird", "boar", "cat", "colt", "crane", "deer", "dove", "duck",
    "eel", "elk", "finch", "fox", "frog", "goat", "hare", "hawk", "heron", "ibis", "jay", "lark",
    "lynx", "mole", "moth", "otter", "owl", "seal", "stork", "wren",
];

/// A name derived from a run's random id.
pub(super) fn name_of(run_id: [u8; 16]) -> String {
    let pick = |byte: u8, words: &[&'static str; 32]| words[usize::from(byte % 32)];
    let number = u16::from_le_bytes([run_id[2], run_id[3]]) % 1000;
    format!(
        "{}-{}-{number}",
        pick(run_id[0], &ADJECTIVES),
        pick(run_id[1], &ANIMALS)
    )
}
