//! The sealed confirmation split over HTTP: the API, the panel, and who may look.

use assize_test_support::Scratch;
use assize_test_support::promotion_task::{ahead, fill, scratch};
use assize_test_support::server::{Reply, Served};
use serde_json::{Value, json};

const BOARD: &str = "/api/bench/leaderboard/e?split=confirmation";

/// An experiment that is judged on both splits, on a server, with two readers.
struct Site {
    scratch: Scratch,
    served: Served,
    admin: String,
    viewer: String,
}

impl Site {
    fn new() -> Self {
        let scratch = scratch(ahead);
        fill(&scratch);
        let served = Served::start_with(&scratch, "serve --port 0 --json --task task");
        let token = |role: &str, name: &str| {
            let line = format!("token create --role {role} --name {name} --json");
            let made = scratch.ok(line.as_str()).json();
            format!(
                "Authorization: Bearer {}",
                made["token"].as_str().expect("a token")
            )
        };
        Self {
            admin: token("admin", "Ada"),
            viewer: token("viewer", "Vic"),
            scratch,
            served,
        }
    }

    fn api(&self, token: &str, path: &str) -> Reply {
        let host = format!("Host: {}", self.served.authority());
        self.served
            .raw(&format!("GET {path}"), &[&host, token], b"")
    }

    /// As a browser would.
    fn page(&self, token: &str, line: &str, body: &str) -> (u16, String) {
        let host = format!("Host: {}", self.served.authority());
        let form = "Content-Type: application/x-www-form-urlencoded";
        let headers = [host.as_str(), "Accept: text/html", form, token];
        let reply = self.served.raw(line, &headers, body.as_bytes());
        (
            reply.status,
            String::from_utf8_lossy(&reply.body).into_owned(),
        )
    }

    fn ledger(&self) -> Vec<Value> {
        let shown = self.api(&self.viewer, "/api/bench/ledger/e").json();
        shown["entries"].as_array().expect("entries").clone()
    }
}

#[test]
fn the_api_seals_the_confirmation_split_and_records_looks() {
    let site = Site::new();
    for token in [&site.viewer, &site.admin] {
        let sealed = site.api(token, BOARD);
        assert_eq!(sealed.status, 403, "{sealed:?}");
        let error = sealed.json()["error"].clone();
        assert_eq!(error["code"], "SEALED", "{error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("unseal=true"), "{message}");
    }
    let refused = site.api(&site.viewer, &format!("{BOARD}&unseal=true"));
    assert_eq!(refused.status, 403, "{refused:?}");
    assert_eq!(refused.json()["error"]["code"], "PERMISSION_DENIED");
    let wrong = site.api(&site.admin, &format!("{BOARD}&unseal=perhaps"));
    assert_eq!(wrong.status, 400, "{wrong:?}");
    assert!(site.ledger().is_empty());

    let seen = site.api(&site.admin, &format!("{BOARD}&unseal=true"));
    assert_eq!(seen.status, 200, "{seen:?}");
    assert_eq!(seen.json()["rows"].as_array().map(Vec::len), Some(2));
    let entries = site.ledger();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (&entries[0]["kind"], &entries[0]["via"], &entries[0]["by"]),
        (&json!("look"), &json!("api"), &json!("Ada"))
    );
    // The cached board is as sealed as a new one.
    assert_eq!(site.api(&site.viewer, BOARD).status, 403);
    let selection = site.api(&site.viewer, "/api/bench/leaderboard/e");
    assert_eq!(selection.json()["confirmation"]["looks"], 1);
    let unknown = site.api(&site.viewer, "/api/bench/leaderboard/f?split=confirmation");
    assert_eq!(unknown.status, 404, "{unknown:?}");

    site.scratch
        .ok("promote --task task --experiment e --dry-run");
    let open = site.api(&site.viewer, BOARD);
    assert_eq!(open.status, 200, "{open:?}");
    assert_eq!(open.json()["confirmation"]["attempts"], 1);
}

