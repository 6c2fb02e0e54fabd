//! Functions of preview 1 whose result is as long as the guest's buffer, or as long as strings of
//! the host.
//!
//! A long result is made piece by piece. Between two pieces the host checks whether the guest was
//! stopped.

use crate::abi::MODULE;
use crate::errno::{self, NAMETOOLONG};
use crate::guest::{ContextOf, split};
use crate::scratch::{PATH_MAX, PIECE_BYTES, Scratch};
use pirn_runtime::{Caller, HostError, LinkError, Linker};
use wasi_common::StringArray;
use wasi_common::snapshots::preview_1::wasi_snapshot_preview1 as wasi;
use wiggle::GuestPtr;

/// Bytes of a `dirent`. The name follows it.
const DIRENT_BYTES: usize = 24;

/// Links the functions of this file.
///
/// # Errors
///
/// If the linker already defines one of the functions.
pub(crate) fn link<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
) -> Result<(), LinkError> {
    link_strings(linker, ctx)?;
    linker.func(
        MODULE,
        "random_get",
        move |caller: Caller<'_, T>, start: u32, len: u32| random(caller, ctx, (start, len)),
    )?;
    linker.func(
        MODULE,
        "fd_readdir",
        move |caller: Caller<'_, T>, fd: i32, buf: u32, len: u32, cookie: i64, used: u32| {
            readdir(caller, ctx, (fd, cookie), (buf, len), used)
        },
    )?;
    linker.func(
        MODULE,
        "path_readlink",
        move |caller: Caller<'_, T>,
              fd: i32,
              path: i32,
              path_len: i32,
              buf: u32,
              len: u32,
              used: i32| { readlink(caller, ctx, (fd, path, path_len), (buf, len), used) },
    )?;
    linker.func(
        MODULE,
        "fd_prestat_dir_name",
        move |caller: Caller<'_, T>, fd: i32, path: u32, len: u32| {
            dir_name(caller, ctx, fd, (path, len))
        },
    )?;
    Ok(())
}

/// Links the functions that return the guest's arguments and environment variables.
fn link_strings<T: 'static, Q: 'static, A: 'static>(
    linker: &mut Linker<T, Q, A>,
    ctx: ContextOf<T>,
) -> Result<(), LinkError> {
    let (arguments, variables): (StringsOf, StringsOf) = (|ctx| &ctx.args, |ctx| &ctx.env);
    for (name, sizes_name, strings) in [
        ("args_get", "args_sizes_get", arguments),
        ("environ_get", "environ_sizes_get", variables),
    ] {
        linker.func(
            MODULE,
            sizes_name,
            move |caller: Caller<'_, T>, count: u32, bytes: u32| {
                sizes(caller, ctx, strings, (count, bytes))
            },
        )?;
        linker.func(
            MODULE,
            name,
            move |caller: Caller<'_, T>, addresses: u32, bytes: u32| {
                give(caller, ctx, strings, (addresses, bytes))
            },
        )?;
    }
    Ok(())
}

/// Returns the arguments or the environment variables of a context.
type StringsOf = fn(&wasi_common::WasiCtx) -> &StringArray;

/// `args_sizes_get` and `environ_sizes_get`: the number of strings, and their total bytes including
/// the terminating zeros.
fn sizes<T>(
    mut caller: Caller<'_, T>,
    ctx: ContextOf<T>,
    strings: StringsOf,
    (count, bytes): (u32, u32),
) -> Result<i32, HostError> {
    let (mut memory, data) = split(&mut caller);
    memory.check(count, 4, 4)?;
    memory.check(bytes, 4, 4)?;
    let strings = strings(ctx(data));
    memory.write(count, &strings.number_elements().to_le_bytes())?;
    memory.write(bytes, &strings.cumulative_size().to_le_bytes())?;
    Ok(0)
}

