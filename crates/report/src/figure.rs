//! Number formats. A missing value or NaN is shown as a dash.

/// Shown for a missing figure.
pub const NONE: &str = "–";

/// Two decimals and a real minus sign.
pub fn plain(value: f64) -> String {
    if value.is_finite() {
        let text = format!("{value:.2}");
        match text.strip_prefix('-') {
            Some("0.00") => "0.00".to_owned(),
            Some(positive) => format!("−{positive}"),
            None => text,
        }
    } else {
        NONE.to_owned()
    }
}

/// As [`plain`], with a plus sign.
pub fn signed(value: f64) -> String {
    let text = plain(value);
    if text.starts_with('−') || !value.is_finite() {
        text
    } else {
        format!("+{text}")
    }
}

/// `[12.02, 13.48]`
pub fn interval([low, high]: [f64; 2]) -> String {
    format!("[{}, {}]", plain(low), plain(high))
}

pub fn is_finite(ends: &[f64; 2]) -> bool {
    ends.iter().all(|end| end.is_finite())
}

/// `±0.73`, half of the interval.
pub fn half([low, high]: [f64; 2]) -> String {
    format!("±{}", plain((high - low) / 2.0))
}

/// `.008`, as papers write a p value.
pub fn p_value(p: Option<f64>) -> String {
    match p.filter(|p| p.is_finite()) {
        Some(p) if p < 0.0005 => "<.001".to_owned(),
        Some(p) => format!("{p:.3}").trim_start_matches('0').to_owned(),
        None => NONE.to_owned(),
    }
}

/// `41 %`
pub fn percent(share: f64) -> String {
    if share.is_finite() {
        format!("{:.0} %", share.max(0.0) * 100.0)
    } else {
        NONE.to_owned()
    }
}

/// A probability that was estimated: `41 %`, `> 99 %`, `< 1 %`. It is never shown as certain.
pub fn chance(probability: f64) -> String {
    match percent(probability).as_str() {
        "100 %" => "> 99 %".to_owned(),
        "0 %" => "< 1 %".to_owned(),
        other => other.to_owned(),
    }
}

/// `412 ms`, `1.24 s`, `38.1 s`
pub fn latency(latency_ms: f64) -> String {
    if !latency_ms.is_finite() {
        NONE.to_owned()
    } else if latency_ms < 999.5 {
        format!("{latency_ms:.0} ms")
    } else if latency_ms < 9_995.0 {
        format!("{:.2} s", latency_ms / 1_000.0)
    } else {
        format!("{:.1} s", latency_ms / 1_000.0)
    }
}

/// Whole tokens per second, with a decimal below ten.
pub fn speed(tokens_per_s: f64) -> String {
    if !tokens_per_s.is_finite() {
        NONE.to_owned()
    } else if tokens_per_s < 9.95 {
        format!("{tokens_per_s:.1}")
    } else {
        format!("{tokens_per_s:.0}")
    }
}

/// `$0.25`, `$0.0031`: US dollars.
pub fn dollars(cost: f64) -> String {
    if !cost.is_finite() {
        NONE.to_owned()
    } else if cost < 0.095 && cost > 0.0 {
        format!("${cost:.4}")
    } else {
        format!("${cost:.2}")
    }
}

/// As short as it can be: `9`, `9.5`, `−0.25`.
pub fn tick(value: f64) -> String {
    let text = plain(value);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A figure that may be missing.
pub fn optional(value: Option<f64>, write: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| NONE.to_owned(), write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(plain(12.746), "12.75");
        assert_eq!(plain(-0.004), "0.00");
        assert_eq!(signed(-1.5), "−1.50");
        assert_eq!(signed(0.0), "+0.00");
        assert_eq!(half([12.0, 13.5]), "±0.75");
        assert_eq!(p_value(Some(0.0078)), ".008");
        assert_eq!(p_value(Some(0.00049)), "<.001");
        assert_eq!(p_value(Some(1.0)), "1.000");
        assert_eq!(percent(0.054), "5 %");
        assert_eq!(chance(0.41), "41 %");
        assert_eq!(chance(0.997), "> 99 %");
        assert_eq!(chance(1.0), "> 99 %");
        assert_eq!(chance(0.994), "99 %");
        assert_eq!(chance(0.0), "< 1 %");
        assert_eq!(latency(412.4), "412 ms");
        assert_eq!(latency(999.9), "1.00 s");
        assert_eq!(latency(38_120.0), "38.1 s");
        assert_eq!(speed(4.21), "4.2");
        assert_eq!(tick(10.0), "10");
        assert_eq!(tick(9.5), "9.5");
    }

    #[test]
    fn what_is_not_a_number_is_a_dash() {
        for text in [
            plain(f64::NAN),
            signed(f64::INFINITY),
            percent(f64::NAN),
            latency(f64::NAN),
            speed(f64::NAN),
        ] {
            assert_eq!(text, NONE);
        }
        assert_eq!(p_value(Some(f64::NAN)), NONE);
        assert_eq!(p_value(None), NONE);
        assert_eq!(optional(None, plain), NONE);
    }
}
