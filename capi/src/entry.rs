//! The border of the library: every C function passes through this file, which catches panics and
//! checks pointers.
//!
//! # Safety
//!
//! This file owns two facts. No panic leaves a function of the library. The library uses a pointer
//! of the caller only after a check that the pointer is aligned and not null.
#![allow(unsafe_code)]

use crate::error::{Fallible, argument, panicked, pirn_error_t};
use core::ffi::{CStr, c_char};
use core::ptr::{self, NonNull};
use core::slice;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a function that can fail. Returns NULL if it succeeds. A panic becomes an
/// error.
#[inline]
pub(crate) fn guard(body: impl FnOnce() -> Fallible<()>) -> *mut pirn_error_t {
    match catch(body) {
        Ok(Ok(())) => ptr::null_mut(),
        Ok(Err(error)) => Box::into_raw(error),
        Err(error) => Box::into_raw(error),
    }
}

/// Runs the body of a function that returns no error. After a panic it returns `otherwise`.
pub(crate) fn guard_or<R>(otherwise: R, body: impl FnOnce() -> R) -> R {
    catch(body).unwrap_or(otherwise)
}

#[inline]
fn catch<R>(body: impl FnOnce() -> R) -> Result<R, Box<pirn_error_t>> {
    catch_unwind(AssertUnwindSafe(|| {
        #[cfg(test)]
        injected::panic_if_told();
        body()
    }))
    .map_err(panicked)
}

/// A handle that the function only reads.
///
/// # Errors
///
/// If the pointer is null or misaligned.
///
/// # Safety
///
/// If `pointer` is neither null nor misaligned, it must point to a live `T` that nothing changes
/// during `'a`.
#[inline]
pub(crate) unsafe fn shared<'a, T>(pointer: *const T, name: &str) -> Fallible<&'a T> {
    check(pointer, name)?;
    // SAFETY: `check` found `pointer` aligned and not null. The caller ensures that it points to a
    // live `T` that nothing changes during `'a`.
    Ok(unsafe { &*pointer })
}

/// A handle that the function changes.
///
/// # Errors
///
/// As [`shared`].
///
/// # Safety
///
/// As [`shared`], and nothing else may use the value during `'a`.
#[inline]
pub(crate) unsafe fn unique<'a, T>(pointer: *mut T, name: &str) -> Fallible<&'a mut T> {
    check(pointer, name)?;
    // SAFETY: `check` found `pointer` aligned and not null. The caller ensures that it points to a
    // live `T` that nothing else uses during `'a`.
    Ok(unsafe { &mut *pointer })
}

/// The place that a C function writes its result to.
///
/// # Errors
///
/// If the pointer is null or misaligned.
#[inline]
pub(crate) fn out<T>(pointer: *mut T, name: &str) -> Fallible<Out<T>> {
    check(pointer, name)?;
    match NonNull::new(pointer) {
        Some(place) => Ok(Out(place)),
        None => Err(null(name)),
    }
}

/// The place of a result; `None` for a null pointer, which means that the caller does not want the
/// result.
///
/// # Errors
///
/// If the pointer is misaligned.
pub(crate) fn out_or_null<T>(pointer: *mut T, name: &str) -> Fallible<Option<Out<T>>> {
    match pointer.is_null() {
        true => Ok(None),
        false => out(pointer, name).map(Some),
    }
}

/// The place of a result, written when the function succeeds.
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Writes the result.
    ///
    /// # Safety
    ///
    /// The pointer given to [`out`] must be valid for a write of `T`.
    #[inline]
    pub(crate) unsafe fn set(self, value: T) {
        // SAFETY: the caller ensures that the pointer given to `out` is writable. `out` checked its
        // alignment.
        unsafe { self.0.as_ptr().write(value) };
    }
}

impl<T> Out<*mut T> {
    /// Writes a new handle, which then belongs to the caller of the function.
    ///
    /// # Safety
    ///
    /// As [`set`](Self::set).
    pub(crate) unsafe fn give(self, value: T) {
        let handle = Box::into_raw(Box::new(value));
        // SAFETY: the caller ensures that the place is writable.
        unsafe { self.set(handle) };
    }
}

/// A list of the caller. `pointer` may be null if `count` is 0.
///
/// # Errors
///
/// If the pointer is null or misaligned and `count` is not 0, or if the list is larger than the
/// address space.
///
/// # Safety
///
/// If there is no error and `count` is not 0, `pointer` must point to `count` values that nothing
/// changes during `'a`.
#[inline]
pub(crate) unsafe fn list<'a, T>(pointer: *const T, count: usize, name: &str) -> Fallible<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check(pointer, name)?;
    fits::<T>(count, name)?;
    // SAFETY: `check` found the pointer usable, `fits` the size. The caller ensures the rest.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// A list of the caller that the function writes to.
///
/// # Errors
///
/// As [`list`].
///
/// # Safety
///
/// As [`list`]. The `count` values must be writable, and nothing else may use them during `'a`. `T`
/// must be valid for any bytes, even uninitialised bytes.
#[inline]
pub(crate) unsafe fn list_mut<'a, T>(
    pointer: *mut T,
    count: usize,
    name: &str,
) -> Fallible<&'a mut [T]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check(pointer, name)?;
    fits::<T>(count, name)?;
    // SAFETY: `check` found the pointer usable, `fits` the size. The caller ensures the rest.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, count) })
}

