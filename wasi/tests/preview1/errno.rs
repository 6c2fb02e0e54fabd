//! Error numbers of preview 1.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const AGAIN: i32 = 6;
pub(crate) const BADF: i32 = 8;
pub(crate) const EXIST: i32 = 20;
pub(crate) const FBIG: i32 = 22;
pub(crate) const ILSEQ: i32 = 25;
pub(crate) const INVAL: i32 = 28;
pub(crate) const ISDIR: i32 = 31;
pub(crate) const LOOP: i32 = 32;
pub(crate) const NAMETOOLONG: i32 = 37;
pub(crate) const NOENT: i32 = 44;
pub(crate) const NOTCONN: i32 = 53;
pub(crate) const NOTDIR: i32 = 54;
pub(crate) const NOTEMPTY: i32 = 55;
pub(crate) const NOTSOCK: i32 = 57;
pub(crate) const NOTSUP: i32 = 58;
pub(crate) const NXIO: i32 = 60;
pub(crate) const PERM: i32 = 63;
pub(crate) const PIPE: i32 = 64;
pub(crate) const ROFS: i32 = 69;
pub(crate) const SPIPE: i32 = 70;
