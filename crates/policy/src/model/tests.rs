use super::{HEADER, Model, Sums, UserModels};
use crate::{Policy, PolicyError, PolicyKind, PolicySettings, SHARED_ARM};
use assize_stats::rng::SplitMix64;

fn trained(dimension: usize, updates: usize) -> Model {
    let kind = PolicyKind::LinUcb;
    let policy = Policy::new(kind, PolicySettings::defaults(kind)).unwrap();
    let mut models = UserModels::default();
    let mut rng = SplitMix64::new(1);
    for _ in 0..updates {
        let x: Vec<f64> = (0..dimension).map(|_| rng.next_f64()).collect();
        let reward = rng.next_f64();
        let _ = policy.update(&mut models, SHARED_ARM, &x, reward).unwrap();
    }
    models.get(SHARED_ARM).unwrap().clone()
}

#[test]
fn a_model_survives_its_bytes() {
    for (dimension, size) in [(7, 290), (12, 730)] {
        let model = trained(dimension, 321);
        let bytes = model.to_bytes();
        assert_eq!(bytes.len(), size);
        let again = Model::from_bytes(&bytes).unwrap();
        assert_eq!(again.n(), 321);
        assert_eq!(again.dimension(), dimension);
        assert_eq!(again.to_bytes(), bytes);
        for (left, right) in again.theta().iter().zip(model.theta()) {
            assert!((left - right).abs() < 1e-12);
        }
    }
}

#[test]
fn the_encoding_is_little_endian_and_versioned() {
    let bytes = Model::new(7, 2.0).unwrap().to_bytes();
    assert_eq!(bytes[..HEADER], [1, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[HEADER..HEADER + 8], 2.0_f64.to_le_bytes());
    assert_eq!(bytes[HEADER + 8..HEADER + 16], 0.0_f64.to_le_bytes());
}

#[test]
fn other_bytes_are_refused_with_a_reason() {
    let good = trained(7, 3).to_bytes();
    let changed = |at: usize, with: &[u8]| {
        let mut bytes = good.clone();
        bytes[at..at + with.len()].copy_from_slice(with);
        bytes
    };
    let mut longer = good.clone();
    longer.push(0);
    for (bytes, expected) in [
        (Vec::new(), "too short"),
        (good[..HEADER - 1].to_vec(), "too short"),
        (good[..good.len() - 1].to_vec(), "length"),
        (longer, "length"),
        (changed(0, &[2]), "version"),
        (changed(0, &[0x81]), "version"),
        (changed(1, &[8]), "dimension"),
        (changed(1, &[12]), "length"),
        (changed(HEADER + 16, &f64::NAN.to_le_bytes()), "finite"),
        (
            changed(good.len() - 8, &f64::INFINITY.to_le_bytes()),
            "finite",
        ),
        (
            changed(HEADER, &(-1.0_f64).to_le_bytes()),
            "positive definite",
        ),
    ] {
        match Model::from_bytes(&bytes) {
            Err(PolicyError::State { reason }) => {
                assert!(reason.contains(expected), "{reason} {expected}");
            }
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn features_of_another_length_are_an_error() {
    let model = trained(7, 1);
    let expected = PolicyError::Dimension {
        expected: 7,
        found: 12,
    };
    assert_eq!(model.mean(&[0.0; 12]), Err(expected.clone()));
    assert_eq!(model.width(&[0.0; 12]), Err(expected));
    assert!(Model::new(8, 1.0).is_err());
}

#[test]
fn memory_grows_with_the_arms() {
    let mut models = UserModels::default();
    let empty = models.memory_bytes();
    models.insert("a", trained(12, 1));
    let one = models.memory_bytes();
    models.insert("b", trained(12, 1));
    assert!(one - empty > 2 * 8 * 144);
    assert_eq!(models.memory_bytes() - one, one - empty);
    assert_eq!(
        models.iter().map(|(arm, _)| arm).collect::<Vec<_>>(),
        ["a", "b"]
    );
}

#[test]
fn sums_keep_their_numbers() {
    let mut sums = Sums::zero(12);
    sums.n = u64::MAX;
    sums.a[77] = 0.1;
    sums.b[11] = -3.5;
    assert_eq!(Sums::from_bytes(9, &sums.to_bytes(9)), Ok(sums));
}
