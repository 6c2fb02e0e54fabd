//! Calls CRuby for WASI, a reactor whose exports take strings, as `examples/ruby.rs` does.

/// Module of the functions by which the host refers to Ruby's values.
pub const HANDLES: &str = "canonical_abi";

/// Module of the interface to JavaScript.
pub const JAVASCRIPT: &str = "rb-js-abi-host";

/// An instance of CRuby, of either engine.
pub trait RubyGuest {
    /// The export whose name begins with `prefix`.
    fn export(&mut self, prefix: &str) -> String;

    fn call(&mut self, export: &str, params: &[i32]) -> Option<i32>;

    fn write(&mut self, at: u32, bytes: &[u8]);

    fn read_u32(&mut self, at: u32) -> u32;
}

/// Starts the interpreter, after `_initialize`, and evaluates a script.
pub fn start(guest: &mut impl RubyGuest, script: &str) {
    let args = ["ruby", "-EUTF-8", "-e_=0"];
    let list = allocate(guest, args.len() * 8);
    for (at, arg) in (list..).step_by(8).zip(args) {
        let [address, bytes] = text(guest, arg);
        guest.write(at, &address.to_le_bytes());
        guest.write(at + 4, &bytes.to_le_bytes());
    }
    let init = guest.export("ruby-init: ");
    guest.call(&init, &[list.cast_signed(), args.len() as i32]);
    let load_path = guest.export("ruby-init-loadpath: ");
    guest.call(&load_path, &[]);
    evaluate(guest, script);
    // Fewer pages to write for each request.
    evaluate(guest, "GC.start");
}

/// Has the script answer the request on standard input.
pub fn answer(guest: &mut impl RubyGuest) {
    evaluate(guest, "handle");
}

fn evaluate(guest: &mut impl RubyGuest, ruby: &str) {
    let eval = guest.export("rb-eval-string-protect: ");
    let params = text(guest, ruby).map(u32::cast_signed);
    let at = guest.call(&eval, &params).expect("an address");
    let state = guest.read_u32(at.cast_unsigned() + 4);
    assert_eq!(state, 0, "Ruby raised an exception in {ruby:?}");
}

/// Copies a text to the guest: its address and its length. CRuby expects a zero byte at the end.
fn text(guest: &mut impl RubyGuest, text: &str) -> [u32; 2] {
    let text = format!("{text}\0");
    let address = allocate(guest, text.len());
    guest.write(address, text.as_bytes());
    [address, text.len() as u32]
}

/// Address of `bytes` new bytes of the guest.
fn allocate(guest: &mut impl RubyGuest, bytes: usize) -> u32 {
    let address = guest.call("cabi_realloc", &[0, 0, 4, bytes as i32]);
    address.expect("an address").cast_unsigned()
}
