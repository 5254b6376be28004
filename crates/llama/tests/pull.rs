//! Pulling weights from files and URLs: a file is complete or absent.
#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use assize_llama::{Progress, PullError, Pulled, pull};

/// The smallest valid GGUF file: one tensor, no metadata.
fn tiny_gguf() -> Vec<u8> {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3_u32.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(1_u64.to_le_bytes());
    bytes.extend(b"t");
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend(8_u64.to_le_bytes());
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend(0_u64.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(32) + 32, 7);
    bytes
}

fn quietly(models_dir: &Path, what: &str) -> Result<Pulled, PullError> {
    pull(models_dir, what, &mut |_| {})
}

/// Everything in the directory but the lock.
fn contents(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".pull.lock")
        .collect();
    names.sort();
    names
}

fn file(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_local_file_is_kept_under_its_stem() {
    let (models, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = file(elsewhere.path(), "my-model.gguf", &tiny_gguf());
    let pulled = quietly(models.path(), source.to_str().unwrap()).unwrap();
    assert_eq!(pulled.name, "my-model");
    assert!(pulled.is_new);
    assert_eq!(std::fs::read(&pulled.path).unwrap(), tiny_gguf());
    assert_eq!(contents(models.path()), ["my-model.gguf"]);
    assert!(
        !quietly(models.path(), source.to_str().unwrap())
            .unwrap()
            .is_new
    );
    assert!(
        !quietly(models.path(), pulled.path.to_str().unwrap())
            .unwrap()
            .is_new
    );
    assert!(source.is_file(), "the original stays");
}

#[test]
fn what_is_no_model_is_refused_and_leaves_nothing() {
    let (models, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let whole = tiny_gguf();
    let page = file(elsewhere.path(), "page.gguf", b"<!doctype html>");
    let cut = file(elsewhere.path(), "cut.gguf", &whole[..whole.len() - 32]);
    for source in [page, cut, elsewhere.path().join("missing.gguf")] {
        let error = quietly(models.path(), source.to_str().unwrap()).unwrap_err();
        assert!(matches!(error, PullError::Unusable { .. }), "{error}");
    }
    let error = quietly(models.path(), "no-such-model")
        .unwrap_err()
        .to_string();
    assert!(error.contains("smollm2-135m"), "{error}");
    assert_eq!(contents(models.path()), Vec::<String>::new());
}

#[test]
fn what_a_killed_pull_left_is_swept() {
    let (models, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let left = models.path().join(".pull");
    std::fs::create_dir(&left).unwrap();
    file(&left, "download.gguf", b"half");
    let source = file(elsewhere.path(), "m.gguf", &tiny_gguf());
    quietly(models.path(), source.to_str().unwrap()).unwrap();
    assert_eq!(contents(models.path()), ["m.gguf"]);
}

#[test]
fn pulls_at_once_wait_for_each_other() {
    let (models, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = file(elsewhere.path(), "m.gguf", &tiny_gguf());
    let new: usize = std::thread::scope(|scope| {
        let pulls: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| quietly(models.path(), source.to_str().unwrap())))
            .collect();
        pulls
            .into_iter()
            .map(|pull| usize::from(pull.join().unwrap().unwrap().is_new))
            .sum()
    });
    assert_eq!(new, 1);
    assert_eq!(contents(models.path()), ["m.gguf"]);
}

/// Serves one response on a port of its own and returns the address of a model there.
fn serve(announced_bytes: usize, body: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _read = stream.read(&mut request).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {announced_bytes}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
    });
    format!("http://{address}/models/remote.gguf?download=true")
}

#[test]
fn an_address_is_downloaded_with_progress() {
    let models = tempfile::tempdir().unwrap();
    let body = tiny_gguf();
    let url = serve(body.len(), body.clone());
    let mut last = None;
    let pulled = pull(models.path(), &url, &mut |progress| last = Some(progress)).unwrap();
    assert_eq!(pulled.name, "remote");
    assert_eq!(std::fs::read(pulled.path).unwrap(), body);
    let total = body.len() as u64;
    assert_eq!(
        last,
        Some(Progress::Bytes {
            done_bytes: total,
            total_bytes: Some(total)
        })
    );
}

#[test]
fn a_download_that_breaks_off_leaves_nothing() {
    let models = tempfile::tempdir().unwrap();
    let body = tiny_gguf();
    let url = serve(body.len() + 1000, body);
    let error = quietly(models.path(), &url).unwrap_err();
    assert!(matches!(error, PullError::Unavailable { .. }), "{error}");
    assert_eq!(contents(models.path()), Vec::<String>::new());
}
