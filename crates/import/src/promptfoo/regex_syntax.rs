//! Regular expressions of JavaScript, for the `regex` crate.
//!
//! The syntax is mostly the same. `\d`, `\w` and `\b` mean ASCII in JavaScript and Unicode here, so
//! they are written out. Look-around and back-references do not exist here.

/// The expression as rules take it, or why it cannot be one.
pub fn translated(source: &str) -> Result<String, String> {
    let mut text = String::with_capacity(source.len());
    let mut letters = source.chars();
    let mut is_class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => {
                let Some(escaped) = letters.next() else {
                    return Err("its expression ends with a backslash".to_owned());
                };
                text.push_str(&escape(escaped, is_class)?);
            }
            '[' if !is_class => {
                is_class = true;
                text.push('[');
            }
            // Inside a class it is a letter in JavaScript, and opens another class here.
            '[' => text.push_str("\\["),
            '&' | '~' if is_class => text.extend(['\\', letter]),
            ']' => {
                is_class = false;
                text.push(']');
            }
            other => text.push(other),
        }
    }
    regex::Regex::new(&text).map(|_| text).map_err(|_| {
        "its expression uses syntax that rules do not have, such as look-around".to_owned()
    })
}

fn escape(letter: char, is_class: bool) -> Result<String, String> {
    let text = match (letter, is_class) {
        ('d', false) => "[0-9]",
        ('d', true) => "0-9",
        ('w', false) => "[0-9A-Za-z_]",
        ('w', true) => "0-9A-Za-z_",
        ('D', false) => "[^0-9]",
        ('W', false) => "[^0-9A-Za-z_]",
        ('D' | 'W', true) => return Err("its expression has \\D or \\W inside a class".to_owned()),
        ('b', false) => "(?-u:\\b)",
        ('/', _) => "/",
        (other, _) => return Ok(format!("\\{other}")),
    };
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::translated;

    #[test]
    fn classes_are_ascii_and_the_rest_stays() {
        let is = |source: &str, text: &str| {
            let regex = regex::Regex::new(&translated(source).unwrap()).unwrap();
            regex.is_match(text)
        };
        assert!(is(r"^\d+$", "42") && !is(r"^\d+$", "٤٢"));
        assert!(is(r"^[\w-]+$", "a-b") && !is(r"^[\w-]+$", "é"));
        assert!(is(r"\bcat\b", "a cat.") && is("a\\/b", "a/b") && is("[[&]", "["));
        for beyond in [r"(?=x)", r"(a)\1", r"[\D]", "\\"] {
            assert!(translated(beyond).is_err(), "{beyond}");
        }
    }
}
