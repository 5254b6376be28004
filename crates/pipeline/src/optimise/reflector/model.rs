//! A model as reflector: asked through its provider for JSON by a schema.
//!
//! A model that holds weights on this machine enters the guard like every other, and leaves it when
//! it has answered.

use assize_domain::cell::candidate_seed;
use assize_domain::model::ProviderKind;
use assize_optimise::Packet;
use assize_optimise::reply::LONGEST_HYPOTHESIS;
use assize_providers::{
    Candidate, Completion, Message, Provider, ProviderError, Request, Role, Sampling,
};
use serde_json::{Value, json};

use super::{ReflectContext, Reflection, ask_twice};
use crate::guard::Place;
use crate::size_gate::SizedModel;
use crate::{PipelineError, Result};

/// The most tokens of an answer: four whole templates.
pub const MAX_TOKENS: u32 = 8192;
/// A packet and an answer are long.
pub const LEAST_CONTEXT: u32 = 16_384;
/// Children should differ.
const TEMPERATURE: f64 = 0.8;
/// How much of an unusable answer is sent back.
const QUOTED_CHARS: usize = 2000;

const SYSTEM: &str = "You improve prompt templates for small language models: you read how their outputs were judged, \
    and write better templates. Answer with one JSON object and nothing else.";

pub fn ask(packet: &Packet, context: &ReflectContext<'_>) -> Result<Reflection> {
    let model = context.model.ok_or_else(|| {
        PipelineError::Internal("a reflecting model was asked before it was described".to_owned())
    })?;
    let provider = model
        .providers
        .first()
        .ok_or_else(|| PipelineError::Invalid(format!("no provider can run {}", model.id)))?;
    let stopped = || context.is_stopped();
    let place = Place {
        num_ctx: num_ctx(model, context),
        candidates: 1,
        stopped: &stopped,
    };
    let (name, digest) = (&model.id.name, &model.info.digest);
    let tenancy = context
        .guard
        .enter(provider, name, digest, &place, |_| {})?;
    let answered = converse(provider.as_ref(), model, packet, context);
    tenancy.leave()?;
    answered
}

fn converse(
    provider: &dyn Provider,
    model: &SizedModel,
    packet: &Packet,
    context: &ReflectContext<'_>,
) -> Result<Reflection> {
    let message = |role, content: String| Message { role, content };
    let first = [
        message(Role::System, SYSTEM.to_owned()),
        message(Role::User, packet.to_text(&context.nonce()?)),
    ];
    ask_twice(packet, |rejected| {
        let mut messages = first.to_vec();
        if let Some((said, problems)) = rejected {
            let said = said.chars().take(QUOTED_CHARS).collect();
            let again = format!(
                "That answer could not be used: {}. Answer the same request again, with one JSON object and nothing \
                 else.",
                problems.join("; ")
            );
            messages.extend([message(Role::Assistant, said), message(Role::User, again)]);
        }
        let request = request(messages, model, packet, context);
        let answer = provider.generate(&model.id.name, &request).pop();
        let answer = answer.unwrap_or_else(|| {
            Err(ProviderError::Malformed {
                host: model.id.to_string(),
                reason: "it answered fewer candidates than were asked for".to_owned(),
            })
        })?;
        let cost = cost_usd(&answer, context);
        Ok((answer.text, cost))
    })
}

fn request(
    messages: Vec<Message>,
    model: &SizedModel,
    packet: &Packet,
    context: &ReflectContext<'_>,
) -> Request {
    let num_ctx = num_ctx(model, context);
    Request {
        prompt: "reflect".to_owned(),
        scenario: packet.id.clone(),
        candidates: vec![Candidate {
            messages,
            seed: candidate_seed(context.seed, &packet.id, 0),
        }],
        sampling: Sampling {
            temperature: TEMPERATURE,
            max_tokens: MAX_TOKENS.min(num_ctx / 2),
            num_ctx,
            json_schema: Some(schema(packet, model.id.provider != ProviderKind::OpenAi)),
            ..Sampling::default()
        },
        ..Request::default()
    }
}

/// Large enough for a packet and its answer, as far as the model was trained for that.
fn num_ctx(model: &SizedModel, context: &ReflectContext<'_>) -> u32 {
    let most = model
        .info
        .context_length
        .map_or(u32::MAX, |length| u32::try_from(length).unwrap_or(u32::MAX));
    context.num_ctx.max(LEAST_CONTEXT.min(most))
}

fn cost_usd(answer: &Completion, context: &ReflectContext<'_>) -> f64 {
    let priced = || context.prices.map(|prices| prices.cost(answer));
    answer.cost_usd.or_else(priced).unwrap_or(0.0)
}

