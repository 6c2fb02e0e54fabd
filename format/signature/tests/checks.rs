//! What is refused: keys that are none, signatures that are none, and signatures of other bytes, by
//! other keys, or changed.

use minisign::KeyPair;
use pirn_signature::{KEY_BYTES_MAX, PublicKey, SIGNATURE_BYTES_MAX, SignatureError, check};
use pirn_testing::signing::{Pair, is_one_line, public_text};

const MODULE: &[u8] = b"\x7fELF, and the rest of a module";

/// The error for this signature of [`MODULE`].
fn refusal(signature: &str, key: &Pair) -> SignatureError {
    let keys = std::slice::from_ref(&key.public);
    check(MODULE, signature, keys).expect_err(signature)
}

#[test]
fn a_signature_of_any_of_the_keys_holds() {
    let pairs = [Pair::new(), Pair::new(), Pair::new()];
    let keys = pairs.each_ref().map(|pair| pair.public.clone());
    for pair in &pairs {
        let signed = check(MODULE, &pair.sign(MODULE), &keys).expect("it holds");
        assert_eq!(signed.key, pair.public.id());
        assert!(
            signed
                .comment
                .starts_with("timestamp:1767225600 file:module.so ")
        );
    }
    // One that minisign made, whose comment names neither length nor hash.
    let comment = "timestamp:1\tfile:other\thashed";
    let signed = check(MODULE, &pairs[1].sign_as(MODULE, comment), &keys);
    assert!(signed.is_ok(), "{signed:?}");
}

#[test]
fn another_key_is_named_with_the_trusted_ones() {
    let [one, two, three] = [Pair::new(), Pair::new(), Pair::new()];
    let keys = [two.public.clone(), three.public.clone()];
    let error = check(MODULE, &one.sign(MODULE), &keys).expect_err("it is refused");
    assert!(matches!(error, SignatureError::OtherKey { .. }), "{error}");
    let [one, two, three] = [one, two, three].map(|pair| pair.public.id().to_string());
    is_one_line(
        &error,
        &[&one, &two, &three, "; sign it with a trusted key"],
    );
    let error = check(MODULE, "", &[]).expect_err("there is no key");
    is_one_line(&error, &["no key is trusted"]);
}

#[test]
fn a_key_with_the_id_of_a_trusted_one_proves_nothing() {
    let (trusted, other) = (Pair::new(), Pair::new());
    // A signature has the id in plain text, so anyone can write the trusted one there.
    let [honest, forged] = [&trusted, &other].map(|pair| pair.sign(MODULE));
    let [honest, mut forged] = [honest, forged].map(|text| lines(&text));
    // 16 characters of base64 are the algorithm, the id and two bytes of the signature.
    forged[1].replace_range(..12, &honest[1][..12]);
    let mut is_forged = 0;
    for last in ["A", "B", "Q", "g", "w"] {
        // The id ends within the 14th character: all values of its other bits are tried in part.
        let mut forged = forged.clone();
        forged[1].replace_range(12..14, &format!("{}{last}", &honest[1][12..13]));
        let error = check(
            MODULE,
            &text(&forged),
            std::slice::from_ref(&trusted.public),
        );
        let error = error.expect_err("it is refused");
        is_forged += usize::from(matches!(error, SignatureError::Forged { .. }));
    }
    // The real 14th character, so that the id is exactly the trusted one.
    forged[1].replace_range(12..14, &honest[1][12..14]);
    let error = refusal(&text(&forged), &trusted);
    assert!(matches!(error, SignatureError::Forged { .. }), "{error}");
    is_one_line(&error, &[&trusted.public.id().to_string()]);
    assert!(is_forged <= 5);
    // Two trusted keys with one id: each is tried.
    let twin = twin(&trusted, &other);
    let keys = [twin, trusted.public.clone()];
    assert!(check(MODULE, &trusted.sign(MODULE), &keys).is_ok());
}

