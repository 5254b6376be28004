//! Times for display: relative to now, with the exact time.

use jiff::Timestamp;

/// A time in relative and absolute form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RelativeTime {
    /// `2 h ago`
    pub ago: String,
    /// `2026-11-15 15:53:57 UTC`
    pub at: String,
    /// RFC 3339.
    pub machine: String,
}

impl RelativeTime {
    /// From Unix milliseconds.
    pub fn of_ms(at_ms: i64, now_ms: i64) -> Self {
        let Ok(at) = Timestamp::from_millisecond(at_ms) else {
            return Self {
                ago: "at an unknown time".to_owned(),
                at: String::new(),
                machine: String::new(),
            };
        };
        Self {
            ago: ago((now_ms - at_ms) / 1000),
            at: at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
            machine: at.to_string(),
        }
    }

    /// From RFC 3339; other text is shown unchanged.
    pub fn of_text(at: &str, now_ms: i64) -> Self {
        match at.parse::<Timestamp>() {
            Ok(at) => Self::of_ms(at.as_millisecond(), now_ms),
            Err(_) => Self {
                ago: at.to_owned(),
                at: at.to_owned(),
                machine: String::new(),
            },
        }
    }
}

fn ago(seconds: i64) -> String {
    let (count, unit) = match seconds {
        ..10 => return "just now".to_owned(),
        10..60 => (seconds, "s"),
        60..3_600 => (seconds / 60, "min"),
        3_600..86_400 => (seconds / 3_600, "h"),
        86_400..5_184_000 => (seconds / 86_400, "d"),
        5_184_000..63_072_000 => (seconds / 2_592_000, "months"),
        _ => (seconds / 31_536_000, "years"),
    };
    format!("{count} {unit} ago")
}

/// `42 s`, `18 min`, `2 h 10 min`
pub(crate) fn span(seconds: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and spans are short"
    )]
    let seconds = seconds.max(0.0).round() as u64;
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5_400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_a_suitable_unit() {
        let ago = |seconds: i64| RelativeTime::of_ms(0, seconds * 1000).ago;
        assert_eq!(ago(-5), "just now");
        assert_eq!(ago(59), "59 s ago");
        assert_eq!(ago(7_300), "2 h ago");
        assert_eq!(ago(90_000), "1 d ago");
        assert_eq!(ago(100 * 86_400), "3 months ago");
        assert_eq!(RelativeTime::of_ms(0, 0).at, "1970-01-01 00:00:00 UTC");
        assert_eq!(RelativeTime::of_text("yesterday", 0).ago, "yesterday");
        assert_eq!(span(61.0), "61 s");
        assert_eq!(span(1_080.0), "18 min");
        assert_eq!(span(7_800.0), "2 h 10 min");
    }
}
