//! Providers of models: made when a model asks for them, and kept.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use assize_domain::model::{ModelId, ProviderKind};
use assize_pipeline::PipelineError;
use assize_pipeline::size_gate::{self, SizedModel};
use assize_providers::ollama::{OllamaConfig, OllamaProvider};
use assize_providers::openai::OpenAiProvider;
use assize_providers::scripted::ScriptedProvider;
use assize_providers::{HttpConfig, Provider};

use super::KEEP_ALIVE;
use crate::environment::{self, Environment};
use crate::settings::Settings;

/// Makes providers as models ask for them, and keeps them.
#[derive(Debug)]
pub struct Providers {
    http: HttpConfig,
    ollama_urls: Vec<String>,
    base_url: Option<String>,
    api_key: Option<String>,
    script: Option<PathBuf>,
    #[cfg_attr(
        not(feature = "embedded"),
        expect(dead_code, reason = "only the embedded engine looks for weights")
    )]
    embedded: EmbeddedSettings,
    made: Vec<(ProviderKind, Vec<Arc<dyn Provider>>)>,
}

#[derive(Debug)]
#[cfg_attr(
    not(feature = "embedded"),
    expect(dead_code, reason = "only the embedded engine looks for weights")
)]
struct EmbeddedSettings {
    models_dir: PathBuf,
    threads: usize,
    fast: bool,
}

impl Providers {
    pub(super) fn new(settings: &Settings, environment: &Environment) -> Self {
        let base_url = Some(settings.options.base_url.clone()).filter(|url| !url.is_empty());
        Self {
            http: http_config(settings, settings.options.retries),
            ollama_urls: settings.options.ollama_url.clone(),
            base_url: base_url.or_else(|| environment.get("OPENAI_BASE_URL").map(str::to_owned)),
            api_key: environment.get("OPENAI_API_KEY").map(str::to_owned),
            script: Some(PathBuf::from(&settings.options.script))
                .filter(|path| !path.as_os_str().is_empty()),
            embedded: EmbeddedSettings {
                models_dir: environment.models_dir(),
                threads: settings.options.threads,
                fast: settings.options.fast,
            },
            made: Vec::new(),
        }
    }

    /// The providers (one a host) of this kind.
    pub fn of_kind(&mut self, kind: ProviderKind) -> anyhow::Result<Vec<Arc<dyn Provider>>> {
        if let Some((_, known)) = self.made.iter().find(|(known, _)| *known == kind) {
            return Ok(known.clone());
        }
        let made: Vec<Arc<dyn Provider>> = match kind {
            ProviderKind::Ollama => {
                let config = OllamaConfig {
                    http: self.http.clone(),
                    keep_alive: KEEP_ALIVE,
                    ..OllamaConfig::default()
                };
                let mut hosts: Vec<Arc<dyn Provider>> = Vec::new();
                for url in &self.ollama_urls {
                    let host = OllamaProvider::new(url, &config);
                    hosts.push(Arc::new(host.map_err(PipelineError::Provider)?));
                }
                hosts
            }
            ProviderKind::OpenAi => {
                let Some(url) = &self.base_url else {
                    let message = "openai: models need an endpoint: use --base-url URL or set OPENAI_BASE_URL";
                    bail!(PipelineError::Invalid(message.to_owned()));
                };
                let endpoint = OpenAiProvider::new(url, self.api_key.as_deref(), &self.http);
                vec![Arc::new(endpoint.map_err(PipelineError::Provider)?)]
            }
            ProviderKind::Scripted => {
                let Some(script) = &self.script else {
                    let message = "scripted: models need their answers: use --script FILE";
                    bail!(PipelineError::Invalid(message.to_owned()));
                };
                vec![Arc::new(
                    ScriptedProvider::from_file(script).map_err(PipelineError::Provider)?,
                )]
            }
            ProviderKind::Embedded => vec![self.embedded()?],
        };
        self.made.push((kind, made.clone()));
        Ok(made)
    }

    #[cfg(feature = "embedded")]
    #[expect(
        clippy::unnecessary_wraps,
        reason = "the same signature with and without the engine"
    )]
    fn embedded(&self) -> anyhow::Result<Arc<dyn Provider>> {
        let mut config = assize_llama::EmbeddedConfig::new(&self.embedded.models_dir);
        config.threads = Some(self.embedded.threads).filter(|threads| *threads > 0);
        config.fast = self.embedded.fast;
        Ok(Arc::new(assize_llama::EmbeddedProvider::new(config)))
    }

    #[cfg(not(feature = "embedded"))]
    #[expect(
        clippy::unused_self,
        reason = "the same signature with and without the engine"
    )]
    fn embedded(&self) -> anyhow::Result<Arc<dyn Provider>> {
        let message =
            "this build has no embedded engine: build with the default features, or use Ollama";
        bail!(PipelineError::Invalid(message.to_owned()))
    }

    /// Describes a model and finds the providers that have it.
    pub fn describe(&mut self, id: &ModelId, settings: &Settings) -> anyhow::Result<SizedModel> {
        let providers = self.of_kind(id.provider)?;
        Ok(size_gate::describe(
            id,
            &providers,
            &settings.assumed_sizes(),
        )?)
    }
}

fn http_config(settings: &Settings, retries: u32) -> HttpConfig {
    HttpConfig {
        timeout: Duration::from_secs(settings.options.timeout),
        retries,
        jitter_seed: environment::jitter_seed(),
        ..HttpConfig::default()
    }
}

/// Whether any Ollama answers, asked once and briefly.
pub(super) fn ollama_answers(settings: &Settings) -> bool {
    let http = HttpConfig {
        timeout: Duration::from_secs(2),
        ..http_config(settings, 0)
    };
    let config = OllamaConfig {
        http,
        ..OllamaConfig::default()
    };
    settings
        .options
        .ollama_url
        .iter()
        .any(|url| OllamaProvider::new(url, &config).is_ok_and(|host| host.version().is_ok()))
}
