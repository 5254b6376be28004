//! The files that depend on what is asked and how answers are compared.

use assize_domain::run::metric;
use assize_domain::task::TaskFiles;

use super::Source;
use super::answers::Answers;
use super::columns::Columns;
use crate::names::{self, Unique};
use crate::write::{literal, quoted};

/// What the task asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Classify,
    Number,
    Choose,
    Answer,
    Extract,
    /// Free text that a judge compares with the known answer.
    Write,
    /// Free text without a known answer.
    Judge,
}

impl Kind {
    pub fn of(answers: &Answers) -> Self {
        match answers {
            Answers::None => Self::Judge,
            Answers::Labels(..) => Self::Classify,
            Answers::Numbers(_) => Self::Number,
            Answers::Choices(..) => Self::Choose,
            Answers::Accepted(_) => Self::Answer,
            Answers::Objects(..) => Self::Extract,
            Answers::Texts(_) => Self::Write,
        }
    }

    /// Everything but the scenarios.
    pub fn files(self, source: Source<'_>, columns: &Columns, answers: &Answers) -> TaskFiles {
        let name = names::task(source.name);
        let mut files = TaskFiles::new();
        files.insert("task.toml".to_owned(), self.task(source, &name));
        files.insert("rubric.md".to_owned(), self.rubric(&name, answers));
        for (version, text) in self.prompts(columns, answers) {
            files.insert(format!("prompts/{version}.md"), text);
        }
        files
    }

    fn task(self, source: Source<'_>, name: &str) -> String {
        let about = quoted(&format!("Imported from {}.", source.file));
        let (max_tokens, output) = match self {
            Self::Classify | Self::Number | Self::Choose => (32, ""),
            Self::Answer => (64, ""),
            Self::Extract => (256, "\n[output]\nformat = \"json\"\nfences = \"strip\"\n"),
            Self::Write | Self::Judge => (256, ""),
        };
        let candidates = if self.is_computed() { 1 } else { 3 };
        format!(
            "name = {}\ndescription = {about}\nscenarios = \"scenarios.jsonl\"\n{output}\n[defaults]\nn_tips = {candidates}\n\
             max_tokens = {max_tokens}\n",
            quoted(name)
        )
    }

    /// Whether rules score everything.
    fn is_computed(self) -> bool {
        !matches!(self, Self::Write | Self::Judge)
    }

    fn rubric(self, name: &str, answers: &Answers) -> String {
        let loose = "ignore = [\"case\", \"whitespace\", \"punctuation\"]";
        let (title, rule) = match self {
            Self::Classify => (
                "The right label",
                format!("equals = \"{{{{ reference }}}}\"\n{loose}"),
            ),
            Self::Number => (
                "The right number",
                "number = \"{{ reference }}\"".to_owned(),
            ),
            Self::Choose => (
                "The right choice",
                "matches = '(?i)^\\W*{{ reference }}\\b'".to_owned(),
            ),
            Self::Answer => (
                "A right answer",
                format!("one_of = \"{{{{ accepted }}}}\"\n{loose}"),
            ),
            Self::Extract => return extract(name, answers),
            Self::Write | Self::Judge => return self.judged(name),
        };
        format!(
            "+++\nid = \"{name}-v1\"\ntitle = \"{title}\"\ncomposite = \"correct\"\n\n[[criteria]]\nname = \"correct\"\n\
             question = \"Is it the known answer?\"\n[criteria.computed]\n{rule}\n+++\n# How outputs are scored\n\n\
             A rule compares every output with the scenario's known answer. No judge is asked.\n"
        )
    }

    fn judged(self, name: &str) -> String {
        let (question, best, worst) = if self == Self::Write {
            (
                "Does it say what the reference says?",
                "Says everything that matters in the reference, and nothing that contradicts it.",
                "Contradicts the reference, or answers something else.",
            )
        } else {
            (
                "Does it do what was asked?",
                "Does all of it, correctly and clearly.",
                "Does not do it, or is wrong.",
            )
        };
        let levels = [
            worst,
            "Mostly wrong or incomplete; a small part is usable.",
            "About half of what matters is right.",
            "Right, with a small omission or inaccuracy.",
            best,
        ];
        let levels = (1..)
            .zip(levels)
            .map(|(level, text)| format!("{level} = {}\n", quoted(text)));
        let levels: String = levels.collect();
        format!(
            "+++\nid = \"{name}-v1\"\ntitle = \"Quality of an answer\"\ncomposite = \"quality\"\n\n[[criteria]]\n\
             name = \"quality\"\nquestion = {}\nmin = 1\nmax = 5\n[criteria.anchors]\n{levels}+++\n# How to judge\n\n\
             Read the case, then the answer. Give each level an example from your own data: judges agree on examples more \
             than on adjectives.\n",
            quoted(question)
        )
    }

