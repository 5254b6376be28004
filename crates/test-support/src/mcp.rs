//! An agent's session with `assize mcp`: one line of JSON for each request and answer.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::Scratch;

/// A session that ends with the test.
#[derive(Debug)]
pub struct McpSession {
    child: Child,
    answers: BufReader<ChildStdout>,
    last: u64,
}

impl McpSession {
    /// Starts the command and says hello as a client of this name.
    pub fn start(scratch: &Scratch, words: &str, client: &str) -> Self {
        let mut command = scratch.command(words);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let answers = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut session = Self {
            child,
            answers,
            last: 0,
        };
        let client = json!({"name": client, "version": "0.46.1"});
        session.ask(
            "initialize",
            &json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": client}),
        );
        session.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    fn say(&mut self, message: &Value) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{message}").expect("written");
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            self.answers.read_line(&mut line).expect("a line");
            let answer: Value = serde_json::from_str(&line).expect("JSON");
            if answer["id"] == id {
                return answer["result"].clone();
            }
        }
    }

    /// Calls a tool and returns its whole result.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool that must succeed, and returns what it answers.
    pub fn ok(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that must refuse, and returns its words.
    pub fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let words = result["content"][0]["text"].as_str();
        words.unwrap_or_default().to_owned()
    }
}

impl Drop for McpSession {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
