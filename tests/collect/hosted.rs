//! Providers beyond Ollama: programs, and the wires of Anthropic, Gemini and OpenAI-compatible servers
//! against a labelled stand-in that keeps every request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use assize_test_support::{Outcome, Scratch, cells, root};
use serde_json::{Value, json};

/// A stand-in for an HTTP API: it keeps requests (path, key, body) and gives one answer to all.
struct StandIn {
    url: String,
    seen: Arc<Mutex<Vec<(String, String, Value)>>>,
}

impl StandIn {
    fn start(answer: &Value) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (shared, answer) = (Arc::clone(&seen), answer.to_string());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, answer) = (Arc::clone(&shared), answer.clone());
                std::thread::spawn(move || while serve(&stream, &seen, &answer).is_some() {});
            }
        });
        Self { url, seen }
    }

    fn last(&self) -> (String, String, Value) {
        self.seen
            .lock()
            .expect("no panic")
            .last()
            .expect("a request")
            .clone()
    }
}

fn serve(
    stream: &TcpStream,
    seen: &Mutex<Vec<(String, String, Value)>>,
    answer: &str,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let (mut length, mut key) = (0, String::new());
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "x-api-key" | "x-goog-api-key" | "authorization" => {
                value.trim().clone_into(&mut key);
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    if !path.ends_with("/models") {
        seen.lock().ok()?.push((path, key, body));
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}",
        answer.len()
    );
    (&mut &*stream).write_all(head.as_bytes()).ok()
}

/// A task with a conversation, an image and a tool.
pub fn task() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("task/task.toml", "name = \"see\"\nscenarios = \"scenarios.jsonl\"\ntools = \"tools.json\"\nimages = \"photo\"\n");
    scratch.write("task/scenarios.jsonl", "{\"id\":\"cat\",\"photo\":\"images/cat.png\",\"turns\":[{\"role\":\"user\",\"content\":\"Hi\"},{\"role\":\"assistant\",\"content\":\"Hello\"}],\"ask\":\"Which animal?\"}\n");
    scratch.write(
        "task/prompts/v1.md",
        "[system]\nName animals.\n[history turns]\n[user]\n{{ ask }}\n",
    );
    scratch.write("task/tools.json", "[{\"name\":\"tag\",\"description\":\"Tags a photo\",\"parameters\":{\"type\":\"object\",\"properties\":{\"animal\":{\"type\":\"string\"}}}}]");
    scratch.write("task/rubric.md", "+++\nid = \"see-v1\"\ncomposite = \"right\"\n[[criteria]]\nname = \"right\"\nmin = 1\nmax = 2\n[criteria.anchors]\n1 = \"no\"\n2 = \"yes\"\n+++\nJudge.\n");
    std::fs::create_dir_all(scratch.file("task/images")).expect("a folder");
    std::fs::write(
        scratch.file("task/images/cat.png"),
        b"\x89PNG\r\n\x1a\nstand-in",
    )
    .expect("an image");
    scratch
}

/// The call of a tool, as a candidate has it.
pub const CALL: &str = "{\"arguments\":{\"animal\":\"cat\"},\"name\":\"tag\"}";
const IMAGE: &str = "iVBORw0KGgpzdGFuZC1pbg==";

fn collect(scratch: &Scratch, model: &str, more: &str, env: &[(&str, &str)]) -> Outcome {
    let line =
        format!("collect --task task --models {model} --experiment e --n-tips 1 --json {more}");
    let mut command = scratch.command(line.as_str());
    command.envs(env.iter().copied());
    Outcome::of(&command.output().expect("the binary runs"))
}

fn candidate(scratch: &Scratch, outcome: &Outcome) -> Value {
    assert_eq!(outcome.code, 0, "{outcome}");
    let cell = cells(outcome).remove(0);
    let id = cell["run_id"].as_str().expect("an id").to_owned();
    scratch.ok(&format!("runs show {id} --json")).json()
}

