//! `assize import` and `assize init --template`.

use assize_test_support::{Scratch, script};
use serde_json::{Value, json};

/// The scenarios of an imported task.
fn scenarios(scratch: &Scratch, task: &str) -> Vec<Value> {
    let text = scratch.read(&format!("{task}/scenarios.jsonl"));
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Collects the whole task with one answer for everything, and returns the row of the only pair.
fn collected(scratch: &Scratch, task: &str, answer: &str) -> Value {
    scratch.write("script.json", &script(&[("m", &[answer])]));
    scratch.ok(&format!(
        "collect --task {task} --models scripted:m --script script.json --experiment {task} --prompts v1 --n-tips 1"
    ));
    scratch.board(task)["rows"][0].clone()
}

#[test]
fn known_answers_decide_how_a_data_set_is_scored() {
    let scratch = Scratch::new();
    let cases = [
        (
            "labels.csv",
            "Text;Label\nnice;good\nbad day;bad\nfine;good\nawful;bad\n",
            "Good.",
            0.5,
        ),
        (
            "numbers.tsv",
            "question\tanswer\n1+1\t2\n10*10\t100\n1/2\t0.5\n",
            "It is 100",
            1.0 / 3.0,
        ),
        (
            "choices.jsonl",
            "{\"input\":\"2+2?\",\"choices\":[\"3\",\"4\"],\"target\":\"B\"}\n{\"input\":\"3+3?\",\"choices\":[\"6\",\"7\"],\"target\":0}\n",
            "B) four",
            0.5,
        ),
        (
            "squad.json",
            "{\"data\":[{\"id\":\"Q 1\",\"context\":\"c\",\"question\":\"q\",\"answers\":{\"text\":[\"the Rhine\",\"Rhine\"],\"answer_start\":[1,5]}},\
             {\"id\":\"Q 2\",\"context\":\"c\",\"question\":\"q\",\"answers\":{\"text\":[\"Elbe\",\"the Elbe\"],\"answer_start\":[1,5]}}]}",
            "rhine",
            0.5,
        ),
        (
            "orders.jsonl",
            "{\"text\":\"two pens\",\"target\":{\"item\":\"pen\",\"n\":2}}\n{\"text\":\"one cup\",\"target\":{\"item\":\"cup\",\"n\":1}}\n",
            "{\"item\": \"Pen\", \"n\": 1}",
            1.0,
        ),
    ];
    for (file, text, answer, expected) in cases {
        scratch.write(file, text);
        let task = file.split('.').next().expect("a stem");
        scratch.ok(&format!("import dataset {file} {task}"));
        scratch.ok(&format!("validate {task}"));
        let row = collected(&scratch, task, answer);
        let mean = row["composite"]["mean"].as_f64().unwrap_or(f64::NAN);
        assert!((mean - expected).abs() < 1e-9, "{file}: {row}");
    }
    assert_eq!(scenarios(&scratch, "squad")[0]["id"], "q-1");
    assert_eq!(scenarios(&scratch, "choices")[1]["reference"], "A");
    let prompt = scratch.read("labels/prompts/v1.md");
    assert!(
        prompt.contains("good, bad") && prompt.contains("{{ text }}"),
        "{prompt}"
    );
    assert!(!prompt.contains("reference"), "models never see the answer");
}

#[test]
fn free_text_is_for_judges() {
    let scratch = Scratch::new();
    scratch.write(
        "news.csv",
        "article,summary,split,metadata\nA long story.,\"Short, and true.\",train,\"{\"\"source\"\": \"\"x\"\"}\"\nAnother one.,Different.,test,{}\n",
    );
    let outcome = scratch.ok("import dataset news.csv news --json").json();
    assert_eq!(
        (&outcome["scenarios"], &outcome["prompts"]),
        (&json!(2), &json!(1))
    );
    let notes = outcome["notes"].to_string();
    assert!(
        notes.contains("test, train") && notes.contains("too few"),
        "{notes}"
    );
    assert_eq!(
        scratch.read("news/import-notes.md").matches("\n- ").count(),
        2
    );
    let scenario = &scenarios(&scratch, "news")[0];
    assert_eq!(scenario["reference"], "Short, and true.");
    assert_eq!(scenario["metadata"]["source"], "x");
    assert_eq!(scratch.read("news/prompts/v1.md"), "{{ article }}\n");
    scratch.write("script.json", &script(&[("m", &["x"])]));
    scratch.ok(
        "collect --task news --models scripted:m --script script.json --experiment e --n-tips 1",
    );
    assert_eq!(
        scratch.board("e")["coverage"]["pending"],
        2,
        "it waits for a judge"
    );
}

#[test]
fn columns_are_renamed_in_either_order() {
    let scratch = Scratch::new();
    scratch.write("d.csv", "problem,gold_label\na,x\nb,y\nc,x\nd,y\n");
    scratch.ok("import dataset d.csv one --map problem=question --map gold_label=target");
    scratch.ok("import dataset d.csv two --map question=problem --map target=gold_label");
    assert_eq!(
        scratch.read("one/scenarios.jsonl"),
        scratch.read("two/scenarios.jsonl")
    );
    assert_eq!(
        scenarios(&scratch, "one")[0],
        json!({"id": "case-1", "question": "a", "reference": "x"})
    );
    let unknown = scratch.fails(2, "import dataset d.csv three --map nope=target");
    assert!(
        unknown
            .stderr
            .contains("its columns are problem, gold_label"),
        "{unknown}"
    );
    scratch.fails(2, "import dataset d.csv three --map problem");
    assert!(!scratch.file("three").exists());
}

#[test]
fn nothing_is_half_written() {
    let scratch = Scratch::new();
    scratch.write("bad.csv", "a,a\n1,2\n1\n");
    let refused = scratch.fails(2, "import dataset bad.csv task");
    assert!(
        refused
            .stderr
            .contains("2 problems in bad.csv; nothing was written"),
        "{refused}"
    );
    scratch.write("good.csv", "question,answer\na,1\n");
    scratch.write("full/file.txt", "mine");
    let refused = scratch.fails(2, "import dataset good.csv full");
    assert!(refused.stderr.contains("full is not empty"), "{refused}");
    assert_eq!(scratch.read("full/file.txt"), "mine");
    let missing = scratch.fails(1, "import dataset nothing.csv task");
    assert!(missing.stderr.contains("nothing.csv"), "{missing}");
    std::fs::write(scratch.file("latin.csv"), b"question,answer\ncaf\xe9,1\n").expect("a file");
    let latin = scratch.fails(1, "import dataset latin.csv task");
    assert!(latin.stderr.contains("not UTF-8 in line 2"), "{latin}");
    scratch.fails(2, "import dataset good.parquet task");
    let left: Vec<String> = std::fs::read_dir(scratch.path())
        .expect("a folder")
        .map(|it| {
            it.expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|it| it == "task" || it.contains("partial"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    // An empty folder is as good as a new one.
    std::fs::create_dir(scratch.file("empty")).expect("a folder");
    scratch.ok("import dataset good.csv empty");
    scratch.ok("validate empty");
}

#[test]
fn templates_are_tasks_that_can_be_collected() {
    let scratch = Scratch::new();
    let answers = [
        ("classify", "billing", false),
        (
            "extract",
            "```json\n{\"product\": \"M6 bolts\", \"quantity\": 40, \"city\": \"Graz\"}\n```",
            false,
        ),
        ("summarise", "Two leaks are closed.", true),
        ("chat", "A technician can come tomorrow.", true),
        ("empty", "Yes.", true),
    ];
    for (template, answer, is_judged) in answers {
        let task = format!("my-{template}");
        let wrote = scratch.ok(&format!("init {task} --template {template}"));
        assert!(wrote.stderr.contains("task.toml"), "{wrote}");
        scratch.ok(&format!("validate {task}"));
        assert!(
            scratch
                .read(&format!("{task}/task.toml"))
                .starts_with(&format!("name = \"{task}\""))
        );
        scratch.write("script.json", &script(&[("m", &[answer])]));
        scratch.ok(&format!(
            "collect --task {task} --models scripted:m --script script.json --experiment {task}"
        ));
        let board = scratch.board(&task);
        assert_eq!(
            board["coverage"]["pending"].as_u64() > Some(0),
            is_judged,
            "{template}: {board}"
        );
    }
    assert_eq!(
        scratch.board("my-classify")["rows"][0]["composite"]["mean"],
        0.25
    );
    let unknown = scratch.fails(2, "init other --template nothing");
    assert!(unknown.stderr.contains("classify"), "{unknown}");
}
