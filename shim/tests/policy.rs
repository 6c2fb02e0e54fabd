//! Tests of the node's policy: invalid files, owner and mode of the file, and annotations that
//! narrow it.

use pirn_shim::annotations::Wishes;
use pirn_shim::policy::{NativeRule, Policy, SoRule, WasmRule};
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

fn refused(text: &str) -> String {
    let error = Policy::parse(text).expect_err(text);
    let message = format!("{error:#}");
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn an_empty_policy_has_the_documented_defaults() {
    let policy = Policy::parse("").unwrap();
    assert_eq!(policy.wasm, WasmRule::Any);
    assert_eq!(policy.so, SoRule::Signed);
    assert_eq!(policy.native, NativeRule::Pause);
    assert_eq!(policy.cache.to_str(), Some("/var/lib/pirn/shim"));
    assert_eq!(policy.cache_bytes_max, 1 << 30);
    assert_eq!(policy.module_bytes_max, 256 << 20);
    assert!(policy.compile.compiler.ends_with("aotc"));
    assert_eq!(policy.command.deadline, None);
    assert_eq!(policy.command.memory_max, 4 << 30);
    assert_eq!(policy.server.slots, 64);
    assert_eq!(policy.server.deadline, Duration::from_secs(1));
}

#[test]
fn whatever_is_wrong_is_an_error_of_one_line() {
    for (text, why) in [
        ("cash = 1", "line 1: unknown field `cash`"),
        (
            "server = 3",
            "line 1: invalid type: integer `3`, expected a table",
        ),
        ("\n[server]\nslot = 1", "line 3: unknown field `slot`"),
        ("[server]\nslots = 0", "line 2: \"0\" is not a count"),
        ("[server]\nslots = -1", "is not a count"),
        ("[server]\ndeadline = 5", "\"5\" is not a time"),
        ("[command]\nmemory_max = \"1GB\"", "\"1GB\" is not a size"),
        ("so = \"maybe\"", "unknown variant `maybe`"),
        ("native = true", "line 1"),
        ("wasm = \"signed\"", "trust names no key"),
        ("cache = \"var\"", "is not an absolute path"),
        ("[compile]\ncompiler = \"aotc\"", "is not an absolute path"),
        ("http_allow = [\"http://a\"]", "http_allow"),
        ("net_allow = [\"everything\"]", "net_allow"),
        ("trust = [\"/absent.pub\"]", "trust /absent.pub"),
        ("trust", "line 1"),
    ] {
        let message = refused(text);
        assert!(message.contains(why), "{text}: {message}");
    }
}

#[test]
fn keys_are_read_and_make_signatures_necessary() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pub");
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    fs::write(&path, pair.pk.to_box().unwrap().to_string()).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let text = format!("trust = [{path:?}]");
    let policy = Policy::parse(&text).unwrap();
    assert_eq!(policy.keys.len(), 1);
    assert_eq!(policy.wasm, WasmRule::Signed);
    let any = Policy::parse(&format!("wasm = \"any\"\n{text}")).unwrap();
    assert_eq!(any.wasm, WasmRule::Any);
    // Other users could replace the key.
    for mode in [0o664, 0o646, 0o666] {
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let message = refused(&text);
        assert!(
            message.contains(&format!("its mode is {mode:o}")),
            "{message}"
        );
    }
    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    assert!(refused(&text).contains("its folder"));
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
    fs::write(&path, "no key").unwrap();
    assert!(refused(&text).contains("trust "));
}

fn wishes(all: &[(&str, &str)]) -> anyhow::Result<Wishes> {
    let all: HashMap<_, _> = all
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Wishes::of(Some(&all))
}

#[test]
fn annotations_narrow_and_never_widen() {
    let policy = Policy::parse("[command]\nmemory_max = \"8MiB\"\ndeadline = \"2s\"").unwrap();
    let narrow = wishes(&[("io.pirn.memory-max", "8MiB"), ("io.pirn.deadline", "1s")]).unwrap();
    let command = narrow.narrow_command(&policy.command).unwrap();
    assert_eq!(command.memory_max, 8 << 20);
    assert_eq!(command.deadline, Some(Duration::from_secs(1)));
    for wide in [
        ("io.pirn.memory-max", "8388609"),
        ("io.pirn.deadline", "2001ms"),
    ] {
        let error = wishes(&[wide]).unwrap().narrow_command(&policy.command);
        let message = error.expect_err(wide.0).to_string();
        assert!(
            message.contains(wide.0) && message.contains("allows"),
            "{message}"
        );
    }
    let more = wishes(&[("io.pirn.slots", "65")]).unwrap();
    assert!(more.narrow_server(&policy.server).is_err());
    let fewer = wishes(&[("io.pirn.slots", "64")]).unwrap();
    assert_eq!(fewer.narrow_server(&policy.server).unwrap().slots, 64);
    // An annotation may set a limit that the policy does not set.
    let unlimited = Policy::parse("").unwrap();
    let narrowed = narrow.narrow_command(&unlimited.command).unwrap();
    assert_eq!(narrowed.deadline, Some(Duration::from_secs(1)));
}

#[test]
fn annotations_that_mean_nothing_are_errors() {
    for (name, value) in [
        ("io.pirn.", "1"),
        ("io.pirn.trust", "a.pub"),
        ("io.pirn.so", "any"),
        ("io.pirn.slots", "0"),
        ("io.pirn.port", "0"),
        ("io.pirn.port", "65536"),
        ("io.pirn.port", "http"),
        ("io.pirn.memory-max", ""),
        ("io.pirn.deadline", "forever"),
    ] {
        let error = wishes(&[(name, value)]).expect_err(name);
        assert!(format!("{error:#}").contains(name), "{error:#}");
    }
    for name in ["io.pirn.slots", "io.pirn.port", "io.pirn.admin-port"] {
        let command = Policy::parse("").unwrap().command;
        assert!(
            wishes(&[(name, "1")])
                .unwrap()
                .narrow_command(&command)
                .is_err()
        );
    }
    // The shim ignores annotations of other programs.
    assert_eq!(
        wishes(&[("io.pirnx.slots", "0")]).unwrap(),
        Wishes::default()
    );
}

#[test]
fn the_port_is_that_of_the_annotation_or_the_variable() {
    let env = [("PORT".to_owned(), "81".to_owned())];
    let bad = [("PORT".to_owned(), "a".to_owned())];
    let annotated = wishes(&[("io.pirn.port", "82")]).unwrap();
    assert_eq!(Wishes::default().port(&[]).unwrap(), 8080);
    assert_eq!(Wishes::default().port(&env).unwrap(), 81);
    assert_eq!(annotated.port(&env).unwrap(), 82);
    assert!(Wishes::default().port(&bad).is_err());
}
