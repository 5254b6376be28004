//! Commands that Assize prints as the next step work as they are printed: they are collected from the
//! output of real runs and given to a shell.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::process::Command;

use assize_test_support::promotion_task::{self, Tip, ahead, score};
use assize_test_support::{Outcome, Scratch, binary, script, write_small_task};
use serde_json::{Value, json};

#[path = "../optimise/fixture.rs"]
#[expect(dead_code, reason = "the tests of the prompt loop use the rest")]
mod fixture;

/// What stands before a command that is to be typed.
const LEADS: [&str; 5] = ["Next: ", "then ", "undo: ", "See: ", "or "];

/// The commands of an output; lines that end with a backslash go on.
fn suggestions(output: &str) -> Vec<String> {
    let mut joined = String::new();
    for line in output.lines() {
        match line.strip_suffix('\\') {
            Some(part) => joined.push_str(&format!("{} ", part.trim())),
            None => joined.push_str(&format!("{}\n", line.trim())),
        }
    }
    let command = |line: &str| {
        let at = line.find("assize ")?;
        let before = &line[..at];
        let is_typed = before.is_empty() || LEADS.iter().any(|lead| before.ends_with(lead));
        // Advice that goes on in another line may begin with the name of a command there.
        let is_prose = line.ends_with('.');
        (is_typed && !is_prose).then(|| line[at..].to_owned())
    };
    joined.lines().filter_map(command).collect()
}

/// A folder with a shell whose `assize` is this binary.
struct Shell {
    scratch: Scratch,
    ran: BTreeSet<String>,
    /// What every open score is filled in with; by the candidate's length where it is not set.
    level: Option<usize>,
}

impl Shell {
    fn new(scratch: Scratch) -> Self {
        std::fs::create_dir(scratch.file("bin")).expect("a folder");
        symlink(binary(), scratch.file("bin/assize")).expect("a link");
        Self {
            scratch,
            ran: BTreeSet::new(),
            level: None,
        }
    }

    fn sh(&self, line: &str) -> Outcome {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(self.scratch.path())
            .env_clear()
            .env(
                "PATH",
                format!("{}:{path}", self.scratch.file("bin").display()),
            )
            .env("HOME", self.scratch.path())
            .env("USER", "tester")
            .env("ASSIZE_CACHE_DIR", self.scratch.file("cache"));
        Outcome::of(&command.output().expect("a shell"))
    }

    /// Runs a command, and then everything that it and its successors suggest, each once.
    fn follow(&mut self, line: &str) {
        let mut waiting = vec![(line.to_owned(), String::new())];
        while let Some((line, suggested_by)) = waiting.pop() {
            if !self.ran.insert(line.clone()) {
                continue;
            }
            // These need an engine or run until they are stopped: their arguments are checked.
            let is_endless = ["assize demo", "assize serve"].contains(&line.as_str());
            let typed = if is_endless {
                format!("{line} --help")
            } else {
                line.clone()
            };
            if line.contains("judge apply judge.json") {
                self.fill_in("judge.json");
            }
            let outcome = self.sh(&typed);
            assert!(
                matches!(outcome.code, 0 | 3),
                "{line}\nsuggested by {suggested_by}\n{outcome}"
            );
            for next in suggestions(&format!("{}\n{}", outcome.stdout, outcome.stderr)) {
                waiting.insert(0, (next, line.clone()));
            }
        }
    }

    /// Runs a command that was run before, and everything that it suggests, once more.
    fn follow_again(&mut self, line: &str) {
        self.ran.clear();
        self.follow(line);
    }

    /// Does what a person does between export and apply.
    fn fill_in(&self, file: &str) {
        let mut content = self.scratch.read_json(file);
        for case in content["cases"].as_array_mut().expect("cases") {
            let text = case["candidate"].as_str().unwrap_or_default().to_owned();
            if text.split(' ').all(|it| it.parse::<i64>().is_ok()) {
                score(case, |it| [it[0], it[1], it[2], it[3]]);
                continue;
            }
            let level = self.level.unwrap_or(1 + text.len() % 3);
            let scores = case["scores"].as_object_mut().expect("scores");
            for score in scores.values_mut().filter(|it| it.is_null()) {
                *score = json!(level);
            }
        }
        self.scratch.write(file, &content.to_string());
    }

    fn has_run(&self, words: &str) -> bool {
        self.ran.iter().any(|line| line.contains(words))
    }
}

#[test]
fn the_way_from_a_plan_to_a_champion_can_be_typed_as_printed() {
    // p2 is better than p1, and p3 than p2.
    let scratch = promotion_task::scratch(|prompt, s, k| match prompt {
        "p3" => {
            let tip = ahead("p2", s, k);
            Tip {
                tone: tip.tone + 1,
                auto_tone: tip.auto_tone + 1,
                ..tip
            }
        }
        prompt => ahead(prompt, s, k),
    });
    let mut shell = Shell::new(scratch);
    shell
        .scratch
        .write("assize.toml", "[gate]\nrequire = [\"expert\"]\n");
    shell.follow("assize experiments list");
    shell.follow("assize token list");
    shell.follow("assize init 'a copy'");
    shell.follow(
        "assize plan --task task --models scripted:m --script script.json --n-tips 2 --experiment e \
         --simulations 50",
    );
    for words in [
        "validate 'a copy'",
        "token create --role admin",
        "collect --models scripted:m",
        "judge export --experiment e",
        "judge apply judge.json",
        "compare --experiment e",
        "promote --experiment e",
        "--split confirmation",
    ] {
        assert!(shell.has_run(words), "{words}: {:#?}", shell.ran);
    }
    // After what was suggested, the gate passes; what it prints can be undone or says that it cannot.
    shell.follow("assize judge status --experiment e --task task");
    shell.follow("assize promote history --task task");
    shell.follow("assize promote --experiment e --task task --candidate scripted:m/p2 --incumbent scripted:m/p1 --note a");
    shell.follow("assize promote --experiment e --task task --note b");
    shell.follow("assize judge reopen --experiment e --task task --tier expert");
    shell.follow("assize judge export --experiment e --task task --out -");
}

