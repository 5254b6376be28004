//! One candidate, from the queue to its result.

use std::rc::Rc;
use std::time::Instant;

use assize_providers::Completion;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use crate::sampler::Sampler;

/// Where a candidate's result goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    pub(super) request: u64,
    /// Its place in the request.
    pub(super) index: usize,
}

/// A candidate's sampler and what it has written so far.
#[derive(Debug)]
pub(super) struct Live {
    origin: Origin,
    prompt: Rc<[LlamaToken]>,
    max_tokens: u32,
    sampler: Sampler,
    /// Bytes, because a character may be spread over tokens.
    written: Vec<u8>,
    generated: u32,
    state: State,
    began: Option<Instant>,
    /// Its steps, and the candidates in each of them, added up.
    steps: u32,
    company: u64,
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
        origin: Origin,
        prompt: Rc<[LlamaToken]>,
        max_tokens: u32,
        sampler: Sampler,
    ) -> Self {
        Self {
            origin,
            prompt,
            max_tokens,
            sampler,
            written: Vec::new(),
            generated: 0,
            state: State::Waiting,
            began: None,
            steps: 0,
            company: 0,
        }
    }

    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    pub(super) fn prompt(&self) -> &Rc<[LlamaToken]> {
        &self.prompt
    }

    pub(super) fn has_prompt(&self, prompt: &Rc<[LlamaToken]>) -> bool {
        Rc::ptr_eq(&self.prompt, prompt) || self.prompt == *prompt
    }

    /// The tokens that it needs room for.
    pub(super) fn most_tokens(&self) -> usize {
        self.prompt.len() + self.max_tokens as usize
    }

    /// Whether its first token was chosen.
    pub(super) fn has_begun(&self) -> bool {
        !matches!(self.state, State::Waiting)
    }

    /// Work on it began at this time, unless it had begun before.
    pub(super) fn begin(&mut self, at: Instant) {
        self.began.get_or_insert(at);
    }

    /// It was one of so many candidates of a step.
    pub(super) fn shared(&mut self, candidates: usize) {
        self.steps += 1;
        self.company += candidates as u64;
    }

    /// The token to decode next and its position; `None` once the candidate is done.
    pub(super) fn next(&self) -> Option<(LlamaToken, usize)> {
        match self.state {
            State::Writing(token) => Some((token, self.prompt.len() + self.generated as usize - 1)),
            _ => None,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        !matches!(self.state, State::Waiting | State::Writing(_))
    }

    /// Chooses the next token from the logits; returns how many tokens it wrote.
    pub(super) fn choose(&mut self, model: &LlamaModel, logits: &[f32]) -> u64 {
        if self.generated == self.max_tokens {
            self.state = State::Truncated;
            return 0;
        }
        match self.sampler.sample(logits) {
            Err(reason) => self.state = State::Failed(reason),
            Ok(token) if model.vocab().is_eog(token) => self.state = State::Ended,
            Ok(token) => {
                let piece = model.vocab().token_to_piece(token, false, None);
                self.written.extend_from_slice(&piece);
                self.generated += 1;
                self.state = if self.generated == self.max_tokens {
                    State::Truncated
                } else {
                    State::Writing(token)
                };
                return 1;
            }
        }
        0
    }

    /// The result of a candidate that is done.
    pub(super) fn completion(self, now: Instant) -> Result<Completion, String> {
        if let State::Failed(reason) = self.state {
            return Err(reason);
        }
        let took = self.began.map(|it| now.duration_since(it));
        Ok(Completion {
            text: text(&self.written),
            prompt_tokens: self.prompt.len() as u64,
            completion_tokens: u64::from(self.generated),
            latency_ms: took.map_or(0.0, |it| it.as_secs_f64() * 1000.0),
            batch: self.company.max(1) as f64 / f64::from(self.steps.max(1)),
            truncated: matches!(self.state, State::Truncated),
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
