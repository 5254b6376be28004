//! How many sequences are decoded at once, by what was measured.
//!
//! A wider batch reads the weights once for more tokens, until arithmetic is the limit. From there on
//! it only takes longer until a candidate is complete. So the width is doubled while that makes
//! decoding clearly faster, and goes back one step where it does not.

/// The first width.
const FIRST: usize = 8;
/// Full steps that are measured before the width changes.
const STEPS: usize = 6;
/// A wider batch has to decode so many times as many tokens in a second.
const GAIN: f64 = 1.04;

#[derive(Debug)]
pub(crate) struct Width {
    now: usize,
    most: usize,
    /// Seconds of full steps at the present width.
    seconds: Vec<f64>,
    /// Tokens a second at the width before.
    before: Option<f64>,
    is_settled: bool,
}

impl Width {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            now: most.min(FIRST),
            most,
            seconds: Vec::new(),
            before: None,
            is_settled: false,
        }
    }

    pub(crate) fn fixed(width: usize) -> Self {
        Self {
            now: width,
            is_settled: true,
            ..Self::new(width)
        }
    }

    pub(crate) fn now(&self) -> usize {
        self.now
    }

    /// A step of so many candidates took so long.
    pub(crate) fn observe(&mut self, candidates: usize, seconds: f64) {
        if self.is_settled || candidates != self.now {
            return;
        }
        self.seconds.push(seconds);
        if self.seconds.len() < STEPS {
            return;
        }
        self.seconds.sort_by(f64::total_cmp);
        let rate = self.now as f64 / self.seconds[STEPS / 2].max(1e-9);
        self.seconds.clear();
        let is_faster = self.before.is_none_or(|before| rate >= before * GAIN);
        if is_faster && self.now < self.most {
            self.before = Some(rate);
            self.now = (self.now * 2).min(self.most);
        } else {
            if !is_faster {
                self.now = (self.now / 2).max(1);
            }
            self.is_settled = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Width;

    /// The width where a step takes `fixed + each * candidates` seconds.
    fn settled(most: usize, fixed: f64, each: f64) -> usize {
        let mut width = Width::new(most);
        for _ in 0..100 {
            let now = width.now();
            width.observe(now, fixed + each * now as f64);
            width.observe(1, 100.0);
        }
        width.now()
    }

    #[test]
    fn it_grows_while_that_makes_decoding_faster() {
        assert_eq!(settled(32, 1.0, 0.0), 32, "limited by reading weights");
        assert_eq!(settled(32, 0.0, 1.0), 8, "limited by arithmetic");
        assert_eq!(settled(64, 1.0, 0.05), 64);
        assert_eq!(settled(64, 1.0, 1.0), 16);
        assert_eq!(settled(5, 1.0, 0.0), 5);
    }
}
