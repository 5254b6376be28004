//! The panel's forms and lists as a browser without JavaScript sends and reads them.

use assize_test_support::jobs::wait;
use assize_test_support::server::{Reply, Served, token_new};
use assize_test_support::{Scratch, score_all, script, write_small_task};
use serde_json::{Value, json};

const HTML: &str = "Accept: text/html,application/xhtml+xml";

/// As a browser asks, with these headers besides.
fn browse(served: &Served, line: &str, headers: &[&str], body: &str) -> Reply {
    let host = format!("Host: {}", served.authority());
    let form = "Content-Type: application/x-www-form-urlencoded";
    let mut all = vec![host.as_str(), HTML, form];
    all.extend(headers);
    served.raw(line, &all, body.as_bytes())
}

fn text(reply: &Reply) -> String {
    String::from_utf8_lossy(&reply.body).into_owned()
}

fn is_page(reply: &Reply) -> bool {
    reply.head.contains("content-type: text/html") && text(reply).contains("/assets/panel.css")
}

fn place(reply: &Reply) -> &str {
    let mut lines = reply.head.lines();
    lines
        .find_map(|it| it.strip_prefix("location: "))
        .expect("a location")
}

fn serve(scratch: &Scratch) -> (Served, String) {
    let words = "serve --port 0 --json --task task --allow script.json";
    let served = Served::start_with(scratch, words);
    let token = format!("Authorization: Bearer {}", served.token);
    (served, token)
}

#[test]
fn an_automatic_judge_is_started_from_a_form() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 4);
    let verdict = r#"{"reason": "plain", "worth": 2}"#;
    let texts: [(&str, &[&str]); 2] = [("a", &["Walk."]), ("judge", &[verdict])];
    scratch.write("script.json", &script(&texts));
    scratch.ok(
        "collect --task task --models scripted:a --prompts p1,p2 --n-tips 1 --script script.json \
         --experiment e",
    );
    let (served, token) = serve(&scratch);
    let form = browse(&served, "GET /judges/e/auto", &[&token], "");
    assert!(text(&form).contains("8 cells are pending"), "{form:?}");
    let post = |body: &str| browse(&served, "POST /judges/e/auto", &[&token], body);
    let wrong = post("limit=many&max_cost=1");
    assert_eq!(wrong.status, 400, "{wrong:?}");
    for field in ["“cases at most” must be", "“Judge” is missing"] {
        assert!(text(&wrong).contains(field), "{field}: {wrong:?}");
    }
    let free = post("judge=qwen2.5:0.5b&max_cost=1");
    assert!(text(&free).contains("costs nothing"), "{free:?}");
    // Three cases are two whole scenarios here.
    let started = post("other=scripted:judge&script=script.json&limit=3");
    assert_eq!(started.status, 303, "{started:?}");
    let id = place(&started)
        .strip_prefix("/jobs/")
        .expect("a job")
        .to_owned();
    let done = wait(&served, &id, |job| job["finished_at"].is_string());
    assert_eq!(done["status"], "done", "{done}");
    assert_eq!(done["cells"]["done"], 4, "{done}");
    let status = scratch.ok("judge status --experiment e --json").json();
    assert_eq!(status["auto"]["judged"], 4, "{status}");
    assert_eq!(status["auto"]["pending"], 4, "{status}");
    let live = browse(&served, &format!("GET /jobs/{id}"), &[&token], "");
    assert!(text(&live).contains("4 of 4 cases"), "{live:?}");

    let ask = json!({"experiment": "nowhere", "judge": "scripted:judge", "limit": -1});
    let reply = served.send("POST /api/bench/judge", ask.to_string().as_bytes());
    assert_eq!(reply.status, 400, "{reply:?}");
    let fields = reply.json()["error"]["fields"].clone();
    let named: Vec<&Value> = fields.as_array().expect("fields").iter().collect();
    for field in ["experiment", "limit"] {
        assert!(named.iter().any(|it| it["field"] == field), "{fields}");
    }
}

/// The figures of a column, over all pages of a list.
fn column(served: &Served, token: &str, order: &str, number: usize) -> Vec<String> {
    let mut path = format!("/experiments/e/runs?order={order}");
    let mut found = Vec::new();
    loop {
        let page = text(&browse(served, &format!("GET {path}"), &[token], ""));
        let body = page.split_once("<tbody>").expect("rows").1;
        for row in body.split("</tr>").filter(|it| it.contains("/runs/")) {
            let cell = row.split("<td>").nth(number).expect("a cell");
            found.push(cell.split("</td>").next().expect("a value").to_owned());
        }
        let next = page.split("href=\"").find(|it| it.contains(">Next 50"));
        let Some(next) = next.and_then(|it| it.split('"').next()) else {
            return found;
        };
        path = next.replace("&#38;", "&").replace("&amp;", "&");
    }
}

