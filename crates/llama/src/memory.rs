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

/// The most sequences that are decoded at once unless a number is named. On a CPU arithmetic is the
/// limit long before.
pub(crate) const DEFAULT_MOST_SEQUENCES: u32 = 32;
/// The share of the free memory that the cache may take, so that other programs keep the rest.
const SHARE_OF_FREE: f64 = 0.5;

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

    pub(crate) fn new(tokens: u32, sequences: u32) -> Self {
        Self {
            tokens_per_sequence: (tokens.max(1).div_ceil(Self::GRANULE) | 1)
                .saturating_mul(Self::GRANULE),
            sequences: sequences.clamp(1, Self::MAX_SEQUENCES),
        }
    }

    pub(crate) fn total_tokens(self) -> u64 {
        u64::from(self.tokens_per_sequence) * u64::from(self.sequences)
    }
}

/// What a model needs memory for, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footprint {
    weights: u64,
    cache_per_token: u64,
    logits_per_sequence: u64,
    heads: u64,
    feed_forward: u64,
}

impl Footprint {
    pub(crate) fn new(header: &Header, file_bytes: u64) -> Self {
        let integer = |key: &str| header.architecture_integer(key);
        let layers = integer("block_count").unwrap_or(0);
        let heads = integer("attention.head_count").unwrap_or(1).max(1);
        let cache_heads = integer("attention.head_count_kv").unwrap_or(heads);
        let head_width = integer("embedding_length").unwrap_or(0) / heads;
        let key_width = integer("attention.key_length").unwrap_or(head_width);
        let value_width = integer("attention.value_length").unwrap_or(head_width);
        let vocabulary = header.vocabulary_size().unwrap_or(0);
        Self {
            weights: file_bytes,
            cache_per_token: product(&[
                layers,
                cache_heads,
                key_width.saturating_add(value_width),
                BYTES_PER_CACHE_ELEMENT,
            ]),
            logits_per_sequence: product(&[BYTES_PER_FLOAT, vocabulary]),
            heads,
            feed_forward: integer("feed_forward_length").unwrap_or(0),
        }
    }

    /// Weights, key-value cache and compute buffers.
    pub(crate) fn bytes(&self, shape: Shape) -> u64 {
        self.weights
            .saturating_add(self.context_bytes(shape))
            .saturating_add(OVERHEAD_BYTES)
    }

    /// Key-value cache and compute buffers.
    fn context_bytes(&self, shape: Shape) -> u64 {
        let cache = shape.total_tokens().saturating_mul(self.cache_per_token);
        let widest = product(&[self.heads, shape.tokens_per_sequence.into()])
            .saturating_add(self.feed_forward.saturating_mul(2));
        let buffers = product(&[BATCH_TOKENS.into(), BYTES_PER_FLOAT, widest]);
        let logits = product(&[shape.sequences.into(), self.logits_per_sequence]);
        cache.saturating_add(buffers).saturating_add(logits)
    }

    /// As many sequences of so many tokens, up to `most`, as the free memory holds beside the
    /// loaded weights; the bytes that one of them needs where not even that fits.
    pub(crate) fn shape(&self, tokens: u32, most: u32, free: Option<u64>) -> Result<Shape, u64> {
        let one = Shape::new(tokens, 1);
        let Some(free) = free else {
            return Ok(Shape::new(tokens, most));
        };
        if self.context_bytes(one) > free {
            return Err(self.context_bytes(one));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of bytes"
        )]
        let room = (free as f64 * SHARE_OF_FREE) as u64;
        let fits = |sequences: &u32| self.context_bytes(Shape::new(tokens, *sequences)) <= room;
        let sequences = (1..=Shape::new(tokens, most).sequences).rev().find(fits);
        Ok(Shape::new(tokens, sequences.unwrap_or(1)))
    }
}

fn product(factors: &[u64]) -> u64 {
    factors.iter().fold(1, |p: u64, f| p.saturating_mul(*f))
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
    fn a_shape_is_rounded_up_to_an_odd_multiple() {
        assert_eq!(Shape::new(2000, 5).tokens_per_sequence, 2304);
        assert_eq!(Shape::new(0, 0), Shape::new(1, 1));
        assert_eq!(Shape::new(1, 100_000).sequences, 256);
    }

    #[test]
    fn the_number_of_sequences_follows_the_free_memory() {
        let mb = 1024 * 1024;
        let footprint = Footprint {
            weights: 100 * mb,
            cache_per_token: 23_040,
            logits_per_sequence: 200_000,
            heads: 9,
            feed_forward: 1536,
        };
        let sequences = |free_mb: u64| {
            let shape = footprint.shape(500, 32, Some(free_mb * mb));
            shape.map(|it| it.sequences)
        };
        assert_eq!(sequences(10_000), Ok(32));
        let some = sequences(400).unwrap();
        assert!((2..32).contains(&some), "{some}");
        let least = footprint.context_bytes(Shape::new(500, 1));
        assert_eq!(sequences(least / mb + 1), Ok(1));
        assert_eq!(sequences(least / mb), Err(least));
        assert_eq!(footprint.shape(500, 32, None).unwrap().sequences, 32);
    }
}
