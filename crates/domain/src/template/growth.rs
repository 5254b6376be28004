//! Bounds how large a template's values can get, before it is compiled.
//!
//! Every expression gets an upper bound of its size, as a multiple of the largest thing that goes in: a
//! field, the template's own text, or what a limited filter returns. Fields and constants count once, `a ~
//! b`, `a + b`, lists and arguments add up, a product with a written number multiplies. Variables keep
//! the bound of what was assigned to them. A loop's body is read twice: what grows between the two
//! would grow with every turn. A product of two values of which neither is surely a number could
//! repeat a text any number of times, so it is refused.
//!
//! The engine folds constants when it compiles, and walks expressions recursively, so this comes first.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::machinery::ast::{
    BinOpKind, CallArg, Expr, Filter, ForLoop, IfCond, Stmt, UnaryOpKind,
};
use minijinja::machinery::{Token, parse, tokenize};
use minijinja::value::ValueKind;

use super::syntax;

/// The largest multiple.
const MOST_TIMES: f64 = 256.0;
/// The most tokens of a tag, and the most tags: expressions and conditions nest with their number.
const MOST_TOKENS: usize = 500;
const MOST_TAGS: usize = 2_000;
/// The deepest nesting of loops, each of which is read twice.
const MOST_LOOPS: usize = 8;
/// Filters whose results are numbers.
const NUMBERS: [&str; 6] = ["int", "float", "length", "count", "round", "abs"];
/// Filters that limit the length of their results.
const LIMITED: [&str; 5] = ["replace", "join", "indent", "format", "map"];

/// The line and the reason of what is refused.
pub type Refusal = (usize, String);

/// Refuses a template whose values could grow too large. A template that does not parse passes: compiling it
/// says why.
pub fn check(source: &str) -> Result<(), Refusal> {
    check_length(source)?;
    let Ok(template) = parse(source, "template", syntax()) else {
        return Ok(());
    };
    Growth::default().statement(&template)
}

fn check_length(source: &str) -> Result<(), Refusal> {
    let (mut tags, mut tokens) = (0, 0);
    for token in tokenize(source, false, syntax()) {
        let Ok((token, span)) = token else {
            return Ok(());
        };
        let line = usize::from(span.start_line);
        match token {
            Token::VariableStart | Token::BlockStart => {
                tags += 1;
                tokens = 0;
            }
            _ => tokens += 1,
        }
        if tokens > MOST_TOKENS {
            let reason = format!("the tag has more than {MOST_TOKENS} words and signs: split it");
            return Err((line, reason));
        }
        if tags > MOST_TAGS {
            return Err((line, format!("the template has more than {MOST_TAGS} tags")));
        }
    }
    Ok(())
}

/// The bound of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Size {
    times: f64,
    /// Whether it is surely a number, which has a short text.
    is_number: bool,
}

const ONE: Size = Size {
    times: 1.0,
    is_number: false,
};
const NUMBER: Size = Size {
    times: 1.0,
    is_number: true,
};

#[derive(Default)]
struct Growth {
    /// By name, or `NAME.FIELD` for namespaces.
    known: BTreeMap<String, Size>,
    namespaces: BTreeSet<String>,
    /// Loops around the statement.
    loops: usize,
}