#[test]
fn runs_are_sorted_by_their_columns_over_all_pages() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 60);
    scratch.write("script.json", &script(&[("a", &["Walk."])]));
    scratch.ok(
        "collect --task task --models scripted:a --prompts p1 --n-tips 1 --script script.json \
         --experiment e",
    );
    let mut number = 0;
    scratch.judge(
        "e",
        "judge.json",
        "--judge-kind human --judged-by ada",
        |case| {
            number += 1;
            case["scores"]["worth"] = json!(number % 3 + 1);
        },
    );
    let (served, token) = serve(&scratch);
    let composites = |order: &str| -> Vec<f64> {
        let column = column(&served, &token, order, 1);
        column
            .iter()
            .map(|it| it.parse().expect("a figure"))
            .collect()
    };
    let best = composites("best");
    assert_eq!(best.len(), 60);
    assert!(best.is_sorted_by(|a, b| a >= b), "{best:?}");
    assert!(best[0] > best[59]);
    let worst = composites("worst");
    assert_eq!(worst.len(), 60);
    assert!(worst.is_sorted(), "{worst:?}");
    for order in ["fastest", "slowest", "newest", "oldest"] {
        assert_eq!(column(&served, &token, order, 2).len(), 60, "{order}");
    }
    let filtered = "GET /experiments/e/runs?order=best&scenario=s7&state=judged";
    let one = text(&browse(&served, filtered, &[&token], ""));
    assert_eq!(
        one.matches("class=\"mono\" href=\"/runs/").count(),
        1,
        "{one}"
    );
    assert!(one.contains("aria-sort=\"descending\""), "{one}");
    let odd = browse(&served, "GET /experiments/e/runs?order=odd", &[&token], "");
    assert_eq!(odd.status, 400, "{odd:?}");
}

#[test]
fn browsers_get_pages_where_programs_get_json() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    let (served, token) = serve(&scratch);
    let own = format!("Origin: {}", served.url);
    let missing = browse(&served, "GET /nowhere", &[&token], "");
    assert_eq!(missing.status, 404);
    assert!(is_page(&missing), "{missing:?}");
    let method = browse(&served, "GET /promotions/promote", &[&token], "");
    assert_eq!(method.status, 405);
    assert!(is_page(&method), "{method:?}");
    let viewer = format!("Authorization: Bearer {}", token_new(&scratch, "viewer"));
    for line in ["GET /tokens", "POST /jobs/x/cancel"] {
        let refused = browse(&served, line, &[&viewer, &own], "");
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(is_page(&refused), "{refused:?}");
    }
    let foreign = browse(
        &served,
        "POST /sign-in",
        &["Origin: http://evil.example"],
        "",
    );
    assert_eq!(foreign.status, 403);
    assert!(is_page(&foreign), "{foreign:?}");
    assert_eq!(
        served.get("/nowhere").json()["error"]["code"],
        "ENDPOINT_NOT_FOUND"
    );

    // Nobody is signed in: to the sign-in, and back to where they were.
    let page = browse(&served, "GET /jobs?a=b", &[], "");
    assert_eq!(place(&page), "/sign-in?next=%2Fjobs%3Fa%3Db");
    let port = served.authority().rsplit(':').next().expect("a port");
    let old = format!("Cookie: assize_session_{port}=0123456789abcdef");
    let ended = browse(&served, "GET /jobs", &[&old], "");
    assert_eq!(place(&ended), "/sign-in?error=ended&next=%2Fjobs");
    let referer = format!("Referer: {}/promotions?experiment=e", served.url);
    let form = browse(
        &served,
        "POST /promotions/promote",
        &[&own, &referer],
        "note=x",
    );
    assert_eq!(form.status, 303, "{form:?}");
    assert_eq!(
        place(&form),
        "/sign-in?error=unsent&next=%2Fpromotions%3Fexperiment%3De"
    );
    let sign_in = browse(&served, &format!("GET {}", place(&form)), &[], "");
    assert!(
        text(&sign_in).contains("the form was not processed"),
        "{sign_in:?}"
    );
}

