//! Cells: (model, prompt, scenario), what makes one cell another, and candidates' seeds.

use crate::hash::sha256_fields;

/// Everything that a cell's key covers: what changes the output, and nothing else.
///
/// Not in it: the rubric (it belongs to verdicts), URLs, concurrency, the other cells of the
/// grid. So editing a rubric or moving to another host never generates anything again.
#[derive(Debug, Clone, PartialEq)]
pub struct CellIdentity<'a> {
    pub task: &'a str,
    pub split: &'a str,
    pub model: &'a str,
    pub model_digest: &'a str,
    pub prompt: &'a str,
    /// Hash of every rendered candidate prompt in order, joined.
    pub rendered_sha256: &'a str,
    pub scenario: &'a str,
    pub scenario_sha256: &'a str,
    /// The options that are in every key, in the order of the table of options.
    pub options: &'a [(&'static str, String)],
    /// Later options whose values are not the defaults ([`crate::options::Identity`]).
    pub changed: &'a [(&'static str, String)],
    /// The schema that output is constrained to, as canonical JSON; empty without one.
    pub schema: &'a str,
}

impl<'a> CellIdentity<'a> {
    /// The key: 64 hex digits.
    pub fn key(&self) -> String {
        let texts = |options: &'a [(&'static str, String)]| {
            options.iter().map(|(key, text)| (*key, text.as_str()))
        };
        let mut fields = vec![
            ("cell", "1"),
            ("task", self.task),
            ("split", self.split),
            ("model", self.model),
            ("model_digest", self.model_digest),
            ("prompt", self.prompt),
            ("rendered", self.rendered_sha256),
            ("scenario", self.scenario),
            ("scenario_sha256", self.scenario_sha256),
        ];
        fields.extend(texts(self.options));
        fields.push(("schema", self.schema));
        fields.extend(texts(self.changed));
        sha256_fields(&fields)
    }
}

/// The seed of one candidate, from the collection's seed, the cell and the index.
///
/// 31 bits, because some servers read a seed as a signed 32-bit number.
pub fn candidate_seed(seed: u64, cell_key: &str, index: u32) -> u32 {
    let digest = sha256_fields(&[
        ("seed", &seed.to_string()),
        ("cell", cell_key),
        ("index", &index.to_string()),
    ]);
    u32::from_str_radix(&digest[..8], 16).unwrap_or(0) & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn key(options: &Options, schema: &str, change: impl FnOnce(&mut CellIdentity<'_>)) -> String {
        let (options, changed) = options.identity();
        let mut identity = CellIdentity {
            task: "tip",
            split: "selection",
            model: "m",
            model_digest: "d",
            prompt: "v1",
            rendered_sha256: "r",
            scenario: "s",
            scenario_sha256: "h",
            options: &options,
            changed: &changed,
            schema,
        };
        change(&mut identity);
        identity.key()
    }

    fn key_of(options: &Options) -> String {
        key(options, "", |_| {})
    }

    #[test]
    fn every_part_makes_another_cell() {
        let base = Options::default;
        let texts: [fn(&mut CellIdentity<'_>); 8] = [
            |it| it.task = "x",
            |it| it.split = "x",
            |it| it.model = "x",
            |it| it.model_digest = "x",
            |it| it.prompt = "x",
            |it| it.rendered_sha256 = "x",
            |it| it.scenario = "x",
            |it| it.scenario_sha256 = "x",
        ];
        let mut keys: Vec<String> = texts.map(|change| key(&base(), "", change)).into();
        let options = [
            Options {
                n_tips: 1,
                ..base()
            },
            Options {
                temperature: 0.0,
                ..base()
            },
            Options {
                max_tokens: 1,
                ..base()
            },
            Options {
                num_ctx: 1,
                ..base()
            },
            Options { seed: 1, ..base() },
            Options {
                diversity: true,
                ..base()
            },
        ];
        keys.extend(options.iter().map(key_of));
        keys.extend([key(&base(), "{}", |_| {}), key_of(&base())]);
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count);
        assert_eq!(key_of(&base()), key_of(&Options { jobs: 8, ..base() }));
    }

    #[test]
    fn the_key_never_changes_between_versions() {
        // A change here would make every user collect everything again.
        assert_eq!(
            key_of(&Options::default()),
            "3c11d155c9c1700f06decc7d9131b6fa97457d6dfc526421814158fb25bf4ca5"
        );
        assert_eq!(candidate_seed(42, "k", 0), 741_169_085);
    }

    #[test]
    fn a_later_option_is_in_the_key_where_it_was_changed() {
        let changed = [("top_k", "40".to_owned())];
        let (options, _) = Options::default().identity();
        let identity = |changed| CellIdentity {
            task: "",
            split: "",
            model: "",
            model_digest: "",
            prompt: "",
            rendered_sha256: "",
            scenario: "",
            scenario_sha256: "",
            options: &options,
            changed,
            schema: "",
        };
        assert_ne!(identity(&changed).key(), identity(&[]).key());
    }

    #[test]
    fn seeds_differ_by_candidate() {
        assert_ne!(candidate_seed(42, "k", 0), candidate_seed(42, "k", 1));
        assert_ne!(candidate_seed(42, "k", 0), candidate_seed(43, "k", 0));
    }
}