/// `args_get` and `environ_get`: writes the strings and an array of their addresses.
fn give<T>(
    mut caller: Caller<'_, T>,
    ctx: ContextOf<T>,
    strings: StringsOf,
    (addresses, bytes): (u32, u32),
) -> Result<i32, HostError> {
    let (mut memory, data) = split(&mut caller);
    let strings = strings(ctx(data));
    let (count, len) = (strings.number_elements(), strings.cumulative_size());
    memory.check_answer(addresses, (count as usize * 4, 4))?;
    memory.check_answer(bytes, (len as usize, 1))?;
    let (to, list) = (GuestPtr::new(bytes), GuestPtr::new(addresses));
    match strings.write_to_guest(&mut memory.all(), to, list) {
        Ok(()) => Ok(0),
        Err(error) => Err(HostError::message(format!(
            "strings for the guest: {error:#}"
        ))),
    }
}

/// `random_get`: a guest may ask for as many bytes as its memory holds.
fn random<T>(
    mut caller: Caller<'_, T>,
    ctx: ContextOf<T>,
    (start, len): (u32, u32),
) -> Result<i32, HostError> {
    split(&mut caller).0.check(start, len.into(), 1)?;
    let mut scratch = Scratch::take();
    let at = scratch.reserve(PIECE_BYTES);
    let mut done = 0;
    while done < len && !caller.is_stopped() {
        let (mut memory, data) = split(&mut caller);
        let some = (len - done).min(PIECE_BYTES as u32);
        let here = &mut scratch.memory();
        let got = wasi::random_get(ctx(data).common(), here, at as i32, some.cast_signed());
        match errno::of_call("random_get", got)? {
            0 => memory.write(start + done, scratch.range(at, some as usize))?,
            errno => return Ok(errno),
        }
        done += some;
    }
    Ok(0)
}

/// `fd_readdir`: directory entries starting at a cookie, until the guest's buffer is full.
fn readdir<T>(
    mut caller: Caller<'_, T>,
    ctx: ContextOf<T>,
    (fd, mut cookie): (i32, i64),
    (buf, len): (u32, u32),
    used: u32,
) -> Result<i32, HostError> {
    let (memory, _) = split(&mut caller);
    memory.check(buf, len.into(), 1)?;
    memory.check(used, 4, 4)?;
    let mut scratch = Scratch::take();
    let (got, at) = (scratch.reserve(4), scratch.reserve(PIECE_BYTES));
    let mut done = 0;
    loop {
        let (mut memory, data) = split(&mut caller);
        let room = len - done;
        let piece = room.min(PIECE_BYTES as u32);
        let here = &mut scratch.memory();
        let read = wasi::fd_readdir(
            ctx(data).common(),
            here,
            fd,
            at as i32,
            piece.cast_signed(),
            cookie,
            got as i32,
        );
        match errno::of_call("fd_readdir", read)? {
            0 => (),
            errno => return Ok(errno),
        }
        let bytes = scratch.number(got).min(piece);
        // A full piece may end inside an entry. The next piece then starts with this entry. Only
        // the last piece of the guest's buffer may end inside an entry.
        let is_last = bytes < piece || piece == room;
        let entries = scratch.range(at, bytes as usize);
        clear_padding(entries);
        let (whole, next) = whole_entries(entries).unwrap_or((0, cookie));
        let some = if is_last { bytes } else { whole as u32 };
        memory.write(buf + done, &entries[..some as usize])?;
        (done, cookie) = (done + some, next);
        if is_last || some == 0 || caller.is_stopped() {
            break;
        }
    }
    split(&mut caller).0.write(used, &done.to_le_bytes())?;
    Ok(0)
}

/// Clears the padding of entries: wasi-common copies whatever bytes the padding has.
fn clear_padding(mut entries: &mut [u8]) {
    const PADDING: core::ops::Range<usize> = 21..DIRENT_BYTES;
    loop {
        let name_len = entries.get(16..20).and_then(<[u8]>::first_chunk);
        let Some(name_len) = name_len.copied().map(u32::from_le_bytes) else {
            return;
        };
        let end = PADDING.end.min(entries.len());
        if let Some(padding) = entries.get_mut(PADDING.start..end) {
            padding.fill(0);
        }
        let next = (DIRENT_BYTES + name_len as usize).min(entries.len());
        entries = &mut entries[next..];
    }
}

