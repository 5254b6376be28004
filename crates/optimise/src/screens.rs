//! Screens: checks that cost no verdict, before a child enters the race. They reject and never repair.
//!
//! | screen | a child is rejected where |
//! |---|---|
//! | `characters` | it holds a control character or an invisible one that the seed does not hold |
//! | `parse` | it is no valid template, could get too large ([`assize_domain::template`]), or names a variable that neither the seed nor a scenario of the feedback split has |
//! | `variables` | a variable that shows in the seed's text does not show in the child's, or a scenario of any split cannot be filled in within the limits of templates |
//! | `duplicate` | its text, apart from white space, was there before |
//! | `length` | filled in, it is longer than 1.5 × the champion, or does not fit the model's context |
//! | `leak` | it holds five words in a row of a scenario, a reference or an anchor of any split, or ten characters of a script without spaces ([`leak`]) |
//!
//! Whether a variable shows is tried out: its value is changed, and some scenario's text must change
//! with it. A variable that is named only in a branch that is never taken is lost all the same.
//!
//! Reasons quote nothing but the child and what its author has seen, because reflectors read them.

use std::collections::BTreeSet;

use assize_domain::anchor::Anchor;
use assize_domain::fence::is_invisible;
use assize_domain::prompt::{Prompt, Renderer};
use assize_domain::scenario::{Scenario, Split};
use serde_json::Value;

use crate::event::Rejection;
use crate::version::Version;
use leak::LeakIndex;

pub mod leak;
#[cfg(test)]
mod tests;

/// How much longer than the champion a child may be.
pub const LONGEST_RATIO: f64 = 1.5;
/// A cautious number of bytes for one token of a model.
const BYTES_PER_TOKEN: usize = 3;
/// Is appended to values to see whether they show.
const MARK: &str = "7f3a9c";

/// What children are screened against.
#[derive(Debug, Clone, Copy)]
pub struct Material<'a> {
    pub seed: &'a Prompt,
    /// What is shipped now; the seed where nothing is.
    pub champion: &'a Prompt,
    /// Of all splits.
    pub scenarios: &'a [Scenario],
    pub anchors: &'a [Anchor],
    pub output_contract: &'a str,
    pub rubric: &'a str,
    /// The longest of these is used to find out how long a text can get.
    pub angles: &'a [String],
    /// The model's context, of which `max_tokens` are for the output.
    pub num_ctx: u32,
    pub max_tokens: u32,
}

/// The screens of one loop, with what they need prepared.
#[derive(Debug)]
pub struct Screens<'a> {
    material: Material<'a>,
    leak: LeakIndex,
    known: BTreeSet<String>,
    shown: BTreeSet<String>,
    champion_chars: usize,
}

impl<'a> Screens<'a> {
    pub fn new(material: Material<'a>) -> Self {
        // Names that only hidden scenarios have would reach reflectors with the reasons.
        let feedback = material.scenarios.iter();
        let feedback = feedback.filter(|it| it.split == Split::Feedback);
        let fields = feedback.flat_map(|it| it.fields.keys().cloned());
        let champion = rendered(material.champion, &material).unwrap_or_default();
        Self {
            leak: LeakIndex::new(&material),
            known: fields.chain(material.seed.variables()).collect(),
            shown: shown_variables(material.seed, material.scenarios),
            champion_chars: champion.iter().map(|it| it.chars().count()).sum(),
            material,
        }
    }

    /// The variables that a child must show.
    pub fn variables(&self) -> Vec<String> {
        self.shown.iter().cloned().collect()
    }

    /// About how many characters a child's template may have.
    pub fn longest(&self) -> u32 {
        let champion = self.material.champion;
        let own = champion.body.chars().count()
            + champion.system.as_ref().map_or(0, |it| it.chars().count());
        let filled_in = self.champion_chars / self.material.scenarios.len().max(1);
        u32::try_from(own + filled_in / 2).unwrap_or(u32::MAX)
    }

    /// The child as a prompt, or the first screen that it does not pass. `seen` are all versions
    /// that were there before.
    pub fn check(&self, child: &Version, seen: &[&Version]) -> Result<Prompt, Rejection> {
        self.characters(child)?;
        let prompt = self.parse(child)?;
        let texts = self.variables_kept(&prompt)?;
        duplicate(child, seen)?;
        self.length(&texts)?;
        self.leak(&prompt)?;
        Ok(prompt)
    }

    fn characters(&self, child: &Version) -> Result<(), Rejection> {
        let seed = Version::from(self.material.seed).as_text();
        let text = child.as_text();
        let is_new = |it: &char| is_invisible(*it) && !seed.contains(*it);
        let Some(found) = text.chars().find(is_new) else {
            return Ok(());
        };
        let before = text.split(found).next().unwrap_or_default();
        let reason = format!(
            "line {} holds the control or invisible character U+{:04X}",
            before.matches('\n').count() + 1,
            u32::from(found)
        );
        Err(rejection("characters", reason))
    }

