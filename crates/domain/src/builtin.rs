//! The tasks that are compiled into the binary.

use crate::task::TaskFiles;

/// The name of the task that is used where none is named.
pub const DEFAULT: &str = "tip";

const TIP: [(&str, &str); 6] = [
    ("task.toml", include_str!("../../../tasks/tip/task.toml")),
    (
        "scenarios.toml",
        include_str!("../../../tasks/tip/scenarios.toml"),
    ),
    ("rubric.md", include_str!("../../../tasks/tip/rubric.md")),
    (
        "prompts/v1.md",
        include_str!("../../../tasks/tip/prompts/v1.md"),
    ),
    (
        "prompts/v2-mentor.md",
        include_str!("../../../tasks/tip/prompts/v2-mentor.md"),
    ),
    (
        "prompts/v3-few-shot.md",
        include_str!("../../../tasks/tip/prompts/v3-few-shot.md"),
    ),
];

/// The files of the built-in task of this name.
pub fn files(name: &str) -> Option<TaskFiles> {
    (name == DEFAULT).then(|| {
        TIP.iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect()
    })
}