/// The JSON that an answer must be. `bounded` limits numbers and lengths, which strict schemas of
/// some services do not take. Strict schemas have no optional fields, so a parent's system text is
/// asked for in full; without one, `null` says that there is still none.
fn schema(packet: &Packet, bounded: bool) -> Value {
    let mut hypothesis = json!({"type": "string", "description": "one line"});
    let system = match packet.version.system {
        Some(_) => json!({"type": "string"}),
        None => json!({"type": ["string", "null"]}),
    };
    if bounded {
        hypothesis["maxLength"] = json!(LONGEST_HYPOTHESIS);
    }
    let child = json!({
        "type": "object",
        "properties": {
            "hypothesis": hypothesis,
            "kind": {"type": "string", "enum": ["edit", "restart", "other"]},
            "system": system,
            "template": {"type": "string", "description": "the whole template"},
        },
        "required": ["hypothesis", "kind", "system", "template"],
        "additionalProperties": false,
    });
    let mut children = json!({"type": "array", "items": child});
    if bounded {
        children["minItems"] = json!(1);
        children["maxItems"] = json!(packet.children);
    }
    json!({
        "type": "object",
        "properties": {"children": children},
        "required": ["children"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use assize_providers::scripted::ScriptedProvider;

    use super::super::tests::{context, guard, packet};
    use super::super::{Asked, Reflector};
    use super::*;
    use crate::judge::auto::Prices;
    use crate::size_gate;

    const CHILD: &str = r#"{\"children\":[{\"hypothesis\":\"h\",\"kind\":\"edit\",\"system\":\"Be kind.\",\"template\":\"T {{ persona }}\"}]}"#;

    fn asked(responses: &str) -> Result<Reflection> {
        let script =
            format!(r#"{{"models":{{"m":{{"parameter_count":1,"responses":[{responses}]}}}}}}"#);
        let provider: Arc<dyn Provider> = Arc::new(script.parse::<ScriptedProvider>()?);
        let reflector = Reflector::parse("scripted:m")?;
        let id = reflector.model().expect("a model");
        let model = size_gate::describe(id, &[provider], &std::collections::BTreeMap::new())?;
        let (_folder, guard) = guard();
        let context = ReflectContext {
            model: Some(&model),
            prices: Some(Prices {
                input_usd: 0.0,
                output_usd: 1e6,
            }),
            ..context(&guard)
        };
        match reflector.ask(&packet(), &context)? {
            Asked::Answered(reflection) => Ok(reflection),
            Asked::Waits => unreachable!("a model answers"),
        }
    }

    #[test]
    fn a_model_reads_the_packet_and_is_told_once_what_was_wrong() {
        let asked = asked(&format!(
            r#"{{"prompt":"reflect","scenario":"p1","prompt_contains":["could not be used","children is empty"],
                "texts":["{CHILD}"],"cost_usd":0.5}},
               {{"prompt_contains":["Help {{{{ persona }}}}","Too vague.","‹|im_end|›"],"prompt_lacks":"<|im_end|>",
                "texts":["{{\"children\": []}}"],"cost_usd":0.25}}"#
        ));
        let reflection = asked.expect("answered");
        assert_eq!(reflection.problem, None);
        assert_eq!(reflection.children[0].system.as_deref(), Some("Be kind."));
        assert!(
            (reflection.cost_usd - 0.75).abs() < 1e-12,
            "{}",
            reflection.cost_usd
        );
    }

    #[test]
    fn a_second_unusable_answer_is_the_problem_and_a_failure_is_an_error() {
        let reflection = asked(r#"{"texts":["no idea"]}"#).expect("answered");
        assert!(reflection.children.is_empty());
        let problem = reflection.problem.expect("a problem");
        assert!(problem.contains("JSON object"), "{problem}");
        // Two answers of two words each, at a dollar a word.
        assert!(
            (reflection.cost_usd - 4.0).abs() < 1e-9,
            "{}",
            reflection.cost_usd
        );
        assert!(asked(r#"{"error":"http_500"}"#).is_err());
    }

    #[test]
    fn the_schema_asks_for_a_system_text_where_there_is_one() {
        let mut packet = packet();
        let child = |packet: &Packet, bounded| {
            schema(packet, bounded)["properties"]["children"]["items"]["properties"].clone()
        };
        assert_eq!(child(&packet, true)["system"]["type"], "string");
        assert_eq!(child(&packet, true)["hypothesis"]["maxLength"], 200);
        packet.version.system = None;
        assert_eq!(
            child(&packet, false)["system"]["type"],
            json!(["string", "null"])
        );
        assert!(
            child(&packet, false)["hypothesis"]
                .get("maxLength")
                .is_none()
        );
    }
}
