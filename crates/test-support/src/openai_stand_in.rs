//! A stand-in for an OpenAI-compatible gateway: it judges everything alike, with a delay, a
//! price and the faults it is told to have.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// How one completion goes wrong.
#[derive(Debug, Clone)]
pub enum Fault {
    /// A status, its headers and its body.
    Status(u16, &'static str, String),
    /// A success whose message is this.
    Says(String),
    /// A success whose body is this.
    Body(String),
}

#[derive(Debug, Default)]
pub struct Seen {
    /// The bodies of all completions asked for.
    pub bodies: Vec<Value>,
    pub in_flight: usize,
    pub most_in_flight: usize,
    faults: VecDeque<Fault>,
}

/// A running stand-in; it ends with the process.
#[derive(Debug)]
pub struct OpenAiStandIn {
    pub url: String,
    pub seen: Arc<Mutex<Seen>>,
}

/// What it says about every case, and what it takes for that.
#[derive(Debug, Clone)]
pub struct Manner {
    pub verdict: String,
    pub delay: Duration,
    pub cost_usd: Option<f64>,
}

impl OpenAiStandIn {
    pub fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Seen::default()));
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (seen, manner) = (Arc::clone(&shared), manner.clone());
                std::thread::spawn(move || serve(&stream, &seen, &manner));
            }
        });
        Self { url, seen }
    }

    /// The next completions go wrong like this, in order.
    pub fn fail_with(&self, faults: impl IntoIterator<Item = Fault>) {
        self.seen.lock().expect("alive").faults.extend(faults);
    }

    pub fn asked(&self) -> Vec<Value> {
        self.seen.lock().expect("alive").bodies.clone()
    }
}

fn serve(stream: &TcpStream, seen: &Mutex<Seen>, manner: &Manner) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Some((path, body)) = read_call(&mut reader) {
        let answer = if path.ends_with("/models") {
            let list = json!({"data": [{"id": "judge", "object": "model", "owned_by": "tests"}]});
            (200, String::new(), list.to_string())
        } else {
            complete(body, seen, manner)
        };
        let (status, headers, body) = answer;
        let head = format!(
            "HTTP/1.1 {status} StandIn\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        );
        if (&mut &*stream)
            .write_all((head + &body).as_bytes())
            .is_err()
        {
            return;
        }
    }
}

fn complete(body: Value, seen: &Mutex<Seen>, manner: &Manner) -> (u16, String, String) {
    let fault = {
        let mut seen = seen.lock().expect("alive");
        seen.bodies.push(body);
        seen.in_flight += 1;
        seen.most_in_flight = seen.most_in_flight.max(seen.in_flight);
        seen.faults.pop_front()
    };
    std::thread::sleep(manner.delay);
    seen.lock().expect("alive").in_flight -= 1;
    let says = |text: &str| {
        let cost = manner.cost_usd;
        let cost = cost.map_or_else(String::new, |cost| {
            format!("x-litellm-response-cost: {cost}\r\n")
        });
        let answer = json!({
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 20},
        });
        (200, cost, answer.to_string())
    };
    match fault {
        None => says(&manner.verdict),
        Some(Fault::Says(text)) => says(&text),
        Some(Fault::Body(body)) => (200, String::new(), body),
        Some(Fault::Status(status, headers, body)) => (status, headers.to_owned(), body),
    }
}

fn read_call(reader: &mut BufReader<&TcpStream>) -> Option<(String, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let path = line.split_whitespace().nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, serde_json::from_slice(&body).unwrap_or(Value::Null)))
}
