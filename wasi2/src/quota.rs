//! [`Quota`]: how many things of one kind a guest has.

use std::sync::Arc;

/// Counts the tokens that were given and not dropped.
#[derive(Debug, Default)]
pub(crate) struct Quota(Arc<()>);

/// Counts as one while it lives.
#[derive(Debug)]
pub(crate) struct Token {
    _counted: Arc<()>,
}

impl Quota {
    /// One more token, unless there are `max`.
    pub(crate) fn take(&mut self, max: usize) -> Option<Token> {
        // Only this function makes tokens, so that the number can only sink meanwhile.
        let given = Arc::strong_count(&self.0) - 1;
        (given < max).then(|| Token {
            _counted: Arc::clone(&self.0),
        })
    }
}
