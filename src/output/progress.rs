//! Progress of a collection: a bar a model on a terminal, plain lines elsewhere.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use assize_domain::options::Options;
use assize_pipeline::collect::{CellEvent, CellStatus, Event, HostEvent, HostState};
use assize_pipeline::counted;
use assize_pipeline::estimate::{Batched, Shown, seconds_left};
use assize_pipeline::size_gate::SizedModel;
use assize_providers::Activity;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{Output, complain, safe};

/// Lines are written at most so often where there is no terminal; the first one sooner.
const LINE_EVERY: Duration = Duration::from_secs(10);
const FIRST_LINE_AFTER: Duration = Duration::from_secs(3);

/// Shows a collection's events to a person.
#[derive(Debug)]
pub struct CollectProgress {
    bars: Option<MultiProgress>,
    quiet: bool,
    name_width: usize,
    /// The place of the bar in a line's template.
    bar: &'static str,
    /// Candidates of a cell, and the most tokens of each.
    n_tips: u32,
    max_tokens: u32,
    models: Mutex<HashMap<String, Model>>,
}

#[derive(Debug)]
struct Model {
    bar: Option<ProgressBar>,
    cells: u64,
    done: u64,
    generated: u64,
    failed: u64,
    tokens: u64,
    loads: u64,
    /// When generation began; skipped cells do not count into the rate.
    started: Option<Instant>,
    /// What the engine says, where it says anything while it works.
    activity: Option<Activity>,
    shown: Shown,
    next_line: Instant,
    size: String,
}

impl CollectProgress {
    pub fn new(output: &Output, name_width: usize, options: &Options) -> Self {
        let bars = (output.is_interactive && !output.quiet)
            .then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10)));
        output.set_bars(bars.clone());
        Self {
            bars,
            quiet: output.quiet,
            name_width,
            bar: bar_for(output.width),
            n_tips: options.n_tips,
            max_tokens: options.max_tokens,
            models: Mutex::new(HashMap::new()),
        }
    }

    /// Shows what engines have done since the last cell; `activity` is asked by the model's id.
    pub fn tick(&self, activity: impl Fn(&str) -> Option<Activity>) {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, model) in models.iter_mut() {
            if model.started.is_none() || model.done == model.cells {
                continue;
            }
            model.activity = activity(id);
            if model.activity.is_some() {
                self.show(model, id);
            }
        }
    }

    fn show(&self, model: &mut Model, id: &str) {
        if self.quiet {
            return;
        }
        let rate = model.rate(self.n_tips, self.max_tokens);
        if let Some(bar) = &model.bar {
            bar.set_position(model.done);
            bar.set_message(rate);
        } else if Instant::now() >= model.next_line {
            model.next_line = Instant::now() + LINE_EVERY;
            complain(&model.line(id, &rate));
        }
    }

    /// Takes one event.
    pub fn take(&self, event: &Event<'_>) {
        if self.quiet {
            return;
        }
        match event {
            Event::ModelStarted { model, cells } => self.start(model, *cells),
            Event::Waiting { model, on } => self.note(&format!("  {} waits for {on}", model.id)),
            Event::Loaded { model, .. } => self.with(model, |it| {
                it.loads += 1;
                it.started = Some(Instant::now());
                it.next_line = Instant::now() + FIRST_LINE_AFTER;
            }),
            Event::Cell(cell) => self.cell(cell),
            Event::Host(host) => self.host(host),
            Event::ModelFinished { model } => self.finish(model),
        }
    }

    /// Writes a line above the bars.
    pub fn note(&self, text: &str) {
        match &self.bars {
            Some(bars) => bars.suspend(|| complain(text)),
            None if !self.quiet => complain(text),
            None => {}
        }
    }

    /// Says what a host begins: everything where there are several, else only what goes wrong.
    fn host(&self, event: &HostEvent<'_>) {
        let host = safe(event.host);
        let said = match (event.state, event.model, event.error) {
            (HostState::Failed, _, error) => {
                format!("failed: {}", safe(error.unwrap_or_default()))
            }
            (HostState::Recovered, _, None) => "answers again".to_owned(),
            (HostState::Recovered, _, Some(warning)) => format!("answers again; {}", safe(warning)),
            (HostState::Waiting, _, Some(error)) if event.hosts > 1 => safe(error),
            (HostState::Loading, Some(model), _) if event.hosts > 1 => {
                format!("loads {}", model.id)
            }
            _ => return,
        };
        self.note(&format!("  {host}  {said}"));
    }

    fn start(&self, model: &SizedModel, cells: u64) {
        let id = model.id.to_string();
        let size = model
            .parameter_count
            .map_or_else(|| "hosted".to_owned(), billions);
        let bar = self.bars.as_ref().map(|bars| {
            let template = format!(
                "  {{prefix:{}}}  {}  {{pos}}/{{len}} cells   {{msg}}",
                self.name_width + 7,
                self.bar
            );
            let bar = bars.add(ProgressBar::new(cells).with_style(style_of(&template)));
            let name = super::text_table::shorten(&id, self.name_width);
            bar.set_prefix(format!(
                "{name:<width$}  {size:>5}",
                width = self.name_width
            ));
            bar.tick();
            bar
        });
        let model = Model {
            bar,
            cells,
            done: 0,
            generated: 0,
            failed: 0,
            tokens: 0,
            loads: 0,
            started: None,
            activity: None,
            shown: Shown::default(),
            next_line: Instant::now() + LINE_EVERY,
            size,
        };
        self.models
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(id, model);
    }

    fn with(&self, model: &SizedModel, change: impl FnOnce(&mut Model)) {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = models.get_mut(&model.id.to_string()) {
            change(model);
        }
    }

    fn cell(&self, cell: &CellEvent<'_>) {
        if let Some(error) = cell.error {
            self.note(&format!(
                "  {} × {} × {} failed: {}",
                cell.model.id,
                cell.prompt,
                cell.scenario,
                safe(error)
            ));
        }
        self.with(cell.model, |model| {
            model.done += 1;
            model.tokens += cell.completion_tokens;
            model.failed += u64::from(cell.status == CellStatus::Failed);
            model.generated += u64::from(cell.status != CellStatus::Skipped);
            self.show(model, &cell.model.id.to_string());
        });
    }

    fn finish(&self, model: &SizedModel) {
        self.with(model, |it| match &it.bar {
            Some(bar) => bar.abandon_with_message(it.closing()),
            None => complain(&it.line(&model.id.to_string(), &it.closing())),
        });
    }
}

