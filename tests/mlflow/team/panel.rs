//! Jobs and the panel in a real browser, over a team's MLflow server.

use assize_test_support::{browser, jobs, script, write_small_task};

use super::*;

#[test]
fn a_job_collects_into_the_team_s_server() {
    let Some(server) = Mlflow::usual() else {
        return;
    };
    let (_folder, served) = serve(&server);
    wait_complete(&served);
    let body = json!({"models": ["scripted:m"], "script": "script.json", "experiment": "job",
                      "n_tips": 2, "n_scenarios": 2, "prompts": ["p1", "p2"]});
    let asked = served.send("POST /api/bench/run", body.to_string().as_bytes());
    let id = jobs::id_of(&asked);
    let job = jobs::wait(&served, &id, |job| job["status"] == "done");
    let cells = json!({"done": 4, "failed": 0, "total": 4});
    assert_eq!(job["cells"], cells, "{job}");
    assert_eq!(server.runs("job").len(), 4, "on the team's server");
    // The end of a job is followed at once, so that the page that it links to is there.
    let (status, text) = page(&served, &served.token, "GET /experiments/job", "");
    assert_eq!(status, 200, "{text}");
    let board = served.get("/api/bench/leaderboard/job").json();
    assert_eq!(board["coverage"]["pending"], 4, "{board}");
}

#[test]
fn the_whole_flow_works_in_a_browser() {
    let Some(server) = Mlflow::usual() else {
        return;
    };
    let scratch = Scratch::new();
    write_small_task(&scratch, 8);
    scratch.write("assize.toml", "[gate]\nrequire = [\"expert\"]\n");
    scratch.write(
        "script.json",
        &script(&[
            ("plain", &["Sleep."]),
            ("fair", &["Eat <b>something</b>."]),
            ("good", &["Walk now."]),
        ]),
    );
    server.adopt(&scratch);
    scratch.ok(
        "collect --task task --models scripted:plain,scripted:fair --prompts p1 --n-tips 1 \
         --script script.json --experiment before",
    );
    let words = "--judge-kind human --judged-by ada";
    scratch.judge("before", "judge.json", words, |case| {
        let is_fair = case["candidate"]
            .as_str()
            .is_some_and(|it| it.contains("Eat"));
        case["scores"]["worth"] = json!(if is_fair { 2 } else { 1 });
    });
    scratch.ok("promote --task task --experiment before");
    let served = serve_again(&server, &scratch);
    wait_complete(&served);
    browser::drive_in_slot("tests/serve/panel_browser/flow.mjs", &served, &[]);
    let judged = server.runs("by-keys");
    assert_eq!(judged.len(), 16);
    let tag = assize_test_support::mlflow::tag;
    assert!(
        judged
            .iter()
            .all(|it| tag(it, "judge_pending") == Some("false"))
    );
    let history = store(&server).promotion_list("small").expect("a history");
    assert_eq!(history.len(), 3, "promoted twice and rolled back");
}
