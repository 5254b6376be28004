//! The MCP server, driven by the real Python client and by a real agent's command line.

use assize_test_support::limits::heavyweight;
use assize_test_support::{Scratch, drive, set_up};

#[test]
fn the_python_client_drives_whole_sittings() {
    let python = match set_up("scripts/python-env.sh", &["mcp", "mcp==2.3.0"]) {
        Ok(python) => python,
        Err(reason) => {
            eprintln!("SKIPPED: the MCP server was not driven by the Python client: {reason}");
            return;
        }
    };
    let _slot = heavyweight();
    let scratch = Scratch::pending("scripted:a,scripted:b", "p1,p2", 6);
    let folder = scratch.path().to_str().expect("a path");
    drive(
        &python,
        "tests/judge/mcp_session.py",
        &[assize_test_support::binary(), folder],
    );
}

#[test]
fn claude_code_clears_a_queue() {
    let agent = match set_up("scripts/agent-cli.sh", &[]) {
        Ok(agent) => agent,
        Err(reason) => {
            eprintln!("SKIPPED: no real agent's command line sat as a judge: {reason}");
            return;
        }
    };
    let _slot = heavyweight();
    let scratch = Scratch::pending("scripted:a,scripted:b", "p1", 6);
    let folder = scratch.path().to_str().expect("a path");
    scratch.ok("agent install");
    drive(
        "python3",
        "tests/judge/claude_code.py",
        &[assize_test_support::binary(), &agent, folder],
    );
    let status = crate::status(&scratch);
    assert_eq!(status["expert"]["pending"], 0, "{status}");
    for run in scratch.ok("runs export --experiment e").json_lines() {
        let files = run["verdicts"].as_array().expect("verdict files");
        assert!(!files.is_empty(), "{run}");
        for file in files {
            assert_eq!(file["judge"]["kind"], "claude-code", "the client's kind");
            assert_eq!(file["verdicts"][0]["rationale"], "Short and clear.");
        }
    }
}
