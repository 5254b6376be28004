//! The process-wide llama.cpp backend, and C functions that the safe wrapper does not expose.
//!
//! All `unsafe` code of this crate is here: [`build_features`], [`set_threads`] and
//! [`requantise_q4_0`].

use std::ffi::{CStr, CString};
use std::path::Path;
use std::sync::OnceLock;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::llama_backend::LlamaBackend;

/// The crate whose vendored llama.cpp we run; the same version as in `Cargo.toml`.
const ENGINE: &str = "llama-cpp-2 0.1.160";

/// The initialised backend, with llama.cpp's own logging off.
///
/// `None` if other code in this process has initialised it.
pub fn backend() -> Option<&'static LlamaBackend> {
    static BACKEND: OnceLock<Option<LlamaBackend>> = OnceLock::new();
    BACKEND
        .get_or_init(|| {
            let mut backend = LlamaBackend::init().ok()?;
            backend.void_logs();
            Some(backend)
        })
        .as_ref()
}

/// How reproducible a seed is: the last word of a provenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reproducibility {
    /// The same text whatever else is in the batch or in the cache.
    Exact,
    /// The same text for the same requests in the same order.
    Seeded,
    /// Whatever is fastest.
    Fast,
}

impl Reproducibility {
    /// The types whose products ggml rounds in the same way for one token and for many, as measured
    /// on x86-64: `F32`, `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1`, `Q8_0`, `Q5_K`, `Q6_K`. Notably not `Q4_K`
    /// and `IQ4_NL`, which are repacked and then have two different kernels.
    const EXACT_TYPES: [u32; 8] = [0, 2, 3, 6, 7, 8, 13, 14];

    pub(crate) fn new(fast: bool, mut tensor_types: impl Iterator<Item = u32>) -> Self {
        if fast {
            Self::Fast
        } else if cfg!(target_arch = "x86_64")
            && tensor_types.all(|tensor_type| Self::EXACT_TYPES.contains(&tensor_type))
        {
            Self::Exact
        } else {
            Self::Seeded
        }
    }
}

/// Engine, build and reproducibility, as the run's `provenance` tag shows them.
pub(crate) fn provenance(level: Reproducibility) -> String {
    let level = format!("{level:?}").to_lowercase();
    format!("llama.cpp {ENGINE} {} {level}", build_features())
}

/// What this build of ggml was compiled for, such as `ggml 0.26.0 avx2 fma f16c openmp`.
///
/// It is part of the provenance because builds for different instruction sets round differently.
#[expect(
    unsafe_code,
    reason = "the wrapper does not expose ggml_version and llama_print_system_info"
)]
fn build_features() -> &'static str {
    static FEATURES: OnceLock<String> = OnceLock::new();
    FEATURES.get_or_init(|| {
        // SAFETY: both return NUL-terminated strings that live as long as the process; the
        // second one rewrites its buffer on each call, and we call it once.
        let (version, info) = unsafe {
            (
                CStr::from_ptr(llama_cpp_sys_2::ggml_version()),
                CStr::from_ptr(llama_cpp_sys_2::llama_print_system_info()),
            )
        };
        format!(
            "ggml {} {}",
            version.to_string_lossy(),
            enabled_features(&info.to_string_lossy())
        )
    })
}

/// `CPU : AVX = 1 | AVX2 = 1 | FMA = 0 |` → `avx avx2`.
fn enabled_features(system_info: &str) -> String {
    system_info
        .split([':', '|'])
        .filter_map(|part| part.trim().strip_suffix("= 1"))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Computes with so many threads from the next batch on.
#[expect(
    unsafe_code,
    reason = "the wrapper does not expose llama_set_n_threads"
)]
pub(crate) fn set_threads(context: &mut LlamaContext<'_>, threads: i32) {
    let Some(address) = address_in(&format!("{context:?}")) else {
        return;
    };
    let pointer = std::ptr::with_exposed_provenance_mut::<llama_cpp_sys_2::llama_context>(address);
    // SAFETY: the address is that of the live context, which is borrowed mutably here, so nothing
    // else uses it; the function sets two numbers.
    unsafe { llama_cpp_sys_2::llama_set_n_threads(pointer, threads, threads) }
}

/// The wrapper (of exactly this version) keeps its pointer to itself, except in its debug output.
fn address_in(debug: &str) -> Option<usize> {
    let text = debug.strip_prefix("LlamaContext { context: 0x")?;
    usize::from_str_radix(text.strip_suffix(" }")?, 16).ok()
}

/// Quantises `from` to `Q4_0` into `to`; returns whether llama.cpp succeeded.
#[expect(
    unsafe_code,
    reason = "the wrapper does not expose llama_model_quantize"
)]
pub(crate) fn requantise_q4_0(from: &Path, to: &Path) -> bool {
    let c_path = |path: &Path| path.to_str().and_then(|text| CString::new(text).ok());
    let (Some(_backend), Some(from), Some(to)) = (backend(), c_path(from), c_path(to)) else {
        return false;
    };
    // SAFETY: the paths are NUL-terminated and outlive the call, the parameters are
    // llama.cpp's own defaults with two plain fields changed, and llama.cpp catches its
    // exceptions inside and answers with a status.
    let status = unsafe {
        let mut params = llama_cpp_sys_2::llama_model_quantize_default_params();
        params.ftype = llama_cpp_sys_2::LLAMA_FTYPE_MOSTLY_Q4_0;
        params.allow_requantize = true;
        llama_cpp_sys_2::llama_model_quantize(from.as_ptr(), to.as_ptr(), &raw const params)
    };
    status == 0
}

#[cfg(test)]
mod tests {
    use super::{Reproducibility, address_in, enabled_features};

    #[test]
    fn only_measured_types_are_called_exact() {
        let level = |fast, types: &[u32]| Reproducibility::new(fast, types.iter().copied());
        let q4_k = 12;
        assert_eq!(level(false, &[0, q4_k]), Reproducibility::Seeded);
        assert_eq!(level(true, &[0, 3]), Reproducibility::Fast);
        #[cfg(target_arch = "x86_64")]
        assert_eq!(level(false, &[0, 3]), Reproducibility::Exact);
    }

    #[test]
    fn nothing_but_the_known_form_is_an_address() {
        assert_eq!(address_in("LlamaContext { context: 0x7f00 }"), Some(0x7f00));
        for other in ["LlamaContext { context: 0x7f00, more: 1 }", "0x7f00", ""] {
            assert_eq!(address_in(other), None, "{other}");
        }
    }

    #[test]
    fn only_enabled_features_are_named() {
        let info = "CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 0 | OPENMP = 1 | ";
        assert_eq!(enabled_features(info), "sse3 avx2 openmp");
    }
}
