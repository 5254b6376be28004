//! How one candidate's next token is chosen.
//!
//! The chain is top-k, top-p, temperature, seeded draw, with the values that Ollama uses by
//! default, so that the same model behaves alike on both. A grammar is consulted after the
//! draw, as llama.cpp and Ollama do it: only a token that breaks it makes us mask the whole
//! vocabulary and draw again, because masking costs as much as decoding a small model.

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;

const TOP_K: i32 = 40;
const TOP_P: f32 = 0.9;

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
        let mut drawn = context.token_data_array_ith(row);
        self.chain.apply(&mut drawn);
        let token = match drawn.selected_token() {
            Some(token) if permits(grammar, token) => token,
            _ => {
                let mut masked = context.token_data_array_ith(row);
                grammar.apply(&mut masked);
                self.chain.apply(&mut masked);
                masked
                    .selected
                    .map(|index| masked.data[index])
                    .filter(|choice| choice.logit().is_finite())
                    .ok_or("no token fits the JSON schema")?
                    .id()
            }
        };
        self.chain.accept(token);
        grammar
            .try_accept(token)
            .map_err(|error| format!("the JSON schema's grammar failed: {error}"))?;
        Ok(token)
    }
}

fn permits(grammar: &mut LlamaSampler, token: LlamaToken) -> bool {
    let mut single = LlamaTokenDataArray::new(vec![LlamaTokenData::new(token, 0.0, 0.0)], false);
    grammar.apply(&mut single);
    single
        .data
        .first()
        .is_some_and(|data| data.logit().is_finite())
}

/// The grammar that admits exactly the JSON texts of `schema`.
pub(crate) fn grammar(
    model: &LlamaModel,
    schema: &serde_json::Value,
) -> Result<LlamaSampler, String> {
    let grammar = llama_cpp_2::json_schema_to_grammar(&schema.to_string())
        .map_err(|error| format!("the JSON schema cannot be made a grammar: {error}"))?;
    LlamaSampler::grammar(model, &grammar, "root")
        .map_err(|error| format!("the JSON schema's grammar is refused: {error}"))
}
