//! One candidate while it is being decoded.

use assize_providers::Completion;
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use crate::sampler::Sampler;

/// A candidate's sampler and what it has written so far.
#[derive(Debug)]
pub(super) struct Live {
    index: usize,
    prompt_tokens: usize,
    max_tokens: u32,
    sampler: Sampler,
    /// Bytes, because a character may be spread over tokens.
    written: Vec<u8>,
    generated: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing was chosen yet.
    Waiting,
    /// This token was chosen and is decoded next.
    Writing(LlamaToken),
    /// The model ended its turn.
    Ended,
    Truncated,
    Failed(String),
}

impl Live {
    pub(super) fn new(
        index: usize,
        prompt_tokens: usize,
        max_tokens: u32,
        sampler: Sampler,
    ) -> Self {
        Self {
            index,
            prompt_tokens,
            max_tokens,
            sampler,
            written: Vec::new(),
            generated: 0,
            state: State::Waiting,
        }
    }

    /// Its place in the group.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// The token to decode next and its position; `None` once the candidate is done.
    pub(super) fn next(&self) -> Option<(LlamaToken, usize)> {
        match self.state {
            State::Writing(token) => {
                Some((token, self.prompt_tokens + self.generated as usize - 1))
            }
            _ => None,
        }
    }

    /// Chooses the next token from the logits at `row`.
    pub(super) fn choose(&mut self, model: &LlamaModel, context: &LlamaContext<'_>, row: i32) {
        self.state = if self.generated == self.max_tokens {
            State::Truncated
        } else {
            match self.sampler.sample(context, row) {
                Err(reason) => State::Failed(reason),
                Ok(token) if model.vocab().is_eog(token) => State::Ended,
                Ok(token) => {
                    let piece = model.vocab().token_to_piece(token, false, None);
                    self.written.extend_from_slice(&piece);
                    self.generated += 1;
                    if self.generated == self.max_tokens {
                        State::Truncated
                    } else {
                        State::Writing(token)
                    }
                }
            }
        };
    }

    /// The result, once [`Live::next`] has nothing more to decode.
    pub(super) fn completion(self, latency_ms: f64) -> Result<Completion, String> {
        if let State::Failed(reason) = self.state {
            return Err(reason);
        }
        Ok(Completion {
            text: text(&self.written),
            prompt_tokens: self.prompt_tokens as u64,
            completion_tokens: u64::from(self.generated),
            latency_ms,
            load_ms: 0.0,
            truncated: matches!(self.state, State::Truncated),
            cost_usd: None,
            ..Completion::default()
        })
    }
}

/// What was written as text; a character whose last bytes were never generated is left out.
fn text(written: &[u8]) -> String {
    let complete = match std::str::from_utf8(written) {
        Err(error) if error.error_len().is_none() => &written[..error.valid_up_to()],
        _ => written,
    };
    String::from_utf8_lossy(complete).into_owned()
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn characters_split_over_tokens_are_joined() {
        let mut written = Vec::new();
        for piece in [&b"caf\xc3"[..], b"\xa9 \xf0\x9f", b"\x98\x80"] {
            written.extend_from_slice(piece);
        }
        assert_eq!(text(&written), "café 😀");
    }

    #[test]
    fn an_unfinished_character_at_the_end_is_left_out() {
        assert_eq!(text(b"ok \xf0\x9f\x98"), "ok ");
    }

    #[test]
    fn bytes_that_are_no_text_are_marked_and_not_lost() {
        assert_eq!(text(b"a\xffb"), "a\u{fffd}b");
    }
}
