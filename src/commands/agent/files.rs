//! The files that agents look for, and what they should say. Pure: texts in, texts out.

use serde_json::{Map, Value, json};

/// What an agent's file should hold.
#[derive(Debug)]
pub struct Wanted {
    /// Below the project's folder.
    pub path: &'static str,
    content: Content,
}

#[derive(Debug)]
enum Content {
    /// JSON settings with an entry for the MCP server among others.
    JsonServer(Value),
    /// TOML settings likewise; the entry as text.
    TomlServer(String),
    /// A file that is wholly ours.
    Whole(String),
}

/// What must happen to a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    None,
    New(String),
    Merge(String),
    Replace(String),
    /// Why nothing can be done safely.
    Impossible(String),
}

/// The flags of `assize mcp` that an installation sets.
const OUR_FLAGS: [&str; 2] = ["--task", "--tracking-uri"];
const JUDGING_TOOLS: [&str; 6] = [
    "pending",
    "next_cases",
    "submit_verdicts",
    "progress",
    "finish_sitting",
    "leaderboard",
];
const REFLECTING_TOOLS: [&str; 2] = ["next_packet", "submit_children"];

/// Everything that is installed, for every agent. `flags` are those of `assize mcp`.
pub fn wanted(flags: &[(&str, String)]) -> Vec<Wanted> {
    let flags = flags.iter();
    let words = flags.flat_map(|(name, value)| [(*name).to_owned(), value.clone()]);
    let args: Vec<String> = std::iter::once("mcp".to_owned()).chain(words).collect();
    let server = json!({"command": "assize", "args": args});
    let whole = |path, text| Wanted {
        path,
        content: Content::Whole(text),
    };
    let settings = |path| Wanted {
        path,
        content: Content::JsonServer(server.clone()),
    };
    vec![
        settings(".mcp.json"),
        whole(".claude/commands/judge.md", claude_judge()),
        whole(".claude/commands/reflect.md", claude_reflect()),
        Wanted {
            path: ".codex/config.toml",
            content: Content::TomlServer(toml_server(&args)),
        },
        whole(".agents/skills/judge/SKILL.md", codex_judge()),
        whole(".agents/skills/reflect/SKILL.md", codex_reflect()),
        settings(".gemini/settings.json"),
        whole(".gemini/commands/judge.toml", gemini_judge()),
        whole(".gemini/commands/reflect.toml", gemini_reflect()),
    ]
}

fn toml_server(args: &[String]) -> String {
    let args: Vec<String> = args
        .iter()
        .map(|it| toml::Value::from(it.as_str()).to_string())
        .collect();
    format!(
        "[mcp_servers.assize]\ncommand = \"assize\"\nargs = [{}]\n",
        args.join(", ")
    )
}

/// Whether a server's entry is as an installation writes it, with any task and store. Otherwise its
/// owner has changed it, and it stays.
fn is_ours(command: Option<&str>, args: &[&str]) -> bool {
    let (mcp, flags) = args.split_first().unwrap_or((&"", &[]));
    command == Some("assize")
        && *mcp == "mcp"
        && flags.len() % 2 == 0
        && flags.iter().step_by(2).all(|it| OUR_FLAGS.contains(it))
}

/// Tools of our server as Claude Code calls them.
fn claude_tools(tools: &[&str]) -> String {
    let tools = tools.iter().map(|tool| format!("mcp__assize__{tool}"));
    tools.collect::<Vec<_>>().join(", ")
}

fn claude_judge() -> String {
    format!(
        "---\ndescription: Judge pending outputs, blind, against the pinned rubric\n\
         argument-hint: \"[experiment] [how many cases]\"\n\
         allowed-tools: {}, Bash(assize judge export:*), Bash(assize judge apply:*), Read, Edit\n---\n\n{}",
        claude_tools(&JUDGING_TOOLS),
        assize_mcp::guide("$ARGUMENTS", "claude-code")
    )
}

fn claude_reflect() -> String {
    format!(
        "---\ndescription: Write better versions of a prompt for a prompt loop, from the judges' reasons\n\
         argument-hint: \"[experiment] [how many rounds]\"\n\
         allowed-tools: {}, Bash(assize optimise step:*), Bash(assize optimise status:*), \
         Bash(assize optimise show:*)\n---\n\n{}",
        claude_tools(&REFLECTING_TOOLS),
        assize_mcp::reflect_guide("$ARGUMENTS")
    )
}

/// What stands for the arguments in a Codex skill, which has no placeholder.
const CODEX_ARGUMENTS: &str = "see the request that named this skill";

fn codex_judge() -> String {
    format!(
        "---\nname: judge\ndescription: Judge pending outputs of language models in Assize, blind, against the pinned \
         rubric. Use when asked to judge, score or clear an Assize experiment.\n---\n\n{}",
        assize_mcp::guide(CODEX_ARGUMENTS, "codex")
    )
}

