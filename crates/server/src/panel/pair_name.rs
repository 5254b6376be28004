//! Names of pairs as markup that breaks after `:` and around `×` only.

use std::fmt::{self, Display, Formatter};

use askama::filters::Escaper as _;
use assize_domain::leaderboard::Pair;

use super::escape::Clean;

/// `MODEL × PROMPT` as markup: every part is a box of its own, so that lines break between parts.
#[derive(Debug, Clone)]
pub(crate) struct PairName(String);

impl PairName {
    pub fn of(pair: &Pair) -> Self {
        let mut text = String::from("<span class=\"pair\">");
        // Writing to a string cannot fail.
        let _ = name(&mut text, &pair.model);
        text.push_str(" <span>×</span> ");
        let _ = name(&mut text, &pair.prompt);
        text.push_str("</span>");
        Self(text)
    }
}

impl Display for PairName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn name(markup: &mut String, name: &str) -> fmt::Result {
    markup.push_str("<bdi>");
    for part in name.split_inclusive(':') {
        markup.push_str("<span>");
        Clean.write_escaped_str(&mut *markup, part)?;
        markup.push_str("</span><wbr>");
    }
    markup.push_str("</bdi>");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_at_colons_and_are_escaped() {
        let pair = Pair {
            model: "a:<b>".to_owned(),
            prompt: "p".to_owned(),
        };
        assert_eq!(
            PairName::of(&pair).to_string(),
            "<span class=\"pair\"><bdi><span>a:</span><wbr><span>&lt;b&gt;</span><wbr></bdi> \
             <span>×</span> <bdi><span>p</span><wbr></bdi></span>"
        );
    }
}
