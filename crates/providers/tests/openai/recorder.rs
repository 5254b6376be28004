//! A stand-in for an OpenAI-compatible server: it takes each request, keeps it, and returns
//! the next canned answer.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use assize_providers::openai::OpenAiProvider;
use assize_providers::{HttpConfig, Sleep};
use serde_json::Value;

/// A status, headers and a body.
pub type Answer = (u16, Vec<(&'static str, &'static str)>, String);

#[derive(Debug)]
pub struct Call {
    pub line: String,
    pub authorization: Option<String>,
    pub body: Value,
}

pub struct Recorder {
    url: String,
    pub calls: Arc<Mutex<Vec<Call>>>,
}

impl Recorder {
    /// Returns the answers in order, and the last one again and again.
    pub fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let calls = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&calls);
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (record, answers) = (Arc::clone(&record), Arc::clone(&answers));
                thread::spawn(move || serve(&stream, &record, &answers));
            }
        });
        Self { url, calls }
    }

    pub fn provider(&self, key: Option<&str>) -> (OpenAiProvider, Arc<Mutex<Vec<Duration>>>) {
        let waits = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&waits);
        let config = HttpConfig {
            timeout: Duration::from_secs(20),
            sleep: Sleep::new(move |wait| record.lock().unwrap().push(wait)),
            ..HttpConfig::default()
        };
        (OpenAiProvider::new(&self.url, key, &config).unwrap(), waits)
    }

    pub fn count(&self) -> usize {
        self.calls.lock().unwrap().len()
    }
}

fn serve(stream: &TcpStream, calls: &Mutex<Vec<Call>>, answers: &Mutex<VecDeque<Answer>>) {
    let mut reader = BufReader::new(stream);
    while let Some(call) = read_call(&mut reader) {
        calls.lock().unwrap().push(call);
        let (status, headers, body) = {
            let mut answers = answers.lock().unwrap();
            let next = answers.pop_front().unwrap();
            if answers.is_empty() {
                answers.push_back(next.clone());
            }
            next
        };
        let mut head = format!(
            "HTTP/1.1 {status} Recorder\r\ncontent-length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        if (&mut &*stream)
            .write_all((head + "\r\n" + &body).as_bytes())
            .is_err()
        {
            return;
        }
    }
}

fn read_call(reader: &mut BufReader<&TcpStream>) -> Option<Call> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
    let (mut length, mut authorization) = (0, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().ok()?,
            "authorization" => authorization = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Call {
        line: line.trim().to_owned(),
        authorization,
        body,
    })
}
