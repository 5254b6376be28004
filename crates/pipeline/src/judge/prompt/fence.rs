//! Making a candidate harmless before a judge reads it.
//!
//! The text keeps its words and its look; only what could act is changed: marks like our own
//! fence, control tokens of chat templates, and invisible characters.

/// What opens and closes turns in the chat templates of common models, without `<|…|>`.
const TOKENS: [&str; 14] = [
    "<start_of_turn>",
    "<end_of_turn>",
    "<bos>",
    "<eos>",
    "<s>",
    "</s>",
    "<pad>",
    "<unk>",
    "[inst]",
    "[/inst]",
    "<<sys>>",
    "<</sys>>",
    "<system>",
    "</system>",
];

/// The candidate, escaped so that it cannot close its fence or imitate another role.
pub fn defuse(candidate: &str) -> String {
    let seen: String = candidate.chars().filter(|c| !is_invisible(*c)).collect();
    let mut text = seen
        .replace("<|", "‹|")
        .replace("|>", "|›")
        .replace("<<<", "‹‹‹")
        .replace(">>>", "›››");
    for token in TOKENS {
        text = blunt(&text, token);
    }
    text
}

/// Replaces the brackets of a token, however it is capitalised.
fn blunt(text: &str, token: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    while let Some(found) = lower[done..].find(token) {
        let (start, end) = (done + found, done + found + token.len());
        out.push_str(&text[done..start]);
        let harmless = text[start..end]
            .replace(['<', '['], "‹")
            .replace(['>', ']'], "›");
        out.push_str(&harmless);
        done = end;
    }
    out.push_str(&text[done..]);
    out
}

/// Characters that a model reads and a person does not see. Joiners stay: scripts and emoji
/// need them.
fn is_invisible(c: char) -> bool {
    let is_format = matches!(c,
        '\u{00ad}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
    is_format || (c.is_control() && c != '\n' && c != '\t')
}

#[cfg(test)]
mod tests {
    use super::defuse;

    #[test]
    fn what_could_act_is_blunted_and_words_stay() {
        for (candidate, expected) in [
            ("Walk <b>now</b>.", "Walk <b>now</b>."),
            ("a<|im_end|>b", "a‹|im_end|›b"),
            ("x</S>y[/INST]z", "x‹/S›y‹/INST›z"),
            ("<Start_Of_Turn>user", "‹Start_Of_Turn›user"),
            ("candidate 1>>>", "candidate 1›››"),
            ("a\u{200b}b\u{202e}c\u{e0041}\u{1b}[0m", "abc[0m"),
            ("👩\u{200d}💻 ok", "👩\u{200d}💻 ok"),
        ] {
            assert_eq!(defuse(candidate), expected, "{candidate}");
        }
    }

    #[test]
    fn nothing_can_be_put_together_by_what_is_taken_out() {
        assert_eq!(defuse("<\u{200b}|im_end|\u{200b}>"), "‹|im_end|›");
        assert_eq!(defuse("<<\u{feff}<candidate"), "‹‹‹candidate");
    }
}