/// The key of `other` with the id of `id`.
fn twin(id: &Pair, other: &Pair) -> PublicKey {
    let bytes = [
        &id.pair.pk.to_bytes()[..10],
        &other.pair.pk.to_bytes()[10..],
    ]
    .concat();
    let key = minisign::PublicKey::from_bytes(&bytes).expect("a key");
    PublicKey::parse(&key.to_box().expect("text").to_string()).expect("a key")
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

fn text(lines: &[String]) -> String {
    lines.join("\n") + "\n"
}

#[test]
fn other_bytes_are_told_by_length_then_by_hash() {
    let key = Pair::new();
    let signature = key.sign(MODULE);
    let keys = std::slice::from_ref(&key.public);
    let refused = |bytes: &[u8]| check(bytes, &signature, keys).expect_err("it is refused");
    for cut in 0..MODULE.len() {
        let error = refused(&MODULE[..cut]);
        assert!(matches!(error, SignatureError::Length { .. }), "{error}");
        let found = format!(
            "it has {cut} bytes, its signature is of {} bytes",
            MODULE.len()
        );
        is_one_line(&error, &[&found, "; copy it again"]);
    }
    let error = refused(&[MODULE, b"!"].concat());
    assert!(matches!(error, SignatureError::Length { .. }), "{error}");
    for at in 0..MODULE.len() {
        let mut changed = MODULE.to_vec();
        changed[at] ^= 1 << (at % 8);
        let error = refused(&changed);
        assert!(matches!(error, SignatureError::Content { .. }), "{error}");
        is_one_line(
            &error,
            &["compiled again without --sign", "; sign it again"],
        );
    }
    // Without length and hash in the comment, the comment is shown, but not to a terminal.
    let signature = key.sign_as(MODULE, "file:x\x1b[2J\ttimestamp:1");
    let error = check(b"other", &signature, keys).expect_err("it is refused");
    assert!(matches!(error, SignatureError::OtherFile { .. }), "{error}");
    is_one_line(&error, &["file:x\\u{1b}[2J timestamp:1", "its 5 bytes"]);
}

#[test]
fn each_changed_bit_of_a_signature_is_refused() {
    let key = Pair::new();
    let signature = key.sign(MODULE);
    let comment = signature.find('\n').expect("a line") + 1;
    let mut refused = 0;
    for at in 0..signature.len() {
        for bit in 0..8 {
            let mut changed = signature.clone().into_bytes();
            changed[at] ^= 1 << bit;
            // A file that is not text is refused before it is parsed.
            let Ok(changed) = String::from_utf8(changed) else {
                continue;
            };
            let checked = check(MODULE, &changed, std::slice::from_ref(&key.public));
            let is_last_break = at == signature.len() - 1;
            if at < comment || is_last_break {
                // Nobody signs the first line, nor what ends the last.
                continue;
            }
            match checked {
                Err(error) => is_one_line(&error, &["; "]),
                // A line may end with a carriage return or not.
                Ok(_) => panic!("bit {bit} of byte {at} makes no difference: {changed:?}"),
            }
            refused += 1;
        }
    }
    assert!(refused > 1500, "{refused}");
}

#[test]
fn a_changed_trusted_comment_is_refused() {
    let key = Pair::new();
    let signature = key.sign(MODULE);
    for (from, to) in [
        ("timestamp:1767225600", "timestamp:1767225601"),
        ("file:module.so", "file:other.so"),
        ("\thashed", ""),
        ("trusted comment: ", "trusted comment:  "),
    ] {
        // The first line has "untrusted comment: ".
        let (first, rest) = signature.split_once('\n').expect("lines");
        let changed = format!("{first}\n{}", rest.replacen(from, to, 1));
        assert_ne!(changed, signature);
        let error = refusal(&changed, &key);
        assert!(matches!(error, SignatureError::Forged { .. }), "{error}");
    }
    // The comment of another signature by the same key.
    let [mut mixed, other] = [key.sign(MODULE), key.sign(b"other")].map(|text| lines(&text));
    mixed[2] = other[2].clone();
    refusal(&text(&mixed), &key);
    mixed[3] = other[3].clone();
    let error = refusal(&text(&mixed), &key);
    assert!(matches!(error, SignatureError::Length { .. }), "{error}");
}

#[test]
fn a_signature_of_another_module_is_refused() {
    let key = Pair::new();
    let mut other = MODULE.to_vec();
    other[9] = b'.';
    let error = refusal(&key.sign(&other), &key);
    let [found, signed] = [MODULE, &other[..]].map(blake3);
    is_one_line(&error, &[&found, &signed, "it was replaced"]);
}

/// The first half of a hash, as messages have it.
fn blake3(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..16].to_owned()
}

