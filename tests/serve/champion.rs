//! What an application asks at run time: the champion of a task.

use assize_test_support::promotion_task::{ahead, fill, scratch};
use assize_test_support::server::Served;

#[test]
fn applications_get_the_champion_and_are_told_when_it_has_changed() {
    let scratch = scratch(ahead);
    fill(&scratch);
    let served = Served::start_with(&scratch, "serve --port 0 --json --task task");
    let token = |role: &str| {
        let line = format!("token create --role {role} --name {role} --json");
        let made = scratch.ok(line.as_str()).json();
        format!(
            "Authorization: Bearer {}",
            made["token"].as_str().expect("a token")
        )
    };
    let (service, judge) = (token("service"), token("judge"));
    let host = format!("Host: {}", served.authority());
    let ask = |more: &[&str]| {
        let mut headers = vec![host.as_str()];
        headers.extend(more);
        served.raw("GET /api/champion/shop", &headers, b"")
    };
    let none = ask(&[&service]);
    assert_eq!(none.status, 404, "{none:?}");
    assert!(
        none.json()["error"]["message"]
            .as_str()
            .is_some_and(|it| it.contains("assize promote")),
        "{none:?}"
    );

    scratch.ok("promote --task task --experiment e");
    let found = ask(&[&service]);
    assert_eq!(found.status, 200, "{found:?}");
    let shipped = found.json();
    assert_eq!(shipped["model"], "scripted:m");
    assert_eq!(shipped["prompt"]["name"], "p2");
    assert_eq!(shipped["prompt"]["version"], 1);
    assert_eq!(
        shipped["prompt"]["text"],
        "Tell something about {{ topic }}."
    );
    assert_eq!(shipped["settings"]["n_tips"], 2);
    assert_eq!(shipped["settings"]["temperature"], 0.7);
    assert!(shipped["promoted_at"].is_string());

    let tag = found.header("etag").expect("an entity tag").to_owned();
    let unchanged = ask(&[&service, &format!("If-None-Match: \"other\", W/{tag}")]);
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    assert_eq!(unchanged.header("etag"), Some(tag.as_str()));
    let other = ask(&[&service, "If-None-Match: \"other\""]);
    assert_eq!(other.status, 200, "{other:?}");

    assert_eq!(ask(&[&judge]).status, 403);
    assert_eq!(ask(&[]).status, 401);
}
