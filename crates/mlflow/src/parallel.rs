//! Parallel map with plain threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use assize_store::Result;

/// The maximum number of requests in flight, and of threads for one list of work.
pub(crate) const AT_ONCE: usize = 8;

/// Applies a function to every item, several at a time, and returns the results in order. After the
/// first failure no further item is started.
pub(crate) fn each<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    if items.len() < 2 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<R>)>> = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..items.len().min(AT_ONCE) {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(place) else { break };
                    let outcome = work(item);
                    if outcome.is_err() {
                        next.store(items.len(), Ordering::Relaxed);
                    }
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((place, outcome));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}
