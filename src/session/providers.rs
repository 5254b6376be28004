//! Providers of models: made when a model asks for them, and kept.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use assize_domain::model::{ModelId, ProviderKind};
use assize_pipeline::PipelineError;
use assize_pipeline::size_gate::{self, SizedModel, UnaskedHost};
use assize_providers::anthropic::{self, AnthropicProvider};
use assize_providers::command::{CommandModel, CommandProvider};
use assize_providers::gemini::{self, GeminiProvider};
use assize_providers::ollama::{OllamaConfig, OllamaProvider};
use assize_providers::openai::OpenAiProvider;
use assize_providers::scripted::ScriptedProvider;
use assize_providers::{HttpConfig, Provider};

use super::KEEP_ALIVE;
use crate::environment::{self, Environment};
use crate::settings::{Settings, url_list};

/// Makes providers as models ask for them, and keeps them.
#[derive(Debug)]
pub struct Providers {
    http: HttpConfig,
    ollama_urls: Vec<String>,
    base_urls: Vec<String>,
    api_key: Option<String>,
    anthropic: HostedApi,
    gemini: HostedApi,
    commands: Vec<CommandModel>,
    script: Option<PathBuf>,
    #[cfg_attr(
        not(feature = "embedded"),
        expect(dead_code, reason = "only the embedded engine looks for weights")
    )]
    embedded: EmbeddedSettings,
    made: Vec<(ProviderKind, Vec<Arc<dyn Provider>>)>,
    /// Hosts that did not answer; they are not asked again about the next model.
    silent: Vec<UnaskedHost>,
}

/// Where an API is, and its key.
#[derive(Clone)]
struct HostedApi {
    base_url: String,
    key_name: &'static str,
    key: Option<String>,
}

impl std::fmt::Debug for HostedApi {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("HostedApi").field(&self.base_url).finish()
    }
}

impl HostedApi {
    fn new(
        environment: &Environment,
        url_name: &str,
        default_url: &str,
        key_name: &'static str,
    ) -> Self {
        let base_url = environment.get(url_name).filter(|it| !it.is_empty());
        Self {
            base_url: base_url.unwrap_or(default_url).to_owned(),
            key_name,
            key: environment.get(key_name).map(str::to_owned),
        }
    }

    fn key(&self, kind: ProviderKind) -> anyhow::Result<&str> {
        let key = self.key.as_deref().filter(|it| !it.trim().is_empty());
        key.ok_or_else(|| {
            let message = format!(
                "{}: models need a key: set {}",
                kind.prefix(),
                self.key_name
            );
            PipelineError::Invalid(message).into()
        })
    }
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
        let base_url = Some(settings.options.base_url.as_str()).filter(|url| !url.is_empty());
        let base_url = base_url.or_else(|| environment.get("OPENAI_BASE_URL"));
        Self {
            http: http_config(settings, settings.options.retries),
            ollama_urls: settings.options.ollama_url.clone(),
            base_urls: base_url.map(url_list).unwrap_or_default(),
            api_key: environment.get("OPENAI_API_KEY").map(str::to_owned),
            anthropic: HostedApi::new(
                environment,
                "ANTHROPIC_BASE_URL",
                anthropic::BASE_URL,
                "ANTHROPIC_API_KEY",
            ),
            gemini: HostedApi::new(
                environment,
                "GEMINI_BASE_URL",
                gemini::BASE_URL,
                "GEMINI_API_KEY",
            ),
            commands: settings
                .command
                .iter()
                .map(|(name, it)| it.model(name))
                .collect(),
            script: Some(PathBuf::from(&settings.options.script))
                .filter(|path| !path.as_os_str().is_empty()),
            embedded: EmbeddedSettings {
                models_dir: environment.models_dir(),
                threads: settings.options.threads,
                fast: settings.options.fast,
            },
            made: Vec::new(),
            silent: Vec::new(),
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
                if self.base_urls.is_empty() {
                    let message = "openai: models need an endpoint: use --base-url URL or set OPENAI_BASE_URL";
                    bail!(PipelineError::Invalid(message.to_owned()));
                }
                let mut endpoints: Vec<Arc<dyn Provider>> = Vec::new();
                for url in &self.base_urls {
                    let endpoint = OpenAiProvider::new(url, self.api_key.as_deref(), &self.http);
                    endpoints.push(Arc::new(endpoint.map_err(PipelineError::Provider)?));
                }
                endpoints
            }
            ProviderKind::Anthropic => {
                let key = self.anthropic.key(kind)?;
                let api = AnthropicProvider::new(&self.anthropic.base_url, key, &self.http);
                vec![Arc::new(api.map_err(PipelineError::Provider)?)]
            }
            ProviderKind::Gemini => {
                let key = self.gemini.key(kind)?;
                let api = GeminiProvider::new(&self.gemini.base_url, key, &self.http);
                vec![Arc::new(api.map_err(PipelineError::Provider)?)]
            }
            ProviderKind::Command => {
                let timeout = self.http.timeout;
                vec![Arc::new(CommandProvider::new(
                    self.commands.clone(),
                    timeout,
                ))]
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
        let all = self.of_kind(id.provider)?;
        let silent_as = |provider: &Arc<dyn Provider>| {
            let mut silent = self.silent.iter();
            silent.find(|it| Arc::ptr_eq(&it.provider, provider))
        };
        let silent: Vec<UnaskedHost> = all.iter().filter_map(silent_as).cloned().collect();
        let asked = all.iter().filter(|it| silent_as(it).is_none());
        let asked: Vec<Arc<dyn Provider>> = asked.cloned().collect();
        let sizes = settings.assumed_sizes();
        if asked.is_empty() {
            return Ok(size_gate::describe(id, &all, &sizes)?);
        }
        let mut model = size_gate::describe(id, &asked, &sizes)?;
        self.silent.extend(model.unasked.iter().cloned());
        model.unasked.extend(silent);
        Ok(model)
    }

    /// Hosts that did not answer when they were asked about models.
    pub fn silent(&self) -> &[UnaskedHost] {
        &self.silent
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