/// Bytes of the complete entries, and the cookie of the entry after them.
fn whole_entries(bytes: &[u8]) -> Option<(usize, i64)> {
    let (mut whole, mut cookie) = (0, None);
    while let Some(entry) = bytes[whole..].first_chunk::<DIRENT_BYTES>() {
        let [a, b, c, d] = [entry[16], entry[17], entry[18], entry[19]];
        let name_len = u32::from_le_bytes([a, b, c, d]) as usize;
        if bytes.len() - whole - DIRENT_BYTES < name_len {
            break;
        }
        whole += DIRENT_BYTES + name_len;
        cookie = entry.first_chunk().map(|next| i64::from_le_bytes(*next));
    }
    Some((whole, cookie?))
}

/// `path_readlink`: the target of a symbolic link, cut to the guest's buffer.
fn readlink<T>(
    mut caller: Caller<'_, T>,
    ctx: ContextOf<T>,
    (fd, path, path_len): (i32, i32, i32),
    (buf, len): (u32, u32),
    used: i32,
) -> Result<i32, HostError> {
    let (mut memory, data) = split(&mut caller);
    let mut scratch = Scratch::take();
    let Some((path, path_len)) = scratch.path(&memory, path, path_len)? else {
        return Ok(NAMETOOLONG);
    };
    let used = scratch.answer(&memory, used, (4, 4))?;
    let at = scratch.reserve(PATH_MAX as usize);
    // A target of a symbolic link on Linux is at most `PATH_MAX` bytes long.
    let len = len.min(PATH_MAX);
    let here = &mut scratch.memory();
    let read = wasi::path_readlink(
        ctx(data).common(),
        here,
        fd,
        path,
        path_len,
        at as i32,
        len.cast_signed(),
        used,
    );
    let errno = errno::of_call("path_readlink", read)?;
    if errno == 0 {
        let bytes = scratch.number(used as usize).min(len);
        memory.write(buf, scratch.range(at, bytes as usize))?;
        scratch.give(&mut memory)?;
    }
    Ok(errno)
}

/// `fd_prestat_dir_name`: the name of a preopened directory.
fn dir_name<T>(
    mut caller: Caller<'_, T>,
    ctx: ContextOf<T>,
    fd: i32,
    (path, len): (u32, u32),
) -> Result<i32, HostError> {
    let (mut memory, data) = split(&mut caller);
    let mut scratch = Scratch::take();
    let (stat, at) = (scratch.reserve(8), scratch.reserve(PIECE_BYTES));
    let ctx = ctx(data).common();
    let len = len.min(PIECE_BYTES as u32).cast_signed();
    let here = &mut scratch.memory();
    let named = wasi::fd_prestat_dir_name(ctx, here, fd, at as i32, len);
    match errno::of_call("fd_prestat_dir_name", named)? {
        0 => (),
        errno => return Ok(errno),
    }
    // Get the length of the name.
    let here = &mut scratch.memory();
    let got = wasi::fd_prestat_get(ctx, here, fd, stat as i32);
    let errno = errno::of_call("fd_prestat_get", got)?;
    if errno == 0 {
        let bytes = scratch.number(stat + 4).min(len.cast_unsigned());
        memory.write(path, scratch.range(at, bytes as usize))?;
    }
    Ok(errno)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(next: u64, name: &[u8]) -> Vec<u8> {
        let mut bytes = [next.to_le_bytes(), 7_u64.to_le_bytes()].concat();
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend([4, 0, 0, 0]);
        bytes.extend(name);
        bytes
    }

    #[test]
    fn padding_is_cleared_and_nothing_else() {
        let clean = [entry(1, b"one"), entry(2, b""), entry(3, b"another")].concat();
        let mut dirty = clean.clone();
        for start in [0, 27, 51] {
            dirty[start + 21..start + 24].fill(0xaa);
        }
        for len in 0..=dirty.len() {
            let mut some = dirty[..len].to_vec();
            clear_padding(&mut some);
            assert_eq!(some, clean[..len], "{len}");
        }
    }

    #[test]
    fn a_piece_is_cut_behind_its_last_whole_entry() {
        let both = [entry(1, b"one"), entry(2, b"another")].concat();
        let first = DIRENT_BYTES + 3;
        for len in 0..=both.len() {
            let expected = match len {
                len if len == both.len() => Some((len, 2)),
                len if len >= first => Some((first, 1)),
                _ => None,
            };
            assert_eq!(whole_entries(&both[..len]), expected, "{len}");
        }
    }
}
