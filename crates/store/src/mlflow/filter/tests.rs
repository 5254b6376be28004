use proptest::prelude::*;

use super::*;

fn conditions(filter: &str) -> Result<Vec<Condition>> {
    parse(filter)?
        .into_iter()
        .map(|it| Subject::Runs.condition(it))
        .collect()
}

#[test]
fn keys_are_bare_or_quoted() {
    for (filter, key) in [
        ("tags.dot.key = '1'", "dot.key"),
        ("tags.`dot.key` = '1'", "dot.key"),
        ("`tags`.\"my key\" = '1'", "my key"),
        ("tag.'my key'='1'", "my key"),
    ] {
        let found = conditions(filter).unwrap();
        assert_eq!(found[0].field, Field::Tag(key.to_owned()), "{filter}");
    }
}

#[test]
fn texts_have_no_escapes() {
    let found = parse("tags.q = 'it''s'").unwrap();
    assert_eq!(found[0].right, Literal::Text("it''s".to_owned()));
}

#[test]
fn and_may_be_left_out_and_left_over() {
    assert_eq!(parse("a = 1 b = 2").unwrap().len(), 2);
    assert_eq!(parse("a = 1 AND b = 2 and ").unwrap().len(), 2);
    assert!(parse("a = 1 AND AND b = 2").is_err());
    assert!(parse("a = 1 OR b = 2").is_err());
}

#[test]
fn what_makes_no_sense_is_refused() {
    for filter in [
        " ",
        "metrics.acc > '1'",
        "metrics.acc > NaN",
        "metrics.acc > inf",
        "metrics.acc > 1_0",
        "metrics.acc > 0x10",
        "metrics.acc > 1 2",
        "params.lr > '1'",
        "params.lr = 1",
        "params.lr = lr",
        "status IN ('RUNNING')",
        "run_id IN ()",
        "run_id IN (1)",
        "start_time IS NULL",
        "tags.a = 'x",
        "tags. = 'x'",
        "TAGS.a = 'x'",
        "datasets.source = 'x'",
    ] {
        assert!(conditions(filter).is_err(), "{filter}");
    }
    assert!(parse(&"a".repeat(LONGEST + 1)).is_err());
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(filter in ".{0,60}", order in ".{0,30}") {
        let _ = conditions(&filter);
        let _ = parse_order(&order);
    }

    #[test]
    fn nothing_like_a_filter_makes_it_panic(
        filter in r#"((metrics|tags|`run name`|é)[.` '"=<>!()a-zé0-9,;-]{0,12}( (AND|LIKE|IN|NOT|IS|NULL) )?){0,5}"#,
    ) {
        let _ = conditions(&filter);
    }

    #[test]
    fn any_text_survives_its_quotes(text in "[^']{0,40}") {
        let found = parse(&format!("tags.k = '{text}'")).unwrap();
        prop_assert_eq!(&found[0].right, &Literal::Text(text));
    }
}
