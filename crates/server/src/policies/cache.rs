//! The decoded models of the users that were seen last, bounded by bytes.
//!
//! A user belongs to one shard. Whoever loads models holds the shard's lock while it reads from
//! disk and inserts; the writer changes an entry after the commit, under the same lock. So an entry
//! is never older than the last acknowledged reward: either the loader has read the commit, or the
//! writer finds the entry and changes it.
//!
//! An entry was loaded for one *generation* (the position in the log from which its policy starts)
//! and is not used for another.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use assize_policy::UserModels;

const SHARDS: usize = 64;
/// What an entry takes besides its models and its key, roughly.
const ENTRY_BYTES: usize = 256;

/// Models by slot and user. A slot is a policy, or a shadow.
#[derive(Debug)]
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    most_bytes_in_shard: usize,
}

#[derive(Debug)]
struct Shard {
    slots: Vec<HashMap<Arc<str>, Entry>>,
    /// The entries by the time of their last use.
    order: BTreeMap<u64, (usize, Arc<str>)>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    models: Arc<UserModels>,
    generation: i64,
    bytes: usize,
    used: u64,
}

impl Cache {
    pub fn new(slots: usize, most_bytes: usize) -> Self {
        let shard = || {
            Mutex::new(Shard {
                slots: (0..slots).map(|_| HashMap::new()).collect(),
                order: BTreeMap::new(),
                uses: 0,
                bytes: 0,
            })
        };
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: RandomState::new(),
            most_bytes_in_shard: most_bytes / SHARDS,
        }
    }

    /// The models, if they are here.
    pub fn get(&self, slot: usize, user: &str, generation: i64) -> Option<Arc<UserModels>> {
        self.shard(user).get(slot, user, generation)
    }

    /// The models, from `load` if they are not here.
    pub fn get_or_load<E>(
        &self,
        (slot, user, generation): (usize, &str, i64),
        load: impl FnOnce() -> Result<UserModels, E>,
    ) -> Result<Arc<UserModels>, E> {
        let mut shard = self.shard(user);
        if let Some(models) = shard.get(slot, user, generation) {
            return Ok(models);
        }
        let models = Arc::new(load()?);
        shard.insert(slot, user, generation, Arc::clone(&models));
        shard.evict(self.most_bytes_in_shard);
        Ok(models)
    }

    /// Changes models that are here; others are loaded later as they are on disk.
    pub fn change(&self, slot: usize, user: &str, change: impl FnOnce(&mut UserModels)) {
        let mut shard = self.shard(user);
        let Some(entry) = shard.slots[slot].get_mut(user) else {
            return;
        };
        change(Arc::make_mut(&mut entry.models));
        let (before, after) = (entry.bytes, bytes_of(user, &entry.models));
        entry.bytes = after;
        shard.bytes = shard.bytes + after - before;
        shard.evict(self.most_bytes_in_shard);
    }

    /// Removes a user's models from one slot.
    pub fn remove(&self, slot: usize, user: &str) {
        self.shard(user).remove(slot, user);
    }

    /// Removes a user's models from every slot.
    pub fn remove_user(&self, user: &str) {
        let mut shard = self.shard(user);
        for slot in 0..shard.slots.len() {
            shard.remove(slot, user);
        }
    }

    /// The number of entries and their bytes.
    pub fn size(&self) -> (usize, usize) {
        let sizes = self.shards.iter().map(|it| {
            let shard = it.lock().unwrap_or_else(PoisonError::into_inner);
            (shard.order.len(), shard.bytes)
        });
        sizes.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
    }

    fn shard(&self, user: &str) -> MutexGuard<'_, Shard> {
        let hash = self.hasher.hash_one(user);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "any part of a hash selects a shard"
        )]
        let shard = &self.shards[hash as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn get(&mut self, slot: usize, user: &str, generation: i64) -> Option<Arc<UserModels>> {
        let entry = self.slots[slot].get_mut(user)?;
        if entry.generation != generation {
            self.remove(slot, user);
            return None;
        }
        self.uses += 1;
        if let Some(key) = self.order.remove(&entry.used) {
            self.order.insert(self.uses, key);
        }
        entry.used = self.uses;
        Some(Arc::clone(&entry.models))
    }

    fn insert(&mut self, slot: usize, user: &str, generation: i64, models: Arc<UserModels>) {
        self.remove(slot, user);
        self.uses += 1;
        let key: Arc<str> = Arc::from(user);
        let bytes = bytes_of(user, &models);
        self.bytes += bytes;
        self.order.insert(self.uses, (slot, Arc::clone(&key)));
        let entry = Entry {
            models,
            generation,
            bytes,
            used: self.uses,
        };
        self.slots[slot].insert(key, entry);
    }

    fn remove(&mut self, slot: usize, user: &str) {
        if let Some(entry) = self.slots[slot].remove(user) {
            self.order.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }

    /// Removes the entries that were not used for the longest time. The last one stays, so that a
    /// user with more models than fit is not loaded for every request.
    fn evict(&mut self, most_bytes: usize) {
        while self.bytes > most_bytes && self.order.len() > 1 {
            let Some((_, (slot, user))) = self.order.pop_first() else {
                return;
            };
            if let Some(entry) = self.slots[slot].remove(&user) {
                self.bytes -= entry.bytes;
            }
        }
    }
}

fn bytes_of(user: &str, models: &UserModels) -> usize {
    ENTRY_BYTES + user.len() + models.memory_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use assize_policy::Model;

    fn models(arms: usize) -> UserModels {
        let mut models = UserModels::default();
        for arm in 0..arms {
            models.insert(format!("arm-{arm}"), Model::new(7, 1.0).unwrap());
        }
        models
    }

    fn load(cache: &Cache, user: &str) -> bool {
        let mut loaded = false;
        let key = (0, user, 0);
        let found = cache.get_or_load(key, || {
            loaded = true;
            Ok::<_, ()>(models(1))
        });
        assert_eq!(found.unwrap().len(), 1);
        loaded
    }

    #[test]
    fn the_least_recently_used_entry_goes_first_and_bytes_are_bounded() {
        let one = bytes_of("a", &models(1));
        let cache = Cache::new(1, 0);
        // All users in one shard show the order.
        let shard = || cache.shards[0].lock().unwrap();
        let put = |user: &str| {
            let mut shard = shard();
            shard.insert(0, user, 0, Arc::new(models(1)));
            shard.evict(2 * one);
        };
        put("a");
        put("b");
        assert!(shard().get(0, "a", 0).is_some());
        put("c");
        assert!(shard().get(0, "b", 0).is_none());
        assert!(shard().get(0, "a", 0).is_some());
        assert_eq!(shard().bytes, 2 * one);
    }

    #[test]
    fn many_users_stay_within_the_limit() {
        let limit = 1 << 20;
        let cache = Cache::new(1, limit);
        for user in 0..10_000 {
            assert!(load(&cache, &format!("user-{user}")));
        }
        let (entries, bytes) = cache.size();
        assert!(bytes <= limit, "{bytes}");
        assert!(entries > 100, "{entries}");
    }

    #[test]
    fn entries_of_another_generation_are_loaded_again() {
        let cache = Cache::new(2, 1 << 20);
        assert!(load(&cache, "ada"));
        assert!(!load(&cache, "ada"));
        assert!(cache.get(0, "ada", 1).is_none());
        assert!(load(&cache, "ada"));
        assert!(cache.get(1, "ada", 0).is_none());
        cache.change(0, "ada", |it| {
            it.insert("new", Model::new(12, 1.0).unwrap());
        });
        assert_eq!(cache.get(0, "ada", 0).unwrap().len(), 2);
        let (_, bytes) = cache.size();
        cache.remove_user("ada");
        assert!(bytes > 0);
        assert_eq!(cache.size(), (0, 0));
    }
}
