//! Promotions: moving the alias `champion` to a prompt version, with the gate's record.
//!
//! In the registry a task is a registered prompt, every content of one of its prompts is a
//! version of it, and `champion` is an alias of one version. What was promoted with which
//! model, by whom, when, why and on which figures is a [`Promotion`]; promotions are numbered
//! by task and never changed, and rolling back is a promotion of its own. The current champion
//! is the latest promotion's.
//!
//! [`version_tags`] is how a promotion looks in MLflow's prompt registry.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::chat::{self, Part};
use crate::judge::Tier;
use crate::leaderboard::Pair;
use crate::sweep::{OWN_SYSTEM, SYSTEM, Settings};

/// The alias that a promotion moves.
pub const ALIAS: &str = "champion";
/// The alias of the version that was nominated last.
pub const CHALLENGER: &str = "challenger";

/// What is shipped: a prompt's exact content with the model that it was judged with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Champion {
    pub model: String,
    pub model_digest: String,
    pub prompt: String,
    pub prompt_sha256: String,
    /// The template's parts, so that the content can be had without the task's files.
    pub system: Option<String>,
    pub body: String,
    /// The options of the collection that change outputs: `temperature`, `max_tokens`. Earlier
    /// entries of the history have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, Value>,
    /// Which of the settings were swept, and so are part of the pair.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub swept: Vec<String>,
}

impl Champion {
    pub fn pair(&self) -> Pair {
        let swept = self.settings_of(self.swept.iter().map(String::as_str));
        Pair {
            model: self.model.clone(),
            prompt: swept.label(&self.prompt),
        }
    }

    /// The values of some settings, where the champion was promoted with them.
    pub fn settings_of<'a>(&self, keys: impl Iterator<Item = &'a str>) -> Settings {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let value = |key: &str| match self.settings.get(key) {
            None if key == SYSTEM && !self.settings.is_empty() => Some(OWN_SYSTEM.to_owned()),
            found => found.map(text),
        };
        keys.filter_map(|key| Some((key.to_owned(), value(key)?)))
            .collect()
    }

    /// Whether it was promoted with these settings; earlier entries of the history have none, and fit.
    pub fn has_settings(&self, settings: &Settings) -> bool {
        self.settings.is_empty() || self.settings_of(settings.keys()) == *settings
    }
}

/// How an entry of the history came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Promote,
    Rollback,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Promote => "promote",
            Self::Rollback => "rollback",
        })
    }
}

/// One entry of a task's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Promotion {
    /// From 1, by task. It is one more than the latest that the gate was run against, so of two
    /// promotions at once only one can be recorded.
    pub number: u32,
    pub task: String,
    pub action: Action,
    pub champion: Champion,
    /// The registry's version of the prompt; 0 until it is recorded.
    #[serde(default)]
    pub version: u32,
    /// The entry whose champion a rollback brings back.
    pub restores: Option<u32>,
    pub experiment: String,
    pub by: String,
    /// RFC 3339, UTC.
    pub at: String,
    pub note: Option<String>,
    pub gate: Option<GateReport>,
}

/// Every check with its figure, and what they come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateReport {
    pub candidate: Pair,
    pub incumbent: Pair,
    /// The tier whose scores the tests use.
    pub tier: Tier,
    pub passed: bool,
    pub checks: Vec<Check>,
}

/// One condition of a promotion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// For programs: `p_adjusted`, `flag.format_ok`.
    pub name: String,
    /// For people.
    pub about: String,
    pub quantity: Quantity,
    pub figure: Option<f64>,
    pub relation: Relation,
    pub threshold: f64,
    pub outcome: Outcome,
    /// What the figure does not say by itself.
    pub why: Option<String>,
}

/// What kind of number a figure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quantity {
    P,
    /// Points of the composite or of a criterion.
    Points,
    /// A difference of shares between 0 and 1.
    Share,
    /// A share between 0 and 1.
    Proportion,
    /// A difference of mean rewards.
    Reward,
    /// An agreement coefficient.
    Coefficient,
    Count,
}

