//! Samples one candidate's next token.
//!
//! The chain is top-k, top-p, temperature, seeded draw, with the values that Ollama uses by
//! default, so that a model behaves the same on both. It is given the likeliest tokens alone: to
//! sort a whole vocabulary for every token of every candidate would cost a twentieth of the time.
//!
//! A grammar masks before the chain. To mask a whole vocabulary costs as much as to decode a token
//! of a small model, so only the likeliest tokens are masked at first, and the rest only where none
//! of them fits.

use std::cmp::Ordering;

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;

const TOP_K: usize = 40;
const TOP_P: f32 = 0.9;
/// How many tokens a grammar masks, until one of them fits. With a temperature there must be far
/// more than the chain keeps.
const MASKED_GREEDY: [usize; 3] = [8, 1024, usize::MAX];
const MASKED: [usize; 2] = [1024, usize::MAX];
/// Logits that are looked at together.
const CHUNK: usize = 64;

/// One candidate's chain, with its own random state.
#[derive(Debug)]
pub(crate) struct Sampler {
    chain: LlamaSampler,
    grammar: Option<LlamaSampler>,
    is_greedy: bool,
}

impl Sampler {
    /// `grammar` is a fresh one, made for this candidate by [`grammar`] or cloned from it.
    pub(crate) fn new(temperature: f64, seed: u32, grammar: Option<LlamaSampler>) -> Self {
        let is_greedy = temperature <= 0.0;
        let chain = if is_greedy {
            LlamaSampler::chain_simple([LlamaSampler::greedy()])
        } else {
            #[expect(clippy::cast_possible_truncation, reason = "llama.cpp computes in f32")]
            let temperature = temperature as f32;
            // llama.cpp takes the largest seed for "choose one at random".
            let seed = seed.min(u32::MAX - 1);
            LlamaSampler::chain_simple([
                LlamaSampler::top_k(i32::try_from(TOP_K).unwrap_or(i32::MAX)),
                LlamaSampler::top_p(TOP_P, 1),
                LlamaSampler::temp(temperature),
                LlamaSampler::dist(seed),
            ])
        };
        Self {
            chain,
            grammar,
            is_greedy,
        }
    }

    /// Chooses from the logits of a row of the last decoded batch.
    pub(crate) fn sample(&mut self, logits: &[f32]) -> Result<LlamaToken, String> {
        let mut choices = match &mut self.grammar {
            None if self.is_greedy => likeliest(logits, 1),
            None => likeliest(logits, TOP_K),
            Some(grammar) if self.is_greedy => masked(grammar, logits, &MASKED_GREEDY),
            Some(grammar) => masked(grammar, logits, &MASKED),
        };
        if choices.data.is_empty() {
            return Err(match self.grammar {
                Some(_) => "no token fits the JSON schema".to_owned(),
                None => "the model's output is not a number".to_owned(),
            });
        }
        self.chain.apply(&mut choices);
        let token = choices.selected_token().ok_or("no token was chosen")?;
        self.chain.accept(token);
        if let Some(grammar) = &mut self.grammar {
            grammar
                .try_accept(token)
                .map_err(|error| format!("the JSON schema's grammar failed: {error}"))?;
        }
        Ok(token)
    }
}

/// The tokens that the grammar permits, of the likeliest ones; of more where it permits none.
fn masked(grammar: &mut LlamaSampler, logits: &[f32], tries: &[usize]) -> LlamaTokenDataArray {
    for count in tries {
        let mut choices = likeliest(logits, *count);
        grammar.apply(&mut choices);
        choices.data.retain(permitted);
        if !choices.data.is_empty() {
            return choices;
        }
    }
    LlamaTokenDataArray::new(Vec::new(), false)
}

/// The `count` likeliest tokens, in their order; of equal ones those with smaller numbers.
fn likeliest(logits: &[f32], count: usize) -> LlamaTokenDataArray {
    let count = count.clamp(1, logits.len().max(1));
    let before = |a: &(f32, usize), b: &(f32, usize)| -> Ordering {
        b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
    };
    let mut found: Vec<(f32, usize)> = Vec::new();
    let mut least = f32::NEG_INFINITY;
    for (chunk, values) in logits.chunks(CHUNK).enumerate() {
        // Most chunks hold nothing, and this loop is computed several values at a time.
        let highest = values
            .iter()
            .fold(f32::NEG_INFINITY, |a, b| if *b > a { *b } else { a });
        if highest <= least {
            continue;
        }
        let numbered = (chunk * CHUNK..).zip(values);
        found.extend(numbered.filter(|it| *it.1 > least).map(|it| (*it.1, it.0)));
        if found.len() >= count.saturating_mul(4).max(4 * CHUNK) {
            found.select_nth_unstable_by(count - 1, before);
            found.truncate(count);
            least = found[count - 1].0;
        }
    }
    found.sort_unstable_by(before);
    found.truncate(count);
    let data = found.into_iter().map(|(logit, token)| {
        let token = i32::try_from(token).unwrap_or(i32::MAX);
        LlamaTokenData::new(LlamaToken::new(token), logit, 0.0)
    });
    LlamaTokenDataArray::new(data.collect(), true)
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
    use super::{compact, likeliest};

    #[test]
    fn the_likeliest_tokens_are_those_of_a_full_sort() {
        let mut state = 1_u32;
        let mut logits: Vec<f32> = (0..5000)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                // Few different values, so that there are equal ones.
                (state >> 22) as f32 / 64.0 - 8.0
            })
            .collect();
        logits[17] = f32::NAN;
        logits[18] = f32::NEG_INFINITY;
        let mut sorted: Vec<usize> = (0..logits.len()).filter(|it| *it != 17).collect();
        sorted.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]).then(a.cmp(b)));
        for count in [1, 8, 40, 1024, 4900] {
            let found = likeliest(&logits, count);
            let found: Vec<usize> = found
                .data
                .iter()
                .map(|it| usize::try_from(it.id().0).unwrap())
                .collect();
            assert_eq!(found, sorted[..count], "{count}");
        }
        assert!(likeliest(&[f32::NAN], 3).data.is_empty());
    }

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