#[test]
fn texts_that_are_too_long_are_refused_with_what_was_filled_in() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    let (served, token) = serve(&scratch);
    browse(&served, "POST /desk/e/start", &[&token], "");
    let case = text(&browse(&served, "GET /desk/e", &[&token], ""));
    let id = case.split("name=\"case\" value=\"").nth(1).expect("a case");
    let id = id.split('"').next().expect("an id");
    let sheet = |reason: &str| format!("case={id}&score.worth=3&reason={reason}");
    let long = browse(
        &served,
        "POST /desk/e",
        &[&token],
        &sheet(&"x".repeat(4001)),
    );
    assert_eq!(long.status, 400, "{long:?}");
    let page = text(&long);
    assert!(page.contains("the reason has 4001 characters"), "{page}");
    assert!(page.contains(&"x".repeat(4001)) && page.contains("value=\"3\" required checked"));
    let accepted = browse(
        &served,
        "POST /desk/e",
        &[&token],
        &sheet(&"x".repeat(4000)),
    );
    assert_eq!(accepted.status, 303, "{accepted:?}");

    let note = format!("task=small&number=1&note={}", "x".repeat(2001));
    let rollback = browse(&served, "POST /promotions/rollback", &[&token], &note);
    assert!(matches!(rollback.status, 400 | 409), "{rollback:?}");
    let huge = "x".repeat(5 * 1024 * 1024);
    let huge = browse(&served, "POST /desk/e", &[&token], &sheet(&huge));
    assert_eq!(huge.status, 413, "{}", huge.head);
    assert!(is_page(&huge), "{}", huge.head);
}

fn bearer(scratch: &Scratch, role: &str) -> String {
    format!("Authorization: Bearer {}", token_new(scratch, role))
}

/// The links of the navigation.
fn navigation(page: &str) -> Vec<&str> {
    let nav = page.split("<nav aria-label=\"Main\">").nth(1);
    let nav = nav.and_then(|it| it.split("</nav>").next());
    let links = nav.unwrap_or_default().split("href=\"").skip(1);
    links.filter_map(|it| it.split('"').next()).collect()
}

#[test]
fn refused_pages_keep_the_navigation_of_the_role() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    let (served, token) = serve(&scratch);
    let judge = bearer(&scratch, "judge");
    let own = format!("Origin: {}", served.url);
    let secret = judge.rsplit(' ').next().expect("a secret");
    for next in ["", "&next=%2F"] {
        let body = format!("token={secret}{next}");
        let entered = browse(&served, "POST /sign-in", &[&own], &body);
        assert_eq!(place(&entered), "/desk", "{entered:?}");
    }
    let asked = browse(
        &served,
        "POST /sign-in",
        &[&own],
        &format!("token={secret}&next=%2Fjobs"),
    );
    assert_eq!(place(&asked), "/jobs");

    let open = text(&browse(&served, "GET /desk", &[&judge], ""));
    assert_eq!(
        navigation(&open),
        [
            "/",
            "/desk",
            "/jobs",
            "/promotions",
            "/optimise",
            "/policies"
        ]
    );
    browse(&served, "POST /desk/e/start", &[&judge, &own], "");
    let desk = text(&browse(&served, "GET /desk", &[&judge], ""));
    assert_eq!(navigation(&desk), ["/desk"], "{desk}");
    assert!(desk.contains("Continue<"), "{desk}");
    for path in ["/", "/jobs", "/experiments/e"] {
        let refused = browse(&served, &format!("GET {path}"), &[&judge], "");
        assert_eq!(refused.status, 403, "{refused:?}");
        let page = text(&refused);
        assert_eq!(navigation(&page), ["/desk"], "{page}");
        for way in ["href=\"/desk\">Back to the desk", "action=\"/sign-out\""] {
            assert!(page.contains(way), "{path} lacks {way}: {page}");
        }
        assert!(!page.contains("href=\"/\""), "{page}");
    }

    let service = bearer(&scratch, "service");
    let page = text(&browse(&served, "GET /", &[&service], ""));
    assert!(page.contains("action=\"/sign-out\"") && navigation(&page).is_empty());
    for path in ["/nowhere", "/experiments/%ff", "/experiments/nowhere"] {
        let missing = browse(&served, &format!("GET {path}"), &[&token], "");
        assert_eq!(missing.status, 404, "{missing:?}");
        assert!(navigation(&text(&missing)).contains(&"/tokens"), "{path}");
    }
    let api = text(&browse(&served, "GET /api-docs", &[&token], ""));
    assert!(api.contains("<code>assize compare --format json</code>"));
    assert!(!api.contains('`') && api.contains("href=\"/api-docs\""));
}

/// Runs as JSON.
fn runs(scratch: &Scratch) -> Vec<Value> {
    let listed = scratch.ok("runs list --experiment e --json").json();
    listed["runs"].as_array().expect("runs").clone()
}

