//! The OpenAPI document against the server: schemathesis sends valid and invalid requests, and every
//! answer must be one that the document describes.

use std::process::Command;

use assize_test_support::limits::heavyweight;
use assize_test_support::server::Served;
use assize_test_support::{Scratch, set_up};

#[test]
fn the_api_conforms_to_its_openapi_document() {
    let python = match set_up("scripts/python-env.sh", &["schemathesis", "schemathesis"]) {
        Ok(python) => python,
        Err(reason) => {
            eprintln!("SKIPPED: the API was not held against its document: {reason}");
            return;
        }
    };
    let _slot = heavyweight();
    let scratch = Scratch::pending("scripted:a,scripted:b", "p1,p2", 3);
    let served = Served::start(&scratch);
    let document = format!("{}/api/openapi.json", served.url);
    let outcome = Command::new(&python)
        .args(["-m", "schemathesis.cli", "run", &document])
        .args(["--header", &format!("Authorization: Bearer {}", served.token)])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"])
        .args(["--exclude-path-regex", "/events$|/revoke$"])
        .args(["--max-examples", "30", "--seed", "42", "--request-timeout", "20", "--no-color"])
        .current_dir(scratch.path())
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&outcome.stdout).into_owned();
    assert!(
        outcome.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
    assert!(said.contains("passed"), "something was sent: {said}");
}