#[test]
fn anthropic_gets_messages_images_and_tools_on_its_own_wire() {
    let scratch = task();
    let api = StandIn::start(&json!({
        "content": [{"type": "thinking", "thinking": "a cat, I think so"}, {"type": "tool_use", "id": "t", "name": "tag", "input": {"animal": "cat"}}],
        "stop_reason": "tool_use", "usage": {"input_tokens": 30, "output_tokens": 20}}));
    let env = [
        ("ANTHROPIC_BASE_URL", api.url.as_str()),
        ("ANTHROPIC_API_KEY", "k-1"),
    ];
    let done = collect(
        &scratch,
        "anthropic:claude-x",
        "--sweep top_k=5 --temperature 0.9",
        &env,
    );
    let run = candidate(&scratch, &done);
    assert_eq!(run["candidates"][0]["text"], CALL);
    assert!(
        run["candidates"][0]["thinking_tokens"]
            .as_u64()
            .is_some_and(|it| (1..20).contains(&it)),
        "{run:#}"
    );
    let (path, key, body) = api.last();
    assert_eq!((path.as_str(), key.as_str()), ("/v1/messages", "k-1"));
    assert_eq!(
        (&body["system"], &body["top_k"], &body["temperature"]),
        (&json!("Name animals."), &json!(5), &json!(0.9))
    );
    assert_eq!(
        body["messages"][1],
        json!({"role": "assistant", "content": "Hello"})
    );
    assert_eq!(
        body["messages"][2]["content"][0]["source"],
        json!({"type": "base64", "media_type": "image/png", "data": IMAGE})
    );
    assert_eq!(body["tools"][0]["input_schema"]["type"], "object");
    let hot = collect(&scratch, "anthropic:claude-x", "--temperature 1.5", &env);
    assert_eq!(hot.code, 2, "{hot}");
    assert!(hot.stderr.contains("a temperature of 1 at most"), "{hot}");
    let keyless = collect(&scratch, "anthropic:claude-x", "", &[]);
    assert_eq!(keyless.code, 2, "{keyless}");
    assert!(
        keyless.stderr.contains("set ANTHROPIC_API_KEY"),
        "{keyless}"
    );
}

