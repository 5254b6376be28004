//! `assize policy`: which policy is active, and what decides about that.

use assize_domain::task::TaskDefaults;
use assize_pipeline::policies::export::{ExportFormat, export};
use assize_pipeline::policies::rollout::{
    ConfiguredShadow, GateOptions, PolicyStatus, Signed, gate, promote, rollback, shadow_switch,
    status,
};
use assize_pipeline::policies::sample::{SampleOptions, sample};
use assize_pipeline::policies::{self, log};
use assize_pipeline::{PipelineError, simulation, whole_file};
use assize_policy::gate::{Effort, GateReport};
use assize_policy::off_policy::{Estimate, Evaluation, Limits};
use assize_policy::{Policy, PolicyKind};
use assize_report::gate_table;
use assize_report::text::wrap;
use assize_store::policies::{HistoryEntry, PolicyAction as Change, PolicyFile};
use serde_json::{Value, json};

use crate::Exit;
use crate::cli::policy::{
    LogFormat, PolicyAction, PolicyExport, PolicyPromote, PolicySample, Reason, Switch,
};
use crate::environment::{self, STATE_DIR};
use crate::output::safe;
use crate::output::text_table::{Align, render};
use crate::session::Session;
use crate::settings::PolicySection;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// The file and the settings that every command needs.
struct Opened<'a> {
    session: &'a Session,
    file: PolicyFile,
    settings: PolicySection,
    shadows: Vec<ConfiguredShadow>,
}

pub fn run(session: &Session, action: &PolicyAction) -> anyhow::Result<Exit> {
    let opened = Opened::new(session)?;
    match action {
        PolicyAction::Status => opened.status(),
        PolicyAction::Promote(args) => opened.promote(args),
        PolicyAction::Rollback(reason) => opened.rollback(reason),
        PolicyAction::History => opened.history(),
        PolicyAction::Evaluate { policy } => opened.evaluate(*policy),
        PolicyAction::Export(args) => opened.export(args),
        PolicyAction::Sample(args) => opened.sample(args),
        PolicyAction::Shadow {
            name,
            switch,
            reason,
        } => opened.shadow(name, *switch, reason),
    }
}

impl<'a> Opened<'a> {
    fn new(session: &'a Session) -> anyhow::Result<Self> {
        let settings = session.layers(&TaskDefaults::default())?.finish()?.policy;
        let config = settings.config(STATE_DIR.as_ref());
        let shadow = |it: &assize_server::ShadowConfig| ConfiguredShadow {
            name: it.name.clone(),
            policy: it.policy,
            enabled: it.enabled,
        };
        Ok(Self {
            session,
            file: PolicyFile::open(&config.path).map_err(PipelineError::from)?,
            shadows: config.shadows.iter().map(shadow).collect(),
            settings,
        })
    }

    fn policy(&self, kind: PolicyKind) -> anyhow::Result<Policy> {
        Ok(Policy::new(kind, self.settings.of(kind)).map_err(PipelineError::from)?)
    }

    fn status(&self) -> anyhow::Result<Exit> {
        let found = status(&self.file, self.settings.active, &self.shadows)?;
        if self.session.output.json {
            self.session.output.json_pretty(&found)?;
        } else {
            let text = status_text(&found, self.session.output.width);
            self.session.output.data(&text)?;
        }
        Ok(Exit::Done)
    }

    fn promote(&self, args: &PolicyPromote) -> anyhow::Result<Exit> {
        let history = self.file.history_list().map_err(PipelineError::from)?;
        let active = log::active_of(&history, self.settings.active);
        let (incumbent, candidate) = (self.policy(active)?, self.policy(args.policy)?);
        let (personas, _) = simulation::personas(args.personas.as_deref())?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.session
            .output
            .say(&format!("Simulating {} against {active}", args.policy));
        let options = GateOptions {
            history: &history,
            incumbent: &incumbent,
            candidate: &candidate,
            shadows: &self.shadows,
            personas: &personas,
            effort: Effort {
                threads: cores,
                ..Effort::default()
            },
            thresholds: self.settings.gate,
        };
        let report = gate(&self.file, &options)?;
        let author = self.session.user();
        let signed = Signed {
            author: &author,
            reason: &args.reason.reason,
            now_ms: environment::now_ms(),
        };
        let entry = if args.dry_run {
            None
        } else {
            promote(&self.file, &report, &options, &signed)?
        };
        self.show_gate(&report, entry.as_ref())?;
        Ok(if report.passed {
            Exit::Done
        } else {
            Exit::Refused
        })
    }