fn codex_reflect() -> String {
    format!(
        "---\nname: reflect\ndescription: Write better versions of a prompt for a prompt loop of Assize, from the judges' \
         reasons. Use when asked to reflect, or to answer the packets of an Assize prompt loop.\n---\n\n{}",
        assize_mcp::reflect_guide(CODEX_ARGUMENTS)
    )
}

fn gemini_judge() -> String {
    gemini_command(
        "Judge pending outputs, blind, against the pinned rubric",
        &assize_mcp::guide("{{args}}", "gemini-cli"),
    )
}

fn gemini_reflect() -> String {
    gemini_command(
        "Write better versions of a prompt for a prompt loop, from the judges' reasons",
        &assize_mcp::reflect_guide("{{args}}"),
    )
}

fn gemini_command(description: &str, guide: &str) -> String {
    // A literal string: nothing in it is an escape.
    format!("description = \"{description}\"\nprompt = '''\n{guide}'''\n")
}

impl Wanted {
    /// What must happen to the file as it is now.
    pub fn change(&self, existing: Option<&str>) -> Change {
        match (&self.content, existing) {
            (Content::Whole(text), None) => Change::New(text.clone()),
            (Content::Whole(text), Some(there)) if there == text => Change::None,
            (Content::Whole(text), Some(_)) => Change::Replace(text.clone()),
            (Content::JsonServer(_), None) => Change::New(format!("{}\n", self.to_add())),
            (Content::JsonServer(server), Some(there)) => merge_json(there, server),
            (Content::TomlServer(server), None) => Change::New(server.clone()),
            (Content::TomlServer(server), Some(there)) => merge_toml(there, server),
        }
    }

    /// What somebody would add by hand.
    pub fn to_add(&self) -> String {
        match &self.content {
            Content::JsonServer(server) => {
                format!("{:#}", json!({"mcpServers": {"assize": server}}))
            }
            Content::TomlServer(text) | Content::Whole(text) => text.clone(),
        }
    }
}

fn merge_json(there: &str, server: &Value) -> Change {
    let there = if there.trim().is_empty() { "{}" } else { there };
    let mut settings: Map<String, Value> = match serde_json::from_str(there) {
        Ok(settings) => settings,
        Err(error) => return Change::Impossible(format!("is not a plain JSON object ({error})")),
    };
    let servers = settings.entry("mcpServers").or_insert_with(|| json!({}));
    let Some(servers) = servers.as_object_mut() else {
        return Change::Impossible("has an \"mcpServers\" that is not an object".to_owned());
    };
    if let Some(ours) = servers.get_mut("assize").and_then(Value::as_object_mut)
        && ours.contains_key("command")
    {
        let args = ours.get("args").and_then(Value::as_array);
        let args: Option<Vec<&str>> = args.into_iter().flatten().map(Value::as_str).collect();
        let command = ours.get("command").and_then(Value::as_str);
        if !args.is_some_and(|args| is_ours(command, &args)) || ours["args"] == server["args"] {
            return Change::None;
        }
        // Whatever else its owner has set there (env, timeout, trust) stays.
        ours.insert("args".to_owned(), server["args"].clone());
        return Change::Merge(format!("{:#}\n", Value::Object(settings)));
    }
    servers.insert("assize".to_owned(), server.clone());
    Change::Merge(format!("{:#}\n", Value::Object(settings)))
}