#[test]
fn gemini_gets_messages_images_and_tools_on_its_own_wire() {
    let scratch = task();
    let api = StandIn::start(&json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": "A cat."}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 30, "candidatesTokenCount": 3, "thoughtsTokenCount": 7}}));
    let env = [
        ("GEMINI_BASE_URL", api.url.as_str()),
        ("GEMINI_API_KEY", "k-2"),
    ];
    let run = candidate(
        &scratch,
        &collect(&scratch, "gemini:flash", "--sweep top_k=5", &env),
    );
    let made = &run["candidates"][0];
    assert_eq!(
        (
            &made["text"],
            &made["thinking_tokens"],
            &made["completion_tokens"]
        ),
        (&json!("A cat."), &json!(7), &json!(10))
    );
    let (path, key, body) = api.last();
    assert_eq!(
        (path.as_str(), key.as_str()),
        ("/v1beta/models/flash:generateContent", "k-2")
    );
    assert_eq!(
        body["contents"][1],
        json!({"role": "model", "parts": [{"text": "Hello"}]})
    );
    assert_eq!(
        body["contents"][2]["parts"][1]["inlineData"],
        json!({"mimeType": "image/png", "data": IMAGE})
    );
    assert_eq!(
        body["systemInstruction"]["parts"][0]["text"],
        "Name animals."
    );
    assert_eq!(body["generationConfig"]["topK"], 5);
    assert_eq!(body["tools"][0]["functionDeclarations"][0]["name"], "tag");
}

#[test]
fn openai_compatible_servers_get_images_and_tools_and_report_reasoning() {
    let scratch = task();
    let api = StandIn::start(&json!({
        "choices": [{"message": {"content": null, "reasoning_content": "so a cat", "tool_calls": [{"type": "function", "function": {"name": "tag", "arguments": "{\"animal\": \"cat\"}"}}]}, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 12, "completion_tokens_details": {"reasoning_tokens": 8}}}));
    let more = format!("--base-url {}/v1 --assume-size openai:gpt-x=1", api.url);
    let run = candidate(&scratch, &collect(&scratch, "openai:gpt-x", &more, &[]));
    let made = &run["candidates"][0];
    assert_eq!(made["text"], CALL);
    assert_eq!(made["thinking_tokens"], 8);
    let metrics = run["metrics"].to_string();
    assert!(metrics.contains("thinking_tokens"), "{metrics}");
    scratch.judge("e", "judge.json", "--judge-kind human", |case| {
        let scores = case["scores"].as_object_mut().expect("scores");
        for score in scores.values_mut().filter(|it| it.is_null()) {
            *score = json!(1);
        }
    });
    let board = scratch.board("e");
    assert_eq!(board["rows"][0]["thinking_tokens"], 8.0, "{board}");
    let (_, _, body) = api.last();
    assert_eq!(body["messages"].as_array().map(Vec::len), Some(4));
    assert_eq!(
        body["messages"][3]["content"][1]["image_url"]["url"],
        format!("data:image/png;base64,{IMAGE}")
    );
    assert_eq!(body["tools"][0]["function"]["name"], "tag");

    // Another image is another cell; the same one is not.
    let again = collect(&scratch, "openai:gpt-x", &more, &[]);
    assert_eq!(again.summary()["skipped"], 1, "{again}");
    std::fs::write(
        scratch.file("task/images/cat.png"),
        b"\x89PNG\r\n\x1a\nanother",
    )
    .expect("an image");
    let other = collect(&scratch, "openai:gpt-x", &more, &[]);
    assert_eq!(other.summary()["collected"], 1, "{other}");
    std::fs::write(scratch.file("task/images/cat.png"), b"<svg>").expect("no image");
    let wrong = collect(&scratch, "openai:gpt-x", &more, &[]);
    assert!(
        wrong.code != 0 && wrong.stderr.contains("cat.png") && wrong.stderr.contains("not a PNG"),
        "{wrong}"
    );
}

/// The example of docs/providers.md, exactly as it stands there.
fn documented_program() -> String {
    let page = std::fs::read_to_string(root().join("docs/providers.md")).expect("the page");
    let (_, rest) = page.split_once("```python\n").expect("an example");
    rest.split_once("```").expect("its end").0.to_owned()
}

fn with_program(run: &str, program: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("model.py", program);
    scratch.write(
        "assize.toml",
        &format!("[command.echo]\nrun = {run}\nparameters = 0.5e9\n"),
    );
    scratch
}

const COLLECT: &str =
    "collect --models command:echo --experiment e --n-tips 2 --n-scenarios 2 --prompts v1 --json";

#[test]
fn the_documented_program_is_a_model() {
    let scratch = with_program("[\"python3\", \"model.py\"]", &documented_program());
    assert!(documented_program().lines().count() <= 15);
    let done = scratch.ok(COLLECT);
    assert_eq!(done.summary()["collected"], 2, "{done}");
    let id = cells(&done)[0]["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let shown = scratch.ok(&format!("runs show {id} --json")).json();
    assert!(
        shown["candidates"][0]["completion_tokens"]
            .as_u64()
            .is_some_and(|it| it > 5),
        "{shown:#}"
    );
    let listed = scratch.ok("models list --json").json();
    assert!(listed.to_string().contains("command:echo"), "{listed:#}");
    let unknown = scratch.fails(1, COLLECT.replace("command:echo", "command:other").as_str());
    assert!(unknown.stderr.contains("add [command.other]"), "{unknown}");
}

#[test]
fn programs_that_crash_hang_or_talk_are_restarted_and_reported() {
    let crash = "import json, sys\nline = json.loads(sys.stdin.readline())\nprint(json.dumps({'id': line['id'], 'text': 'ok'}), flush=True)\nsys.stdin.readline()\nsys.exit('out of memory')\n";
    let scratch = with_program("[\"python3\", \"model.py\"]", crash);
    let done = scratch.ok(COLLECT);
    let id = cells(&done)[1]["run_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let shown = scratch.ok(&format!("runs show {id} --json")).json();
    assert_eq!(
        shown["candidates"][0]["text"], "ok",
        "it was started again: {shown:#}"
    );
    let error = shown["candidates"][1]["error"].as_str().expect("an error");
    assert!(
        error.contains("command:echo failed") && error.contains("out of memory"),
        "{error}"
    );

    let scratch = with_program(
        "[\"python3\", \"model.py\"]",
        "import time\ntime.sleep(60)\n",
    );
    let late = scratch.fails(
        4,
        format!("{COLLECT} --timeout 1 --n-tips 1 --n-scenarios 1")
            .replace("--n-tips 2 --n-scenarios 2 ", "")
            .as_str(),
    );
    assert!(late.stdout.contains("did not answer within 1 s"), "{late}");

    let scratch = with_program(
        "[\"python3\", \"model.py\"]",
        "print('Loading…', flush=True)\ninput()\n",
    );
    let talk = scratch.fails(4, COLLECT);
    assert!(
        talk.stdout.contains("a line that is no answer") && talk.stdout.contains("Loading"),
        "{talk}"
    );

    let scratch = with_program("[\"no-such-program\"]", "");
    let gone = scratch.run(COLLECT);
    assert!(gone.code == 4 || gone.code == 1, "{gone}");
    assert!(
        gone.to_string()
            .contains("no-such-program cannot be started"),
        "{gone}"
    );
}

#[test]
fn a_server_runs_no_program_that_it_does_not_allow() {
    let scratch = with_program("[\"python3\", \"model.py\"]", &documented_program());
    let server = assize_test_support::server::Served::start(&scratch);
    let body =
        json!({"models": ["command:echo"], "experiment": "e", "n_tips": 1, "n_scenarios": 1});
    let refused = server.send("POST /api/bench/run", body.to_string().as_bytes());
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(
        refused.json().to_string().contains("does not allow"),
        "{refused:?}"
    );
}
