//! Media types and file names of downloads, as MLflow sends them.

use axum::http::HeaderValue;

/// Extensions, and whole names, that MLflow sends as plain text.
const TEXTS: [&str; 26] = [
    "txt",
    "log",
    "err",
    "cfg",
    "conf",
    "cnf",
    "cf",
    "ini",
    "properties",
    "prop",
    "hocon",
    "toml",
    "yaml",
    "yml",
    "xml",
    "json",
    "js",
    "py",
    "py3",
    "csv",
    "tsv",
    "md",
    "rst",
    "ipynb",
    "MLmodel",
    "mlproject",
];

/// Other extensions. Nothing that a browser would run as a script of this server's pages is here.
const TYPES: [(&str, &str); 24] = [
    ("html", "text/html"),
    ("htm", "text/html"),
    ("css", "text/css"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("bmp", "image/bmp"),
    ("svg", "image/svg+xml"),
    ("webp", "image/webp"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("ico", "image/vnd.microsoft.icon"),
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("tar", "application/x-tar"),
    ("tgz", "application/x-tar"),
    ("mp3", "audio/mpeg"),
    ("wav", "audio/x-wav"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("mpeg", "video/mpeg"),
    ("avi", "video/x-msvideo"),
    ("mov", "video/quicktime"),
];

/// The media type of a file, by its name.
pub(super) fn media_type(name: &str) -> &'static str {
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => (stem, extension),
        _ => ("", name),
    };
    if TEXTS.contains(&extension) {
        return "text/plain";
    }
    let extension = extension.to_ascii_lowercase();
    // The type of a compressed file is that of its content.
    let inner = stem.rsplit_once('.').map_or("", |(_, inner)| inner);
    if matches!(extension.as_str(), "gz" | "bz2" | "xz") && inner == "tar" {
        return "application/x-tar";
    }
    let known = TYPES.iter().find(|(known, _)| *known == extension);
    known.map_or("application/octet-stream", |(_, kind)| kind)
}

/// `Content-Disposition` for a file of this name.
pub(super) fn attachment(name: &str) -> HeaderValue {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let plain: String = name
        .chars()
        .filter(|c| c.is_ascii() && !c.is_ascii_control())
        .flat_map(|c| match c {
            '"' | '\\' => vec!['\\', c],
            _ => vec![c],
        })
        .collect();
    let mut text = if !plain.is_empty() && plain.chars().all(is_token) {
        format!("attachment; filename={plain}")
    } else {
        format!("attachment; filename=\"{plain}\"")
    };
    if !name.is_ascii() {
        text.push_str("; filename*=UTF-8''");
        for byte in name.bytes() {
            if byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
                text.push(char::from(byte));
            } else {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("attachment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_decide_types_and_never_break_out_of_the_header() {
        for (name, kind) in [
            ("a.json", "text/plain"),
            ("MLmodel", "text/plain"),
            ("page.HTML", "text/html"),
            ("z.tar.gz", "application/x-tar"),
            ("a.gz", "application/octet-stream"),
            ("script.mjs", "application/octet-stream"),
            (".html", "application/octet-stream"),
        ] {
            assert_eq!(media_type(name), kind, "{name}");
        }
        for (name, header) in [
            ("a.txt", "attachment; filename=a.txt"),
            ("with space.txt", "attachment; filename=\"with space.txt\""),
            ("a\"b\r\nX: y", "attachment; filename=\"a\\\"bX: y\""),
            (
                "\u{e9}.txt",
                "attachment; filename=.txt; filename*=UTF-8''%C3%A9.txt",
            ),
        ] {
            assert_eq!(attachment(name), header, "{name}");
        }
    }
}