    fn parse(&self, child: &Version) -> Result<Prompt, Rejection> {
        child.to_prompt("", Some(&self.known)).map_err(|problems| {
            let problems: Vec<String> = problems.into_iter().map(|it| it.message).collect();
            rejection("parse", problems.join("; "))
        })
    }

    /// The texts of all scenarios.
    fn variables_kept(&self, prompt: &Prompt) -> Result<Vec<String>, Rejection> {
        // The error could name what only a hidden split holds.
        let texts = rendered(prompt, &self.material).ok_or_else(|| {
            let why = "it cannot be filled in for every scenario: not all of them have every field it uses, or its text \
                       gets too long or takes too many steps";
            rejection("variables", why.to_owned())
        })?;
        let shown = shown_variables(prompt, self.material.scenarios);
        let lost: Vec<&str> = self.shown.difference(&shown).map(String::as_str).collect();
        if lost.is_empty() {
            Ok(texts)
        } else {
            let reason = format!("its text does not show {}", lost.join(", "));
            Err(rejection("variables", reason))
        }
    }

    fn length(&self, texts: &[String]) -> Result<(), Rejection> {
        let own: usize = texts.iter().map(|it| it.chars().count()).sum();
        let ratio = own as f64 / self.champion_chars.max(1) as f64;
        if ratio > LONGEST_RATIO {
            let each = own / texts.len().max(1);
            let reason = format!(
                "filled in it has {each} characters on average, {ratio:.2} × the champion; at most {LONGEST_RATIO} × \
                 is allowed"
            );
            return Err(rejection("length", reason));
        }
        let longest = texts.iter().map(String::len).max().unwrap_or(0);
        let tokens = longest.div_ceil(BYTES_PER_TOKEN);
        let room = self
            .material
            .num_ctx
            .saturating_sub(self.material.max_tokens);
        if tokens > room as usize {
            let reason = format!(
                "filled in it has up to about {tokens} tokens, and the context leaves {room} of {} for it",
                self.material.num_ctx
            );
            return Err(rejection("length", reason));
        }
        Ok(())
    }

    fn leak(&self, child: &Prompt) -> Result<(), Rejection> {
        let shared = self.leak.shared_with(child);
        let Some(first) = shared.first() else {
            return Ok(());
        };
        let unit = if first.contains(' ') {
            "five words"
        } else {
            "ten characters"
        };
        let reason = format!(
            "it shares {} of {unit} with scenarios, references or anchors, first \"{first}\"; write general \
             instructions",
            crate::tree::count(shared.len(), "run")
        );
        Err(rejection("leak", reason))
    }
}

fn rejection(screen: &str, reason: String) -> Rejection {
    Rejection {
        screen: screen.to_owned(),
        reason,
    }
}

fn duplicate(child: &Version, seen: &[&Version]) -> Result<(), Rejection> {
    let words = |it: &Version| -> Vec<String> {
        it.as_text().split_whitespace().map(str::to_owned).collect()
    };
    let own = words(child);
    let same = |it: &&&Version| it.sha256 == child.sha256 || words(it) == own;
    match seen.iter().find(same) {
        None => Ok(()),
        Some(other) => {
            let reason = format!("its text is that of {}", other.name);
            Err(rejection("duplicate", reason))
        }
    }
}

/// The whole texts that models would get, with the longest angle; `None` where a scenario cannot
/// be filled in.
fn rendered(prompt: &Prompt, material: &Material<'_>) -> Option<Vec<String>> {
    let renderer = Renderer::new(prompt).ok()?;
    let angles = material.angles.iter().map(String::as_str);
    let angle = angles.max_by_key(|it| it.len()).unwrap_or("");
    let texts = material.scenarios.iter().map(|it| {
        renderer.render(it, "").ok()?;
        Some(renderer.render(it, angle).ok()?.as_text())
    });
    texts.collect()
}

/// The variables whose values change the text of some scenario.
pub fn shown_variables(prompt: &Prompt, scenarios: &[Scenario]) -> BTreeSet<String> {
    let Ok(renderer) = Renderer::new(prompt) else {
        return BTreeSet::new();
    };
    let shows = |name: &String| {
        scenarios.iter().any(|scenario| {
            let Ok(before) = renderer.render(scenario, "") else {
                return false;
            };
            if name == "angle" {
                return renderer.render(scenario, MARK).ok() != Some(before);
            }
            let mut changed = scenario.clone();
            let Some(value) = changed.fields.get_mut(name) else {
                return false;
            };
            change(value);
            // A value that the template cannot use is a value that it uses.
            renderer.render(&changed, "").ok() != Some(before)
        })
    };
    prompt.variables().into_iter().filter(shows).collect()
}

fn change(value: &mut Value) {
    match value {
        Value::Null => *value = MARK.into(),
        Value::Bool(it) => *it = !*it,
        Value::Number(it) => *value = (it.as_f64().unwrap_or(0.0) + 1.0).into(),
        Value::String(it) => it.push_str(MARK),
        Value::Array(items) if items.is_empty() => items.push(MARK.into()),
        Value::Array(items) => items.iter_mut().for_each(change),
        Value::Object(map) => map.values_mut().for_each(change),
    }
}