/// Appends: comments and order stay as their owner wrote them.
fn merge_toml(there: &str, server: &str) -> Change {
    let settings: toml::Table = match there.parse() {
        Ok(settings) => settings,
        Err(error) => {
            let first = error.message().to_owned();
            return Change::Impossible(format!("is not TOML ({first})"));
        }
    };
    let servers = settings.get("mcp_servers");
    if let Some(ours) = servers.and_then(|it| it.get("assize")) {
        let args = ours.get("args").and_then(toml::Value::as_array);
        let args: Option<Vec<&str>> = args.into_iter().flatten().map(|it| it.as_str()).collect();
        let args = args.unwrap_or_default();
        let command = ours.get("command").and_then(toml::Value::as_str);
        let words: Vec<String> = args.iter().map(|it| (*it).to_owned()).collect();
        let before = toml_server(&words);
        // Only an entry exactly as it was written can be replaced without touching anything else.
        return if is_ours(command, &args) && before != server && there.contains(&before) {
            Change::Merge(there.replacen(&before, server, 1))
        } else {
            Change::None
        };
    }
    let gap = match there.trim_end() {
        "" => "",
        text if there.len() == text.len() => "\n\n",
        _ => "\n",
    };
    let merged = format!("{there}{gap}{server}");
    if merged.parse::<toml::Table>().is_ok() {
        Change::Merge(merged)
    } else {
        Change::Impossible("writes its mcp_servers in a way that cannot be added to".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Wanted {
        with(path, &[])
    }

    fn with(path: &str, flags: &[(&str, String)]) -> Wanted {
        let found = wanted(flags).into_iter().find(|it| it.path == path);
        found.expect("a file that is installed")
    }

    #[test]
    fn task_and_store_are_written_and_updated() {
        let flags = [
            ("--task", "shop \"x\"".to_owned()),
            ("--tracking-uri", "sqlite:bench.db".to_owned()),
        ];
        for path in [".mcp.json", ".codex/config.toml"] {
            let Change::New(before) = of(path).change(None) else {
                unreachable!("new")
            };
            let Change::Merge(after) = with(path, &flags).change(Some(&before)) else {
                unreachable!("{path} is updated")
            };
            assert_eq!(with(path, &flags).change(None), Change::New(after.clone()));
            assert_eq!(with(path, &flags).change(Some(&after)), Change::None);
            assert!(matches!(of(path).change(Some(&after)), Change::Merge(_)));
        }
        let own =
            "[mcp_servers.assize]\ncommand = \"assize\"\nargs = [\"mcp\", \"--lease\", \"9\"]\n";
        let change = with(".codex/config.toml", &flags).change(Some(own));
        assert_eq!(change, Change::None, "its owner changed it");
        let kept = r#"{"mcpServers": {"assize": {"command": "assize", "args": ["mcp"], "env": {"A": "1"}}}}"#;
        let Change::Merge(text) = with(".mcp.json", &flags).change(Some(kept)) else {
            unreachable!("updated")
        };
        assert!(
            text.contains("\"env\"") && text.contains("sqlite:bench.db"),
            "{text}"
        );
    }

    #[test]
    fn settings_keep_every_other_entry_and_their_order() {
        let there = r#"{"zeta": 1, "mcpServers": {"other": {"command": "x"}}, "alpha": [true]}"#;
        let Change::Merge(text) = of(".mcp.json").change(Some(there)) else {
            unreachable!("mergeable")
        };
        let merged: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(
            merged,
            json!({"zeta": 1, "mcpServers": {"other": {"command": "x"}, "assize": {"command": "assize", "args": ["mcp"]}},
                   "alpha": [true]})
        );
        assert!(text.find("zeta") < text.find("alpha"));
        assert_eq!(of(".mcp.json").change(Some(&text)), Change::None);
    }

    #[test]
    fn a_server_that_its_owner_changed_stays() {
        let there = r#"{"mcpServers": {"assize": {"command": "/opt/assize", "args": ["mcp", "--tracking-uri", "x"]}}}"#;
        assert_eq!(of(".mcp.json").change(Some(there)), Change::None);
    }

    #[test]
    fn what_is_not_plain_json_is_never_rewritten() {
        let commented = "{\n  // mine\n  \"theme\": \"dark\"\n}";
        for there in [commented, "[]", r#"{"mcpServers": []}"#] {
            let change = of(".gemini/settings.json").change(Some(there));
            assert!(matches!(change, Change::Impossible(_)), "{there}");
        }
    }

    #[test]
    fn toml_is_appended_to() {
        let there = "# mine\nmodel = \"o\" # why\n\n[mcp_servers.other]\ncommand = \"x\"";
        let Change::Merge(text) = of(".codex/config.toml").change(Some(there)) else {
            unreachable!("mergeable")
        };
        let server = toml_server(&["mcp".to_owned()]);
        assert_eq!(text, format!("{there}\n\n{server}"));
        assert_eq!(of(".codex/config.toml").change(Some(&text)), Change::None);
        let inline = "mcp_servers = { other = { command = \"x\" } }\n";
        let change = of(".codex/config.toml").change(Some(inline));
        assert!(matches!(change, Change::Impossible(_)), "{change:?}");
    }

    #[test]
    fn the_gemini_commands_are_toml_with_their_placeholder() {
        let Change::New(text) = of(".gemini/commands/judge.toml").change(None) else {
            unreachable!("new")
        };
        let command: toml::Table = text.parse().expect("TOML");
        let prompt = command["prompt"].as_str().expect("a prompt");
        assert!(prompt.contains("{{args}}") && prompt.contains("--judge-kind gemini-cli"));
        let Change::New(text) = of(".gemini/commands/reflect.toml").change(None) else {
            unreachable!("new")
        };
        let command: toml::Table = text.parse().expect("TOML");
        let prompt = command["prompt"].as_str().expect("a prompt");
        assert!(prompt.contains("{{args}}") && prompt.contains("submit_children"));
    }
}