#[test]
fn the_legacy_format_is_refused() {
    // Of minisign's own documentation: a legacy signature of "test".
    let key = "untrusted comment: minisign public key E7620F1842B4E81F\n\
               RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3\n";
    let signature = "untrusted comment: signature from minisign secret key\n\
        RWQf6LRCGA9i59SLOFxz6NxvASXDJeRtuZykwQepbDEGt87ig1BNpWaVWuNrm73YiIiJbq71Wi+dP9eKL8OC351v\
        wIasSSbXxwA=\n\
        trusted comment: timestamp:1555779966\tfile:test\n\
        QtKMXWyYcwdpZAlPF7tE2ENJkRd1ujvKjlj1m9RtHTBnZPa5WKU5uWRs5GoP5M/VqE81QFuMKI5k/SfNQUaOAA==\n";
    let key = PublicKey::parse(key).expect("a key");
    let error = check(b"test", signature, &[key]).expect_err("it is refused");
    assert!(matches!(error, SignatureError::Legacy), "{error}");
    is_one_line(
        &error,
        &["legacy format (Ed)", "(ED)", "; sign it again without -l"],
    );
}

#[test]
fn what_is_no_signature_is_described() {
    let key = Pair::new();
    let good = key.sign(MODULE);
    let mut cases = vec![
        (String::new(), "it has 0 lines, a signature has 4"),
        ("x".to_owned(), "it has 1 line, a signature has 4"),
        ("\n\n\n\n".to_owned(), "does not begin with"),
        (public_text(&key.pair), "it has 2 lines"),
        (format!("{good}more\n"), "it has 5 lines"),
        (
            good.replacen("untrusted", "trusted", 1),
            "does not begin with",
        ),
        (good.replacen("\nRU", "\nRV", 1), "its algorithm is unknown"),
        (
            good.replacen("trusted comment: t", "t", 2),
            "is not what minisign writes",
        ),
        (
            "x".repeat(SIGNATURE_BYTES_MAX as usize + 1),
            "more than 16384 bytes",
        ),
    ];
    let rows = lines(&good);
    for row in [1, 3] {
        for line in [
            "",
            "====",
            "AAAA",
            &rows[row][4..],
            &format!("{}AAAA", rows[row]),
        ] {
            let mut changed = rows.clone();
            changed[row] = line.to_owned();
            cases.push((text(&changed), ""));
        }
    }
    for (bad, part) in cases {
        let error = refusal(&bad, &key);
        assert!(
            matches!(error, SignatureError::Malformed { .. }),
            "{error}: {bad}"
        );
        is_one_line(&error, &[part, "; sign it again"]);
    }
    // Each cut of a signature, but for its last line break.
    for cut in 0..good.len() - 1 {
        refusal(&good[..cut], &key);
    }
    // At the limit of bytes, a long comment is not refused for its length.
    let missing = SIGNATURE_BYTES_MAX as usize - good.len();
    let full = good.replacen(
        "untrusted comment: ",
        &format!("untrusted comment: {}", "x".repeat(missing)),
        1,
    );
    assert_eq!(full.len() as u64, SIGNATURE_BYTES_MAX);
    assert!(check(MODULE, &full, std::slice::from_ref(&key.public)).is_ok());
}

#[test]
fn what_is_no_public_key_is_described() {
    let pair = KeyPair::generate_unencrypted_keypair().expect("random bytes");
    let secret = pair.sk.to_box(None).expect("text").to_string();
    // The first bytes of a key that a password encrypts: "Ed", "Sc", "B2".
    let encrypted = secret.replacen("\nRWQAAEIy", "\nRWRTY0Iy", 1);
    let public = public_text(&pair);
    let signature = Pair::new().sign(MODULE);
    let line = public.lines().nth(1).expect("a key").to_owned();
    for (text, part) in [
        (secret, "it is a secret key"),
        (encrypted, "it is a secret key"),
        (signature, "it is a signature"),
        (String::new(), "it has 0 lines, a key has 2"),
        (line.clone(), "it has 1 line, a key has 2"),
        (format!("{public}{line}\n"), "it has 3 lines"),
        (format!("comment\n{line}\n"), "does not begin with"),
        (
            format!("untrusted comment: x\n{}\n", &line[1..]),
            "not a key in base64",
        ),
        (
            format!("untrusted comment: x\nAA{}\n", &line[2..]),
            "not a key in base64",
        ),
        (
            format!("untrusted comment: x\n{line}AAAA\n"),
            "not a key in base64",
        ),
        (
            "x".repeat(KEY_BYTES_MAX as usize),
            "it has 1 line, a key has 2",
        ),
    ] {
        let error = PublicKey::parse(&text).expect_err("it is refused");
        is_one_line(&error, &[part, "; give"]);
    }
    assert!(PublicKey::parse(&public.replace('\n', "\r\n")).is_ok());
    assert_eq!(
        format!("{:?}", Pair::new().public).len(),
        "PublicKey()".len() + 16
    );
}
