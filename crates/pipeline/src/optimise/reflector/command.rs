//! A program as reflector: the packet as JSON on stdin, the answer as JSON on stdout.
//!
//! The program is started as it is named, without a shell. Besides the packet's fields it gets `text`,
//! the whole request with models' output fenced, ready to be passed on to a model; after an answer
//! that could not be used also `problems`.

use std::process::Command;

use assize_optimise::Packet;
use serde_json::{Value, json};

use super::{ReflectContext, Reflection, ask_twice};
use crate::process::{self, CommandOutput, Limits};
use crate::{PipelineError, Result};

/// The most output that is read: far more than any valid answer has.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

pub fn ask(words: &[String], packet: &Packet, context: &ReflectContext<'_>) -> Result<Reflection> {
    let nonce = context.nonce()?;
    ask_twice(packet, |rejected| {
        let problems = rejected.map_or(&[][..], |(_, problems)| problems);
        let input = input(packet, &nonce, problems)?;
        run(words, &input, context).map(|answer| (answer, 0.0))
    })
}

fn input(packet: &Packet, nonce: &str, problems: &[String]) -> Result<String> {
    let mut input = serde_json::to_value(packet)
        .map_err(|error| PipelineError::Internal(format!("a packet is not JSON: {error}")))?;
    input["text"] = Value::from(packet.to_text(nonce));
    if !problems.is_empty() {
        input["problems"] = json!(problems);
    }
    Ok(input.to_string())
}

fn run(words: &[String], input: &str, context: &ReflectContext<'_>) -> Result<String> {
    let [program, arguments @ ..] = words else {
        return Err(PipelineError::Internal(
            "a command without words".to_owned(),
        ));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let limits = Limits {
        timeout: context.timeout,
        timeout_name: "--timeout",
        most_bytes: MOST_BYTES,
        on_stderr: None,
        stopped: &|| context.is_stopped(),
    };
    match process::ask(command, input, &limits) {
        CommandOutput::Printed(answer) if answer.trim().is_empty() => {
            Err(PipelineError::Service(format!(
                "the reflector cmd:{} ended without an error and printed nothing. The packet stays open: let the \
                 command print {{\"children\":[…]}}, and run the step again",
                words.join(" ")
            )))
        }
        CommandOutput::Printed(answer) => Ok(answer),
        CommandOutput::Failed(reason) => Err(PipelineError::Service(format!(
            "the reflector cmd:{} failed: {reason}. The packet stays open: correct the command and run the step \
             again",
            words.join(" ")
        ))),
        CommandOutput::Interrupted => Err(PipelineError::Interrupted),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use assize_domain::hash::hex;

    use super::super::tests::{context, guard, packet};
    use super::super::{Asked, Reflector};
    use super::*;

    fn asked(line: &str) -> Result<Reflection> {
        let (_folder, guard) = guard();
        let reflector = Reflector::parse(&format!("cmd:{line}"))?;
        match reflector.ask(&packet(), &context(&guard))? {
            Asked::Answered(reflection) => Ok(reflection),
            Asked::Waits => unreachable!("a command answers"),
        }
    }

    /// A program that prints what the shell's `printf` makes of this, after it has read its input.
    fn printing(folder: &std::path::Path, script: &str) -> String {
        let path = folder.join("reflect.sh");
        std::fs::write(&path, script).expect("a script");
        format!("sh {}", path.display())
    }

    #[test]
    fn the_packet_goes_in_and_children_come_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let seen = folder.path().join("seen.json");
        let script = format!(
            "cat > {}\nprintf '%s' '{{\"children\":[{{\"hypothesis\":\"h\",\"template\":\"T {{{{ persona }}}}\"}}]}}'\n",
            seen.display()
        );
        let reflection = asked(&printing(folder.path(), &script)).expect("answered");
        assert_eq!(reflection.problem, None);
        assert_eq!(reflection.children[0].template, "T {{ persona }}");
        let seen = std::fs::read_to_string(seen).expect("seen");
        let seen: Value = serde_json::from_str(&seen).expect("JSON");
        assert_eq!(seen["id"], "p1");
        assert!(seen.get("problems").is_none());
        let text = seen["text"].as_str().expect("a text");
        let nonce = hex(&[7; 8]);
        assert!(
            text.contains(&format!("<<<output {nonce}\nDo it. ‹|im_end|›")),
            "{text}"
        );
    }

    #[test]
    fn an_unusable_answer_is_sent_back_once_with_its_problems() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().display();
        let script =
            format!("echo x >> {path}/calls\ncat > {path}/seen.json\necho '{{\"children\":[]}}'\n");
        let reflection = asked(&printing(folder.path(), &script)).expect("answered");
        assert!(reflection.children.is_empty());
        let problem = reflection.problem.expect("a problem");
        assert!(problem.contains("children is empty"), "{problem}");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
        assert_eq!(read("calls").lines().count(), 2);
        let seen: Value = serde_json::from_str(&read("seen.json")).expect("JSON");
        assert!(
            seen["problems"][0]
                .as_str()
                .is_some_and(|it| it.contains("children is empty"))
        );
    }

    #[test]
    fn a_program_that_fails_is_an_error_with_its_last_words() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = asked(&printing(folder.path(), "echo no key >&2; exit 4")).expect_err("failed");
        let words = error.to_string();
        assert!(
            words.contains("no key") && words.contains("run the step again"),
            "{words}"
        );
        let error = asked("no-such-program --x")
            .expect_err("failed")
            .to_string();
        assert!(error.contains("cannot be started"), "{error}");
        let error = asked("true").expect_err("silent").to_string();
        assert!(
            error.contains("cmd:true") && error.contains("packet stays open"),
            "{error}"
        );
        // Without a shell, what only a shell understands is an argument like any other.
        let echoed = asked("echo '{}' ; true").expect("answered");
        assert!(echoed.problem.is_some());
    }
}
