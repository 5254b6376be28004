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
    pub n_tips: u32,
    pub temperature: f64,
    pub max_tokens: u32,
    pub num_ctx: u32,
    pub seed: u64,
    pub diversity: bool,
    /// The schema that output is constrained to, as canonical JSON; empty without one.
    pub schema: &'a str,
}

impl CellIdentity<'_> {
    /// The key: 64 hex digits.
    pub fn key(&self) -> String {
        sha256_fields(&[
            ("cell", "1"),
            ("task", self.task),
            ("split", self.split),
            ("model", self.model),
            ("model_digest", self.model_digest),
            ("prompt", self.prompt),
            ("rendered", self.rendered_sha256),
            ("scenario", self.scenario),
            ("scenario_sha256", self.scenario_sha256),
            ("n_tips", &self.n_tips.to_string()),
            ("temperature", &self.temperature.to_string()),
            ("max_tokens", &self.max_tokens.to_string()),
            ("num_ctx", &self.num_ctx.to_string()),
            ("seed", &self.seed.to_string()),
            ("diversity", &self.diversity.to_string()),
            ("schema", self.schema),
        ])
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

    const BASE: CellIdentity<'_> = CellIdentity {
        task: "tip",
        split: "selection",
        model: "m",
        model_digest: "d",
        prompt: "v1",
        rendered_sha256: "r",
        scenario: "s",
        scenario_sha256: "h",
        n_tips: 5,
        temperature: 0.7,
        max_tokens: 128,
        num_ctx: 2048,
        seed: 42,
        diversity: false,
        schema: "",
    };

    #[test]
    fn every_part_makes_another_cell() {
        let others = [
            CellIdentity { task: "x", ..BASE },
            CellIdentity { split: "x", ..BASE },
            CellIdentity { model: "x", ..BASE },
            CellIdentity {
                model_digest: "x",
                ..BASE
            },
            CellIdentity {
                prompt: "x",
                ..BASE
            },
            CellIdentity {
                rendered_sha256: "x",
                ..BASE
            },
            CellIdentity {
                scenario: "x",
                ..BASE
            },
            CellIdentity {
                scenario_sha256: "x",
                ..BASE
            },
            CellIdentity { n_tips: 1, ..BASE },
            CellIdentity {
                temperature: 0.0,
                ..BASE
            },
            CellIdentity {
                max_tokens: 1,
                ..BASE
            },
            CellIdentity { num_ctx: 1, ..BASE },
            CellIdentity { seed: 1, ..BASE },
            CellIdentity {
                diversity: true,
                ..BASE
            },
            CellIdentity {
                schema: "{}",
                ..BASE
            },
        ];
        let mut keys: Vec<_> = others
            .iter()
            .chain([&BASE])
            .map(CellIdentity::key)
            .collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), others.len() + 1);
    }

    #[test]
    fn the_key_never_changes_between_versions() {
        // A change here would make every user collect everything again.
        assert_eq!(
            BASE.key(),
            "3c11d155c9c1700f06decc7d9131b6fa97457d6dfc526421814158fb25bf4ca5"
        );
        assert_eq!(candidate_seed(42, "k", 0), 741_169_085);
    }

    #[test]
    fn seeds_differ_by_candidate() {
        assert_ne!(candidate_seed(42, "k", 0), candidate_seed(42, "k", 1));
        assert_ne!(candidate_seed(42, "k", 0), candidate_seed(43, "k", 0));
    }
}
