//! Addresses of tracking servers: one that can never work is bad usage, reported at once, and
//! nothing is journaled for it. Self-signed certificates are accepted only by a setting.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, ToSocketAddrs as _};
use std::process::{Child, Command, Stdio};

use assize_test_support::server::Served;
use assize_test_support::{Scratch, collect, mlflow_python, root, script};

/// A scratch folder whose commands track at this address.
fn tracking_at(uri: &str, more: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write(".env", &format!("MLFLOW_TRACKING_URI={uri}\n{more}"));
    scratch.write("script.json", &script(&[("good", &["A tip."])]));
    scratch
}

const ONE_CELL: &str = "--prompts v1 --n-scenarios 1 --n-tips 1";

/// Looking, collecting and collecting again are all the same mistake.
fn is_a_mistake(uri: &str, words: &str) {
    let scratch = tracking_at(uri, "");
    let line = collect("scripted:good", ONE_CELL);
    for command in ["experiments list", line.as_str(), line.as_str()] {
        let told = scratch.fails(2, command);
        assert!(told.stderr.contains(uri), "{told}");
        assert!(told.stderr.contains(words), "{told}");
        assert!(!told.stderr.contains("is unreachable"), "{told}");
    }
}

#[test]
fn https_to_a_server_without_tls() {
    let home = Scratch::new();
    let served = Served::start(&home);
    is_a_mistake(
        &served.url.replace("http:", "https:"),
        &format!("use {}", served.url),
    );
}

#[test]
fn a_path_without_an_mlflow_api() {
    let home = Scratch::new();
    let served = Served::start_with(&home, "serve --port 0 --json --open-loopback");
    is_a_mistake(&format!("{}/nowhere", served.url), "the path prefix");
}

#[test]
fn a_server_that_answers_with_html() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let _ = stream.read(&mut [0; 4096]);
            let page = "<html>Welcome!</html>";
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", page.len());
            let _ = write!(stream, "{head}Connection: close\r\n\r\n{page}");
        }
    });
    is_a_mistake(
        &format!("http://{address}"),
        "is not a valid MLflow response",
    );
}

#[test]
fn a_host_name_that_does_not_exist() {
    let lookup = ("nowhere.invalid", 80).to_socket_addrs();
    let words = lookup.map_or_else(|error| error.to_string(), |_| "it is known".to_owned());
    if words.contains("Temporary") || words == "it is known" {
        eprintln!("SKIPPED: this machine's name server does not say which names are unknown");
        return;
    }
    is_a_mistake(
        "http://nowhere.invalid:5000",
        "the host name 'nowhere.invalid' cannot be resolved",
    );
}

/// A server that refuses connections may come back: cells wait for it.
#[test]
fn a_refused_connection_is_unreachable_not_bad_usage() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let scratch = tracking_at(&format!("http://{address}"), "");
    let told = scratch.fails(1, collect("scripted:good", ONE_CELL).as_str());
    assert!(told.stderr.contains("unreachable"), "{told}");
    assert_eq!(told.summary()["collected"], 1, "{told}");
}

struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_self_signed_certificate_needs_insecure_tls() {
    let Some(python) = mlflow_python() else {
        return;
    };
    let home = Scratch::new();
    let served = Served::start(&home);
    let program = root().join("tests/mlflow/tls_proxy.py");
    let mut child = Command::new(python)
        .arg(program)
        .arg(served.authority())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python runs");
    let mut port = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    let _proxy = Proxy(child);
    BufReader::new(stdout).read_line(&mut port).expect("a port");
    let uri = format!("https://127.0.0.1:{}", port.trim());
    is_a_mistake(&uri, "MLFLOW_TRACKING_INSECURE_TLS=true");

    let more = format!(
        "MLFLOW_TRACKING_TOKEN={}\nMLFLOW_TRACKING_INSECURE_TLS=true\n",
        served.token
    );
    let scratch = tracking_at(&uri, &more);
    let line = collect("scripted:good", ONE_CELL);
    assert_eq!(scratch.ok(line.as_str()).summary()["collected"], 1);
    assert_eq!(scratch.ok(line.as_str()).summary()["skipped"], 1);
}