#[test]
fn lists_of_runs_leave_sealed_scores_out() {
    let site = Site::new();
    let runs = |token: &str, more: &str| -> Vec<Value> {
        let page = site.api(token, &format!("/api/bench/runs/e?max_results=100{more}"));
        assert_eq!(page.status, 200, "{page:?}");
        page.json()["runs"].as_array().expect("runs").clone()
    };
    let has_score = |run: &Value| {
        let metrics = run["metrics"].as_array().expect("metrics");
        metrics.iter().any(|it| it[0] == "composite")
    };
    let all = runs(&site.viewer, "");
    assert_eq!(all.len(), 36);
    assert_eq!(all.iter().filter(|it| it["sealed"] == true).count(), 12);
    for run in &all {
        assert_eq!(has_score(run), run["sealed"] == false, "{run}");
    }
    let sealed = runs(&site.viewer, "&split=confirmation");
    assert_eq!(sealed.len(), 12);
    let bad = site.api(&site.viewer, "/api/bench/runs/e?split=everything");
    assert_eq!(bad.status, 400, "{bad:?}");
    let refused = site.api(&site.viewer, "/api/bench/runs/e?unseal=true");
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(site.ledger().is_empty());
    let seen = runs(&site.admin, "&split=confirmation&unseal=true");
    assert!(seen.iter().all(has_score));
    assert_eq!(site.ledger().len(), 1);
}

#[test]
fn the_panel_explains_the_seal_and_lets_admins_look() {
    let site = Site::new();
    let sealed = ["", "/grid"].map(|tab| format!("GET /experiments/e{tab}?split=confirmation"));
    for line in &sealed {
        let (status, text) = site.page(&site.viewer, line, "");
        assert_eq!(status, 403, "{line}");
        assert!(text.contains("The confirmation split is sealed"), "{text}");
        assert!(!text.contains("scripted:m"), "{text}");
        assert!(!text.contains("/experiments/e/unseal"), "{text}");
        let (_, text) = site.page(&site.admin, line, "");
        assert!(text.contains("action=\"/experiments/e/unseal\""), "{text}");
    }
    let unseal = "POST /experiments/e/unseal";
    let form = "split=confirmation&tab=board&tier=expert";
    assert_eq!(site.page(&site.viewer, unseal, form).0, 403);
    assert!(site.ledger().is_empty());
    let (status, text) = site.page(&site.admin, unseal, form);
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("scripted:m"), "{text}");
    assert!(text.contains("Confirmation: looked at 1 time."), "{text}");
    let (status, text) = site.page(&site.admin, unseal, "split=confirmation&tab=grid");
    assert_eq!(status, 200, "{text}");
    let entries = site.ledger();
    assert_eq!(entries.len(), 2);
    assert_eq!(
        (&entries[0]["via"], &entries[0]["by"]),
        (&json!("panel"), &json!("Ada"))
    );
    let (_, text) = site.page(&site.viewer, "GET /experiments/e", "");
    assert!(text.contains("Confirmation: looked at 2 times."), "{text}");
    let (_, text) = site.page(&site.viewer, "GET /experiments/e/history", "");
    assert!(text.contains("looked at the sealed confirmation"), "{text}");
    let (_, text) = site.page(&site.viewer, "GET /judges/e", "");
    assert!(text.contains("leave out 24 judged candidates"), "{text}");
}

#[test]
fn the_pages_of_runs_are_sealed() {
    let site = Site::new();
    let tab = |more: &str| {
        let line = format!("GET /experiments/e/runs{more}");
        site.page(&site.viewer, &line, "").1
    };
    let rows = |text: &str| text.matches("name=\"run\"").count();
    assert_eq!(rows(&tab("")), 24, "only the selection split");
    let newest = tab("?split=confirmation");
    assert_eq!(rows(&newest), 12);
    assert_eq!(newest.matches("<td>sealed</td>").count(), 12, "{newest}");
    // An order by score would show which runs are better.
    let links = |text: &str| -> Vec<String> {
        let found = text.split("href=\"/runs/").skip(1);
        found.map(|it| it[..32].to_owned()).collect()
    };
    assert_eq!(
        links(&tab("?split=confirmation&order=best")),
        links(&newest)
    );
    let best = tab("?order=best");
    assert_eq!(rows(&best), 24);
    assert!(!best.contains("confirmation are sealed"), "{best}");

    let ids = links(&newest);
    let page = format!("GET /runs/{}", ids[0]);
    let (_, text) = site.page(&site.viewer, &page, "");
    assert!(text.contains("composite sealed"), "{text}");
    assert!(!text.contains("expert.composite"), "{text}");
    assert!(!text.contains("class=\"score\""), "{text}");
    let diff = format!("GET /compare-runs?run={}&run={}", ids[0], ids[1]);
    let (_, text) = site.page(&site.viewer, &diff, "");
    assert_eq!(text.matches("composite sealed").count(), 2, "{text}");
    let unseal = format!("POST /runs/{}/unseal", ids[0]);
    assert_eq!(site.page(&site.viewer, &unseal, "").0, 403);
    assert!(site.ledger().is_empty());
    let (status, text) = site.page(&site.admin, &unseal, "");
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("class=\"score\""), "{text}");
    assert_eq!(site.ledger().len(), 1);
}

