//! Filters that could make a huge value from a short template, with limits.

use minijinja::filters;
use minijinja::value::{Kwargs, Rest, StringInput, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::text_length;

/// The longest result of a filter.
const MOST_BYTES: usize = 1024 * 1024;
/// The widest indentation, and the most columns or rows of a table.
const MOST_WIDTH: usize = 200;
/// Filters that `map` may apply to each item: none of them makes a value much longer.
const MAPPED: [&str; 16] = [
    "upper",
    "lower",
    "title",
    "capitalize",
    "trim",
    "string",
    "int",
    "float",
    "round",
    "abs",
    "length",
    "count",
    "first",
    "last",
    "default",
    "bool",
];

/// Replaces what has no limit of its own, and removes what prints the engine's internals.
pub(super) fn limit(environment: &mut Environment<'static>) {
    environment.remove_filter("pprint");
    environment.remove_global("debug");
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("indent", indent);
    environment.add_filter("tojson", tojson);
    environment.add_filter("format", format);
    environment.add_filter("batch", batch);
    environment.add_filter("slice", slice);
    environment.add_filter("map", map);
}

fn refused(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.to_owned())
}

fn within(bytes: Option<usize>, filter: &str) -> Result<(), Error> {
    match bytes {
        Some(bytes) if bytes <= MOST_BYTES => Ok(()),
        _ => Err(refused(&format!(
            "the result of {filter} has more than {MOST_BYTES} bytes"
        ))),
    }
}

fn replace(
    state: &mut State<'_, '_>,
    value: StringInput<'_>,
    from: StringInput<'_>,
    to: StringInput<'_>,
) -> Result<Value, Error> {
    let found = value.as_str().matches(from.as_str()).count();
    let added = found.checked_mul(to.as_str().len());
    let bytes = added.and_then(|it| it.checked_add(value.as_str().len()));
    within(bytes, "replace")?;
    filters::replace(state, value, from, to)
}

fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let own = text_length(value, MOST_BYTES);
    let items = value.len().unwrap_or(0);
    let named = kwargs.peek::<Option<Value>>("d").ok().flatten();
    let named = named.as_ref().and_then(Value::as_str);
    let between = joiner.as_ref().map(StringInput::as_str).or(named);
    let between = between.map_or(0, str::len);
    let bytes = own.zip(items.checked_mul(between));
    within(
        bytes.and_then(|(own, added)| own.checked_add(added)),
        "join",
    )?;
    filters::join(state, value, joiner, attribute, kwargs)
}

fn indent(
    value: StringInput<'_>,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    kwargs: Kwargs,
) -> Result<Value, Error> {
    let named = kwargs.peek::<Option<usize>>("width").ok().flatten();
    let width_used = width.or(named).unwrap_or(4);
    if width_used > MOST_WIDTH {
        return Err(too_wide("indent"));
    }
    let lines = value.as_str().matches('\n').count() + 1;
    within(lines.checked_mul(width_used + 1), "indent")?;
    filters::indent(value, width, first, blank, kwargs)
}

fn tojson(value: &Value, indent: Option<Value>, kwargs: Kwargs) -> Result<Value, Error> {
    let named = kwargs.peek::<Option<Value>>("indent").ok().flatten();
    let width = indent.as_ref().or(named.as_ref());
    let width = width.and_then(Value::as_usize);
    if width.is_some_and(|it| it > MOST_WIDTH) {
        return Err(too_wide("tojson"));
    }
    within(text_length(value, MOST_BYTES), "tojson")?;
    filters::tojson(value, indent, kwargs)
}

fn too_wide(filter: &str) -> Error {
    refused(&format!("the width of {filter} is more than {MOST_WIDTH}"))
}

/// Widths and precisions have at most two digits, and are written in the text.
fn format(
    state: &mut State<'_, '_>,
    text: &Value,
    values: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    let given = text.as_str().unwrap_or_default();
    let is_digit = |it: char| it.is_ascii_digit();
    let digits = given.split(|it| !is_digit(it)).map(str::len).max();
    let has_placeholder = given.contains('%');
    if has_placeholder && (digits.unwrap_or(0) > 2 || given.contains('*')) {
        return Err(refused(
            "the text of format may hold widths of at most two digits, and no *",
        ));
    }
    filters::format(state, text, values)
}

fn batch(
    state: &State<'_, '_>,
    value: Value,
    count: usize,
    fill: Option<Value>,
) -> Result<Value, Error> {
    if count > MOST_WIDTH {
        return Err(too_wide("batch"));
    }
    filters::batch(state, value, count, fill)
}

fn slice(
    state: &State<'_, '_>,
    value: Value,
    count: usize,
    fill: Option<Value>,
) -> Result<Value, Error> {
    if count > MOST_WIDTH {
        return Err(too_wide("slice"));
    }
    filters::slice(state, value, count, fill)
}

fn map(
    state: &mut State<'_, '_>,
    value: Value,
    arguments: Rest<ValueOrKwargs>,
) -> Result<Vec<Value>, Error> {
    if let Some(name) = arguments.first().and_then(|it| it.as_str())
        && !MAPPED.contains(&name)
    {
        return Err(refused(&format!(
            "map cannot apply {name}: use one of {}, or a loop",
            MAPPED.join(", ")
        )));
    }
    filters::map(state, value, arguments)
}
