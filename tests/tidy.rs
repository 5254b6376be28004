//! Limits that the source keeps: sizes of files, the direction of crates, where the environment and
//! SQL may be used.

use std::path::{Path, PathBuf};

use assize_test_support::root;

const MOST_LINES: usize = 500;

fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && !name.starts_with('.') && name != "target" {
            files(&path, endings, found);
        } else if path
            .extension()
            .and_then(|it| it.to_str())
            .is_some_and(|it| endings.contains(&it))
        {
            found.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(root(), &["rs", "html", "css", "js", "sh"], &mut found);
    found
}

#[test]
fn files_stay_readable() {
    for path in sources() {
        let lines = std::fs::read_to_string(&path)
            .expect("text")
            .lines()
            .count();
        assert!(
            lines <= MOST_LINES,
            "{} has {lines} lines: split it where a reader would",
            path.display()
        );
    }
}

#[test]
fn crates_point_one_way() {
    let allowed: [(&str, &[&str]); 17] = [
        ("domain", &[]),
        ("stats", &[]),
        ("policy", &["domain", "stats"]),
        ("optimise", &["domain", "stats"]),
        ("schedule", &[]),
        ("import", &["domain"]),
        ("store", &["domain"]),
        ("http", &["stats"]),
        ("mlflow", &["domain", "http", "store"]),
        ("providers", &["domain", "http", "stats"]),
        ("llama", &["providers"]),
        ("report", &["domain", "optimise", "policy"]),
        (
            "pipeline",
            &[
                "domain",
                "http",
                "optimise",
                "policy",
                "providers",
                "schedule",
                "stats",
                "store",
            ],
        ),
        ("desk", &["domain", "report"]),
        ("mcp", &["domain", "pipeline", "store"]),
        (
            "server",
            &[
                "domain", "http", "optimise", "pipeline", "policy", "report", "store",
            ],
        ),
        ("test-support", &[]),
    ];
    for (name, allowed) in allowed {
        let manifest: toml::Table =
            std::fs::read_to_string(root().join("crates").join(name).join("Cargo.toml"))
                .expect("a manifest")
                .parse()
                .expect("TOML");
        let dependencies = manifest["dependencies"].as_table().expect("a table");
        let ours = dependencies
            .keys()
            .filter_map(|key| key.strip_prefix("assize-"));
        for edge in ours {
            assert!(allowed.contains(&edge), "{name} must not depend on {edge}");
        }
    }
    let count = std::fs::read_dir(root().join("crates"))
        .expect("crates")
        .count();
    assert_eq!(
        count,
        allowed.len(),
        "a new crate belongs into this list and into ARCHITECTURE.md"
    );
}

#[test]
fn only_one_module_reads_the_environment_and_only_one_crate_knows_sql() {
    for path in sources() {
        let shown = path
            .strip_prefix(root())
            .expect("below the root")
            .display()
            .to_string();
        let text = std::fs::read_to_string(&path).expect("text");
        let is_product = (shown.starts_with("src") || shown.contains("/src/"))
            && !shown.starts_with("crates/test-support")
            && path.extension().is_some_and(|it| it == "rs");
        if is_product && shown != "src/environment.rs" {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            assert!(!code.contains("env::var"), "{shown} reads the environment");
        }
        if is_product && !shown.starts_with("crates/store") {
            assert!(!text.contains("rusqlite"), "{shown} knows SQL");
        }
    }
}

#[test]
fn readme_commands_exist_in_the_makefile() {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("a README");
    let makefile = std::fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    for target in ["demo", "test"] {
        assert!(readme.contains(&format!("make {target}")));
        assert!(makefile.contains(&format!("\n{target}:")));
    }
}