impl Model {
    fn line(&self, id: &str, note: &str) -> String {
        format!(
            "  {id}  {}  {}/{}   {note}",
            self.size,
            self.done,
            counted(self.cells, "cell", "cells")
        )
    }

    /// While it runs: `38 tok/s   2m 10s left`; before the first token `312 tokens of prompts read`.
    fn rate(&mut self, n_tips: u32, max_tokens: u32) -> String {
        let Some(elapsed_s) = self.started.map(|it| it.elapsed().as_secs_f64()) else {
            return String::new();
        };
        let left = self.cells - self.done;
        let Some(activity) = self.activity else {
            let left = seconds_left(self.generated, left, elapsed_s);
            return left.map_or_else(String::new, |left| {
                format!("{}{} left", self.speed(), duration(left))
            });
        };
        let work = Batched {
            done: self.generated * u64::from(n_tips),
            done_tokens: self.tokens,
            left: left * u64::from(n_tips),
            max_tokens,
        };
        match work.seconds_left(&activity, elapsed_s) {
            Some(left) => {
                let left = self.shown.next(left, elapsed_s);
                format!("{}{} left", self.speed(), duration(left))
            }
            None => prompts_read(activity),
        }
    }

    /// When it is done: `1 load   42 tok/s`.
    fn closing(&self) -> String {
        let loads = match self.loads {
            0 => "nothing to do".to_owned(),
            1 => "1 load".to_owned(),
            n => format!("{n} loads"),
        };
        let failed = if self.failed > 0 {
            format!("   {} failed", self.failed)
        } else {
            String::new()
        };
        format!("{loads}   {}{failed}", self.speed())
            .trim_end()
            .to_owned()
    }

