//! A cache of values that are derived from the store, valid until the store changes.
//!
//! A value is current as long as the store's change counter is the same
//! ([`EmbeddedStore::changes`], which takes microseconds), so a reader always sees everything that
//! was committed before its request. Concurrent requests for one value compute it only once.
//!
//! [`EmbeddedStore::changes`]: assize_store::embedded::EmbeddedStore::changes

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// Values by key, up to a capacity; the oldest entry is evicted first.
#[derive(Debug)]
pub(crate) struct ChangeCache<K, V> {
    slots: Mutex<Slots<K, V>>,
    capacity: usize,
}

#[derive(Debug)]
struct Slots<K, V> {
    by_key: HashMap<K, Arc<Slot<V>>>,
    /// Oldest first.
    order: Vec<K>,
}

#[derive(Debug)]
struct Slot<V> {
    /// Held during the computation.
    computing: Mutex<()>,
    /// The value, with the change counter that it was computed at.
    cached: Mutex<Option<(i64, Arc<V>)>>,
}

impl<K: Eq + Hash + Clone, V> ChangeCache<K, V> {
    pub fn new(capacity: usize) -> Self {
        let (by_key, order) = (HashMap::new(), Vec::new());
        Self {
            slots: Mutex::new(Slots { by_key, order }),
            capacity,
        }
    }

    /// The cached value, if it is current.
    pub fn peek(&self, key: &K, changes: i64) -> Option<Arc<V>> {
        self.latest(key)
            .filter(|(version, _)| *version == changes)
            .map(|(_, value)| value)
    }

    /// The cached value, current or not.
    pub fn stale(&self, key: &K) -> Option<Arc<V>> {
        self.latest(key).map(|(_, value)| value)
    }

    /// Whether the value is being computed.
    pub fn is_computing(&self, key: &K) -> bool {
        let slot = lock(&self.slots).by_key.get(key).map(Arc::clone);
        slot.is_some_and(|it| matches!(it.computing.try_lock(), Err(TryLockError::WouldBlock)))
    }

    /// The current value, computed if necessary. `changes` is read before the computation, so that
    /// a change during it invalidates the value.
    pub fn get<E>(
        &self,
        key: &K,
        changes: impl Fn() -> Result<i64, E>,
        compute: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        let slot = self.slot(key);
        let _guard = lock(&slot.computing);
        let changes = changes()?;
        if let Some((version, value)) = &*lock(&slot.cached)
            && *version == changes
        {
            return Ok(Arc::clone(value));
        }
        let value = Arc::new(compute()?);
        *lock(&slot.cached) = Some((changes, Arc::clone(&value)));
        Ok(value)
    }

    fn latest(&self, key: &K) -> Option<(i64, Arc<V>)> {
        let slot = Arc::clone(lock(&self.slots).by_key.get(key)?);
        let cached = lock(&slot.cached);
        cached.clone()
    }

    fn slot(&self, key: &K) -> Arc<Slot<V>> {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.by_key.get(key) {
            return Arc::clone(slot);
        }
        if slots.order.len() >= self.capacity {
            let oldest = slots.order.remove(0);
            slots.by_key.remove(&oldest);
        }
        let slot = Arc::new(Slot {
            computing: Mutex::new(()),
            cached: Mutex::new(None),
        });
        slots.order.push(key.clone());
        slots.by_key.insert(key.clone(), Arc::clone(&slot));
        slot
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_cached_until_a_change_and_the_oldest_is_evicted() {
        let cache: ChangeCache<&str, i64> = ChangeCache::new(2);
        let get = |key, changes, value| {
            let value = cache.get(&key, || Ok::<_, ()>(changes), || Ok(value));
            *value.unwrap()
        };
        assert_eq!(get("a", 1, 10), 10);
        assert_eq!(get("a", 1, 11), 10);
        assert_eq!(get("a", 2, 12), 12);
        assert_eq!(cache.peek(&"a", 3), None);
        assert_eq!(cache.stale(&"a").as_deref(), Some(&12));
        assert_eq!((get("b", 2, 1), get("c", 2, 2)), (1, 2));
        assert_eq!(cache.stale(&"a"), None);
        assert_eq!(cache.peek(&"b", 2).as_deref(), Some(&1));
    }

    #[test]
    fn an_error_is_not_cached() {
        let cache: ChangeCache<u8, u8> = ChangeCache::new(2);
        assert_eq!(
            cache.get(&1, || Ok(1), || Err("unreachable")),
            Err("unreachable")
        );
        assert_eq!(cache.get(&1, || Ok::<_, ()>(1), || Ok(7)), Ok(Arc::new(7)));
    }
}
