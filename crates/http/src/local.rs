//! Whether a server runs on this machine, so that its models share this machine's memory.
//!
//! A name is on this machine where it resolves to loopback or to an address of this machine.
//! Names that cannot be resolved are not: requests to them would fail in the same way.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use crate::address::{Address, is_loopback};

/// How the memory of this machine is called.
pub const THIS_MACHINE: &str = "this machine";

/// What this machine knows about names and numbers.
pub trait Network: Send + Sync {
    /// The numbers that a name stands for.
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;

    /// Whether one of this machine's interfaces has this number.
    fn is_own(&self, ip: IpAddr) -> bool;
}

/// The operating system's answers.
struct System;

impl Network for System {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = (name, 0).to_socket_addrs()?;
        Ok(found.map(|it| it.ip()).collect())
    }

    fn is_own(&self, ip: IpAddr) -> bool {
        // Only a machine's own addresses can be bound. Nothing is sent, and nothing is received.
        UdpSocket::bind((ip, 0)).is_ok()
    }
}

/// This machine, with what it has learned about names. Copies share it.
#[derive(Clone)]
pub struct LocalMachine {
    network: Arc<dyn Network>,
    /// Names that were resolved, and whether they are this machine's.
    names: Arc<Mutex<HashMap<String, bool>>>,
}

impl fmt::Debug for LocalMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalMachine")
    }
}

impl LocalMachine {
    pub fn new(network: impl Network + 'static) -> Self {
        Self {
            network: Arc::new(network),
            names: Arc::default(),
        }
    }

    /// The machine that this process runs on.
    pub fn system() -> Self {
        static SYSTEM: LazyLock<LocalMachine> = LazyLock::new(|| LocalMachine::new(System));
        SYSTEM.clone()
    }

    /// Whether a server runs here. A name is resolved once; only a failure is asked about again.
    pub fn runs(&self, server: &Address) -> bool {
        if server.is_loopback() {
            return true;
        }
        if let Some(ip) = server.ip() {
            return self.network.is_own(ip);
        }
        let name = server.name();
        if let Some(known) = self.names().get(name) {
            return *known;
        }
        let Ok(found) = self.network.resolve(name) else {
            return false;
        };
        let is_here = |ip: IpAddr| is_loopback(ip) || self.network.is_own(ip.to_canonical());
        let is_here = found.into_iter().any(is_here);
        self.names().insert(name.to_owned(), is_here);
        is_here
    }

    /// The machine whose memory a server's weights occupy: [`THIS_MACHINE`] for every server here, else
    /// `host[:port]` in one spelling.
    pub fn memory_of(&self, server: &str) -> String {
        match Address::parse_or_http(server) {
            Ok(address) if self.runs(&address) => THIS_MACHINE.to_owned(),
            Ok(address) => address.identity(),
            Err(_) => server.trim().to_owned(),
        }
    }

    fn names(&self) -> std::sync::MutexGuard<'_, HashMap<String, bool>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Knows three names, and has the address 192.0.2.7.
    #[derive(Default)]
    struct Known(Arc<AtomicUsize>);

    impl Network for Known {
        fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let found: &[&str] = match name {
                "workstation" => &["198.51.100.1", "127.0.1.1"],
                "workstation.lan" => &["192.0.2.7"],
                "v6.lan" => &["::1"],
                "mapped.lan" => &["::ffff:192.0.2.7"],
                "gpu-box" => &["192.0.2.8"],
                _ => return Err(io::Error::other("no such name")),
            };
            Ok(found.iter().filter_map(|it| it.parse().ok()).collect())
        }

        fn is_own(&self, ip: IpAddr) -> bool {
            ip.to_string() == "192.0.2.7"
        }
    }

    fn memory_of(server: &str) -> String {
        LocalMachine::new(Known::default()).memory_of(server)
    }

    #[test]
    fn every_spelling_of_this_machine_is_this_machine() {
        for server in [
            "http://localhost",
            "http://localhost:11434",
            "localhost:11434",
            "http://LOCALHOST:11434",
            "HTTP://LocalHost:11434/",
            "http://u@localhost:11434",
            "http://u:p@localhost:11434",
            "http://localhost.:11434",
            "http://ollama.localhost:11434",
            "http://localhost:8080/ollama",
            "http://%6cocalhost:11434",
            "http://127.0.0.1:1",
            "http://127.0.0.1.:1",
            "http://127.0.0.2:11434",
            "http://127.1:11434",
            "http://0x7f.1:11434",
            "http://2130706433:11434",
            "http://0177.0.0.1:11434",
            "http://0.0.0.0:11434",
            "http://0:11434",
            "http://[::1]",
            "http://[::1]:2",
            "http://[0:0:0:0:0:0:0:1]:2",
            "http://[::]:11434",
            "http://[::ffff:127.0.0.1]:11434",
            "http://[::ffff:0.0.0.0]:11434",
            "https://u:p@[::ffff:7f00:1]/ollama",
            // By what the network says.
            "http://workstation:11434",
            "http://WORKSTATION.:11434",
            "http://workstation.lan:11434",
            "http://v6.lan:11434",
            "http://mapped.lan:11434",
            "http://192.0.2.7:11434",
            "http://[::ffff:192.0.2.7]:11434",
        ] {
            assert_eq!(memory_of(server), THIS_MACHINE, "{server}");
        }
    }

    #[test]
    fn other_hosts_have_one_name_in_every_spelling() {
        for server in [
            "http://gpu-box:11434",
            "http://GPU-box:11434/",
            "http://u:p@gpu-box:11434",
            "http://gpu-box.:11434/ollama",
            "gpu-box:11434",
        ] {
            assert_eq!(memory_of(server), "gpu-box:11434", "{server}");
        }
        assert_eq!(memory_of("https://gpu-box/ollama"), "gpu-box");
        assert_eq!(memory_of("https://gpu-box:443"), "gpu-box");
        assert_eq!(memory_of("http://192.0.2.8:1"), "192.0.2.8:1");
        assert_eq!(memory_of("http://[::ffff:192.0.2.8]:1"), "192.0.2.8:1");
        assert_eq!(memory_of("http://localhost.test"), "localhost.test");
        assert_eq!(memory_of("http://unknown:1"), "unknown:1");
        assert_ne!(memory_of("http://127.0.0.1.test:1"), THIS_MACHINE);
    }

    #[test]
    fn a_name_is_resolved_once_and_a_failure_again() {
        let asked = Arc::new(AtomicUsize::new(0));
        let machine = LocalMachine::new(Known(Arc::clone(&asked)));
        for _ in 0..3 {
            machine.clone().memory_of("http://gpu-box:1");
            machine.memory_of("http://localhost:1");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        machine.memory_of("http://unknown");
        machine.memory_of("http://unknown");
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn the_system_knows_its_own_addresses() {
        let machine = LocalMachine::system();
        assert!(System.is_own([127, 0, 0, 1].into()));
        // Reserved for documentation, never assigned.
        assert!(!System.is_own([203, 0, 113, 1].into()));
        assert_eq!(machine.memory_of("http://localhost:11434"), THIS_MACHINE);
    }
}
