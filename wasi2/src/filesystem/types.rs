//! Records, flags and enums of `wasi:filesystem`.

use super::error::ErrorCode;
use crate::clocks::Datetime;
use pirn_component::Typed;
use pirn_wasi::files;
use std::time::Duration;

pub(crate) const TYPES: &str = "wasi:filesystem/types@0.2.12";

/// Defines an enum with the cases of an enum of [`pirn_wasi::files`].
macro_rules! cases_of {
    ($(#[$doc:meta])* $name:ident { $($case:ident,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Typed)]
        pub(crate) enum $name {
            $($case,)*
        }

        impl From<files::$name> for $name {
            fn from(of: files::$name) -> Self {
                match of {
                    $(files::$name::$case => Self::$case,)*
                }
            }
        }

        impl From<$name> for files::$name {
            fn from(of: $name) -> Self {
                match of {
                    $($name::$case => Self::$case,)*
                }
            }
        }
    };
}

cases_of! {
    /// `descriptor-type`
    FileKind {
        Unknown,
        BlockDevice,
        CharacterDevice,
        Directory,
        Fifo,
        SymbolicLink,
        RegularFile,
        Socket,
    }
}

cases_of! {
    /// `advice`
    Advice {
        Normal,
        Sequential,
        Random,
        WillNeed,
        DontNeed,
        NoReuse,
    }
}

/// `descriptor-flags`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Typed)]
#[component(flags)]
pub(crate) struct DescriptorFlags {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) file_integrity_sync: bool,
    pub(crate) data_integrity_sync: bool,
    pub(crate) requested_write_sync: bool,
    pub(crate) mutate_directory: bool,
}

/// `path-flags`
#[derive(Debug, Clone, Copy, Typed)]
#[component(flags)]
pub(crate) struct PathFlags {
    pub(crate) symlink_follow: bool,
}

/// `open-flags`
#[derive(Debug, Clone, Copy, Default, Typed)]
#[component(flags)]
pub(crate) struct OpenFlags {
    pub(crate) create: bool,
    pub(crate) directory: bool,
    pub(crate) exclusive: bool,
    pub(crate) truncate: bool,
}

/// `new-timestamp`
#[derive(Debug, Clone, Copy, Typed)]
pub(crate) enum NewTimestamp {
    NoChange,
    Now,
    Timestamp(Datetime),
}

impl NewTimestamp {
    /// The time to set.
    ///
    /// # Errors
    ///
    /// `invalid` for a second or more of nanoseconds.
    fn checked(self) -> Result<files::NewTime, ErrorCode> {
        match self {
            Self::NoChange => Ok(files::NewTime::NoChange),
            Self::Now => Ok(files::NewTime::Now),
            Self::Timestamp(time) if time.nanoseconds >= 1_000_000_000 => Err(ErrorCode::Invalid),
            Self::Timestamp(time) => {
                let since = Duration::new(time.seconds, time.nanoseconds);
                Ok(files::NewTime::At(since))
            }
        }
    }
}

/// The times to set.
///
/// # Errors
///
/// `invalid` for a second or more of nanoseconds.
pub(crate) fn new_times(
    accessed: NewTimestamp,
    modified: NewTimestamp,
) -> Result<files::NewTimes, ErrorCode> {
    Ok(files::NewTimes {
        accessed: accessed.checked()?,
        modified: modified.checked()?,
    })
}

/// `directory-entry`
#[derive(Debug, Typed)]
pub(crate) struct DirectoryEntry {
    #[component(name = "type")]
    pub(crate) kind: FileKind,
    pub(crate) name: String,
}
