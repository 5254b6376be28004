//! Builds HTML and SVG with escaping enforced by the types.
//!
//! [`Markup::raw`] takes only string literals, so a name from a board can only be added by
//! [`Markup::text`] or as an attribute, and both escape it. This is enough for one page and four
//! charts; a template engine would add a dependency and errors that cannot occur here.

use std::fmt::Write as _;

use crate::text::clean;

/// A fragment of HTML or SVG, well formed if its literals are.
#[derive(Debug, Clone, Default)]
pub struct Markup(String);

/// The value of an attribute.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    Text(&'a str),
    Number(f64),
    Percent(f64),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl Markup {
    pub fn raw(&mut self, literal: &'static str) -> &mut Self {
        self.0.push_str(literal);
        self
    }

    /// Untrusted text, escaped.
    pub fn text(&mut self, text: &str) -> &mut Self {
        for c in clean(text).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                other => self.0.push(other),
            }
        }
        self
    }

    /// Untrusted text of several lines, escaped; a tab is four spaces.
    pub fn lines(&mut self, text: &str) -> &mut Self {
        for (position, line) in text.lines().enumerate() {
            if position > 0 {
                self.raw("\n");
            }
            self.text(&line.replace('\t', "    "));
        }
        self
    }

    /// `<name a="…">`
    pub fn open(
        &mut self,
        name: &'static str,
        attributes: &[(&'static str, Value<'_>)],
    ) -> &mut Self {
        self.start(name, attributes).raw(">")
    }

    /// `<name a="…"/>`
    pub fn empty(
        &mut self,
        name: &'static str,
        attributes: &[(&'static str, Value<'_>)],
    ) -> &mut Self {
        self.start(name, attributes).raw("/>")
    }

    /// `</name>`
    pub fn close(&mut self, name: &'static str) -> &mut Self {
        self.raw("</").raw(name).raw(">")
    }

    /// An element with untrusted text inside, escaped.
    pub fn leaf(
        &mut self,
        name: &'static str,
        attributes: &[(&'static str, Value<'_>)],
        text: &str,
    ) -> &mut Self {
        self.open(name, attributes).text(text).close(name)
    }

    pub fn append(&mut self, other: &Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    pub fn into_string(self) -> String {
        self.0
    }

    fn start(&mut self, name: &'static str, attributes: &[(&'static str, Value<'_>)]) -> &mut Self {
        self.raw("<").raw(name);
        for (attribute, value) in attributes {
            self.raw(" ").raw(attribute).raw("=\"");
            match value {
                Value::Text(text) => self.text(text),
                Value::Number(number) => self.number(*number),
                Value::Percent(number) => self.number(*number).raw("%"),
            };
            self.raw("\"");
        }
        self
    }

    /// At most two decimals; values that are not finite become 0, which every attribute accepts.
    fn number(&mut self, number: f64) -> &mut Self {
        let number = if number.is_finite() { number } else { 0.0 };
        let rounded = (number * 100.0).round() / 100.0;
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{}", rounded + 0.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_attributes_are_escaped() {
        let mut it = Markup::default();
        it.leaf(
            "b",
            &[("title", "\"'<x>".into()), ("x", f64::NAN.into())],
            "<i>&]]>\u{202E}",
        );
        assert_eq!(
            it.into_string(),
            "<b title=\"&quot;&#39;&lt;x&gt;\" x=\"0\">&lt;i&gt;&amp;]]&gt;\u{FFFD}</b>"
        );
    }

    #[test]
    fn numbers_are_short() {
        let mut it = Markup::default();
        it.empty(
            "a",
            &[
                ("x", 1.005.into()),
                ("y", Value::Percent(33.333)),
                ("z", (-0.001).into()),
            ],
        );
        assert_eq!(it.into_string(), "<a x=\"1\" y=\"33.33%\" z=\"0\"/>");
    }
}
