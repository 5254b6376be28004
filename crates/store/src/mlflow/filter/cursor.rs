//! A cursor over the text of a filter.

/// The unread rest of the text.
pub(super) struct Cursor<'a> {
    rest: &'a str,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub fn rest(&self) -> &'a str {
        self.rest
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    pub fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.rest.is_empty()
    }

    /// Whether a value may end here.
    pub fn is_at_gap(&self) -> bool {
        self.rest
            .chars()
            .next()
            .is_none_or(|c| c.is_whitespace() || c == ')')
    }

    fn split(&mut self, at: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(at);
        self.rest = rest;
        taken
    }

    /// Reads a keyword, in any case.
    pub fn keyword(&mut self, keyword: &str) -> bool {
        self.skip_space();
        let found = self
            .rest
            .get(..keyword.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(keyword))
            && !self.rest[keyword.len()..].starts_with(|c| is_word(c) || c == '.');
        if found {
            self.split(keyword.len());
        }
        found
    }

    /// Reads one character at the current position.
    pub fn take(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    pub fn take_after_space(&mut self, sign: char) -> bool {
        self.skip_space();
        self.take(sign)
    }

    /// Reads a bare word; `dots` allows dots in it.
    pub fn word(&mut self, dots: bool) -> Option<&'a str> {
        self.skip_space();
        self.word_here(dots)
    }

    pub fn word_here(&mut self, dots: bool) -> Option<&'a str> {
        let end = self
            .rest
            .find(|c| !(is_word(c) || dots && c == '.'))
            .unwrap_or(self.rest.len());
        let is_name = end > 0 && (dots || !self.rest.starts_with(|c: char| c.is_ascii_digit()));
        is_name.then(|| self.split(end))
    }

    /// Reads a quoted text and returns it without its quotes; a doubled quote stays doubled.
    pub fn quoted(&mut self, quotes: &[char]) -> Option<&'a str> {
        self.skip_space();
        self.quoted_here(quotes)
    }

    pub fn quoted_here(&mut self, quotes: &[char]) -> Option<&'a str> {
        let quote = self.rest.chars().next().filter(|c| quotes.contains(c))?;
        let body = &self.rest[1..];
        let mut from = 0;
        loop {
            let end = from + body[from..].find(quote)?;
            if body[end + 1..].starts_with(quote) {
                from = end + 2;
                continue;
            }
            self.rest = &body[end + 1..];
            return Some(&body[..end]);
        }
    }

    /// Reads the symbols of a comparison operator.
    pub fn signs(&mut self) -> &'a str {
        self.skip_space();
        let end = self
            .rest
            .find(|c| !"=!<>~".contains(c))
            .unwrap_or(self.rest.len());
        self.split(end)
    }

    /// Reads anything that looks like a number or a bare word.
    pub fn number(&mut self) -> &'a str {
        self.skip_space();
        let mut previous = 'e';
        let end = self
            .rest
            .find(|c: char| {
                let signed = "+-".contains(c) && "eE".contains(previous);
                previous = c;
                !(signed || is_word(c) || c == '.')
            })
            .unwrap_or(self.rest.len());
        self.split(end)
    }
}
