//! Form inputs for options, generated from the table of options.
//!
//! A blank input uses the server's setting, which is shown as its placeholder.

use assize_domain::job::JobKind;
use assize_domain::options::{FormField, Kind, OPTIONS, OptionSpec, Options};
use serde_json::{Map, Value};

use super::fields::{Fields, number};

/// One input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OptionInput {
    pub key: &'static str,
    pub label: &'static str,
    pub kind: Kind,
    /// The bounds of a whole number; empty if there is none.
    pub min: String,
    pub max: String,
    /// The user's input.
    pub value: String,
    /// The value that the server uses if the input is blank.
    pub default: String,
    pub suggestions: &'static [&'static str],
}

impl OptionInput {
    pub fn is_switch(&self) -> bool {
        self.kind == Kind::Switch
    }

    pub fn is_integer(&self) -> bool {
        self.kind == Kind::Integer
    }

    pub fn is_decimal(&self) -> bool {
        self.kind == Kind::Number
    }
}

/// The inputs of a form.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct OptionInputs {
    pub main: Vec<OptionInput>,
    /// Inputs under "More options".
    pub more: Vec<OptionInput>,
}

impl OptionInputs {
    /// Creates the inputs with the server's settings as defaults and the user's previous input.
    pub fn new(kind: JobKind, defaults: &Options, fields: &Fields) -> Self {
        let mut inputs = Self::default();
        for spec in OPTIONS {
            match spec.form(kind) {
                FormField::Main(label) => inputs.main.push(input(spec, label, defaults, fields)),
                FormField::More(label) => inputs.more.push(input(spec, label, defaults, fields)),
                FormField::None | FormField::Custom(_) => {}
            }
        }
        inputs
    }

    /// Whether any input under "More options" was filled in.
    pub fn uses_more(&self) -> bool {
        self.more.iter().any(|it| !it.value.is_empty())
    }
}

fn input(
    spec: &OptionSpec,
    label: &'static str,
    defaults: &Options,
    fields: &Fields,
) -> OptionInput {
    let bound = |value: f64| match value {
        f64::MAX => String::new(),
        value => value.to_string(),
    };
    let range = spec.range;
    let set = defaults.text(spec.key).unwrap_or_default();
    let is_documented = Options::default().text(spec.key).as_ref() == Some(&set);
    OptionInput {
        key: spec.key,
        label,
        kind: spec.kind,
        // All integer options are counts, so they cannot be negative.
        min: range.map_or_else(|| "0".to_owned(), |it| bound(it.min)),
        max: range.map_or_else(String::new, |it| bound(it.max)),
        value: fields.owned(spec.key).unwrap_or_default(),
        default: match spec.default_note {
            note if is_documented && !note.is_empty() => note.to_owned(),
            _ if spec.kind == Kind::Switch => on_or_off(&set).to_owned(),
            _ => set,
        },
        suggestions: spec.suggestions,
    }
}

fn on_or_off(text: &str) -> &'static str {
    if text == "true" { "on" } else { "off" }
}

/// Adds the user's input to a request; blank inputs are omitted.
pub(crate) fn fill(kind: JobKind, fields: &Fields, request: &mut Map<String, Value>) {
    for spec in OPTIONS {
        let is_input = matches!(spec.form(kind), FormField::Main(_) | FormField::More(_));
        let Some(text) = fields.get(spec.key).filter(|_| is_input) else {
            continue;
        };
        let value = match spec.kind {
            Kind::Integer => number::<i64>(text),
            Kind::Number => number::<f64>(text),
            Kind::Switch => match text {
                "1" | "true" => true.into(),
                "0" | "false" => false.into(),
                other => other.into(),
            },
            Kind::Text | Kind::Choice(_) | Kind::List => text.into(),
        };
        request.insert(spec.key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_form_adds_nothing_and_shows_the_server_s_settings() {
        let set = Options {
            n_tips: 3,
            temperature: 0.2,
            diversity: true,
            ..Options::default()
        };
        let inputs = OptionInputs::new(JobKind::Collect, &set, &Fields::default());
        let all = inputs.main.iter().chain(&inputs.more);
        assert!(all.clone().all(|it| it.value.is_empty()));
        let shown = |key: &str| {
            let input = all.clone().find(|it| it.key == key);
            input.map(|it| it.default.as_str())
        };
        assert_eq!(shown("n_tips"), Some("3"));
        assert_eq!(shown("temperature"), Some("0.2"));
        assert_eq!(shown("diversity"), Some("on"));
        assert_eq!(shown("max_model_b"), Some("4"));
        assert!(!inputs.uses_more());
        let mut request = Map::new();
        fill(JobKind::Collect, &Fields::default(), &mut request);
        assert_eq!(request, Map::new());
    }

    #[test]
    fn input_is_converted_to_the_option_s_type() {
        let fields = Fields::parse(b"n_tips=7&temperature=1&diversity=false&max_tokens=many");
        let mut request = Map::new();
        fill(JobKind::Collect, &fields, &mut request);
        let expected = serde_json::json!({
            "n_tips": 7, "temperature": 1.0, "max_tokens": "many", "diversity": false,
        });
        assert_eq!(Value::Object(request), expected);
    }
}
