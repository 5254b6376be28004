//! The tasks that are compiled into the binary.

use crate::task::TaskFiles;

/// The name of the task that is used where none is named.
pub const DEFAULT: &str = "tip";

/// All names.
pub const NAMES: [&str; 1] = [DEFAULT];

const TIP: [(&str, &str); 7] = [
    ("task.toml", include_str!("../../../tasks/tip/task.toml")),
    (
        "scenarios.toml",
        include_str!("../../../tasks/tip/scenarios.toml"),
    ),
    ("rubric.md", include_str!("../../../tasks/tip/rubric.md")),
    (
        "anchors.toml",
        include_str!("../../../tasks/tip/anchors.toml"),
    ),
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

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::rule::Subject;
    use crate::scenario::Split;
    use crate::task::Task;

    fn tip() -> Task {
        Task::parse(&files("tip").expect("built in")).expect("sound")
    }

    #[test]
    fn tip_is_sound_and_has_three_splits_of_eight() {
        let task = tip();
        for split in Split::ALL {
            assert_eq!(task.split(split).count(), 8, "{split}");
        }
        assert_eq!(
            task.defaults.prompts.expect("defaults"),
            ["v1", "v2-mentor", "v3-few-shot"]
        );
        assert_eq!(task.rubric.composite_range(), (2.0, 17.0));
    }

    #[test]
    fn tips_are_checked_mechanically() {
        #[derive(Deserialize)]
        struct Sample {
            text: String,
            format_ok: bool,
            overlong: bool,
        }
        let samples: Vec<Sample> =
            serde_json::from_str(include_str!("../../../tests/data/format_samples.json"))
                .expect("samples");
        assert!(samples.len() > 100);
        let task = tip();
        for sample in samples {
            let checks = task.checks.fill(&serde_json::Value::Null);
            let flags = checks.apply(&Subject::new(&sample.text)).flags;
            assert_eq!(
                flags["format_ok"], sample.format_ok,
                "format_ok of {:?}",
                sample.text
            );
            assert_eq!(
                flags["overlong"], sample.overlong,
                "overlong of {:?}",
                sample.text
            );
        }
    }
}
