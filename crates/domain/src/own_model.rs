//! Judges that score their own model: whether a judge's model wrote the candidates, or one of its
//! family did. Models tend to prefer outputs like their own.

use std::collections::BTreeSet;

use crate::judge::Tier;
use crate::model::ModelId;

/// How a judge's model is related to a candidate's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// It is the same model.
    Same,
    /// The names are the same before the size or the tag: `qwen2.5:7b` and `qwen2.5:0.5b`.
    Family,
}

/// Agents, and the models behind them.
const AGENT_MODELS: [(&str, &str); 3] = [
    ("claude-code", "claude"),
    ("codex", "gpt"),
    ("gemini-cli", "gemini"),
];
/// Families whose names put other words before the size.
const WHOLE_FAMILIES: [&str; 2] = ["claude", "gemini"];
/// Words after which a name only says which variant of the model it is.
const VARIANTS: [&str; 15] = [
    "instruct", "chat", "it", "base", "mini", "nano", "tiny", "small", "medium", "large", "latest",
    "preview", "turbo", "gguf", "f16",
];

/// How the model of a judge of this kind is related to a candidate's model; `None` if it is not, or
/// if the judge is a person.
pub fn relation(judge_kind: &str, model: &str) -> Option<Relation> {
    if Tier::of_kind(judge_kind) == Tier::Expert {
        let (_, own) = AGENT_MODELS.iter().find(|(kind, _)| *kind == judge_kind)?;
        let family = family(&plain_name(model)).to_owned();
        return family.starts_with(own).then_some(Relation::Family);
    }
    let (judge, model) = (plain_name(judge_kind), plain_name(model));
    if judge == model {
        return Some(Relation::Same);
    }
    (family(&judge) == family(&model)).then_some(Relation::Family)
}

/// One sentence for every judge that scores its own model or family. `judges` are kinds.
pub fn warnings<'a>(
    judges: impl IntoIterator<Item = &'a str>,
    models: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let mut judges: Vec<&str> = judges.into_iter().collect();
    judges.sort_unstable();
    judges.dedup();
    let models: BTreeSet<&str> = models.into_iter().collect();
    judges
        .into_iter()
        .filter_map(|judge| {
            let related = |wanted: Relation| {
                let models = models.iter().copied();
                let found: Vec<&str> = models
                    .filter(|model| relation(judge, model) == Some(wanted))
                    .collect();
                found.join(", ")
            };
            let (same, family) = (related(Relation::Same), related(Relation::Family));
            let what = match (same.as_str(), family.as_str()) {
                ("", "") => return None,
                (_, "") => "its own outputs".to_owned(),
                ("", family) => format!("outputs of its own family ({family})"),
                (_, family) => format!("its own outputs and those of its family ({family})"),
            };
            Some(format!(
                "the judge {judge} scores {what}: models tend to prefer outputs like their own, so \
                 let another model or an expert judge them"
            ))
        })
        .collect()
}

/// The name without provider, folder, content hash and file extension, in lower case.
fn plain_name(id: &str) -> String {
    let name = id
        .parse::<ModelId>()
        .map_or_else(|_| id.to_owned(), |it| it.name);
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.split('@').next().unwrap_or_default().to_lowercase();
    let name = name.trim_end_matches(".gguf");
    name.trim_end_matches(":latest").to_owned()
}

/// The name before the size or the tag.
fn family(name: &str) -> &str {
    if let Some(whole) = WHOLE_FAMILIES.iter().find(|it| name.starts_with(**it)) {
        return &name[..whole.len()];
    }
    let name = name.split(':').next().unwrap_or_default();
    let mut end = 0;
    for word in name.split(['-', '_']) {
        // The separators have one byte.
        let after = end + usize::from(end > 0) + word.len();
        if end > 0 && (is_size(word) || VARIANTS.contains(&word) || is_quantisation(word)) {
            break;
        }
        end = after;
    }
    &name[..end]
}

/// `0.5b`, `135m`, `8x7b`.
fn is_size(word: &str) -> bool {
    let number = word.strip_suffix(['b', 'm', 'k']).unwrap_or_default();
    let mut factors = number.split('x');
    !number.is_empty() && factors.all(|it| it.parse::<f64>().is_ok_and(f64::is_finite))
}

/// `q4`, `q8`, `iq3`.
fn is_quantisation(word: &str) -> bool {
    let word = word.strip_prefix('i').unwrap_or(word);
    let digits = word.strip_prefix('q').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_known_by_the_name_before_the_size() {
        use Relation::{Family, Same};
        for (judge, model, expected) in [
            ("ollama:qwen2.5:7b", "qwen2.5:0.5b", Some(Family)),
            ("qwen2.5:0.5b", "ollama:qwen2.5:0.5b", Some(Same)),
            ("llama3.2", "llama3.2:latest", Some(Same)),
            ("llama3.2:3b", "gemma3:1b", None),
            ("qwen2.5:7b", "qwen2.5@3fa2c1:0.5b", Some(Family)),
            (
                "embedded:smollm2-360m",
                "embedded:smollm2-135m",
                Some(Family),
            ),
            (
                "embedded:/models/Qwen2.5-0.5B-Instruct-Q4_K_M.gguf",
                "qwen2.5:1.5b",
                Some(Family),
            ),
            (
                "openai:Qwen/Qwen2.5-72B-Instruct",
                "qwen2.5:0.5b",
                Some(Family),
            ),
            ("openai:gpt-4o", "openai:gpt-4o-mini", Some(Family)),
            ("openai:mixtral-8x7b", "mixtral:8x22b", Some(Family)),
            (
                "openai:claude-haiku-4-5",
                "openai:claude-sonnet-4-5",
                Some(Family),
            ),
            ("claude-code", "openai:claude-sonnet-4-5", Some(Family)),
            ("codex", "openai:gpt-4o", Some(Family)),
            ("codex", "qwen2.5:0.5b", None),
            ("human", "human", None),
            ("scripted:judge", "scripted:a", None),
        ] {
            assert_eq!(relation(judge, model), expected, "{judge} and {model}");
        }
    }

    #[test]
    fn one_sentence_names_the_judge_and_the_family() {
        let models = ["qwen2.5:0.5b", "qwen2.5:1.5b", "gemma3:1b", "qwen2.5:0.5b"];
        let found = warnings(["ollama:qwen2.5:7b", "gemma3:1b", "llama3.2:3b"], models);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("gemma3:1b scores its own outputs"));
        assert!(found[1].contains("own family (qwen2.5:0.5b, qwen2.5:1.5b)"));
        assert!(warnings(["human"], models).is_empty());
    }
}
