//! What a rule compares with: a fixed value, a field of the scenario, or a template over its fields.

use minijinja::Environment;
use minijinja::value::Serde;
use serde_json::Value;

use crate::template;

/// The name of the one template in an operand's environment.
const NAME: &str = "expected";

/// A value that may depend on the scenario.
#[derive(Debug)]
pub enum Operand {
    Fixed(Value),
    /// `{{ name }}` alone: the field's value as it is, also where it is a list or a number.
    Field(String),
    /// Any other template: a text.
    Template(Box<Environment<'static>>),
    /// A list of any of them.
    List(Vec<Self>),
}

impl Operand {
    /// Reads a value of a task's file; texts with `{{` or `{%` are templates.
    pub fn parse(value: Value) -> Result<Self, String> {
        if let Value::Array(items) = value {
            let items = items.into_iter().map(Self::parse);
            let items: Vec<Self> = items.collect::<Result<_, _>>()?;
            return Ok(Self::List(items));
        }
        let Value::String(source) = &value else {
            return Ok(Self::Fixed(value));
        };
        // Braces with nothing behind them are a text, as in `not_contains = ["{{"]`.
        let begins = |open: &str| {
            let start = source.find(open);
            start.is_some_and(|at| source[at..].chars().any(char::is_alphanumeric))
        };
        if !begins("{{") && !begins("{%") {
            return Ok(Self::Fixed(value));
        }
        if let Some(name) = field_alone(source) {
            return Ok(Self::Field(name.to_owned()));
        }
        template::check_growth(source).map_err(|(_, reason)| reason)?;
        let mut environment = template::environment(source.len());
        environment
            .add_template_owned(NAME, source.clone())
            .map_err(|error| format!("the template '{source}' does not parse: {error}"))?;
        Ok(Self::Template(Box::new(environment)))
    }

    /// Whether it is the same for every scenario.
    pub fn is_fixed(&self) -> bool {
        match self {
            Self::Fixed(_) => true,
            Self::List(items) => items.iter().all(Self::is_fixed),
            Self::Field(_) | Self::Template(_) => false,
        }
    }

    /// Its value for a scenario, given the fields that judges see (the reference among them).
    pub fn fill(&self, context: &Value) -> Result<Value, String> {
        match self {
            Self::Fixed(value) => Ok(value.clone()),
            Self::Field(name) => context.get(name).cloned().ok_or_else(|| {
                format!("the scenario has no field '{name}', which the rule compares with")
            }),
            Self::Template(environment) => {
                let context = minijinja::Value::from(Serde(context));
                template::render(environment, NAME, &context).map(Value::String)
            }
            Self::List(items) => items.iter().map(|it| it.fill(context)).collect(),
        }
    }
}

/// The name in `{{ name }}`.
fn field_alone(source: &str) -> Option<&str> {
    let name = source.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let mut letters = name.chars();
    let starts_well = letters
        .next()
        .is_some_and(|c| c.is_alphabetic() || c == '_');
    (starts_well && letters.all(|c| c.is_alphanumeric() || c == '_')).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_keep_their_type_and_templates_make_texts() {
        let context = json!({"labels": ["a", "b"], "n": 3});
        let fill = |source: &str| Operand::parse(json!(source)).unwrap().fill(&context);
        assert_eq!(fill("plain").unwrap(), json!("plain"));
        assert_eq!(fill("{{ labels }}").unwrap(), json!(["a", "b"]));
        assert_eq!(fill("{{n}} kg").unwrap(), json!("3 kg"));
        assert_eq!(fill("{{ labels|join('+') }}").unwrap(), json!("a+b"));
        let missing = fill("{{ reference }}").unwrap_err();
        assert!(missing.contains("no field 'reference'"), "{missing}");
        assert!(fill("{{ nothing.at.all }}").is_err());
        assert!(Operand::parse(json!("{{ broken")).is_err());
        assert!(Operand::parse(json!(["{{", "}}"])).is_ok());
        let list = Operand::parse(json!(["x", "{{ n }}"])).unwrap();
        assert_eq!(list.fill(&context).unwrap(), json!(["x", 3]));
    }
}