#[test]
fn the_commands_after_an_adaptive_collection_work() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 12);
    let scenarios = scratch.read("task/scenarios.jsonl");
    let more: Vec<String> = (0..6)
        .map(|n| json!({"id": format!("c{n}"), "topic": "x", "split": "confirmation"}).to_string())
        .collect();
    scratch.write(
        "task/scenarios.jsonl",
        &format!("{scenarios}\n{}", more.join("\n")),
    );
    let mut models: Value =
        serde_json::from_str(&script(&[("good", &["fine"]), ("poor", &["bad"])])).expect("JSON");
    models["models"]["judge"] = json!({"parameter_count": 1, "responses": [
        {"prompt": "*", "scenario": "*", "texts": ["{\"reason\":\"so so\",\"worth\":2}"]}]});
    scratch.write("a script.json", &models.to_string());
    let mut shell = Shell::new(scratch);
    shell.follow(
        "assize collect --task task --experiment e --script 'a script.json' --n-tips 2 \
         --models scripted:poor,scripted:good --adaptive --judge scripted:judge",
    );
    assert!(shell.has_run("--split confirmation"), "{:#?}", shell.ran);
    assert!(
        shell.has_run("assize promote --experiment e"),
        "{:#?}",
        shell.ran
    );
}

#[test]
fn the_commands_of_the_prompt_loop_work() {
    let mut shell = Shell::new(fixture::scratch(&fixture::fixing_rounds()));
    shell.follow(&format!("assize {}", fixture::START));
    assert!(
        shell.has_run("optimise step --experiment e"),
        "{:#?}",
        shell.ran
    );
    assert!(
        shell.has_run("judge export --experiment e"),
        "{:#?}",
        shell.ran
    );
    assert!(shell.has_run("judge apply judge.json"), "{:#?}", shell.ran);
    shell.follow_again("assize optimise step --experiment e");
    shell.follow_again("assize optimise status --experiment e");
    shell.follow_again("assize compare --experiment e");
    shell.follow_again("assize optimise stop --experiment e");
    // The loop promotes its winner itself.
    shell.follow_again("assize compare --experiment e");
    assert!(!shell.has_run("assize promote"), "{:#?}", shell.ran);
}

#[test]
fn the_commands_of_a_loop_that_needs_no_judge_lead_to_a_file() {
    let scratch = fixture::scratch(&fixture::fixing_rounds());
    fixture::compute(&scratch);
    let mut shell = Shell::new(scratch);
    shell.follow(&format!(
        "assize {}",
        fixture::START.replace("--judge scripted:j ", "")
    ));
    assert!(
        shell.has_run("> task/prompts/p1.r2c1.md"),
        "{:#?}",
        shell.ran
    );
    let kept = shell.scratch.read("task/prompts/p1.r2c1.md");
    assert!(kept.contains("be brief, be kind"), "{kept}");
    assert!(!shell.has_run("judge export"), "{:#?}", shell.ran);
}

#[test]
fn the_release_of_a_sitting_and_a_copy_can_be_typed_as_printed() {
    let mut shell = Shell::new(Scratch::collected(2, 2));
    // Everything is worth 1, whatever the calibration cases are meant to be.
    shell.level = Some(1);
    shell.follow("assize judge export --experiment e --out judge.json");
    assert!(shell.has_run("assize judge release "), "{:#?}", shell.ran);
    assert!(
        shell.has_run("assize compare --experiment e"),
        "{:#?}",
        shell.ran
    );
    shell.follow(
        "assize sync --from sqlite:.assize/assize.db --to 'sqlite:a copy.db' --experiment e",
    );
    assert!(
        shell.has_run("--tracking-uri 'sqlite:a copy.db'"),
        "{:#?}",
        shell.ran
    );
}

#[test]
fn the_command_after_scores_that_could_not_be_computed_computes_them() {
    let scratch = Scratch::new();
    write_small_task(&scratch, 2);
    scratch.write(
        "task/rubric.md",
        "+++\nid = \"small-v1\"\ncomposite = \"worth + ok\"\n[[criteria]]\nname = \"worth\"\nmax = 3\n\
         [criteria.computed]\ncommand = [\"sh\", \"score.sh\"]\n[[flags]]\nname = \"ok\"\n+++\nScore it.\n",
    );
    // It fails as long as there is no file `up`, which it makes itself when it has failed often enough.
    scratch.write(
        "task/score.sh",
        "echo x >> ../tries\n[ $(wc -l < ../tries) -gt 4 ] || exit 1\necho 2\n",
    );
    scratch.write("script.json", &script(&[("m", &["fine"])]));
    let mut shell = Shell::new(scratch);
    let collect = "assize collect --task task --experiment e --script script.json --n-tips 1 --models scripted:m";
    let collected = shell.sh(collect);
    assert_eq!(collected.code, 4, "{collected}");
    let next = suggestions(&collected.stderr);
    assert_eq!(next.len(), 1, "{collected}");
    shell.follow(&next[0]);
    let board = shell.scratch.board("e");
    assert_eq!(board["coverage"]["pending"], 0, "{board}");
}
