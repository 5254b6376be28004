//! Templates: Jinja with limits on what filling one in may cost.
//!
//! Prompts are written by people and, in a prompt loop, by models. Whoever wrote it, a template must
//! neither hang nor exhaust the process that fills it in:
//!
//! | limit | holds |
//! |---|---|
//! | instructions | [`fuel`]: the longer the template, the fewer, because a loop may repeat all of its text |
//! | text | at most [`MOST_BYTES`] of values are inserted, and at most as much is written in all |
//! | values | [`growth`] refuses a template before it is compiled whose values could grow too large |
//! | filters | [`filters`] replaces those that make much from little, and removes those that print internals |
//!
//! A template within these limits is filled in exactly as without them.

use std::fmt::{self, Write as _};
use std::io;

use minijinja::syntax::SyntaxConfig;
use minijinja::{
    Environment, Error, ErrorKind, Output, State, UndefinedBehavior, Value, escape_formatter,
};

mod filters;
mod growth;

pub use growth::check as check_growth;

/// The longest text that a template is filled in to.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Instructions times bytes of the template.
const MOST_WORK: u64 = 256 * 1024 * 1024;
const LEAST_FUEL: u64 = 10_000;
const MOST_FUEL: u64 = 200_000;
/// Counts the bytes of inserted values during one rendering.
const INSERTED: &str = "inserted_bytes";

/// The instructions that a template of this length may use.
fn fuel(bytes: usize) -> u64 {
    (MOST_WORK / bytes.max(1) as u64).clamp(LEAST_FUEL, MOST_FUEL)
}

/// How templates are read: a tag alone on its line leaves no empty line.
pub(crate) fn syntax() -> SyntaxConfig {
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    syntax.unwrap_or_default()
}

/// An environment for templates with so many bytes in all.
pub fn environment(bytes: usize) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_syntax(syntax());
    environment.set_fuel(Some(fuel(bytes)));
    environment.set_formatter(insert);
    filters::limit(&mut environment);
    environment
}

/// Fills in a template of an [`environment`].
pub fn render(
    environment: &Environment<'_>,
    name: &str,
    context: &Value,
) -> Result<String, String> {
    let template = environment
        .get_template(name)
        .map_err(|error| error.to_string())?;
    let mut text = Limited::default();
    let rendered = template.render_captured_to(context.clone(), &mut text);
    rendered.map_err(|error| match error.kind() {
        ErrorKind::OutOfFuel => {
            "filling it in takes too many steps: use fewer or shorter loops".to_owned()
        }
        ErrorKind::WriteFailure => too_long().to_string(),
        _ => format!("{error:#}"),
    })?;
    String::from_utf8(text.0).map_err(|error| error.to_string())
}

/// The literal text of a template: what stands outside of its tags, and the texts in them. Comments are
/// left out.
pub fn literal_text(source: &str) -> String {
    use minijinja::machinery::{Token, tokenize};
    let mut text = String::new();
    for token in tokenize(source, false, syntax()) {
        match token {
            Ok((Token::TemplateData(it) | Token::Str(it), _)) => text.push_str(it),
            Ok((Token::String(it), _)) => text.push_str(&it),
            Ok((Token::VariableStart | Token::Comma, _)) => text.push(' '),
            Ok(_) => {}
            Err(_) => return source.to_owned(),
        }
    }
    text
}

fn too_long() -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("filled in, it has more than {MOST_BYTES} bytes"),
    )
}

/// Writes a value as usual, and counts it.
fn insert(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let earlier = state.get_temp(INSERTED).and_then(|it| it.as_usize());
    let earlier = earlier.unwrap_or(0);
    let left = MOST_BYTES.saturating_sub(earlier);
    let own = text_length(value, left).ok_or_else(too_long)?;
    state.set_temp(INSERTED, Value::from(earlier + own));
    escape_formatter(out, state, value)
}

/// The length of a value's text in bytes; `None` where it is longer than `most`.
fn text_length(value: &Value, most: usize) -> Option<usize> {
    if let Some(text) = value.as_str() {
        return Some(text.len()).filter(|it| *it <= most);
    }
    let mut counter = Counter { bytes: 0, most };
    write!(counter, "{value}").ok()?;
    Some(counter.bytes)
}

struct Counter {
    bytes: usize,
    most: usize,
}

