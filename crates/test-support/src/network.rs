//! A network of stand-in hosts that have addresses of their own.
//!
//! Servers on a loopback address share this machine's memory, so a test of several hosts needs
//! addresses that are not this machine's. These are of the range that is reserved for documentation
//! (203.0.113.0/24) and are reached through an HTTP proxy, which the binary takes from its environment.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

type Routes = Arc<Mutex<HashMap<String, SocketAddr>>>;

/// A running proxy; it ends with the process.
#[derive(Debug)]
pub struct Network {
    proxy: SocketAddr,
    routes: Routes,
}

impl Default for Network {
    fn default() -> Self {
        Self::start()
    }
}

impl Network {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let network = Self {
            proxy: listener.local_addr().expect("an address"),
            routes: Routes::default(),
        };
        let routes = Arc::clone(&network.routes);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let routes = Arc::clone(&routes);
                thread::spawn(move || tunnel(&client, &routes));
            }
        });
        network
    }

    /// Gives a server an address of its own; returns its URL.
    pub fn add(&self, server: SocketAddr) -> String {
        let mut routes = self.routes.lock().expect("alive");
        let place = format!("203.0.113.{}:11434", routes.len() + 1);
        let url = format!("http://{place}");
        routes.insert(place, server);
        url
    }

    /// Lets a command reach the hosts.
    pub fn connect(&self, command: &mut Command) {
        command.env("http_proxy", format!("http://{}", self.proxy));
    }
}

/// Serves one `CONNECT`.
fn tunnel(client: &TcpStream, routes: &Routes) -> Option<()> {
    let mut reader = BufReader::new(client);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
    }
    let place = line.strip_prefix("CONNECT ")?.split_whitespace().next()?;
    let server = routes.lock().expect("alive").get(place).copied();
    let Some(server) = server.and_then(|it| TcpStream::connect(it).ok()) else {
        let refused = b"HTTP/1.1 502 No Such Host\r\ncontent-length: 0\r\n\r\n";
        (&mut &*client).write_all(refused).ok()?;
        return None;
    };
    (&mut &*client)
        .write_all(b"HTTP/1.1 200 Connected\r\n\r\n")
        .ok()?;
    let (back_from, back_to) = (server.try_clone().ok()?, client.try_clone().ok()?);
    let back = thread::spawn(move || copy(&back_from, &back_to));
    copy(client, &server);
    let _ = back.join();
    Some(())
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = from.set_nodelay(true);
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
