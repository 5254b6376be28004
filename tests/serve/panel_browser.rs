//! The web panel in a real browser: headless Chromium clicks through the real server.

use serde_json::json;

use assize_test_support::browser::drive;
use assize_test_support::server::Served;
use assize_test_support::{Scratch, script, write_small_task};

/// A name that no table has room for.
const LONG: &str =
    "a-name-that-goes-on-and-on-without-an-end-in-sight-and-with-its-quantisation_q4_K_M";

/// A small task whose gate asks experts only, two scripted models, and `fair` as champion.
fn panel_scratch() -> Scratch {
    let scratch = Scratch::new();
    write_small_task(&scratch, 8);
    scratch.write("assize.toml", "[gate]\nrequire = [\"expert\"]\n");
    let texts: [(&str, &[&str]); 4] = [
        (LONG, &["Rest."]),
        ("plain", &["Sleep."]),
        ("fair", &["Eat <b>something</b>."]),
        ("good", &["Walk now.\n<script>alert('x')</script> **bold**"]),
    ];
    scratch.write("script.json", &script(&texts));
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
        case["rationale"] = json!("<img src=x onerror=alert(1)> because");
    });
    scratch.ok("promote --task task --experiment before");
    let long = format!(
        "collect --task task --models scripted:{LONG} --prompts p1 --n-tips 1 --script script.json \
         --experiment long"
    );
    scratch.ok(long.as_str());
    scratch
}

fn serve(scratch: &Scratch) -> Served {
    Served::start_with(
        scratch,
        "serve --port 0 --json --task task --allow script.json",
    )
}

#[test]
fn the_whole_flow_works_by_keyboard_and_without_javascript() {
    let scratch = panel_scratch();
    let served = serve(&scratch);
    drive("tests/serve/panel_browser/flow.mjs", &served, &[]);
    drive(
        "tests/serve/panel_browser/flow.mjs",
        &served,
        &[("JAVASCRIPT", "off")],
    );
}

#[test]
fn a_slow_job_updates_its_grid_live_and_can_be_cancelled() {
    let scratch = panel_scratch();
    let response = json!({"prompt": "*", "scenario": "*", "texts": ["A tip."], "latency_ms": 800});
    let failure = json!({"prompt": "*", "scenario": "*", "error": "malformed", "latency_ms": 800});
    let model = |it| json!({"parameter_count": 500_000_000, "responses": [it]});
    let models = json!({"slow": model(response), "broken": model(failure)});
    scratch.write("slow.json", &json!({"models": models}).to_string());
    let words = "serve --port 0 --json --task task --allow slow.json";
    let served = Served::start_with(&scratch, words);
    drive("tests/serve/panel_browser/live.mjs", &served, &[]);
}

#[test]
fn every_page_is_accessible_and_free_of_errors() {
    let scratch = panel_scratch();
    let served = serve(&scratch);
    drive("tests/serve/panel_browser/pages.mjs", &served, &[]);
}

#[test]
fn pages_forbid_inline_code_and_escape_model_output() {
    let scratch = panel_scratch();
    let served = serve(&scratch);
    let listed = served.get("/experiments/before/runs");
    let text = String::from_utf8_lossy(&listed.body).into_owned();
    let place = text.find("/runs/").expect("a run");
    let run = &text[place..place + "/runs/".len() + 32];
    for path in ["/", "/experiments/before", run, "/promotions"] {
        let reply = served.get(path);
        let head = reply.head.to_lowercase();
        let body = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.status, 200, "{path} {head}");
        let policy = "content-security-policy: default-src 'none'";
        assert!(head.contains(policy) && !head.contains("unsafe"), "{head}");
        for inline in [
            " style=",
            "<style",
            " onclick=",
            "<img src=x",
            "<b>something",
        ] {
            assert!(!body.contains(inline), "{path} holds {inline}");
        }
    }
    let page = String::from_utf8_lossy(&served.get(run).body).into_owned();
    assert!(
        page.contains("&lt;img src=x onerror=alert(1)&gt; because"),
        "{page}"
    );
    let missing = served.get("/experiments/nowhere");
    assert_eq!(missing.status, 404);
    let body = String::from_utf8_lossy(&missing.body).into_owned();
    assert!(body.contains("Not found"), "{body}");
}
