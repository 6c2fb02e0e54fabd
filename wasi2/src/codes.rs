//! [`error_codes`]: the errors of an interface, and the error numbers of Linux that they stand for.

/// Defines an `error-code`. All error numbers that the list does not name are `$other`.
macro_rules! error_codes {
    ($vis:vis $name:ident, else $other:ident; $($case:ident $(= $($errno:ident)|+)?;)*) => {
        /// `error-code`
        #[derive(Debug, Clone, Copy, PartialEq, Eq, pirn_component::Typed)]
        $vis enum $name {
            $($case,)*
        }

        impl From<rustix::io::Errno> for $name {
            fn from(errno: rustix::io::Errno) -> Self {
                match errno {
                    $($($(rustix::io::Errno::$errno)|+ => Self::$case,)?)*
                    _ => Self::$other,
                }
            }
        }
    };
}

pub(crate) use error_codes;
