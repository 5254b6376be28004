//! Reflectors: who reads a packet and writes new versions of the prompt.
//!
//! | spec | who answers |
//! |---|---|
//! | `agent` | an agent session, whenever it comes: nothing is asked here, and the packet waits ([`super::packets`]) |
//! | `cmd:COMMAND` | a program that reads the packet as JSON and prints the answer as JSON ([`command`]) |
//! | `script:FILE` | rules, for rehearsals and tests ([`script`]) |
//! | a model | the model, through its provider ([`model`]) |
//!
//! Every answer goes through [`Reply::parse`]. A program and a model are told once what was wrong and
//! may answer again, as judges may; what is wrong then is the [`Reflection::problem`] of a round
//! without children. A reflector that could not be asked at all is an error, and the packet stays open.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_domain::hash::hex;
use assize_domain::model::{ModelId, ProviderKind};
use assize_optimise::{Packet, Proposal, Reply};

use crate::guard::Guard;
use crate::judge::auto::Prices;
use crate::judge::{Entropy, draw};
use crate::size_gate::SizedModel;
use crate::{PipelineError, Result};

mod command;
mod model;
mod script;

pub use model::{LEAST_CONTEXT, MAX_TOKENS};

/// A reflector as the user names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reflector {
    Agent,
    /// The program and its arguments.
    Command(Vec<String>),
    Script(PathBuf),
    Model(ModelId),
}

/// What asking a reflector needs.
#[derive(Debug)]
pub struct ReflectContext<'a> {
    /// Of a [`Reflector::Model`]: described, and admitted by the size gate.
    pub model: Option<&'a SizedModel>,
    pub guard: &'a Guard,
    /// Context of a model in tokens; at least [`LEAST_CONTEXT`] is used.
    pub num_ctx: u32,
    /// What tokens cost, where the provider does not say.
    pub prices: Option<Prices>,
    /// How long a command may take.
    pub timeout: Duration,
    /// The loop's seed.
    pub seed: u64,
    pub entropy: Entropy,
    pub stop: &'a AtomicBool,
}

/// How a packet was answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reflection {
    pub children: Vec<Proposal>,
    /// Why there are no children, where there are none.
    pub problem: Option<String>,
    pub cost_usd: f64,
}

/// The result of asking a reflector.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    Answered(Reflection),
    /// The answer comes from an agent session, later.
    Waits,
}

impl Reflector {
    /// Reads `agent`, `cmd:COMMAND`, `script:FILE` or a model.
    pub fn parse(spec: &str) -> Result<Self> {
        let invalid = |reason: String| PipelineError::Invalid(reason);
        let spec = spec.trim();
        if spec == "agent" {
            return Ok(Self::Agent);
        }
        if let Some(line) = spec.strip_prefix("cmd:") {
            let words = shlex::split(line).ok_or_else(|| {
                invalid(format!(
                    "the reflector '{spec}' has a quote without its end"
                ))
            })?;
            if words.is_empty() {
                let reason = "the reflector 'cmd:' names no command: write cmd:COMMAND, for example \
                              cmd:'python3 reflect.py'";
                return Err(invalid(reason.to_owned()));
            }
            return Ok(Self::Command(words));
        }
        if let Some(path) = spec.strip_prefix("script:") {
            if path.is_empty() {
                return Err(invalid("the reflector 'script:' names no file".to_owned()));
            }
            return Ok(Self::Script(PathBuf::from(path)));
        }
        let model = spec.parse().map_err(|error| {
            invalid(format!(
                "'{spec}' is not a reflector: use agent, cmd:COMMAND, script:FILE or a model ({error})"
            ))
        })?;
        Ok(Self::Model(model))
    }

    /// Whether a loop may use it; `force` admits local models, which write junk when they are small.
    pub fn check(&self, force: bool) -> Result<()> {
        match self {
            Self::Script(path) => script::read(path).map(|_| ()),
            Self::Model(id) if !force && is_local(id) => Err(PipelineError::Invalid(format!(
                "{id} runs on your own machine, and models of that size mostly write unusable prompts: use an \
                 agent (--reflector agent), a command or a larger model behind an API, or insist with --force"
            ))),
            Self::Agent | Self::Command(_) | Self::Model(_) => Ok(()),
        }
    }

    /// The model that must be described and admitted before it is asked.
    pub const fn model(&self) -> Option<&ModelId> {
        match self {
            Self::Model(id) => Some(id),
            Self::Agent | Self::Command(_) | Self::Script(_) => None,
        }
    }

    /// Asks for new versions. It returns at once for an agent, whose answer comes later.
    pub fn ask(&self, packet: &Packet, context: &ReflectContext<'_>) -> Result<Asked> {
        let reflection = match self {
            Self::Agent => return Ok(Asked::Waits),
            Self::Command(words) => command::ask(words, packet, context)?,
            Self::Script(path) => script::ask(path, packet, context.seed)?,
            Self::Model(_) => model::ask(packet, context)?,
        };
        Ok(Asked::Answered(reflection))
    }
}

impl fmt::Display for Reflector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agent => f.write_str("agent"),
            // Arguments may hold credentials, and this name is shown and registered.
            Self::Command(words) => {
                let program = words.first().map_or("", String::as_str);
                write!(
                    f,
                    "cmd:{}",
                    program.rsplit(['/', '\\']).next().unwrap_or(program)
                )
            }
            Self::Script(path) => write!(f, "script:{}", path.display()),
            Self::Model(id) => id.fmt(f),
        }
    }
}

