//! The API for readers, from the same table as its routes.

use askama::Template;

use super::page::{Frame, Paged, Visit, show};
use crate::access::Right;
use crate::api::table::{OPERATIONS, Operation};

#[derive(Template)]
#[template(path = "api_docs.html")]
struct ApiPage {
    frame: Frame,
    operations: &'static [Operation],
}

impl Operation {
    fn verb(&self) -> String {
        self.method.to_uppercase()
    }

    fn who(&self) -> &'static str {
        match self.right {
            Right::Read => "viewer, admin; judge while no sitting of theirs is open",
            Right::Judge => "judge, admin",
            Right::Write | Right::Mlflow => "admin",
        }
    }
}

pub(crate) async fn page(visit: Visit) -> Paged {
    show(&ApiPage {
        frame: Frame::new("", &visit),
        operations: OPERATIONS,
    })
}
