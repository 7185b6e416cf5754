//! Where the lines of an axis lie.

/// An axis from 0 on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The distance of two lines: 1, 2, 2.5 or 5 times a power of ten.
    pub step: f64,
    /// The number of distances.
    pub steps: u32,
}

impl Scale {
    /// The finest of at most five steps that takes in `most`, which is positive.
    pub fn up_to(most: f64) -> Self {
        let ten = 10f64.powf((most / 5.0).log10().floor());
        let fits = |step: &f64| (most / step).ceil() <= 5.0;
        let step = [1.0, 2.0, 2.5, 5.0].map(|times| times * ten).into_iter().find(fits).unwrap_or(10.0 * ten);
        Self { step, steps: (most / step).ceil() as u32 }
    }

    /// The end of the axis.
    pub fn end(self) -> f64 {
        self.step * f64::from(self.steps)
    }

    /// The values at the lines, and each as text.
    pub fn lines(self) -> impl Iterator<Item = (f64, String)> {
        let is_whole = |digits: &usize| (self.step * 10f64.powi(*digits as i32)).fract() < 1e-6;
        let digits = (0..6).find(is_whole).unwrap_or(6);
        (0..=self.steps)
            .map(move |line| self.step * f64::from(line))
            .map(move |value| (value, format!("{value:.digits$}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number_and_its_lines_are_round() {
        for (most, step, end) in [
            (246.0, 50.0, 250.0),
            (99.0, 20.0, 100.0),
            (100.0, 20.0, 100.0),
            (1113.0, 250.0, 1250.0),
            (34.0, 10.0, 40.0),
            (425.0, 100.0, 500.0),
            (1.26, 0.5, 1.5),
        ] {
            let scale = Scale::up_to(most);
            assert_eq!((scale.step, scale.end()), (step, end), "{most}");
        }
        let texts = |most| Scale::up_to(most).lines().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts(1.26), ["0.0", "0.5", "1.0", "1.5"]);
        assert_eq!(texts(12.0), ["0.0", "2.5", "5.0", "7.5", "10.0", "12.5"]);
        assert_eq!(texts(1.2), ["0.00", "0.25", "0.50", "0.75", "1.00", "1.25"]);
    }
}
