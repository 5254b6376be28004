//! Samples one candidate's next token.
//!
//! The chain is top-k, top-p, temperature, seeded draw, with the values that Ollama uses by
//! default, so that a model behaves the same on both. A grammar masks before the chain. To
//! mask a whole vocabulary costs as much as to decode a token of a small model, so only the
//! likeliest tokens are masked at first, and the rest only where none of them fits.

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;

const TOP_K: i32 = 40;
const TOP_P: f32 = 0.9;
/// How many tokens a grammar masks first; far more than the chain keeps.
const LIKELIEST: usize = 1024;

/// One candidate's chain, with its own random state.
#[derive(Debug)]
pub(crate) struct Sampler {
    chain: LlamaSampler,
    grammar: Option<LlamaSampler>,
}

impl Sampler {
    /// `grammar` is a fresh one, made for this candidate by [`grammar`] or cloned from it.
    pub(crate) fn new(temperature: f64, seed: u32, grammar: Option<LlamaSampler>) -> Self {
        let chain = if temperature > 0.0 {
            #[expect(clippy::cast_possible_truncation, reason = "llama.cpp computes in f32")]
            let temperature = temperature as f32;
            // llama.cpp takes the largest seed for "choose one at random".
            let seed = seed.min(u32::MAX - 1);
            LlamaSampler::chain_simple([
                LlamaSampler::top_k(TOP_K),
                LlamaSampler::top_p(TOP_P, 1),
                LlamaSampler::temp(temperature),
                LlamaSampler::dist(seed),
            ])
        } else {
            LlamaSampler::chain_simple([LlamaSampler::greedy()])
        };
        Self { chain, grammar }
    }

    /// Chooses from the logits at `row` of the last decoded batch.
    pub(crate) fn sample(
        &mut self,
        context: &LlamaContext<'_>,
        row: i32,
    ) -> Result<LlamaToken, String> {
        let Some(grammar) = &mut self.grammar else {
            return Ok(self.chain.sample(context, row));
        };
        let mut choices = context.token_data_array_ith(row);
        if choices.data.len() > LIKELIEST {
            let descending =
                |a: &LlamaTokenData, b: &LlamaTokenData| b.logit().total_cmp(&a.logit());
            choices.data.select_nth_unstable_by(LIKELIEST, descending);
            choices.data.truncate(LIKELIEST);
        }
        grammar.apply(&mut choices);
        if !choices.data.iter().any(permitted) {
            choices = context.token_data_array_ith(row);
            grammar.apply(&mut choices);
        }
        choices.data.retain(permitted);
        if choices.data.is_empty() {
            return Err("no token fits the JSON schema".to_owned());
        }
        self.chain.apply(&mut choices);
        let token = choices.selected_token().ok_or("no token was chosen")?;
        self.chain.accept(token);
        grammar
            .try_accept(token)
            .map_err(|error| format!("the JSON schema's grammar failed: {error}"))?;
        Ok(token)
    }
}

/// Whether a grammar left the token in.
fn permitted(choice: &LlamaTokenData) -> bool {
    choice.logit() > f32::NEG_INFINITY
}

/// The grammar that admits exactly the JSON texts of `schema`.
pub(crate) fn grammar(
    model: &LlamaModel,
    schema: &serde_json::Value,
) -> Result<LlamaSampler, String> {
    let grammar = llama_cpp_2::json_schema_to_grammar(&schema.to_string())
        .map_err(|error| format!("the JSON schema cannot be converted to a grammar: {error}"))?;
    LlamaSampler::grammar(model, &compact(&grammar), "root")
        .map_err(|error| format!("llama.cpp rejects the JSON schema's grammar: {error}"))
}

/// Allows one space where llama.cpp's grammars allow line breaks and indentation, on which
/// small models spend half of their tokens.
fn compact(grammar: &str) -> String {
    let rules = grammar.lines().map(|rule| {
        if rule.starts_with("space ::=") {
            r#"space ::= " "?"#
        } else {
            rule
        }
    });
    rules.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::compact;

    #[test]
    fn only_the_rule_for_space_is_replaced() {
        let schema = r#"{"type": "object", "properties": {"a": {"type": "boolean"}}}"#;
        let grammar = llama_cpp_2::json_schema_to_grammar(schema).unwrap();
        let changed = compact(&grammar);
        let differing: Vec<_> = grammar
            .lines()
            .zip(changed.lines())
            .filter(|(before, after)| before != after)
            .collect();
        assert_eq!(differing.len(), 1, "{grammar}");
        assert!(differing[0].0.starts_with("space ::="), "{differing:?}");
    }
}