#[test]
fn an_amended_verdict_says_which_one_counts() {
    let scratch = Scratch::pending("scripted:a", "p1", 1);
    let words = "--judge-kind human --judged-by ada";
    scratch.judge("e", "judge.json", words, |case| {
        case["scores"]["worth"] = json!(2);
    });
    let run = runs(&scratch)[0]["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    scratch.ok(&[
        "judge",
        "amend",
        &run,
        "--candidate",
        "1",
        "--set",
        "worth=3",
        "--reason",
        "overlooked",
        "--judged-by",
        "bob",
    ]);
    let (served, token) = serve(&scratch);
    let page = text(&browse(&served, &format!("GET /runs/{run}"), &[&token], ""));
    let (first, second) = page.split_once("Candidate 1</h3>").expect("two candidates");
    assert!(first.contains("Candidate 0</h3>"), "{page}");
    assert!(first.contains(">counts</small>") && !first.contains("amended by"));
    assert!(second.contains("counts, in place of ada&#39;s"), "{second}");
    assert!(second.contains("amended by bob"), "{second}");
    assert_eq!(page.matches("class=\"void\"").count(), 1, "{page}");
    // As the rubric has them, and not by the alphabet.
    let heads = first.split("<thead>").nth(1).expect("a head");
    let place = |name: &str| heads.find(&format!(">{name}</th>")).expect("a column");
    assert!(place("worth") < place("ok"), "{heads}");
}

#[test]
fn a_new_run_takes_the_rarer_options_and_names_its_own_labels() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 2);
    let task = format!("angles = [\"brief\"]\n{}", scratch.read("task/task.toml"));
    scratch.write("task/task.toml", &task);
    scratch.write("script.json", &script(&[("a", &["Walk."])]));
    let (served, token) = serve(&scratch);
    let post = |body: &str| browse(&served, "POST /run/new", &[&token], body);
    let basis = "other_models=scripted:a&script=script.json&experiment=e&n_tips=1";
    let wrong = post(&format!(
        "{basis}&max_tokens=0&max_model_b=x&judge_kind=a+b"
    ));
    assert_eq!(wrong.status, 400, "{wrong:?}");
    let page = text(&wrong);
    for words in [
        "“largest model, in billions of parameters” must be",
        "<details open>",
        "value=\"a b\"",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
    let wrong = text(&post(&format!("{basis}&max_tokens=0")));
    assert!(
        wrong.contains("“longest output, in tokens” is 0"),
        "{wrong}"
    );
    let more = "&seed=7&max_tokens=50&max_model_b=2.5&judge_kind=human&diversity=1";
    let started = post(&format!("{basis}{more}"));
    assert_eq!(started.status, 303, "{started:?}");
    let id = place(&started).strip_prefix("/jobs/").expect("a job");
    let done = wait(&served, id, |job| job["finished_at"].is_string());
    assert_eq!(done["status"], "done", "{done}");
    let ask = &done["request"];
    let given = [
        "seed",
        "max_tokens",
        "max_model_b",
        "judge_kind",
        "diversity",
    ];
    let given = given.map(|it| ask[it].clone());
    let expected = [json!(7), json!(50), json!(2.5), json!("human"), json!(true)];
    assert_eq!(given, expected, "{ask}");

    // A job that never made its experiment leads nowhere.
    let started = post("other_models=scripted:none&script=script.json&experiment=never");
    let id = place(&started).strip_prefix("/jobs/").expect("a job");
    wait(&served, id, |job| job["finished_at"].is_string());
    let page = text(&browse(&served, &format!("GET /jobs/{id}"), &[&token], ""));
    assert!(!page.contains("Open never"), "{page}");
}

#[test]
fn a_quarantined_sitting_is_reported_and_a_released_one_counts() {
    // The built-in task has calibration cases.
    let scratch = Scratch::new();
    scratch.write("script.json", &script(&[("a", &["Walk now."])]));
    scratch.ok(
        "collect --models scripted:a --n-scenarios 2 --n-tips 1 --script script.json --experiment e",
    );
    scratch.ok("judge export --experiment e --out judge.json");
    let mut file = scratch.read_json("judge.json");
    for case in file["cases"].as_array_mut().expect("cases") {
        score_all(case, 5);
    }
    scratch.write("judge.json", &file.to_string());
    let words = "judge apply judge.json --judge-kind human --judged-by ann";
    scratch.fails(3, words);
    let served = Served::start(&scratch);
    let token = format!("Authorization: Bearer {}", served.token);
    let page = |path: &str| text(&browse(&served, &format!("GET {path}"), &[&token], ""));
    let judges = page("/judges/e");
    assert!(
        judges.contains("the only sitting is quarantined"),
        "{judges}"
    );
    assert!(
        judges.contains("class=\"text bad\">quarantined<"),
        "{judges}"
    );
    let command = judges.split("assize judge release ").nth(1);
    let sitting = command.and_then(|it| it.split('<').next()).expect("an id");
    scratch.ok(&["judge", "release", sitting]);
    let judges = page("/judges/e");
    assert!(
        judges.contains("class=\"text\">released: it counts<"),
        "{judges}"
    );
    assert!(!judges.contains("There are no verdicts"), "{judges}");
    assert!(page("/experiments/e/history").contains("and released since"));
}