    fn speed(&self) -> String {
        let begun = self.activity.map_or(0, |it| it.completion_tokens);
        let tokens = self.tokens.max(begun);
        let Some(started) = self.started.filter(|_| tokens > 0) else {
            return String::new();
        };
        let rate = tokens as f64 / started.elapsed().as_secs_f64().max(1e-3);
        format!("{rate:.0} tok/s   ")
    }
}

/// The place of a bar in a template: what the rest of the line leaves, where that is little.
const fn bar_for(columns: usize) -> &'static str {
    if columns < 100 {
        "{wide_bar}"
    } else {
        "{bar:22}"
    }
}

fn style_of(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("━╸ ")
}

/// Something that is counted: one bar on a terminal, a line now and then elsewhere.
#[derive(Debug)]
pub struct Counter {
    bar: Option<ProgressBar>,
    quiet: bool,
    doing: &'static str,
    what: &'static str,
    started: Instant,
    /// When the next line is due, and the time left as it was shown last.
    state: Mutex<(Instant, Shown)>,
}

/// What a [`Counter`] shows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count<'a> {
    pub done: u64,
    pub total: u64,
    /// Perhaps what it has cost.
    pub cost: Option<&'a str>,
    /// What the engine has done, with the tokens of what is done and the most tokens of each.
    pub engine: Option<(Activity, u64, u32)>,
}

impl Counter {
    pub fn new(output: &Output, doing: &'static str, what: &'static str) -> Self {
        let bar = (output.is_interactive && !output.quiet).then(|| {
            let bar = bar_for(output.width);
            let template = format!("  {doing}  {bar}  {{pos}}/{{len}} {what}   {{msg}}");
            ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10))
                .with_style(style_of(&template))
        });
        Self {
            bar,
            quiet: output.quiet,
            doing,
            what,
            started: Instant::now(),
            state: Mutex::new((Instant::now() + FIRST_LINE_AFTER, Shown::default())),
        }
    }

    /// Of something that costs nothing and has no engine.
    pub fn set_plain(&self, done: u64, total: u64) {
        self.set(Count {
            done,
            total,
            ..Count::default()
        });
    }

    /// With the rate, the time left, and perhaps what it has cost.
    pub fn set(&self, count: Count<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let note = self.note(count, &mut state.1);
        let Count { done, total, .. } = count;
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(note);
        } else if !self.quiet && Instant::now() >= state.0 {
            state.0 = Instant::now() + LINE_EVERY;
            let (doing, what) = (self.doing, self.what);
            complain(format!("  {doing}  {done}/{total} {what}   {note}").trim_end());
        }
    }

    fn note(&self, count: Count<'_>, shown: &mut Shown) -> String {
        let seconds = self.started.elapsed().as_secs_f64().max(1e-3);
        let (done, left) = (count.done, count.total.saturating_sub(count.done));
        let left_s = match count.engine {
            None => seconds_left(done, left, seconds),
            Some((activity, done_tokens, max_tokens)) => {
                let work = Batched {
                    done,
                    done_tokens,
                    left,
                    max_tokens,
                };
                work.seconds_left(&activity, seconds)
            }
        };
        let cost = count
            .cost
            .map_or_else(String::new, |cost| format!("   {cost}"));
        match (left_s, count.engine) {
            (Some(left_s), _) => {
                let left_s = shown.next(left_s, seconds);
                let rate = done as f64 / seconds;
                format!("{rate:.1}/s   {} left{cost}", duration(left_s))
            }
            (None, Some((activity, ..))) => prompts_read(activity),
            (None, None) => String::new(),
        }
    }

    pub fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Before an engine has generated anything.
fn prompts_read(activity: Activity) -> String {
    match activity.prompt_tokens {
        0 => String::new(),
        tokens => format!("{} of prompts read", counted(tokens, "token", "tokens")),
    }
}

/// `0.5B`, `135M`.
pub fn billions(parameter_count: u64) -> String {
    if (50_000_000..450_000_000).contains(&parameter_count) {
        return format!("{:.0}M", parameter_count as f64 / 1e6);
    }
    format!("{:.1}B", parameter_count as f64 / 1e9)
}

/// `under 1s`, `45s`, `2m 10s`, `3h 05m`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a duration for display"
)]
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.clamp(0.0, 1e7).round() as u64;
    match seconds {
        0 => "under 1s".to_owned(),
        1..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}
