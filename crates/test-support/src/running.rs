//! The binary while it runs. Its output goes to files, so that a test can read it meanwhile.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::{Args, Outcome, Scratch};

const TIMEOUT: Duration = Duration::from_mins(3);
const POLL: Duration = Duration::from_millis(10);

/// A process of the binary that has been started and not waited for.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Starts the binary; its output files in the scratch folder have this name.
    pub fn start(scratch: &Scratch, name: &str, args: impl Args) -> Self {
        Self::spawn(scratch, name, scratch.command(args))
    }

    /// Starts a command that was made by [`Scratch::command`].
    pub fn spawn(scratch: &Scratch, name: &str, mut command: Command) -> Self {
        let stdout = scratch.file(&format!("{name}.out"));
        let stderr = scratch.file(&format!("{name}.err"));
        let child = command
            .stdout(File::create(&stdout).expect("a file"))
            .stderr(File::create(&stderr).expect("a file"))
            .spawn()
            .expect("the binary starts");
        Self {
            child,
            stdout,
            stderr,
        }
    }

    /// Waits until the standard output is as expected.
    pub fn wait_for_stdout(&mut self, is_so: impl Fn(&str) -> bool) {
        self.wait_for(|running| is_so(&read(&running.stdout)));
    }

    /// Waits until the standard error is as expected.
    pub fn wait_for_stderr(&mut self, is_so: impl Fn(&str) -> bool) {
        self.wait_for(|running| is_so(&read(&running.stderr)));
    }

    fn wait_for(&mut self, is_so: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            let ended = self.child.try_wait().expect("a status");
            let in_vain = ended.is_some() && !is_so(self);
            assert!(
                !in_vain && started.elapsed() < TIMEOUT,
                "waited in vain; exit status {ended:?}\n--- stdout\n{}\n--- stderr\n{}",
                read(&self.stdout),
                read(&self.stderr)
            );
            std::thread::sleep(POLL);
        }
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends the signal of Ctrl-C.
    pub fn interrupt(&self) {
        let sent = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }

    /// Ends it as `kill -9` does.
    pub fn kill(mut self) {
        self.child.kill().expect("it was running");
        self.child.wait().expect("it ended");
    }

    /// Waits for its end.
    pub fn finish(mut self) -> Outcome {
        let status = self.child.wait().expect("it ended");
        Outcome {
            code: status.code().unwrap_or(-1),
            stdout: read(&self.stdout),
            stderr: read(&self.stderr),
        }
    }
}

fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).expect("an output file");
    String::from_utf8_lossy(&bytes).into_owned()
}