    fn show_gate(&self, report: &GateReport, entry: Option<&HistoryEntry>) -> anyhow::Result<()> {
        let output = &self.session.output;
        if output.json {
            return Ok(output.json_pretty(&json!({"gate": report, "entry": entry}))?);
        }
        output.data(&gate_table::checks(
            &report.checks,
            output.width,
            output.color,
        ))?;
        let failed = report.failures().count();
        output.say(&match (entry, report.passed) {
            (Some(entry), _) => format!(
                "{} is active now (entry {}).",
                report.candidate, entry.number
            ),
            (None, true) => format!("{} passes the gate.", report.candidate),
            (None, false) => format!(
                "{} does not pass the gate: {failed} failed.",
                report.candidate
            ),
        });
        Ok(())
    }

    fn rollback(&self, reason: &Reason) -> anyhow::Result<Exit> {
        let author = self.session.user();
        let signed = Signed {
            author: &author,
            reason: &reason.reason,
            now_ms: environment::now_ms(),
        };
        let action = Change::Rollback;
        let entry = rollback(
            &self.file,
            self.settings.active,
            action,
            &signed,
            Value::Null,
        )?;
        self.show_entry(&entry)
    }

    fn shadow(&self, name: &str, switch: Switch, reason: &Reason) -> anyhow::Result<Exit> {
        let Some(shadow) = self.shadows.iter().find(|it| it.name == name) else {
            let known: Vec<&str> = self.shadows.iter().map(|it| it.name.as_str()).collect();
            return Err(PipelineError::Invalid(format!(
                "there is no shadow '{name}' in the settings: use one of {}",
                known.join(", ")
            ))
            .into());
        };
        let author = self.session.user();
        let signed = Signed {
            author: &author,
            reason: &reason.reason,
            now_ms: environment::now_ms(),
        };
        let entry = shadow_switch(&self.file, shadow, switch == Switch::On, &signed)?;
        self.show_entry(&entry)
    }

    fn show_entry(&self, entry: &HistoryEntry) -> anyhow::Result<Exit> {
        if self.session.output.json {
            self.session.output.json_pretty(entry)?;
        } else {
            let text = format!(
                "Entry {}: {} {}",
                entry.number,
                entry.action.as_str(),
                change(entry)
            );
            self.session.output.say(&safe(&text));
        }
        Ok(Exit::Done)
    }

    fn history(&self) -> anyhow::Result<Exit> {
        let entries = self.file.history_list().map_err(PipelineError::from)?;
        let output = &self.session.output;
        if output.json {
            output.json_pretty(&json!({ "entries": entries }))?;
            return Ok(Exit::Done);
        }
        if entries.is_empty() {
            output.say("Nothing has been changed yet: the active policy is the setting's.");
            return Ok(Exit::Done);
        }
        let headings = [
            ("#", Align::Right),
            ("when", Align::Right),
            ("what", Align::Left),
            ("change", Align::Left),
            ("by", Align::Left),
            ("reason", Align::Left),
        ];
        let row = |it: &HistoryEntry| {
            vec![
                it.number.to_string(),
                when(it.at_ms),
                it.action.as_str().to_owned(),
                change(it),
                it.author.clone(),
                it.reason.clone(),
            ]
        };
        let rows: Vec<Vec<String>> = entries.iter().map(row).collect();
        output.data(&render(&headings, &rows, output.width))?;
        Ok(Exit::Done)
    }

    fn evaluate(&self, kind: PolicyKind) -> anyhow::Result<Exit> {
        let policy = self.policy(kind)?;
        let found = policies::evaluate(&self.file, &policy, &Limits::default())?;
        let output = &self.session.output;
        if output.json {
            output.json_pretty(&json!({"policy": kind, "evaluation": found}))?;
        } else {
            output.data(&evaluation_text(kind, &found, output.width))?;
        }
        Ok(if found.estimates.is_some() {
            Exit::Done
        } else {
            Exit::Refused
        })
    }

    fn export(&self, args: &PolicyExport) -> anyhow::Result<Exit> {
        let format = match args.format {
            LogFormat::Jsonl => ExportFormat::Jsonl,
            LogFormat::Csv => ExportFormat::Csv,
            LogFormat::Vw => ExportFormat::Vw,
        };
        let policy = args.policy.map(PolicyKind::name);
        let Some(path) = &args.output else {
            let mut out = self.session.output.writer();
            export(&self.file, policy, format, &mut out)?;
            return Ok(Exit::Done);
        };
        let mut written = 0;
        let beside = whole_file::fill_beside(path, |out| {
            written = export(&self.file, policy, format, out)?;
            Ok(())
        })?;
        beside.publish()?;
        let text = format!("Wrote {written} decisions to {}", path.display());
        self.session.output.say(&safe(&text));
        Ok(Exit::Done)
    }