/// Figures closer than this are equal.
const ROUNDING: f64 = 1e-9;

/// How a figure is compared with its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relation {
    #[serde(rename = "<=")]
    AtMost,
    #[serde(rename = ">=")]
    AtLeast,
    #[serde(rename = ">")]
    Above,
}

impl Relation {
    /// Rounding in the last bits neither passes nor fails a check; NaN never
    /// passes.
    pub fn holds(self, figure: f64, threshold: f64) -> bool {
        match self {
            Self::AtMost => figure <= threshold + ROUNDING,
            Self::AtLeast => figure >= threshold - ROUNDING,
            Self::Above => figure > threshold + ROUNDING,
        }
    }

    pub const fn symbol(self) -> &'static str {
        match self {
            Self::AtMost => "≤",
            Self::AtLeast => "≥",
            Self::Above => ">",
        }
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Passed,
    /// Let through with a caveat. No check ends so any more; earlier entries of the history do.
    Tentative,
    Failed,
    /// There is nothing to check here.
    NotApplicable,
    /// Not looked at, because other checks failed.
    Sealed,
}

impl GateReport {
    /// The checks that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks
            .iter()
            .filter(|check| check.outcome == Outcome::Failed)
    }

    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }
}

/// Tags of a registered prompt in MLflow's registry, which keeps prompts as registered models.
pub const PROMPT_TAGS: [(&str, &str); 1] = [("mlflow.prompt.is_prompt", "true")];

/// A version that a prompt loop nominates: it is registered before the gate decides about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nominee {
    pub task: String,
    pub prompt: String,
    pub prompt_sha256: String,
    pub system: Option<String>,
    pub body: String,
    /// Its author's hypothesis.
    pub commit_message: String,
    /// Where it comes from: parents, reflector, experiment.
    pub origin: Vec<(String, String)>,
}

/// The tags that a nominated version carries in the registry. A promotion keeps those of its origin.
pub fn nominee_tags(it: &Nominee) -> Vec<(String, String)> {
    let mut tags: Vec<(String, String)> = text_tags(it.system.as_deref(), &it.body)
        .into_iter()
        .chain([
            ("assize.prompt", it.prompt.clone()),
            ("assize.prompt_sha256", it.prompt_sha256.clone()),
        ])
        .map(|(key, value)| (key.to_owned(), value))
        .collect();
    let origin = it.origin.iter();
    tags.extend(origin.map(|(key, value)| (format!("optimise.{key}"), value.clone())));
    tags
}