/// A text of the caller.
///
/// # Errors
///
/// If the pointer is null, or if the text is not UTF-8.
///
/// # Safety
///
/// Unless `pointer` is null, a zero byte must end the text, and nothing may change the text during
/// `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Fallible<&'a str> {
    // SAFETY: the caller ensures that a zero byte ends the text at `pointer`, and that nothing
    // changes the text during `'a`.
    utf8(unsafe { raw_text(pointer, name)? }, name)
}

/// Bytes of the caller as a text.
///
/// # Errors
///
/// If the bytes are not UTF-8.
pub(crate) fn utf8<'a>(bytes: &'a [u8], name: &str) -> Fallible<&'a str> {
    let utf8 = core::str::from_utf8(bytes);
    utf8.map_err(|error| {
        let valid = error.valid_up_to();
        argument(format!(
            "`{name}` is UTF-8 only for its first {valid} bytes of {}; pass UTF-8",
            bytes.len()
        ))
    })
}

/// A text of the caller in any encoding: a path.
///
/// # Errors
///
/// If the pointer is null.
///
/// # Safety
///
/// As [`text`].
pub(crate) unsafe fn raw_text<'a>(pointer: *const c_char, name: &str) -> Fallible<&'a [u8]> {
    check(pointer, name)?;
    // SAFETY: `check` found `pointer` not null. The caller ensures that a zero byte ends the text,
    // and that nothing changes the text during `'a`.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

#[inline]
fn check<T>(pointer: *const T, name: &str) -> Fallible<()> {
    if pointer.is_null() {
        return Err(null(name));
    }
    if !pointer.is_aligned() {
        return Err(misaligned(name, pointer.addr(), align_of::<T>()));
    }
    Ok(())
}

/// Checks that a list is not larger than a Rust slice may be.
#[inline]
fn fits<T>(count: usize, name: &str) -> Fallible<()> {
    let bytes = count.checked_mul(size_of::<T>());
    match bytes.is_some_and(|bytes| bytes <= isize::MAX.cast_unsigned()) {
        true => Ok(()),
        false => Err(argument(format!(
            "`{name}` has {count} elements, which no address space holds; pass the right count"
        ))),
    }
}

#[cold]
fn null(name: &str) -> Box<pirn_error_t> {
    argument(format!("`{name}` is NULL; pass a valid pointer"))
}

#[cold]
fn misaligned(name: &str, address: usize, align: usize) -> Box<pirn_error_t> {
    argument(format!(
        "`{name}` is {address:#x}, which is no multiple of {align}; pass an aligned pointer"
    ))
}

/// Reads a handle in a function that returns no error. Returns `otherwise` for a null handle, and
/// if `read` panics.
///
/// # Safety
///
/// `handle` must be null, or a live handle that nothing changes during the call.
pub(crate) unsafe fn read<T, R: Copy>(
    handle: *const T,
    otherwise: R,
    read: impl FnOnce(&T) -> R,
) -> R {
    guard_or(otherwise, || {
        // SAFETY: the caller ensures that `handle` is null, or live and unchanged during the call.
        unsafe { handle.as_ref() }.map_or(otherwise, read)
    })
}

/// Writes item `index` of a list to `place`, converted by `in_c`. Returns 1, or 0 without a write
/// if there is no such item, or if `place` is null or misaligned.
///
/// # Safety
///
/// If `place` is neither null nor misaligned, it must be valid for a write of `C`.
pub(crate) unsafe fn item<T, C>(
    all: &[T],
    index: usize,
    place: *mut C,
    in_c: impl FnOnce(&T) -> C,
) -> i32 {
    let (Some(found), Ok(place)) = (all.get(index), out(place, "item")) else {
        return 0;
    };
    // SAFETY: the caller ensures that the place is writable.
    unsafe { place.set(in_c(found)) };
    1
}

/// Makes another handle from `handle`. The caller deletes the new handle. Null for null.
///
/// # Safety
///
/// As [`read`].
pub(crate) unsafe fn another<T>(handle: *const T, make: impl FnOnce(&T) -> T) -> *mut T {
    let made = |handle: &T| Box::into_raw(Box::new(make(handle)));
    // SAFETY: the caller ensures that `handle` is null, or live and unchanged during the call.
    unsafe { read(handle, ptr::null_mut(), made) }
}

/// Takes over a handle that the caller gives away; `None` for null.
///
/// # Safety
///
/// `handle` must be null, or a handle that this library boxed and that nothing uses any more.
pub(crate) unsafe fn taken<T>(handle: *mut T) -> Option<Box<T>> {
    // SAFETY: the caller ensures that this library boxed `handle`, and that nothing uses it any
    // more.
    (!handle.is_null()).then(|| unsafe { Box::from_raw(handle) })
}

/// Frees a handle, unless it is null.
///
/// # Safety
///
/// As [`taken`].
pub(crate) unsafe fn delete<T>(handle: *mut T) {
    // SAFETY: the caller ensures that this library boxed `handle`, and that nothing uses it any
    // more.
    guard_or((), || drop(unsafe { taken(handle) }));
}

/// Panics that the tests of this crate cause in the next function.
#[cfg(test)]
pub(crate) mod injected {
    use core::cell::Cell;

    thread_local! {
        static NEXT: Cell<bool> = const { Cell::new(false) };
    }

    /// Makes the next function of this thread panic.
    pub(crate) fn panic_next() {
        NEXT.set(true);
    }

    pub(super) fn panic_if_told() {
        assert!(!NEXT.take(), "injected");
    }
}

#[cfg(test)]
mod tests;
