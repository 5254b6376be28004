//! Estimates the memory that a model needs and the memory that is free.
//!
//! Both serve to reject a load that would make the machine swap or trigger the kernel's OOM
//! killer. If the platform does not report free memory, the check is skipped, because a wrong
//! rejection would be worse than none.

use std::process::Command;

use crate::gguf::Header;

/// The largest number of tokens that llama.cpp computes at once here.
pub(crate) const BATCH_TOKENS: u32 = 512;
const BYTES_PER_CACHE_ELEMENT: u64 = 2;
const BYTES_PER_FLOAT: u64 = 4;
/// Vocabulary tables, graphs, thread stacks, and what llama.cpp repacks.
const OVERHEAD_BYTES: u64 = 128 * 1024 * 1024;

/// How large a context is built for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Tokens for each sequence, prompt included; an odd multiple of 256.
    pub tokens_per_sequence: u32,
    /// Candidates that are decoded at once.
    pub sequences: u32,
}

impl Shape {
    /// llama.cpp holds this many sequences in a context.
    const MAX_SEQUENCES: u32 = 256;
    /// llama.cpp rounds each sequence's context to this; we do it where it is seen. With an
    /// odd multiple, rows of the cache do not lie a power of two apart, where they would push
    /// each other out of the processor's cache: decoding is a tenth faster.
    const GRANULE: u32 = 256;

    pub(crate) fn new(num_ctx: u32, candidates: u32) -> Self {
        Self {
            tokens_per_sequence: (num_ctx.max(1).div_ceil(Self::GRANULE) | 1)
                .saturating_mul(Self::GRANULE),
            sequences: candidates.clamp(1, Self::MAX_SEQUENCES),
        }
    }

    pub(crate) fn total_tokens(self) -> u64 {
        u64::from(self.tokens_per_sequence) * u64::from(self.sequences)
    }

    /// The smallest shape that covers both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            tokens_per_sequence: self.tokens_per_sequence.max(other.tokens_per_sequence),
            sequences: self.sequences.max(other.sequences),
        }
    }

    pub(crate) fn covers(self, other: Self) -> bool {
        self.tokens_per_sequence >= other.tokens_per_sequence && self.sequences >= other.sequences
    }
}

/// Weights, key-value cache and compute buffers, in bytes.
pub(crate) fn estimate_bytes(header: &Header, file_bytes: u64, shape: Shape) -> u64 {
    let integer = |key: &str| header.architecture_integer(key);
    let layers = integer("block_count").unwrap_or(0);
    let heads = integer("attention.head_count").unwrap_or(1).max(1);
    let cache_heads = integer("attention.head_count_kv").unwrap_or(heads);
    let head_width = integer("embedding_length").unwrap_or(0) / heads;
    let key_width = integer("attention.key_length").unwrap_or(head_width);
    let value_width = integer("attention.value_length").unwrap_or(head_width);
    let feed_forward = integer("feed_forward_length").unwrap_or(0);

    let product = |factors: &[u64]| factors.iter().fold(1, |p: u64, f| p.saturating_mul(*f));
    let cache = product(&[
        shape.total_tokens(),
        layers,
        cache_heads,
        key_width.saturating_add(value_width),
        BYTES_PER_CACHE_ELEMENT,
    ]);
    let widest = product(&[heads, shape.tokens_per_sequence.into()])
        .saturating_add(feed_forward.saturating_mul(2));
    let buffers = product(&[BATCH_TOKENS.into(), BYTES_PER_FLOAT, widest]);
    let vocabulary = header.vocabulary_size().unwrap_or(0);
    let logits = product(&[shape.sequences.into(), BYTES_PER_FLOAT, vocabulary]);
    file_bytes
        .saturating_add(cache)
        .saturating_add(buffers)
        .saturating_add(logits)
        .saturating_add(OVERHEAD_BYTES)
}

/// Bytes that this process could allocate now; `None` if the platform does not report it.
pub(crate) fn free_bytes() -> Option<u64> {
    if cfg!(target_os = "macos") {
        let output = Command::new("vm_stat").output().ok()?;
        return vm_stat_free_bytes(&String::from_utf8_lossy(&output.stdout));
    }
    let machine = meminfo_available_bytes(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    let container =
        container_free_bytes(|file| std::fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok());
    Some(container.map_or(machine, |free| free.min(machine)))
}

fn meminfo_available_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// What the container's memory limit leaves, if there is one; the file cache can be reclaimed.
fn container_free_bytes(read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
    let limit = number("memory.max")?;
    let used = number("memory.current")?;
    let reclaimable = read("memory.stat")
        .and_then(|stat| {
            let line = stat
                .lines()
                .find_map(|l| l.strip_prefix("inactive_file "))?;
            line.trim().parse::<u64>().ok()
        })
        .unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

fn vm_stat_free_bytes(vm_stat: &str) -> Option<u64> {
    let page_bytes: u64 = vm_stat
        .split_once("page size of ")?
        .1
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    let pages = |name: &str| -> Option<u64> {
        let line = vm_stat.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches('.').parse().ok()
    };
    let free = pages("Pages free:")? + pages("Pages inactive:")?;
    Some((free + pages("Pages speculative:").unwrap_or(0)) * page_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_says_what_is_available() {
        let meminfo = "MemTotal:       24685000 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(meminfo_available_bytes(meminfo), Some(23_000_000 * 1024));
        assert_eq!(meminfo_available_bytes("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn a_container_limit_counts_and_its_file_cache_does_not() {
        let files = |file: &str| {
            Some(
                match file {
                    "memory.max" => "1000\n",
                    "memory.current" => "700\n",
                    _ => "anon 300\ninactive_file 400\n",
                }
                .to_owned(),
            )
        };
        assert_eq!(container_free_bytes(files), Some(700));
        let unlimited = |_: &str| Some("max\n".to_owned());
        assert_eq!(container_free_bytes(unlimited), None);
    }

    #[test]
    fn vm_stat_counts_free_inactive_and_speculative_pages() {
        let text = "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n\
                    Pages free:                               10.\n\
                    Pages active:                            500.\n\
                    Pages inactive:                           20.\n\
                    Pages speculative:                         5.\n";
        assert_eq!(vm_stat_free_bytes(text), Some(35 * 16384));
        assert_eq!(vm_stat_free_bytes(""), None);
    }

    #[test]
    fn a_shape_is_rounded_up_and_covers_smaller_ones() {
        let shape = Shape::new(2000, 5);
        assert_eq!(shape.tokens_per_sequence, 2304);
        assert!(shape.covers(Shape::new(2304, 1)));
        assert!(!shape.covers(Shape::new(2305, 1)));
        assert!(!shape.covers(Shape::new(100, 6)));
        assert_eq!(Shape::new(0, 0), Shape::new(1, 1));
        assert_eq!(Shape::new(1, 100_000).sequences, 256);
    }
}