    fn sample(&self, args: &PolicySample) -> anyhow::Result<Exit> {
        let since = |days: u32| environment::now_ms() - i64::from(days) * DAY_MS;
        let options = SampleOptions {
            folder: &args.folder,
            most: args.most as usize,
            seed: args.seed,
            since_ms: args.days.map_or(0, since),
            redact: &args.redact,
            dry_run: args.dry_run,
        };
        let sampled = sample(&self.file, &options)?;
        let output = &self.session.output;
        if output.json {
            output.json_pretty(&sampled)?;
        } else {
            let would = if args.dry_run { "Would add" } else { "Added" };
            output.say(&safe(&format!(
                "{would} {} scenarios to {} ({} decisions looked at, {} contexts repeated)",
                sampled.scenarios.len(),
                sampled.file,
                sampled.decisions,
                sampled.repeated
            )));
        }
        Ok(Exit::Done)
    }
}

/// `egreedy-v1 → egreedy-v2`, or the shadow that was switched.
fn change(entry: &HistoryEntry) -> String {
    match (&entry.from, &entry.to) {
        (Some(from), Some(to)) => format!("{from} → {to}"),
        (one, other) => one.clone().or_else(|| other.clone()).unwrap_or_default(),
    }
}

fn when(at_ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(at_ms);
    time.map_or_else(
        |_| String::new(),
        |it| it.strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

fn status_text(found: &PolicyStatus, width: usize) -> String {
    let since = found.since.as_ref().map_or_else(
        || " (by the settings)".to_owned(),
        |it| format!(" since {} (entry {})", when(it.at_ms), it.number),
    );
    let mut text = format!(" Active  {}{since}\n\n", found.active);
    let headings = [
        ("policy", Align::Left),
        ("decisions", Align::Right),
        ("rewards", Align::Right),
        ("mean reward", Align::Right),
        ("users", Align::Right),
    ];
    let mean = |it: Option<f64>| it.map_or_else(|| "–".to_owned(), |it| format!("{it:.3}"));
    let row = |it: &assize_store::policies::PolicyTally| {
        vec![
            it.policy.clone(),
            it.tally.decisions.to_string(),
            it.tally.rewards.to_string(),
            mean(it.tally.mean_reward()),
            it.users.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = found.policies.iter().map(row).collect();
    text.push_str(&render(&headings, &rows, width));
    text.push('\n');
    for it in &found.shadows {
        let switch = if it.shadow.enabled { "on" } else { "off" };
        let scored = it.scored.as_ref().map_or_else(
            || "nothing scored".to_owned(),
            |own| {
                let agreed = 100 * own.agreed / own.signals.max(1);
                format!(
                    "{} decisions of {} users, {agreed} % agree",
                    own.signals, own.users
                )
            },
        );
        let line = format!(
            " Shadow  {} ({}) {switch}: {scored}\n",
            it.shadow.name, it.shadow.policy
        );
        text.push_str(&safe(&line));
    }
    text
}

fn evaluation_text(kind: PolicyKind, found: &Evaluation, width: usize) -> String {
    let mut text = format!(
        " {} rewarded decisions of {} users, mean reward {:.3}\n effective sample size {:.0}, {} weights clipped, {} decisions skipped\n\n",
        found.decisions, found.users, found.logged, found.ess, found.clipped, found.skipped
    );
    let Some(estimates) = found.estimates else {
        let why = found.refusal.as_deref().unwrap_or("unknown");
        for line in wrap(
            &format!("{kind} cannot be evaluated: {why}"),
            width.max(40) - 1,
        ) {
            text.push_str(&format!(" {line}\n"));
        }
        return text;
    };
    let mut line = |name: &str, it: Estimate| {
        text.push_str(&format!(
            " {name:<20} {:.3}  [{:.3}, {:.3}]\n",
            it.value, it.low, it.high
        ));
    };
    line("IPS", estimates.ips);
    line("SNIPS", estimates.snips);
    line("doubly robust", estimates.dr);
    line("gain over the log", estimates.dr_gain);
    text
}
