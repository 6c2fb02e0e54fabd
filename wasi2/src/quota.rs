//! [`Quota`]: limits the number of objects of one kind that a guest has.

use pirn_component::HeldBytes;
use std::sync::Arc;

/// Counts the tokens that exist.
#[derive(Debug, Default)]
pub(crate) struct Quota(Arc<()>);

/// Counts as one object until it is dropped.
#[derive(Debug)]
pub(crate) struct Token {
    _counted: Arc<()>,
}

/// The token of a connection and the count of its host memory, which the parts of the connection
/// share. The extensions of a request carry both to the name lookup, so that the connection counts
/// until getaddrinfo(3) returns.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    _shared: Arc<(Token, HeldBytes)>,
}

impl Counted {
    pub(crate) fn new(token: Token, held: HeldBytes) -> Self {
        Self {
            _shared: Arc::new((token, held)),
        }
    }
}

impl Quota {
    /// Makes one more token, unless `max` tokens exist.
    pub(crate) fn take(&mut self, max: usize) -> Option<Token> {
        // Only this function makes tokens, so the number can only decrease after this check.
        let given = Arc::strong_count(&self.0) - 1;
        (given < max).then(|| Token {
            _counted: Arc::clone(&self.0),
        })
    }
}
