//! Converts chat messages to tokens with the chat template of the GGUF file.

use assize_providers::Message;
use llama_cpp_2::model::{LlamaChatMessage, LlamaChatTemplate, LlamaModel};
use llama_cpp_2::token::LlamaToken;

/// The model's chat template, checked to be one that llama.cpp can apply.
pub(crate) fn template(model: &LlamaModel) -> Result<LlamaChatTemplate, String> {
    let template = model.chat_template(None).map_err(|_| {
        "the file carries no chat template; use an instruction-tuned model".to_owned()
    })?;
    let probe = LlamaChatMessage::new("user".to_owned(), "hello".to_owned());
    probe
        .ok()
        .and_then(|message| model.apply_chat_template(&template, &[message], true).ok())
        .ok_or("llama.cpp does not know the chat template of this file")?;
    Ok(template)
}

/// The tokens of a conversation up to the start of the assistant's turn.
pub(crate) fn tokens(
    model: &LlamaModel,
    template: &LlamaChatTemplate,
    messages: &[Message],
) -> Result<Vec<LlamaToken>, String> {
    let chat = messages
        .iter()
        .map(|message| {
            let role = message.role.as_str().to_owned();
            LlamaChatMessage::new(role, message.content.clone())
        })
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| "a message contains a NUL character".to_owned())?;
    let text = model
        .apply_chat_template(template, &chat, true)
        .map_err(|error| format!("the chat template cannot be applied: {error}"))?;
    let tokens = model.vocab().tokenize(text.as_bytes(), true, true);
    if tokens.is_empty() {
        return Err("the prompt is empty".to_owned());
    }
    Ok(tokens)
}

/// How many tokens at the start of both are the same.
pub(crate) fn common_length(a: &[LlamaToken], b: &[LlamaToken]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens_of(ids: &[i32]) -> Vec<LlamaToken> {
        ids.iter().copied().map(LlamaToken::new).collect()
    }

    #[test]
    fn only_the_start_counts() {
        let (a, b, c) = (
            tokens_of(&[1, 2, 3, 4]),
            tokens_of(&[1, 2, 3]),
            tokens_of(&[1, 2, 9, 4]),
        );
        assert_eq!(common_length(&a, &a), 4);
        assert_eq!(common_length(&a, &b), 3);
        assert_eq!(common_length(&a, &c), 2);
        assert_eq!(common_length(&a, &[]), 0);
    }
}