impl fmt::Write for Counter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > self.most {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

/// Takes at most [`MOST_BYTES`].
#[derive(Default)]
struct Limited(Vec<u8>);

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_BYTES {
            return Err(io::Error::other("too long"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    fn rendered(source: &str) -> Result<String, String> {
        check_growth(source).map_err(|it| it.1)?;
        let mut environment = environment(source.len());
        environment
            .add_template_owned("user", source.to_owned())
            .map_err(|error| error.to_string())?;
        let context = context! {
            topic => "the garden", hours => 3, price => 2.5, tasks => ["a", "b", "c"],
            people => [context! { name => "Ana" }, context! { name => "Ben" }],
        };
        render(&environment, "user", &context)
    }

    #[test]
    fn what_prompts_need_is_filled_in_as_ever() {
        for (source, expected) in [
            (
                "{{ topic|upper }} {{ topic|replace('garden', 'house') }}",
                "THE GARDEN the house",
            ),
            ("{{ tasks|join(', ') }} {{ tasks|length }}", "a, b, c 3"),
            (
                "{% for t in tasks %}{{ loop.index }}{{ t }}{% endfor %}",
                "1a2b3c",
            ),
            ("{{ people|map(attribute='name')|join('+') }}", "Ana+Ben"),
            ("{{ tasks|map('upper')|join }}", "ABC"),
            (
                "{{ hours * 60 }} {{ hours|float * price|float }}",
                "180 7.5",
            ),
            ("{{ hours|int * 60 * 24 * 365 }}", "1576800"),
            ("{{ '%.2f'|format(price) }}", "2.50"),
            (
                "{% set name = topic ~ ' ' ~ hours %}{{ name }}",
                "the garden 3",
            ),
            (
                "{{ ('x\ny')|indent(2) }}|{{ tasks|tojson }}",
                "x\n  y|[\"a\", \"b\", \"c\"]",
            ),
            (
                "{% set n = namespace(sum=0) %}{% for t in tasks %}{% set n.sum = n.sum + 1 %}{% endfor %}{{ n.sum }}",
                "3",
            ),
            (
                "{% set n = namespace(sum=0) %}{% for t in tasks %}{% set n.sum = n.sum + loop.index + hours|int %}{% endfor %}{{ n.sum }}",
                "15",
            ),
            (
                "{% set text %}{% for t in tasks %}{{ t }};{% endfor %}{% endset %}{{ text|trim(';') }}",
                "a;b;c",
            ),
            (
                "{% for row in tasks|batch(2) %}{{ row|join }} {% endfor %}",
                "ab c ",
            ),
            (
                "{% if 'garden' in topic and hours > 2 %}yes{% endif %}",
                "yes",
            ),
            ("{{ topic[:3] }}{{ range(3)|list }}", "the[0, 1, 2]"),
        ] {
            assert_eq!(rendered(source).as_deref(), Ok(expected), "{source}");
        }
    }

    #[test]
    fn templates_that_would_hang_or_fill_the_memory_are_refused() {
        let nested = |loops: usize, inner: &str| {
            let open = "{% for a in [0,1,2,3,4,5,6,7,8,9] %}".repeat(loops);
            format!("{open}{inner}{}", "{% endfor %}".repeat(loops))
        };
        let doubled: String = (0..40).map(|_| "{% set s = s ~ s %}").collect();
        let squared = "{% set s = s|replace('', s) %}".repeat(9);
        let loops = (0..30).map(|it| format!("{{% for v{} in [v{it} ~ v{it}] %}}", it + 1));
        let inner = loops.collect::<Vec<_>>().concat();
        for source in [
            nested(8, ""),
            nested(8, &"x".repeat(2000)),
            nested(8, "{{ topic }}"),
            nested(12, ""),
            "{{ topic|indent(9000000000) }}".to_owned(),
            "{{ topic|indent(width=9000000000) }}".to_owned(),
            "{{ tasks|tojson(9000000000) }}".to_owned(),
            "{{ tasks|batch(9000000000, 'x') }}".to_owned(),
            "{{ tasks|slice(9000000000) }}".to_owned(),
            "{{ '%9000000000d'|format(1) }}".to_owned(),
            "{{ '%*d'|format(900000000, 1) }}".to_owned(),
            "{{ 'x' * 9000000000 }}".to_owned(),
            "{{ topic * 90000000 }}".to_owned(),
            "{% set n = 90000000 %}{{ topic * n }}".to_owned(),
            "{{ [[0] * 1000] * 1000 ~ '' }}".to_owned(),
            format!("{{% set s = topic %}}{doubled}{{{{ s }}}}"),
            format!("{{% set s = 'xxxxxxxx' %}}{squared}{{{{ s }}}}"),
            "{% set s = topic %}{% for i in range(60) %}{% set s = s ~ s %}{% endfor %}".to_owned(),
            "{% set n = namespace(s='x') %}{% for i in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}"
                .to_owned(),
            "{% set n = namespace() %}{% set m = n %}{% set m.s = 'x' %}".to_owned(),
            format!("{{% for v0 in [topic] %}}{inner}{}", "{% endfor %}".repeat(31)),
            format!("{{{{ {} }}}}", vec!["topic"; 40_000].join(" ~ ")),
            "{% for a in tasks recursive %}{{ loop(tasks) }}{% endfor %}".to_owned(),
            "{{ range(90000)|map('replace', '', topic * 9)|list }}".to_owned(),
            "{{ tasks|pprint }}".to_owned(),
            "{{ debug() }}".to_owned(),
        ] {
            let start: String = source.chars().take(80).collect();
            assert!(rendered(&source).is_err(), "{start}");
        }
    }

    #[test]
    fn literal_text_leaves_comments_out_and_reads_texts_in_tags() {
        let source =
            "the planning of {# z #}matter{# #} {{ 's0' ~ ' before' }} {% if x %}the{% endif %}";
        let words: Vec<String> = literal_text(source)
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        assert_eq!(words.join(" "), "the planning of matter s0 before the");
    }
}
