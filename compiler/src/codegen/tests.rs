//! Tests which of two code versions is selected.

use super::*;

fn piece(bytes: usize) -> Option<Piece> {
    let mut piece = Piece::new(Callee::Func(0));
    piece.code = vec![0; bytes];
    Some(piece)
}

#[test]
fn the_other_is_taken_from_the_hundredth_on_that_it_is_to_save() {
    for (first, other, taken) in [
        (1000, 969, 969),
        (1000, 970, 1000),
        (1177, 1140, 1140),
        (1177, 1141, 1177),
        (199, 192, 192),
        (199, 193, 199),
        (50, 47, 47),
    ] {
        let found = smaller(piece(first), piece(other), 97).map(|piece| piece.code.len());
        assert_eq!(found, Some(taken), "{first} and {other}");
    }
}

#[test]
fn one_that_is_not_there_is_not_taken() {
    let len = |piece: Option<Piece>| piece.map(|piece| piece.code.len());
    assert_eq!(len(smaller(None, piece(9), 97)), Some(9));
    assert_eq!(len(smaller(piece(9), None, 97)), Some(9));
    assert_eq!(len(smaller(None, None, 97)), None);
}
