//! What every page says about the team's tracking server.

use assize_pipeline::team::Team;

use super::relative_time::RelativeTime;

/// The state of the team's tracking server, in words.
#[derive(Debug, Clone)]
pub(crate) struct TeamNotice {
    /// The server's address.
    pub address: String,
    /// When its data were read last; `None` before the first reading has ended.
    pub read: Option<RelativeTime>,
    /// What the reader must know: the server is unreachable, or its data are incomplete here.
    pub problems: Vec<String>,
}

impl TeamNotice {
    pub fn of(team: &Team, now_ms: i64) -> Self {
        let status = team.status();
        let address = team.address();
        let mut problems = Vec::new();
        if let Some(reason) = &status.failure {
            problems.push(format!(
                "The tracking server {address} is unreachable ({reason}). These pages show what was \
                 read from it last. Verdicts on cases that you hold are saved on this machine and \
                 delivered later; new cases and promotions need the server."
            ));
        }
        if let Some(runs) = status.catching_up {
            problems.push(format!(
                "Catching up with {address}: {runs} runs read so far. Boards and lists are \
                 incomplete until all are read."
            ));
        }
        if let Some((count, reason)) = &status.skipped {
            problems.push(format!(
                "{} on {address} cannot be read, so that these pages lack them or show what was \
                 read last. They are tried again regularly. The first: {reason}.",
                runs(*count)
            ));
        }
        if status.undelivered > 0 {
            problems.push(format!(
                "{} on this machine and will be delivered when the tracking server answers.",
                waiting(status.undelivered)
            ));
        }
        for it in &status.refused {
            problems.push(format!(
                "The tracking server did not accept {} of sitting {}: {}.",
                verdicts(it.cases),
                it.sitting,
                it.reason
            ));
        }
        Self {
            address: address.to_owned(),
            read: status.read_ms.map(|it| RelativeTime::of_ms(it, now_ms)),
            problems,
        }
    }
}

fn runs(count: u64) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} run{ending}")
}

fn verdicts(count: u64) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} verdict{ending}")
}

fn waiting(count: u64) -> String {
    let verb = if count == 1 { "waits" } else { "wait" };
    format!("{} {verb}", verdicts(count))
}
