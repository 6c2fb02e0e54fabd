//! [`Outcome`]: the result of a request, which is a label of the metrics.

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The guest answered.
    Ok,
    /// The guest's output is no valid answer.
    Malformed,
    /// The guest printed more than its limit.
    Output,
    /// The guest exited with a code other than 0.
    Exit,
    /// The guest trapped.
    Trap,
    /// The guest reached its deadline.
    Deadline,
    /// No slot was free in time, or too many requests wait for a slot.
    Full,
    /// A host function panicked, or the system refused a resource.
    Failed,
    /// The client closed the connection before it got its answer.
    Gone,
    /// The body of the request is larger than its limit.
    TooLarge,
    /// The body of the request did not arrive in time.
    Slow,
    /// The request is malformed.
    Bad,
    /// No route has the path of the request.
    NotFound,
}

impl Outcome {
    pub(super) const ALL: [Self; 13] = [
        Self::Ok,
        Self::Malformed,
        Self::Output,
        Self::Exit,
        Self::Trap,
        Self::Deadline,
        Self::Full,
        Self::Failed,
        Self::Gone,
        Self::TooLarge,
        Self::Slow,
        Self::Bad,
        Self::NotFound,
    ];

    /// Whether the guest or the server caused the outcome. The log reports such outcomes to the
    /// operator.
    pub(crate) fn is_guests(self) -> bool {
        match self {
            Self::Malformed | Self::Output | Self::Exit | Self::Trap => true,
            Self::Deadline | Self::Failed => true,
            Self::Ok | Self::Full | Self::Gone => false,
            Self::TooLarge | Self::Slow | Self::Bad | Self::NotFound => false,
        }
    }

    /// The label of the outcome.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Malformed => "malformed",
            Self::Output => "output",
            Self::Exit => "exit",
            Self::Trap => "trap",
            Self::Deadline => "deadline",
            Self::Full => "full",
            Self::Failed => "failed",
            Self::Gone => "gone",
            Self::TooLarge => "too_large",
            Self::Slow => "slow",
            Self::Bad => "bad",
            Self::NotFound => "not_found",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_in_their_places() {
        for (place, outcome) in Outcome::ALL.iter().enumerate() {
            assert_eq!(*outcome as usize, place, "{outcome:?}");
        }
    }
}
