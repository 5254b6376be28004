//! The page that documents the API, generated from the same table as its routes.

use askama::Template;

use super::page::{Frame, PageResult, Visit, show};
use crate::access::Right;
use crate::api::table::{Operation, operations};

#[derive(Template)]
#[template(path = "api_docs.html")]
struct ApiPage {
    frame: Frame,
    operations: Vec<Operation>,
}

impl Operation {
    fn verb(&self) -> String {
        self.method.to_uppercase()
    }

    fn who(&self) -> &'static str {
        match self.right {
            Right::Read => "viewer, admin; judge without an open sitting",
            Right::Judge => "judge, admin",
            Right::AnyRole => "every role",
            Right::ReadService => "service, viewer, admin",
            Right::Policies => "service, admin",
            Right::Write => "admin",
            Right::Public => "everybody",
        }
    }
}

/// Splits a text at backticks; the flag marks the parts between backticks as code.
fn pieces(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let pieces = text.split('`').enumerate();
    pieces.map(|(place, part)| (place % 2 == 1, part))
}

pub(crate) async fn page(visit: Visit) -> PageResult {
    show(&ApiPage {
        frame: Frame::new("", &visit),
        operations: operations(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_between_backticks_is_code() {
        let found: Vec<_> = pieces("as `assize compare` prints it").collect();
        let expected = [
            (false, "as "),
            (true, "assize compare"),
            (false, " prints it"),
        ];
        assert_eq!(found, expected);
        assert_eq!(pieces("plain").collect::<Vec<_>>(), [(false, "plain")]);
    }
}