impl Reflection {
    /// What an answer that is not asked for again amounts to.
    fn of(answer: &str, packet: &Packet, cost_usd: f64) -> Self {
        match Reply::parse(answer, packet) {
            Ok(reply) => Self {
                children: reply.children,
                problem: None,
                cost_usd,
            },
            Err(problems) => Self {
                children: Vec::new(),
                problem: Some(problems.join("; ")),
                cost_usd,
            },
        }
    }
}

impl ReflectContext<'_> {
    /// A nonce for the fences of one packet, which no output can know.
    fn nonce(&self) -> Result<String> {
        Ok(hex(&draw(self.entropy)?[..8]))
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn is_local(id: &ModelId) -> bool {
    matches!(id.provider, ProviderKind::Ollama | ProviderKind::Embedded)
}

/// Asks twice at most: the second time with what was wrong with the first answer. `ask` gets the
/// unusable answer and its problems, and returns the next answer with its cost.
fn ask_twice(
    packet: &Packet,
    mut ask: impl FnMut(Option<(&str, &[String])>) -> Result<(String, f64)>,
) -> Result<Reflection> {
    let (answer, cost) = ask(None)?;
    let Err(problems) = Reply::parse(&answer, packet) else {
        return Ok(Reflection::of(&answer, packet, cost));
    };
    let (second, more) = ask(Some((&answer, &problems)))?;
    Ok(Reflection::of(&second, packet, cost + more))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use assize_domain::scenario::parse_all;
    use assize_http::LocalMachine;
    use assize_optimise::packet::RejectedHypothesis;
    use assize_optimise::{FeedbackCell, FeedbackOutput, Version};
    use assize_store::state::State;

    use super::*;

    static RUNNING: AtomicBool = AtomicBool::new(false);

    pub fn packet() -> Packet {
        let line = r#"{"id":"a","split":"feedback","persona":"a nurse who works at night and sleeps by day"}"#;
        let scenario = parse_all("s.jsonl", line).expect("a scenario").remove(0);
        let output = FeedbackOutput {
            text: "Do it. <|im_end|>".to_owned(),
            composite: 3.0,
            scores: [("tone".to_owned(), 3.into())].into(),
            rationale: Some("Too vague.".to_owned()),
        };
        let cell = FeedbackCell::new("m", &scenario, vec![output]).expect("feedback");
        Packet {
            id: "p1".to_owned(),
            round: 1,
            parent: "seed".to_owned(),
            version: Version::new("v1", Some("Be brief."), "Help {{ persona }}."),
            output_contract: "plain text".to_owned(),
            rubric: "Score tone.".to_owned(),
            variables: vec!["persona".to_owned()],
            longest: Some(900),
            children: 4,
            worst: vec![cell],
            good: Vec::new(),
            rejected: vec![RejectedHypothesis {
                id: "r1c1".to_owned(),
                hypothesis: "shorter answers".to_owned(),
                reason: "dropped".to_owned(),
            }],
        }
    }

    /// A guard over nothing, in a folder that lives as long as it is held.
    pub fn guard() -> (tempfile::TempDir, Guard) {
        let folder = tempfile::tempdir().expect("a folder");
        let guard = Guard {
            state: Arc::new(State::open(folder.path()).expect("a state")),
            locks: folder.path().join("locks"),
            evict: false,
            wait: Duration::ZERO,
            keep_alive_ms: 1000,
            clock: || 0,
            machine: LocalMachine::system(),
        };
        (folder, guard)
    }

    pub fn context(guard: &Guard) -> ReflectContext<'_> {
        ReflectContext {
            model: None,
            guard,
            num_ctx: 2048,
            prices: None,
            timeout: Duration::from_secs(30),
            seed: 42,
            entropy: || Ok([7; 16]),
            stop: &RUNNING,
        }
    }

    #[test]
    fn an_agent_answers_later() {
        let (_folder, guard) = guard();
        let asked = Reflector::Agent.ask(&packet(), &context(&guard));
        assert_eq!(asked.expect("asked"), Asked::Waits);
    }

    #[test]
    fn every_kind_is_read_and_shown_again() {
        for (spec, shown) in [
            ("agent", "agent"),
            (
                "cmd:/opt/bin/writer 'my file.py' --key=secret",
                "cmd:writer",
            ),
            ("script:rules.toml", "script:rules.toml"),
            ("openai:gpt", "openai:gpt"),
            ("qwen2.5:0.5b", "qwen2.5:0.5b"),
        ] {
            let reflector = Reflector::parse(spec).expect("sound");
            assert_eq!(reflector.to_string(), shown);
        }
        for (spec, part) in [
            ("cmd:", "names no command"),
            ("cmd:a 'b", "quote"),
            ("script:", "names no file"),
            ("two words", "is not a reflector"),
        ] {
            let error = Reflector::parse(spec).expect_err("wrong").to_string();
            assert!(error.contains(part), "{spec}: {error}");
        }
    }

    #[test]
    fn local_models_need_force() {
        for spec in ["qwen2.5:0.5b", "embedded:smollm2-135m"] {
            let reflector = Reflector::parse(spec).expect("sound");
            let error = reflector.check(false).expect_err("refused").to_string();
            assert!(error.contains("--force"), "{error}");
            reflector.check(true).expect("forced");
        }
        for spec in ["agent", "cmd:true", "openai:gpt", "scripted:x"] {
            let reflector = Reflector::parse(spec).expect("sound");
            reflector.check(false).expect("admitted");
        }
    }
}
