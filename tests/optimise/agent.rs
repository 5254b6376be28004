//! A whole loop with an agent session as reflector: the real Python MCP client takes packets and submits
//! children, experts judge the nominee, and the gate promotes it.

use assize_test_support::limits::heavyweight;
use assize_test_support::{drive, set_up};
use serde_json::json;

use crate::fixture::{START, judge, scratch_with, step};

#[test]
fn the_python_mcp_client_reflects_until_a_nominee_is_promoted() {
    let python = match set_up("scripts/python-env.sh", &["mcp", "mcp==2.3.0"]) {
        Ok(python) => python,
        Err(reason) => {
            eprintln!("SKIPPED: no prompt loop was driven by the Python MCP client: {reason}");
            return;
        }
    };
    let _slot = heavyweight();
    // A judge with little noise: whatever the agent writes, both tiers see the same lead.
    let scratch = scratch_with(&json!([]), &json!({"noise": 0.05, "seed": 1}), 0);
    scratch.ok(START.replace("script:children.json", "agent").as_str());
    // Something waits for judges, so that a sitting can be open while a packet waits.
    scratch.ok(
        "collect --task task --models scripted:m --script script.json --experiment e --n-tips 2 --seed 7",
    );
    let found = step(&scratch);
    assert_eq!(found["waiting_for"], "reflector", "{found:#}");
    let folder = scratch.path().to_str().expect("a path");
    drive(
        &python,
        "tests/optimise/agent_session.py",
        &[assize_test_support::binary(), folder],
    );
    judge(&scratch, "selection.json");
    let found = step(&scratch);
    assert_eq!(found["waiting_for"], "confirmation", "{found:#}");
    judge(&scratch, "confirmation.json");
    let found = step(&scratch);
    assert_eq!(found["state"], "promoted", "{found:#}");
}
