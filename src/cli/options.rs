//! Flags of the options in the table of options; no flag of an option is typed by hand.

use assize_domain::job::JobKind;
use assize_domain::options::{Kind, OPTIONS, OptionSpec, shown_default};
use assize_http::redacted;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use toml::Value;

/// The options that were given on the command line.
#[derive(Debug, Clone, Default)]
pub struct GivenOptions(Vec<(&'static OptionSpec, Value)>);

impl GivenOptions {
    pub fn iter(&self) -> impl Iterator<Item = (&'static OptionSpec, &Value)> {
        self.0.iter().map(|(spec, value)| (*spec, value))
    }

    /// A number that was given.
    pub fn number(&self, key: &str) -> Option<f64> {
        let (_, value) = self.iter().find(|(spec, _)| spec.key == key)?;
        value.as_float()
    }

    /// As flags of a command line, without credentials; a switch has an empty value. `but` are left out.
    pub fn flags(&self, but: &[&str]) -> Vec<(String, String)> {
        let mut flags = Vec::new();
        for (spec, value) in self.iter().filter(|(spec, _)| !but.contains(&spec.key)) {
            let name = format!("--{}", spec.flag);
            match value {
                Value::Boolean(true) => flags.push((name, String::new())),
                Value::Boolean(false) => flags.push((format!("{name}=false"), String::new())),
                Value::Array(items) => {
                    let items = items.iter().filter_map(Value::as_str);
                    flags.extend(items.map(|it| (name.clone(), redacted(it))));
                }
                Value::String(text) => flags.push((name, redacted(text))),
                other => flags.push((name, other.to_string())),
            }
        }
        flags
    }

    /// Those that another command has, too.
    #[must_use]
    pub fn of(&self, kind: JobKind) -> Self {
        let shared = self.0.iter().filter(|(spec, _)| kind.is_in(spec.flags));
        Self(shared.cloned().collect())
    }

    fn read(matches: &ArgMatches, specs: impl Iterator<Item = &'static OptionSpec>) -> Self {
        let given = specs.filter_map(|spec| Some((spec, value(spec, matches)?)));
        Self(given.collect())
    }

    /// Options by key, as [`Self::to_json`] wrote them; keys that are not options any more are left
    /// out.
    pub fn from_json(values: &serde_json::Map<String, serde_json::Value>) -> Self {
        let given = values.iter().filter_map(|(key, value)| {
            let value = Value::try_from(value).ok()?;
            Some((OptionSpec::find(key)?, value))
        });
        Self(given.collect())
    }

    /// The options by key.
    pub fn to_json(&self) -> serde_json::Map<String, serde_json::Value> {
        let values = self.iter().filter_map(|(spec, value)| {
            let value = serde_json::to_value(value).ok()?;
            Some((spec.key.to_owned(), value))
        });
        values.collect()
    }
}

fn of_kind(kind: JobKind) -> impl Iterator<Item = &'static OptionSpec> {
    OPTIONS.iter().filter(move |spec| kind.is_in(spec.flags))
}

fn value(spec: &OptionSpec, matches: &ArgMatches) -> Option<Value> {
    let key = spec.key;
    match spec.kind {
        Kind::Switch => matches.get_one::<bool>(key).map(|it| Value::from(*it)),
        Kind::Integer => matches.get_one::<i64>(key).map(|it| Value::from(*it)),
        Kind::Number => matches.get_one::<f64>(key).map(|it| Value::from(*it)),
        Kind::List if spec.repeats => {
            let all = matches.get_many::<String>(key)?;
            Some(Value::Array(all.cloned().map(Value::from).collect()))
        }
        Kind::Text | Kind::Choice(_) | Kind::List => {
            matches.get_one::<String>(key).cloned().map(Value::from)
        }
    }
}

fn arg(spec: &'static OptionSpec) -> Arg {
    let default = shown_default(spec);
    let help = match default.as_str() {
        "" => spec.help.to_owned(),
        default => format!("{} [default: {default}]", spec.help),
    };
    let mut arg = Arg::new(spec.key)
        .long(spec.flag)
        .value_name(spec.value_name)
        .help(help);
    if let Some(short) = spec.short {
        arg = arg.short(short);
    }
    match spec.kind {
        // `--fast` alone is true; `--fast=false` is there to override assize.toml.
        Kind::Switch => arg
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .hide_possible_values(true)
            .value_name("BOOL")
            .value_parser(value_parser!(bool)),
        Kind::Integer => arg.value_parser(value_parser!(i64)),
        Kind::Number => arg.value_parser(value_parser!(f64)),
        Kind::List if spec.repeats => arg.action(ArgAction::Append),
        Kind::Text | Kind::Choice(_) | Kind::List => arg,
    }
}

/// Makes the flags of one command.
macro_rules! flags_of {
    ($(#[$doc:meta])* $name:ident, $specs:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default)]
        pub struct $name(pub GivenOptions);

        impl Args for $name {
            fn augment_args(command: Command) -> Command {
                command.args($specs.map(arg))
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                Ok(Self(GivenOptions::read(matches, $specs)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                *self = Self::from_arg_matches(matches)?;
                Ok(())
            }
        }
    };
}

flags_of!(
    /// The options of `assize collect`.
    CollectFlags,
    of_kind(JobKind::Collect)
);
flags_of!(
    /// The options of `assize judge auto`.
    JudgeFlags,
    of_kind(JobKind::Judge)
);
flags_of!(
    /// The options of `assize optimise start` and `step`.
    LoopFlags,
    of_kind(JobKind::Optimise)
);
