//! The options of `collect`, `judge auto` and prompt loops, each defined once.
//!
//! A row of the [`table`] is a flag of the command line, a key of `assize.toml` with its
//! documented default, an environment variable (`ASSIZE_N_TIPS`), a field of the HTTP API with
//! its schema, a param of every run that `collect` records, and a field of the web panel's form.
//! All of these read [`OPTIONS`] and the typed [`Options`]; nothing else lists option names. To
//! add an option, add a row and the code that uses its value.
//!
//! **Identity.** Some options change what a model generates, so they are part of a cell's key
//! ([`crate::cell`]). Users already have cells under today's keys, so a new option of this sort
//! must be [`Identity::WhereChanged`]: it enters the key only where its value differs from its
//! default, and every cell that was collected before the option existed stays known.
//!
//! What only controls a single invocation (`--dry-run`, `--shard`, `--adaptive`) is not an
//! option; such flags are in the binary's `cli` module.

use crate::job::JobKind;
use crate::scenario::Split;

mod requests;
mod table;

pub use requests::{REQUEST_FIELDS, RequestField, form_label, request_keys};
pub use table::{OPTIONS, Options, PartialOptions};

/// One option, as everything that offers it needs to know it.
#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// `n_tips`: the setting, the API's field and the run's param.
    pub key: &'static str,
    /// `n-tips`: the flag, without the dashes before it.
    pub flag: &'static str,
    pub kind: Kind,
    /// One line for `--help` and for the API's schema.
    pub help: &'static str,
    /// What the schema says instead, where requests follow another rule than flags.
    pub field_help: &'static str,
    /// What the settings file says instead of `help`, where there is more to explain; its lines
    /// are separated by `\n`.
    pub comment: &'static str,
    /// What `--help` shows as the default where the value itself would not tell, for example
    /// because it is computed.
    pub default_note: &'static str,
    pub value_name: &'static str,
    pub short: Option<char>,
    /// The flag of a list takes one value and may be repeated, instead of taking commas.
    pub repeats: bool,
    /// The commands that have it as a flag.
    pub flags: &'static [JobKind],
    /// The requests of the HTTP API that have it as a field.
    pub fields: &'static [JobKind],
    pub range: Option<Range>,
    pub identity: Identity,
    pub place: Place,
    /// Whether a task may propose a value in `[defaults]` of its `task.toml`.
    pub is_proposable: bool,
    /// How the panel's form for a new run shows it.
    pub collect_form: FormField,
    /// How the panel's form for an automatic judge shows it.
    pub judge_form: FormField,
    /// Values that a form suggests.
    pub suggestions: &'static [&'static str],
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// One of these texts.
    Choice(&'static [&'static str]),
    List,
    Integer,
    Number,
    Switch,
}

impl Kind {
    /// The type's name in a JSON schema.
    pub const fn json_type(self) -> &'static str {
        match self {
            Self::Text | Self::Choice(_) => "string",
            Self::List => "array",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Switch => "boolean",
        }
    }
}

/// The numbers that an option takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    pub min: f64,
    pub max: f64,
    /// Ends the sentence "`n_tips` is 0: use …".
    pub allowed: &'static str,
}

impl Range {
    /// What is wrong with a number, if anything.
    pub fn problem(&self, number: f64) -> Option<String> {
        let is_allowed = (self.min..=self.max).contains(&number);
        (!is_allowed).then(|| format!("is {number}: use {}", self.allowed))
    }
}

/// Whether an option is part of a cell's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// It does not change what is generated.
    No,
    /// It is an axis of the grid; the key holds the cell's own model, prompt and split.
    Axis,
    /// Its value is in every key. These are the options of the first version, and their order in
    /// the table is their order in the key.
    Always,
    /// Its value is in the key where it differs from the default, so the default must be what was
    /// done before the option existed. For every later option; their order in the table is their
    /// order in the key.
    WhereChanged,
}

/// Whether an option's value is an address or a path. Requests may name only those that the
/// server is configured with or allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    No,
    /// Credentials in it are left out of what is recorded.
    Url,
    File,
}

/// How a form shows an option; the text is its label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormField {
    None,
    /// The page has a control of its own for it, such as a list of what was found.
    Custom(&'static str),
    Main(&'static str),
    /// Behind "More options".
    More(&'static str),
}

impl FormField {
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Custom(label) | Self::Main(label) | Self::More(label) => Some(label),
        }
    }
}