impl Growth {
    fn statements(&mut self, statements: &[Stmt<'_>]) -> Result<(), Refusal> {
        statements.iter().try_for_each(|it| self.statement(it))
    }

    fn statement(&mut self, statement: &Stmt<'_>) -> Result<(), Refusal> {
        match statement {
            Stmt::Template(it) => self.statements(&it.children),
            Stmt::EmitRaw(_) => Ok(()),
            Stmt::EmitExpr(it) => self.size(&it.expr).map(drop),
            Stmt::ForLoop(it) => self.turns(it, usize::from(it.span().start_line)),
            Stmt::IfCond(it) => self.branches(it),
            Stmt::WithBlock(it) => {
                for (target, value) in &it.assignments {
                    let size = self.size(value)?;
                    self.assign(target, size);
                }
                self.statements(&it.body)
            }
            Stmt::Set(it) => self.set(&it.target, &it.expr),
            Stmt::SetBlock(it) => {
                self.statements(&it.body)?;
                let filter = it.filter.as_ref();
                let size = filter.map_or(Ok(ONE), |it| self.size(it))?;
                self.assign(&it.target, size);
                Ok(())
            }
            Stmt::AutoEscape(it) => self.statements(&it.body),
            Stmt::FilterBlock(it) => {
                self.size(&it.filter)?;
                self.statements(&it.body)
            }
            Stmt::Do(it) => self.arguments(&it.call.args).map(drop),
        }
    }

    fn turns(&mut self, it: &ForLoop<'_>, line: usize) -> Result<(), Refusal> {
        let refused = |reason: &str| Err((line, reason.to_owned()));
        if it.recursive {
            return refused("a loop cannot be recursive");
        }
        if self.loops == MOST_LOOPS {
            return refused("loops are nested too deeply");
        }
        let items = self.size(&it.iter)?;
        self.assign(&it.target, many(items.times));
        self.known.insert("loop".to_owned(), ONE);
        if let Some(filter) = &it.filter_expr {
            self.size(filter)?;
        }
        self.loops += 1;
        self.statements(&it.body)?;
        let once = self.known.clone();
        self.statements(&it.body)?;
        self.loops -= 1;
        if self.known != once {
            return refused(
                "a variable grows with every turn of the loop: add up numbers as NAME|int or NAME|float, and put texts \
                 together with join",
            );
        }
        self.statements(&it.else_body)
    }

    fn branches(&mut self, it: &IfCond<'_>) -> Result<(), Refusal> {
        self.size(&it.expr)?;
        let before = self.known.clone();
        self.statements(&it.true_body)?;
        let taken = std::mem::replace(&mut self.known, before);
        self.statements(&it.false_body)?;
        for (name, size) in taken {
            let other = self.known.get(&name).map(|it| either(*it, size));
            self.known.insert(name, other.unwrap_or(size));
        }
        Ok(())
    }

    fn set(&mut self, target: &Expr<'_>, value: &Expr<'_>) -> Result<(), Refusal> {
        if let (Expr::Var(name), Expr::Call(call)) = (target, value)
            && matches!(&call.expr, Expr::Var(it) if it.id == "namespace")
        {
            for argument in &call.args {
                if let CallArg::Kwarg(field, value) = argument {
                    let size = self.size(value)?;
                    self.known.insert(format!("{}.{field}", name.id), size);
                }
            }
            self.arguments(&call.args)?;
            self.namespaces.insert(name.id.to_owned());
            return Ok(());
        }
        let size = self.size(value)?;
        self.assign(target, size);
        Ok(())
    }

    fn assign(&mut self, target: &Expr<'_>, size: Size) {
        match target {
            Expr::Var(it) => {
                self.known.insert(it.id.to_owned(), size);
            }
            Expr::GetAttr(it) => {
                if let Expr::Var(name) = &it.expr {
                    let field = format!("{}.{}", name.id, it.name);
                    self.known.insert(field, size);
                }
            }
            Expr::List(it) => it.items.iter().for_each(|it| self.assign(it, size)),
            Expr::Tuple(it) => it.items.iter().for_each(|it| self.assign(it, size)),
            _ => {}
        }
    }

    /// The bound of an expression; all of its parts are within the limit.
    fn size(&self, expression: &Expr<'_>) -> Result<Size, Refusal> {
        let size = self.size_of(expression)?;
        if size.times <= MOST_TIMES {
            return Ok(size);
        }
        let reason = format!(
            "a value could grow to more than {MOST_TIMES} times what goes in: join fewer texts with ~, + or lists, and \
             multiply numbers as NAME|int or NAME|float, because * also repeats texts"
        );
        Err((usize::from(expression.span().start_line), reason))
    }

    fn size_of(&self, expression: &Expr<'_>) -> Result<Size, Refusal> {
        let line = usize::from(expression.span().start_line);
        Ok(match expression {
            Expr::Var(it) if it.id == "namespace" || self.namespaces.contains(it.id) => {
                let reason = format!(
                    "'{}' can only be used as {{% set NAME = namespace(…) %}} and NAME.FIELD",
                    it.id
                );
                return Err((line, reason));
            }
            Expr::Var(it) => self.known.get(it.id).copied().unwrap_or(ONE),
            Expr::Const(it) if it.value.kind() == ValueKind::Number => NUMBER,
            Expr::Const(_) => ONE,
            Expr::Slice(it) => {
                for bound in [&it.start, &it.stop, &it.step].into_iter().flatten() {
                    self.size(bound)?;
                }
                self.size(&it.expr)?
            }
            Expr::UnaryOp(it) => {
                let size = self.size(&it.expr)?;
                match it.op {
                    UnaryOpKind::Neg => NUMBER,
                    UnaryOpKind::Not => Size { times: 1.0, ..size },
                }
            }
            Expr::BinOp(it) => self.operation(it.op, &it.left, &it.right, line)?,
            Expr::Compare(it) => {
                self.size(&it.expr)?;
                for other in &it.ops {
                    self.size(&other.expr)?;
                }
                ONE
            }
            Expr::IfExpr(it) => {
                self.size(&it.test_expr)?;
                let size = self.size(&it.true_expr)?;
                let other = it.false_expr.as_ref();
                either(size, other.map_or(Ok(size), |it| self.size(it))?)
            }
            Expr::Filter(it) => self.filtered(it)?,
            Expr::Test(it) => {
                self.size(&it.expr)?;
                self.arguments(&it.args)?;
                ONE
            }
            Expr::GetAttr(it) => match &it.expr {
                Expr::Var(name) if self.namespaces.contains(name.id) => {
                    let field = format!("{}.{}", name.id, it.name);
                    self.known.get(&field).copied().unwrap_or(ONE)
                }
                Expr::Var(name) if name.id == "loop" && it.name.contains("index") => NUMBER,
                other => many(self.size(other)?.times),
            },
            Expr::GetItem(it) => {
                self.size(&it.subscript_expr)?;
                many(self.size(&it.expr)?.times)
            }
            Expr::Call(it) => {
                let of = self.size(&it.expr)?;
                many(of.times + self.arguments(&it.args)?)
            }
            Expr::List(it) => many(self.sum(it.items.iter())?),
            Expr::Tuple(it) => many(self.sum(it.items.iter())?),
            Expr::Map(it) => many(self.sum(it.keys.iter().chain(&it.values))?),
        })
    }

    fn filtered(&self, it: &Filter<'_>) -> Result<Size, Refusal> {
        let value = it.expr.as_ref().map_or(Ok(ONE), |it| self.size(it))?;
        let arguments = self.arguments(&it.args)?;
        Ok(match it.name {
            name if NUMBERS.contains(&name) => NUMBER,
            name if LIMITED.contains(&name) => ONE,
            _ => many(value.times + arguments),
        })
    }

    fn operation(
        &self,
        operator: BinOpKind,
        left: &Expr<'_>,
        right: &Expr<'_>,
        line: usize,
    ) -> Result<Size, Refusal> {
        let (a, b) = (self.size(left)?, self.size(right)?);
        let are_numbers = a.is_number && b.is_number;
        Ok(match operator {
            BinOpKind::Add | BinOpKind::Mul if are_numbers => NUMBER,
            BinOpKind::Add | BinOpKind::Concat => many(a.times + b.times),
            BinOpKind::Sub
            | BinOpKind::Div
            | BinOpKind::FloorDiv
            | BinOpKind::Rem
            | BinOpKind::Pow => NUMBER,
            BinOpKind::Mul => match (written(left), written(right)) {
                (Some(number), _) => many(number * b.times),
                (_, Some(number)) => many(number * a.times),
                (None, None) => {
                    let reason = "a product needs a written number on one side, or |int or |float on both sides: * \
                                  also repeats texts and lists";
                    return Err((line, reason.to_owned()));
                }
            },
            BinOpKind::ScAnd | BinOpKind::ScOr => either(a, b),
            BinOpKind::Eq
            | BinOpKind::Ne
            | BinOpKind::Lt
            | BinOpKind::Lte
            | BinOpKind::Gt
            | BinOpKind::Gte
            | BinOpKind::In => ONE,
        })
    }

    fn arguments(&self, arguments: &[CallArg<'_>]) -> Result<f64, Refusal> {
        let values = arguments.iter().map(|it| match it {
            CallArg::Pos(it)
            | CallArg::Kwarg(_, it)
            | CallArg::PosSplat(it)
            | CallArg::KwargSplat(it) => it,
        });
        let mut times = 0.0;
        for value in values {
            let size = self.size(value)?;
            // Options are numbers, names and truth values, which add nothing.
            let is_short = matches!(value, Expr::Const(_)) || size.is_number;
            times += if is_short { 0.0 } else { size.times };
        }
        Ok(times)
    }

    /// Written texts and numbers are parts of the template, which counts once in all.
    fn sum<'a>(&self, items: impl Iterator<Item = &'a Expr<'a>>) -> Result<f64, Refusal> {
        let mut times = 1.0;
        for item in items {
            let size = self.size(item)?;
            let is_written = matches!(item, Expr::Const(_));
            times += if is_written { 0.0 } else { size.times };
        }
        Ok(times)
    }
}

fn many(times: f64) -> Size {
    Size {
        times: times.max(1.0),
        is_number: false,
    }
}

fn either(a: Size, b: Size) -> Size {
    Size {
        times: a.times.max(b.times),
        is_number: a.is_number && b.is_number,
    }
}

/// The value of a number that is written in the template.
fn written(expression: &Expr<'_>) -> Option<f64> {
    let Expr::Const(it) = expression else {
        return None;
    };
    f64::try_from(it.value.clone()).ok()
}
