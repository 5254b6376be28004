//! What tests of one process share out among themselves: slots for heavyweight programs, and ports.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

/// How many heavyweight programs run at once, however many threads the tests have. Two MLflow
/// servers or browsers fill a machine of two cores; more of them run into their own timeouts.
const SLOTS: usize = 2;

static TAKEN: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// The right to run a heavyweight program; it ends when this is dropped.
#[derive(Debug)]
pub struct Slot {
    taken: usize,
}

/// Waits for a slot for a heavyweight program: an MLflow server or client, a browser, a model.
///
/// A test takes one slot at most: tests that hold one and wait for another would wait for each
/// other for ever.
pub fn heavyweight() -> Slot {
    take(1)
}

/// Waits until no heavyweight program runs, and keeps others from starting: for programs whose
/// threads wait for each other, which are many times slower on a busy machine.
pub fn whole_machine() -> Slot {
    take(SLOTS)
}

fn take(wanted: usize) -> Slot {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut taken = FREED
        .wait_while(taken, |taken| *taken + wanted > SLOTS)
        .unwrap_or_else(PoisonError::into_inner);
    *taken += wanted;
    Slot { taken: wanted }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) -= self.taken;
        FREED.notify_all();
    }
}

/// A port of the loopback address that is free and stays so for a program that binds it later.
///
/// It lies below the range from which the system hands out ports by itself, and is given out
/// once in this process, so that no test running beside this one can get it in between.
pub fn free_port() -> u16 {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 10_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Other test processes start at other ports.
    let offset = u16::try_from(std::process::id() % u32::from(COUNT)).expect("below 10,000");
    for _ in 0..COUNT {
        let next = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (offset + next) % COUNT;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("all ports from {FIRST} on are taken");
}
