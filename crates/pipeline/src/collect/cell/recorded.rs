//! What runs record of the options that they were collected with.

use std::sync::Arc;

use assize_domain::run::{ADAPTIVE_SETTING, param};
use assize_domain::sweep::{SYSTEM, settings_words};
use assize_domain::task::Task;

use crate::collect::CollectOptions;
use crate::collect::variant::Variant;

/// Options that change the output, as boards name them where runs differ.
pub(super) fn words(options: &CollectOptions, variant: &Variant) -> String {
    let words = settings_words(&variant.values, &variant.settings);
    let adaptive = if options.adaptive {
        ADAPTIVE_SETTING
    } else {
        ""
    };
    format!("{words}{adaptive}")
}

/// What is recorded of the options: the collection's, with what the variant changes.
pub(super) fn option_params(
    task: &Task,
    options: &CollectOptions,
    variant: &Variant,
) -> Vec<(Arc<str>, Arc<str>)> {
    let mut params: Vec<(Arc<str>, Arc<str>)> = vec![
        (param::TASK.into(), task.name.as_str().into()),
        ("adaptive".into(), options.adaptive.to_string().into()),
    ];
    let (always, changed) = &variant.identity;
    let own: Vec<(&str, &str)> = always
        .iter()
        .chain(changed)
        .map(|(key, text)| (*key, text.as_str()))
        .collect();
    let of_collection = options.params.iter();
    let of_collection = of_collection.map(|(key, text)| (key.as_str(), text.as_str()));
    for (key, text) in of_collection.clone() {
        let changed = own.iter().find(|it| it.0 == key).map(|it| it.1);
        params.push((key.into(), changed.unwrap_or(text).into()));
    }
    let added = own
        .iter()
        .filter(|it| !options.params.iter().any(|known| known.0 == it.0));
    params.extend(added.map(|(key, text)| ((*key).into(), (*text).into())));
    if let Some(system) = variant.settings.get(SYSTEM) {
        params.push((SYSTEM.into(), system.into()));
    }
    params
}