#[test]
fn the_panel_s_gate_opens_the_seal_only_when_it_is_told_to() {
    let site = Site::new();
    let gate = "GET /promotions?experiment=e";
    for token in [&site.viewer, &site.admin] {
        let (status, text) = site.page(token, gate, "");
        assert_eq!(status, 200, "{text}");
        assert!(text.contains("which is sealed"), "{text}");
        assert!(!text.contains("action=\"/promotions/promote\""), "{text}");
    }
    assert!(site.ledger().is_empty(), "reading a page is no attempt");
    let attempt = "POST /promotions/attempt";
    assert_eq!(site.page(&site.viewer, attempt, "experiment=e").0, 403);
    assert_eq!(site.page(&site.admin, attempt, "experiment=e").0, 303);
    let entries = site.ledger();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (
            &entries[0]["kind"],
            &entries[0]["via"],
            &entries[0]["outcome"]
        ),
        (&json!("attempt"), &json!("panel"), &json!("passed"))
    );
    let (_, text) = site.page(&site.viewer, gate, "");
    assert!(text.contains("passes the gate"), "{text}");
    assert!(text.contains("Confirmation: 1 attempt."), "{text}");
    let (_, text) = site.page(&site.admin, gate, "");
    assert!(text.contains("action=\"/promotions/promote\""), "{text}");
    let body = "experiment=e&candidate=scripted%3Am+%C3%97+p2";
    assert_eq!(
        site.page(&site.admin, "POST /promotions/promote", body).0,
        303
    );
    assert_eq!(site.ledger().len(), 2);
    let (_, text) = site.page(&site.viewer, "GET /experiments/e/history", "");
    assert!(text.contains("on the confirmation split: passed"), "{text}");
}

/// The command line on a server, and the server's own pages, share one ledger.
#[test]
fn commands_over_the_server_write_the_same_ledger() {
    let site = Site::new();
    let client = Scratch::new();
    let token = site.admin.replace("Authorization: Bearer ", "");
    client.write(
        ".env",
        &format!(
            "MLFLOW_TRACKING_URI={}\nMLFLOW_TRACKING_TOKEN={token}\n",
            site.served.url
        ),
    );
    client.fails(3, "compare --experiment e --split confirmation");
    client.ok("compare --experiment e --split confirmation --unseal");
    let entries = site.ledger();
    assert_eq!(entries.len(), 1);
    let at_client = client.ok("promote ledger --experiment e --json").json();
    assert_eq!(at_client["entries"], json!(entries));
    // The server refuses to change or delete an entry, also for MLflow's clients.
    let id = entries[0]["id"].as_str().expect("an id");
    let found = site
        .served
        .get("/api/2.0/mlflow/experiments/get-by-name?experiment_name=e");
    let experiment = found.json()["experiment"]["experiment_id"].clone();
    let key = format!("assize.ledger.{id}");
    let changes = [
        (
            "experiments/set-experiment-tag",
            json!({"experiment_id": experiment, "key": key, "value": "{}"}),
        ),
        (
            "experiments/delete-experiment-tag",
            json!({"experiment_id": experiment, "key": key}),
        ),
    ];
    for (path, body) in changes {
        let refused = site.served.post(path, &body);
        assert_eq!(refused.status, 400, "{path}: {refused:?}");
    }
    assert_eq!(site.ledger(), entries);
}
