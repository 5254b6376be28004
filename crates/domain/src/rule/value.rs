//! JSON values as the texts, items and numbers that rules compare.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// A value as a text: strings without quotes.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A list as its texts, anything else as one text.
pub fn list(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().map(text_of).collect(),
        other => vec![text_of(other)],
    }
}

/// The items of a set: of a list, of a text with a JSON list, or of a text with items separated by
/// commas, semicolons or line ends.
pub fn items(value: &Value) -> Vec<String> {
    let Value::String(text) = value else {
        return list(value);
    };
    if let Ok(Value::Array(items)) = serde_json::from_str(text) {
        return items.iter().map(text_of).collect();
    }
    let items = text.split([',', ';', '\n']).map(str::trim);
    // A bullet has a space after it; -5 is a number.
    let items = items.map(|it| {
        let bullet = ["- ", "* ", "• "]
            .into_iter()
            .find_map(|bullet| it.strip_prefix(bullet));
        bullet.unwrap_or(it).trim()
    });
    items.map(str::to_owned).collect()
}

/// A number, also where it is written in a text.
pub fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => last_number(text),
        other => other.as_f64(),
    }
}

/// The last number in a text; commas between groups of three digits are left out.
pub fn last_number(text: &str) -> Option<f64> {
    static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"[-−+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?").ok()
    });
    let last = NUMBER.as_ref()?.find_iter(text).last()?;
    let before = text[..last.start()].chars().next_back();
    // In "10-12" and "covid-19" it is a hyphen.
    let has_hyphen = before.is_some_and(char::is_alphanumeric);
    let word = if has_hyphen {
        last.as_str().trim_start_matches(['-', '−', '+'])
    } else {
        last.as_str()
    };
    let number: f64 = word.replace(',', "").replace('−', "-").parse().ok()?;
    number.is_finite().then_some(number)
}

/// A JSON pointer as it is, or a path such as `order.total` as one.
pub(super) fn pointer(text: &str) -> Result<String, String> {
    let is_wrong = text.is_empty() || text == "/" || text.contains("..");
    if is_wrong {
        return Err(
            "json_field is empty: write a path such as order.total, or a JSON pointer".to_owned(),
        );
    }
    Ok(if text.starts_with('/') {
        text.to_owned()
    } else {
        format!("/{}", text.replace('.', "/"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_a_text_is_read_as_people_write_it() {
        for (text, number) in [
            ("it costs 1,234.50 euro", Some(1234.5)),
            (".5", Some(0.5)),
            ("minus: -3", Some(-3.0)),
            ("10-12", Some(12.0)),
            ("covid-19", Some(19.0)),
            ("1e999", None),
            (&"3".repeat(400), None),
            ("none", None),
        ] {
            assert_eq!(last_number(text), number, "{text}");
        }
    }

    #[test]
    fn items_lose_bullets_and_keep_signs() {
        let all = |text: &str| items(&Value::from(text));
        assert_eq!(all("- red\n* blue"), ["red", "blue"]);
        assert_eq!(all("-5, 3"), ["-5", "3"]);
    }
}