impl OptionSpec {
    /// An option with this key.
    pub fn find(key: &str) -> Option<&'static Self> {
        OPTIONS.iter().find(|it| it.key == key)
    }

    /// How the form of a kind of job shows it.
    pub const fn form(&self, kind: JobKind) -> FormField {
        match kind {
            JobKind::Collect => self.collect_form,
            JobKind::Judge => self.judge_form,
            JobKind::Simulate | JobKind::Optimise => FormField::None,
        }
    }
}

/// What can be the value of an option.
trait OptionValue {
    const KIND: Kind;

    /// As runs record it and keys hash it.
    fn text(&self) -> String;

    fn number(&self) -> Option<f64> {
        None
    }
}

macro_rules! whole_numbers {
    ($($type:ty: $number:expr),*) => {$(
        impl OptionValue for $type {
            const KIND: Kind = Kind::Integer;

            fn text(&self) -> String {
                self.to_string()
            }

            fn number(&self) -> Option<f64> {
                Some($number(*self))
            }
        }
    )*};
}

whole_numbers!(u32: f64::from, u64: |it| it as f64, usize: |it| it as f64);

impl OptionValue for f64 {
    const KIND: Kind = Kind::Number;

    fn text(&self) -> String {
        self.to_string()
    }

    fn number(&self) -> Option<f64> {
        Some(*self)
    }
}

impl OptionValue for bool {
    const KIND: Kind = Kind::Switch;

    fn text(&self) -> String {
        self.to_string()
    }
}

impl OptionValue for String {
    const KIND: Kind = Kind::Text;

    fn text(&self) -> String {
        self.clone()
    }
}

impl OptionValue for Vec<String> {
    const KIND: Kind = Kind::List;

    fn text(&self) -> String {
        self.join(",")
    }
}

impl OptionValue for Split {
    const KIND: Kind = Kind::Choice(&["selection", "feedback", "confirmation"]);

    fn text(&self) -> String {
        self.to_string()
    }
}

/// Options by name, with their values as texts.
pub type Texts = Vec<(&'static str, String)>;

impl Options {
    /// The value of an option as runs record it.
    pub fn text(&self, key: &str) -> Option<String> {
        let mut texts = self.texts().into_iter();
        texts
            .find(|(spec, _)| spec.key == key)
            .map(|(_, text)| text)
    }

    /// Numbers that are out of their range, by key.
    pub fn range_problems(&self) -> Vec<(&'static str, String)> {
        out_of_range(self.numbers())
    }

    /// The options in every cell's key, and those that are in it because they were changed.
    pub fn identity(&self) -> (Texts, Texts) {
        let defaults = Self::default().texts();
        let texts = || self.texts().into_iter().zip(&defaults);
        let of = |identity: Identity| {
            texts()
                .filter(move |((spec, text), (_, default))| {
                    let is_in = identity == Identity::Always || text != default;
                    spec.identity == identity && is_in
                })
                .map(|((spec, text), _)| (spec.key, text))
                .collect()
        };
        (of(Identity::Always), of(Identity::WhereChanged))
    }
}

impl PartialOptions {
    /// Numbers that are out of their range, by key.
    pub fn range_problems(&self) -> Vec<(&'static str, String)> {
        out_of_range(self.numbers())
    }
}

fn out_of_range(numbers: Vec<(&'static OptionSpec, f64)>) -> Vec<(&'static str, String)> {
    let problems = numbers
        .into_iter()
        .filter_map(|(spec, number)| Some((spec.key, spec.range?.problem(number)?)));
    problems.collect()
}

/// What `--help` shows as an option's default; empty where there is nothing to show.
pub fn shown_default(spec: &OptionSpec) -> String {
    if !spec.default_note.is_empty() || spec.kind == Kind::Switch {
        return spec.default_note.to_owned();
    }
    let defaults = Options::default();
    // `4.0` rather than `4` says that fractions are allowed.
    let number = defaults
        .numbers()
        .into_iter()
        .find(|(it, _)| it.key == spec.key);
    match (spec.kind, number) {
        (Kind::Number, Some((_, number))) => format!("{number:?}"),
        _ => defaults.text(spec.key).unwrap_or_default(),
    }
}

/// The part of the documented settings file that is about options: each with its explanation
/// and its default, as TOML.
pub fn documented_defaults() -> Result<String, toml::ser::Error> {
    let defaults = toml::Table::try_from(Options::default())?;
    let mut text = String::new();
    for spec in OPTIONS {
        let about = match spec.comment {
            "" => format!("{}.", spec.help),
            comment => comment.to_owned(),
        };
        for line in about.lines() {
            text.push_str(&format!("# {line}\n"));
        }
        if let Some(value) = defaults.get(spec.key) {
            text.push_str(&format!("{} = {value}\n", spec.key));
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
