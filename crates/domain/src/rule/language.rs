//! The languages that can be detected.

/// The language of an ISO 639 code, with two letters or three.
pub fn detectable(code: &str) -> Result<whatlang::Lang, String> {
    const CODES: [(&str, &str); 24] = [
        ("ar", "ara"),
        ("cs", "ces"),
        ("da", "dan"),
        ("de", "deu"),
        ("el", "ell"),
        ("en", "eng"),
        ("es", "spa"),
        ("fi", "fin"),
        ("fr", "fra"),
        ("he", "heb"),
        ("hi", "hin"),
        ("hu", "hun"),
        ("it", "ita"),
        ("ja", "jpn"),
        ("ko", "kor"),
        ("nb", "nob"),
        ("nl", "nld"),
        ("pl", "pol"),
        ("pt", "por"),
        ("ru", "rus"),
        ("sv", "swe"),
        ("tr", "tur"),
        ("uk", "ukr"),
        ("zh", "cmn"),
    ];
    let three = CODES
        .iter()
        .find(|(two, _)| *two == code)
        .map_or(code, |(_, three)| three);
    whatlang::Lang::from_code(three).ok_or_else(|| {
        format!("'{code}' is not a language that can be detected: use an ISO 639 code such as en")
    })
}
