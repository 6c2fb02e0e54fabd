//! [`Text`]: the text format of Prometheus, version 0.0.4.

use super::values::{BUCKETS, Histogram};
use std::fmt::{Display, Write as _};

/// Names and values of labels.
pub(super) type Labels<'a> = [(&'static str, &'a str)];

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Metrics as text.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// Writes a metric: its description, and its samples by `samples`. Omits the description if
    /// there are no samples.
    pub(super) fn metric(
        &mut self,
        name: &'static str,
        help: &str,
        kind: Kind,
        samples: impl FnOnce(&mut Samples<'_>),
    ) {
        let start = self.0.len();
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        push(
            &mut self.0,
            format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"),
        );
        let described = self.0.len();
        samples(&mut Samples {
            text: &mut self.0,
            name,
        });
        if self.0.len() == described {
            self.0.truncate(start);
        } else {
            self.0.push('\n');
        }
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// Writes the samples of one metric.
pub(super) struct Samples<'a> {
    text: &'a mut String,
    name: &'static str,
}

impl Samples<'_> {
    /// Writes a value of a counter or a gauge.
    pub(super) fn number(&mut self, labels: &Labels<'_>, value: u64) {
        self.line("", labels, None, value);
    }

    pub(super) fn histogram(&mut self, labels: &Labels<'_>, histogram: &Histogram) {
        let counts = histogram.cumulative();
        for (bound, count) in BUCKETS.iter().zip(counts) {
            self.line("_bucket", labels, Some(bound), count);
        }
        let count = counts[BUCKETS.len()];
        self.line("_bucket", labels, Some(&"+Inf"), count);
        self.line("_sum", labels, None, histogram.sum_seconds());
        self.line("_count", labels, None, count);
    }

    /// Writes a line: the metric's name with a suffix, labels, the bound of a bucket, and a value.
    fn line(
        &mut self,
        suffix: &str,
        labels: &Labels<'_>,
        bound: Option<&dyn Display>,
        value: impl Display,
    ) {
        push(self.text, format_args!("{}{suffix}", self.name));
        let mut separator = '{';
        for (name, value) in labels {
            push(
                self.text,
                format_args!("{separator}{name}=\"{}\"", Escaped(value)),
            );
            separator = ',';
        }
        if let Some(bound) = bound {
            push(self.text, format_args!("{separator}le=\"{bound}\""));
            separator = ',';
        }
        let end = if separator == ',' { "}" } else { "" };
        push(self.text, format_args!("{end} {value}\n"));
    }
}

/// Writing to a string cannot fail.
fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(arguments);
}

/// The value of a label, without characters that could end the value or its line.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for char in self.0.chars() {
            match char {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(labels: &Labels<'_>) -> String {
        let mut text = Text::default();
        text.metric("a", "Help", Kind::Gauge, |samples| {
            samples.number(labels, 1);
        });
        text.finish()
    }

    #[test]
    fn a_value_of_a_label_cannot_end_its_line() {
        for (value, escaped) in [
            ("", ""),
            ("/a b{c}=,d", "/a b{c}=,d"),
            ("\"", "\\\""),
            ("\\", "\\\\"),
            ("\\\\", "\\\\\\\\"),
            ("\\n", "\\\\n"),
            ("\\\"", "\\\\\\\""),
            ("a\nb", "a\\nb"),
            ("\"} 1\na 2", "\\\"} 1\\na 2"),
            ("\u{fc}\u{2028}", "\u{fc}\u{2028}"),
        ] {
            let text = written(&[("x", value), ("y", "z")]);
            let last = format!("a{{x=\"{escaped}\",y=\"z\"}} 1");
            let lines = ["# HELP a Help", "# TYPE a gauge", &last, ""];
            assert_eq!(text.split('\n').take(4).collect::<Vec<_>>(), lines);
            assert_eq!(text.lines().count(), 4, "{text}");
        }
    }

    #[test]
    fn a_metric_without_samples_is_not_described() {
        let mut text = Text::default();
        text.metric("a", "Help", Kind::Counter, |_| {});
        assert_eq!(text.finish(), "");
        assert!(written(&[]).ends_with("gauge\na 1\n\n"));
    }
}
