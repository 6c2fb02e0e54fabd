//! [`Utc`]: a point in time as date and time of day in UTC, which needs no time zone database.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A date and a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Utc {
    date: Date,
    second_of_day: u64,
    microsecond: u32,
}

/// A date of the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    year: u64,
    /// From 1.
    month: u64,
    /// From 1.
    day: u64,
}

impl From<SystemTime> for Utc {
    /// A time before 1970 becomes the start of 1970: the clock of such a machine is not set.
    fn from(time: SystemTime) -> Self {
        const DAY: u64 = 24 * 3600;
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            date: Date::after_1970(since.as_secs() / DAY),
            second_of_day: since.as_secs() % DAY,
            microsecond: since.subsec_micros(),
        }
    }
}

impl Utc {
    /// As in `2026-01-31T23:59:59.000001Z` (RFC 3339).
    pub(crate) fn rfc3339(self) -> String {
        let Date { year, month, day } = self.date;
        let (clock, micros) = (self.clock(), self.microsecond);
        format!("{year:04}-{month:02}-{day:02}T{clock}.{micros:06}Z")
    }

    /// As in `31/Jan/2026:23:59:59 +0000`, the form of Apache's logs.
    pub(crate) fn common_log(self) -> String {
        let Date { year, month, day } = self.date;
        let (clock, month) = (self.clock(), MONTHS[month as usize - 1]);
        format!("{day:02}/{month}/{year:04}:{clock} +0000")
    }

    fn clock(self) -> String {
        let second = self.second_of_day;
        format!(
            "{:02}:{:02}:{:02}",
            second / 3600,
            second / 60 % 60,
            second % 60
        )
    }
}

impl Date {
    /// The date `days` days after 1 January 1970.
    fn after_1970(days: u64) -> Self {
        /// Days from 1 March of the year 0 to 1970. If years begin in March, a leap day is the last
        /// day of its year.
        const DAYS_BEFORE_1970: u64 = 719_468;
        /// Days of 400, of 100 and of 4 years that begin with a March, and of one year.
        const DAYS: [u64; 4] = [146_097, 36_524, 1_461, 365];
        /// The months from March on. February has the rest.
        const MONTHS: [u64; 11] = [31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31];
        let mut days = days + DAYS_BEFORE_1970;
        let mut take = |length: u64, most: u64| {
            let count = (days / length).min(most);
            days -= count * length;
            count
        };
        let mut year = 400 * take(DAYS[0], u64::MAX);
        // The last century of 400 years and the last year of four years have one more leap day.
        year += 100 * take(DAYS[1], 3) + 4 * take(DAYS[2], u64::MAX) + take(DAYS[3], 3);
        let months = MONTHS
            .into_iter()
            .take_while(|length| take(*length, 1) == 1);
        let month = months.count() as u64;
        Self {
            // January and February belong to the year that began in March before.
            year: year + u64::from(month >= 10),
            month: (month + 2) % 12 + 1,
            day: days + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64, nanos: u32) -> Utc {
        Utc::from(UNIX_EPOCH + Duration::new(seconds, nanos))
    }

    #[test]
    fn dates_follow_each_other_for_a_thousand_years() {
        let mut expected = Date {
            year: 1970,
            month: 1,
            day: 1,
        };
        for days in 0..1000 * 366 {
            assert_eq!(Date::after_1970(days), expected);
            let year = expected.year;
            let is_leap =
                year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
            let length = match expected.month {
                2 => 28 + u64::from(is_leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected.day += 1;
            if expected.day > length {
                (expected.month, expected.day) = (expected.month + 1, 1);
            }
            if expected.month > 12 {
                (expected.year, expected.month) = (year + 1, 1);
            }
        }
        assert!(expected.year > 2970);
    }

    #[test]
    fn both_forms_have_a_fixed_width() {
        for (seconds, nanos, rfc3339, common_log) in [
            (
                0,
                0,
                "1970-01-01T00:00:00.000000Z",
                "01/Jan/1970:00:00:00 +0000",
            ),
            (
                951_782_399,
                999_999_999,
                "2000-02-28T23:59:59.999999Z",
                "28/Feb/2000:23:59:59 +0000",
            ),
            (
                951_782_400,
                1_999,
                "2000-02-29T00:00:00.000001Z",
                "29/Feb/2000:00:00:00 +0000",
            ),
            (
                1_767_225_599,
                500_000,
                "2025-12-31T23:59:59.000500Z",
                "31/Dec/2025:23:59:59 +0000",
            ),
            (
                4_107_542_399,
                0,
                "2100-02-28T23:59:59.000000Z",
                "28/Feb/2100:23:59:59 +0000",
            ),
            (
                4_107_542_400,
                0,
                "2100-03-01T00:00:00.000000Z",
                "01/Mar/2100:00:00:00 +0000",
            ),
        ] {
            assert_eq!(at(seconds, nanos).rfc3339(), rfc3339);
            assert_eq!(at(seconds, nanos).common_log(), common_log);
        }
    }

    #[test]
    fn no_clock_makes_it_panic() {
        let start = at(0, 0);
        for before in [Duration::from_nanos(1), Duration::from_secs(1 << 40)] {
            assert_eq!(Utc::from(UNIX_EPOCH - before), start);
        }
        let last = UNIX_EPOCH.checked_add(Duration::from_secs(i64::MAX as u64));
        let last = Utc::from(last.expect("the clock's last second"));
        assert!(last.date.year > 292_000_000_000 && last.rfc3339().ends_with(".000000Z"));
    }
}