    /// Two versions where the wording can decide, so that there is something to compare.
    fn prompts(self, columns: &Columns, answers: &Answers) -> Vec<(&'static str, String)> {
        let case = case(columns, answers);
        match self {
            Self::Classify => {
                let labels = labels(answers);
                vec![
                    (
                        "v1",
                        format!(
                            "Classify the following as one of: {}.\nAnswer with the label only.\n\n{case}",
                            labels.join(", ")
                        ),
                    ),
                    (
                        "v2-list",
                        format!(
                            "Choose the one label that fits best. The labels are:\n\n- {}\n\nWrite that label exactly as it \
                             stands above, and nothing else: no explanation, no punctuation.\n\n{case}\nLabel:\n",
                            labels.join("\n- ")
                        ),
                    ),
                ]
            }
            Self::Number => vec![(
                "v1",
                format!("Answer with a number only: no unit, no words.\n\n{case}"),
            )],
            Self::Choose => vec![(
                "v1",
                format!("Answer with the letter of the right choice only.\n\n{case}"),
            )],
            Self::Answer => vec![(
                "v1",
                format!("Answer in as few words as possible.\n\n{case}"),
            )],
            Self::Extract => {
                let keys = keys(answers).join(", ");
                vec![(
                    "v1",
                    format!(
                        "Extract these fields as one JSON object with the keys {keys}. Write only the JSON.\n\n{case}"
                    ),
                )]
            }
            Self::Write | Self::Judge => vec![("v1", case)],
        }
    }
}

fn labels(answers: &Answers) -> Vec<String> {
    match answers {
        Answers::Labels(_, labels) => labels.iter().map(|it| literal(it)).collect(),
        _ => Vec::new(),
    }
}

fn keys(answers: &Answers) -> Vec<String> {
    match answers {
        Answers::Objects(_, keys) => keys
            .iter()
            .map(|(key, _)| literal(&format!("\"{key}\"")))
            .collect(),
        _ => Vec::new(),
    }
}

/// The fields of a scenario, one by one.
fn case(columns: &Columns, answers: &Answers) -> String {
    let fields: Vec<&str> = columns.shown().collect();
    let mut text = match fields.as_slice() {
        [one] => format!("{{{{ {one} }}}}\n"),
        several => {
            let lines = several
                .iter()
                .map(|it| format!("{}: {{{{ {it} }}}}\n", heading(it)));
            let lines: Vec<String> = lines.collect();
            lines.concat()
        }
    };
    if matches!(answers, Answers::Choices(..)) {
        text.push_str("\n{% for choice in choices %}\n{{ \"ABCDEFGHIJKLMNOPQRSTUVWXYZ\"[loop.index0] }}) {{ choice }}\n{% endfor %}\n");
    }
    text
}

/// `ticket_text` as `Ticket text`.
fn heading(field: &str) -> String {
    let words = field.replace('_', " ");
    let mut letters = words.chars();
    let first = letters.next().map(|it| it.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// One criterion for each key.
fn extract(name: &str, answers: &Answers) -> String {
    let Answers::Objects(_, keys) = answers else {
        return String::new();
    };
    let mut given = Unique::default();
    for taken in metric::TAKEN {
        given.give(taken.to_owned(), '_');
    }
    let mut names = Vec::new();
    let mut criteria = String::new();
    for (key, field) in keys {
        let criterion = given.give(names::field(key), '_');
        // A key may hold dots and slashes: a pointer names it exactly.
        let pointer = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
        criteria.push_str(&format!(
            "\n[[criteria]]\nname = \"{criterion}\"\nquestion = \"Is this field right?\"\n[criteria.computed]\n\
             json_field = {}\nequals = \"{{{{ {field} }}}}\"\nignore = [\"case\", \"whitespace\"]\n",
            quoted(&pointer)
        ));
        names.push(criterion);
    }
    format!(
        "+++\nid = \"{name}-v1\"\ntitle = \"Fields that were extracted correctly\"\ncomposite = \"{}\"\n{criteria}\n[[flags]]\nname = \"fenced\"\n\
         description = \"A code fence around the JSON was removed.\"\n+++\n\
         # How outputs are scored\n\nA rule compares every field with the known one. No judge is asked.\n",
        names.join(" + ")
    )
}
