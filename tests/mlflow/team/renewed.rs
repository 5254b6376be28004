//! Another MLflow server at the same address.

use super::*;

#[test]
fn a_server_that_was_made_anew_inherits_nothing() {
    let Some(mut server) = Mlflow::usual() else {
        return;
    };
    let elsewhere = promotion_task::scratch(promotion_task::ahead);
    server.adopt(&elsewhere);
    let (folder, served) = serve(&server);
    fill_and_promote(&elsewhere, &served);

    // While `assize serve` runs.
    server.renew();
    wait(
        Duration::from_secs(30),
        "the end of the old champion",
        || champion(&served) == 404,
    );
    wait_complete(&served);
    let listed = served.get("/api/bench/experiments").json();
    assert_eq!(listed["experiments"], json!([]), "{listed}");
    fill_and_promote(&elsewhere, &served);

    // While it does not.
    served.kill();
    server.renew();
    let served = serve_again(&server, &folder);
    assert_eq!(champion(&served), 404);
    wait_complete(&served);
    let listed = served.get("/api/bench/experiments").json();
    assert_eq!(listed["experiments"], json!([]), "{listed}");
    assert_eq!(health(&served)["mlflow"], "ok");
}

fn champion(served: &Served) -> u16 {
    served.get("/api/champion/shop").status
}

/// Fills the server with a promoted experiment, whose ledger has only what is new.
fn fill_and_promote(elsewhere: &Scratch, served: &Served) {
    promotion_task::fill(elsewhere);
    elsewhere.ok("promote --task task --experiment e");
    wait(Duration::from_secs(20), "the new champion", || {
        champion(served) == 200
    });
    wait_complete(served);
    let theirs = elsewhere.ok("promote history --task task --json").stdout;
    assert!(theirs.contains("p2"), "{theirs}");
    let ledger = served.get("/api/bench/ledger/e").json();
    let entries = ledger["entries"].as_array().map(Vec::len);
    assert_eq!(entries, Some(1), "one attempt: {ledger}");
}