/// The text of a version as MLflow writes it.
fn text_tags(system: Option<&str>, body: &str) -> [(&'static str, String); 3] {
    let parts = chat::split(body).map_or(Vec::new(), |it| it.parts);
    let (kind, text) = match (system, &parts[..]) {
        (None, [Part::Message(..)]) | (_, []) => ("text", body.to_owned()),
        (system, parts) => {
            let system = system.map(|it| json!({"role": "system", "content": it}));
            let messages = parts.iter().map(|part| match part {
                Part::Message(speaker, text) => json!({"role": speaker, "content": text}),
                // As LangChain names what is replaced by messages.
                Part::History(field) => {
                    json!({"role": "placeholder", "content": format!("{{{{ {field} }}}}")})
                }
            });
            let messages: Vec<Value> = system.into_iter().chain(messages).collect();
            ("chat", Value::from(messages).to_string())
        }
    };
    [
        ("mlflow.prompt.is_prompt", "true".to_owned()),
        ("_mlflow_prompt_type", kind.to_owned()),
        ("mlflow.prompt.text", text),
    ]
}

/// The tags that the champion's version carries in the registry.
pub fn version_tags(promotion: &Promotion) -> Vec<(String, String)> {
    let it = &promotion.champion;
    let gate = promotion
        .gate
        .as_ref()
        .and_then(|gate| serde_json::to_string(gate).ok());
    let text = text_tags(it.system.as_deref(), &it.body);
    let text = text.map(|(key, value)| (key, Some(value)));
    let tags = [
        ("assize.prompt", Some(it.prompt.clone())),
        ("assize.prompt_sha256", Some(it.prompt_sha256.clone())),
        ("assize.model", Some(it.model.clone())),
        ("assize.model_digest", Some(it.model_digest.clone())),
        ("assize.promotion", Some(promotion.number.to_string())),
        ("assize.action", Some(promotion.action.to_string())),
        ("assize.experiment", Some(promotion.experiment.clone())),
        ("assize.promoted_by", Some(promotion.by.clone())),
        ("assize.promoted_at", Some(promotion.at.clone())),
        ("assize.note", promotion.note.clone()),
        ("assize.gate", gate),
    ];
    text.into_iter()
        .chain(tags)
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

/// The entry whose champion a rollback would bring back: the one before the promotion that
/// brought the current champion. Entries are in the order of their numbers.
pub fn before(history: &[Promotion]) -> Option<&Promotion> {
    let entry = |number: u32| history.iter().find(|it| it.number == number);
    let origin = |it: &Promotion| it.restores.unwrap_or(it.number);
    let brought = origin(history.last()?);
    let replaced = entry(brought.checked_sub(1)?)?;
    entry(origin(replaced))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u32, prompt: &str, restores: Option<u32>) -> Promotion {
        Promotion {
            number,
            task: "tip".to_owned(),
            action: restores.map_or(Action::Promote, |_| Action::Rollback),
            champion: Champion {
                model: "m".to_owned(),
                model_digest: "d".to_owned(),
                prompt: prompt.to_owned(),
                prompt_sha256: "s".to_owned(),
                system: None,
                body: "Say {{ x }}".to_owned(),
                settings: BTreeMap::new(),
                swept: Vec::new(),
            },
            version: 1,
            restores,
            experiment: "e".to_owned(),
            by: "ana".to_owned(),
            at: "2026-01-01T00:00:00.000Z".to_owned(),
            note: None,
            gate: None,
        }
    }

    #[test]
    fn rolling_back_goes_back_one_champion_at_a_time() {
        let mut history = vec![];
        assert_eq!(before(&history), None);
        history.push(entry(1, "a", None));
        assert_eq!(before(&history), None);
        history.push(entry(2, "b", None));
        history.push(entry(3, "c", None));
        assert_eq!(before(&history).map(|it| it.number), Some(2));
        history.push(entry(4, "b", Some(2)));
        assert_eq!(before(&history).map(|it| it.number), Some(1));
        history.push(entry(5, "d", None));
        assert_eq!(before(&history).map(|it| it.number), Some(2));
        history.push(entry(6, "b", Some(2)));
        history.push(entry(7, "a", Some(1)));
        assert_eq!(before(&history), None);
    }

    #[test]
    fn the_registry_gets_texts_and_chats_as_mlflow_writes_them() {
        let mut promotion = entry(1, "v1", None);
        let tag = |promotion: &Promotion, key: &str| {
            let tags = version_tags(promotion);
            tags.into_iter()
                .find(|(it, _)| it == key)
                .map(|(_, value)| value)
        };
        assert_eq!(
            tag(&promotion, "mlflow.prompt.text").as_deref(),
            Some("Say {{ x }}")
        );
        assert_eq!(tag(&promotion, "assize.note"), None);
        promotion.champion.system = Some("Be brief.".to_owned());
        assert_eq!(
            tag(&promotion, "_mlflow_prompt_type").as_deref(),
            Some("chat")
        );
        let text = tag(&promotion, "mlflow.prompt.text").unwrap_or_default();
        assert!(
            text.starts_with(r#"[{"role":"system","content":"Be brief."}"#),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_a_number_holds_to_nothing() {
        for relation in [Relation::AtMost, Relation::AtLeast, Relation::Above] {
            assert!(!relation.holds(f64::NAN, 0.0));
        }
        assert!(Relation::AtLeast.holds(0.0, 0.0) && !Relation::Above.holds(0.0, 0.0));
    }
}
