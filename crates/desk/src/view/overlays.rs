//! The full-screen overlays: keys, rubric and case.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::lines::{broken, within};
use super::{Theme, context_lines, faint};
use crate::app::App;
use assize_domain::rubric::Rubric;

fn whole(rubric: &Rubric) -> String {
    let mut text = format!("{}: {}\n", rubric.id, rubric.title);
    for criterion in &rubric.criteria {
        text.push_str(&format!("\n{}: {}\n", criterion.name, criterion.question));
        for level in criterion.min..=criterion.max {
            let meaning = criterion.anchors.get(&level.to_string());
            text.push_str(&format!(
                "  {level}  {}\n",
                meaning.map_or("", String::as_str)
            ));
        }
    }
    for flag in &rubric.flags {
        text.push_str(&format!("\n{}: {}\n", flag.name, flag.description));
    }
    text.push_str(&format!("\ncomposite: {}\n\n", rubric.composite));
    // The content of the front matter is shown above.
    let prose = rubric.text.splitn(3, "+++").nth(2);
    text.push_str(prose.unwrap_or(&rubric.text).trim_start());
    text
}

/// The rubric: scales, flags and prose.
pub(super) fn rubric(frame: &mut Frame<'_>, app: &App, first: u16, area: Rect) {
    let lines = broken(&whole(&app.rubric), area.width.into());
    page(
        frame,
        lines.into_iter().map(Line::raw).collect(),
        first,
        area,
    );
}

/// The case: context and candidate.
pub(super) fn case(frame: &mut Frame<'_>, app: &App, theme: Theme, first: u16, area: Rect) {
    let Some(sheet) = app.sheet() else { return };
    let width = usize::from(area.width);
    let mut text = context_lines(&sheet.case.context, width, theme);
    text.push(Line::raw(""));
    text.push(Line::styled("Candidate", theme.accent()));
    let candidate = broken(&sheet.case.candidate, width);
    text.extend(candidate.into_iter().map(Line::raw));
    page(frame, text, first, area);
}

/// The text from this line on, with the number of further lines.
fn page(frame: &mut Frame<'_>, text: Vec<Line<'_>>, first: u16, area: Rect) {
    let last = text.len().saturating_sub(area.height.into());
    let first = usize::from(first).min(last);
    let all = text.len();
    let mut shown: Vec<Line<'_>> = text.into_iter().skip(first).collect();
    if first < last {
        let room = usize::from(area.height).saturating_sub(1);
        shown.truncate(room);
        let more = match all - first - room {
            1 => "… 1 more line".to_owned(),
            lines => format!("… {lines} more lines"),
        };
        shown.push(Line::styled(more, faint()));
    }
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(shown), area);
}

pub(super) fn help(frame: &mut Frame<'_>, app: &App, theme: Theme, area: Rect) {
    let flags: Vec<String> = app
        .flag_keys
        .iter()
        .map(|(name, key)| format!("{key} {name}"))
        .collect();
    let rows = [
        (
            "1 2 3 …",
            "score the selected criterion and go to the next open one",
        ),
        ("+ -", "raise or lower the score by one"),
        ("Tab ↑ ↓", "select another criterion"),
        (
            &flags.join(", "),
            "toggle a flag; it is prefilled by its check",
        ),
        ("r", "write the reason; Enter keeps it"),
        (
            "Enter →",
            "submit the case (it is then stored) and continue",
        ),
        ("u", "undo the last change, or go to the previous case"),
        ("←", "the previous case; change it and submit it again"),
        ("c", "the whole case: context and candidate"),
        ("v", "the whole rubric, with its examples"),
        ("s", "skip: the case is shown again at the end"),
        ("Space PgUp", "scroll a long candidate down and up"),
        (
            "q Ctrl-C",
            "quit; a complete case is submitted, the sitting stays open",
        ),
        ("Q y", "finish the sitting; unscored cases stay pending"),
    ];
    let text: Vec<Line<'_>> = rows
        .iter()
        .map(|(keys, does)| {
            Line::from(vec![
                Span::styled(format!(" {:<16}", within(keys, 15)), theme.accent()),
                Span::raw((*does).to_owned()),
            ])
        })
        .collect();
    let width = area.width.min(78);
    let height = u16::try_from(text.len())
        .unwrap_or(u16::MAX)
        .saturating_add(2)
        .min(area.height);
    let place = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let block = Block::new().borders(Borders::ALL).title(" Keys ");
    frame.render_widget(Paragraph::new(text).block(block), place);
}
