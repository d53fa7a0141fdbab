//! Against itself (what is repainted is the same), against `vt100`, and against whatever comes.

use proptest::prelude::*;

use super::*;

fn size(cols: u16, rows: u16) -> TerminalSize {
    TerminalSize { cols, rows }
}

fn screen(cols: u16, rows: u16, bytes: &[u8]) -> Screen {
    let mut screen = Screen::new(size(cols, rows));
    screen.feed(bytes);
    screen
}

fn again(of: &Screen, cols: u16, rows: u16) -> Screen {
    screen(cols, rows, &of.repaint())
}

/// Everything that a repaint has to bring, in lines of words.
fn state(of: &Screen) -> Vec<String> {
    let it = &of.terminal;
    let mut lines: Vec<String> =
        it.scrollback.rows().map(|row| format!("{:?}", row.text())).collect();
    // The other screen is cleared before it is seen again.
    for grid in &it.grids[..=it.shown] {
        for row in grid.rows() {
            let mut line = String::new();
            for col in 0..grid.cols {
                let cell = row.at(col);
                let mut style = Vec::new();
                if cell.style != sgr::Style::PLAIN {
                    cell.style.write(&mut style);
                }
                let marks: String = row.marks(col).collect();
                line.extend([
                    style.escape_ascii().to_string(),
                    cell.letter.to_string(),
                    marks,
                    "|".into(),
                ]);
            }
            lines.push(line);
        }
    }
    lines.push(format!("{:?} {:?}", it.cursor, it.saved[it.shown]));
    lines.push(format!("{:?} {:?} {:?}", it.shown, it.region, it.tabs));
    lines.push(format!("{:?}", [it.insert, it.wrap, it.newline, it.hidden, it.reversed]));
    let mut tracking = it.tracking.clone();
    tracking.keyboard[1].truncate(if it.shown == 1 { usize::MAX } else { 0 });
    lines.push(format!("{tracking:?}"));
    lines
}

#[track_caller]
fn assert_same(of: &Screen, cols: u16, rows: u16) {
    let (after, before) = (state(&again(of, cols, rows)), state(of));
    let differs = after.iter().zip(&before).position(|(after, before)| after != before);
    if let Some(at) = differs.or((after.len() != before.len()).then_some(0)) {
        let shown = of.repaint().escape_ascii().to_string();
        let shown = &shown[..shown.len().min(2000)];
        panic!(
            "line {at}:\n{}\nwas\n{}\n{} lines, {}\n{shown}",
            after[at],
            before[at],
            after.len(),
            before.len()
        );
    }
}

#[test]
fn lines_are_scrolled_away_and_come_back() {
    let text: String = (1..=40).map(|n| format!("line {n}\r\n")).collect();
    let it = screen(10, 4, text.as_bytes());
    assert_eq!(it.text(), ["line 38", "line 39", "line 40", ""]);
    assert_same(&it, 10, 4);
    assert!(String::from_utf8(it.repaint()).unwrap().contains("line 1\r\nline 2\r\n"));
}

#[test]
fn long_lines_stay_one() {
    let it = screen(5, 3, b"abcdefghijklmnopqrstuvwxyz\r\n$ ");
    assert_eq!(it.text(), ["uvwxy", "z", "$"]);
    let shown = String::from_utf8(it.repaint()).unwrap();
    assert!(shown.contains("abcdefghijklmnopqrstuvwxyz\r\n$"), "{shown:?}");
    assert_same(&it, 5, 3);
    let mut wider = it;
    wider.resize(size(10, 3));
    assert_eq!(wider.text(), ["uvwxyz", "$", ""]);
    wider.resize(size(3, 2));
    assert_eq!(wider.text(), ["yz", "$"]);
}

#[test]
fn the_other_screen_and_what_a_program_has_set() {
    let vim = "$ vim\r\n\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?1000;1006h\x1b[H\x1b[2J\x1b[1;31mred\x1b[m\x1b]0;a title\x07\
        \x1b[3;5r\x1b[?25l\x1b[2 q\x1b[>4;2m\x1b[4;7H\x1b(0lqk\x1b(B";
    let it = screen(20, 6, vim.as_bytes());
    assert_eq!(it.text()[0], "red");
    assert_eq!(it.text()[3], "      ┌─┐");
    assert_same(&it, 20, 6);
    let mut left = again(&it, 20, 6);
    left.feed(b"\x1b[?1049l$ ");
    assert_eq!(left.text()[..2], ["$ vim", "$"]);
}

#[test]
fn what_is_not_complete_has_no_effect() {
    for (bytes, unfinished) in [
        (b"a\x1b[3".as_slice(), 3),
        (b"a\x1b]0;title", 9),
        (b"a\xe2\x82", 2),
        (b"a\x1b[\r\n1", 5),
        (b"a\x1bP1;2q#0", 8),
    ] {
        let it = screen(10, 2, bytes);
        assert_eq!(it.unfinished(), unfinished, "{bytes:?}");
        assert_eq!(state(&it), state(&screen(10, 2, b"a")), "{bytes:?}");
    }
    assert_eq!(screen(10, 2, b"a\x1b[31m").unfinished(), 0);
}

#[test]
fn wide_letters_and_marks() {
    let it = screen(5, 2, "abcd日e\u{301}".as_bytes());
    assert_eq!(it.text(), ["abcd", "日e\u{301}"]);
    assert_same(&it, 5, 2);
    assert_eq!(screen(5, 1, "日本\x1b[2Gx".as_bytes()).text(), [" x本"]);
    assert_eq!(screen(1, 1, "日".as_bytes()).text(), [""]);
}

/// A piece of what programs write, and now and then of what none would.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let number = 0u16..12;
    let csi = (
        prop_oneof![Just(""), Just("?"), Just(">"), Just("!"), Just("<"), Just("=")],
        proptest::collection::vec(number, 0..3),
        prop_oneof![Just(""), Just(" ")],
        prop::sample::select(b"@ABCDEFGHIJKLMPSTXZ`adefghlmqrsup".to_vec()),
    )
        .prop_map(|(prefix, numbers, between, last)| {
            let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
            format!("\x1b[{prefix}{}{between}{}", numbers.join(";"), char::from(last)).into_bytes()
        });
    let mode = (
        prop::sample::select(vec![
            1u16, 5, 6, 7, 25, 47, 1000, 1003, 1006, 1047, 1048, 1049, 2004, 9999,
        ]),
        any::<bool>(),
    )
        .prop_map(|(mode, on)| format!("\x1b[?{mode}{}", if on { 'h' } else { 'l' }).into_bytes());
    let style =
        prop::sample::select(vec!["0", "1", "4:3", "31", "48;5;200", "38:2::1:2:3", "7", "44"])
            .prop_map(|style| format!("\x1b[{style}m").into_bytes());
    let escape = prop::sample::select(vec![
        "\x1b7",
        "\x1b8",
        "\x1bD",
        "\x1bE",
        "\x1bM",
        "\x1bH",
        "\x1b(0",
        "\x1b(B",
        "\x1b)0",
        "\x0e",
        "\x0f",
        "\x1b=",
        "\x1b>",
        "\x1b#8",
        "\x1b]2;title\x07",
        "\x1bP1$q\x1b\\",
        "\t",
        "\x08",
    ])
    .prop_map(|text| text.as_bytes().to_vec());
    let letters = prop::sample::select(vec![
        "a",
        "bcd",
        "日",
        "e\u{301}",
        "éé",
        "0123456789",
        " ",
        "\r\n",
        "\n",
        "\r",
    ])
    .prop_map(|text| text.as_bytes().to_vec());
    let odd = proptest::collection::vec(any::<u8>(), 0..4);
    prop_oneof![4 => letters, 3 => csi, 1 => mode, 1 => style, 2 => escape, 1 => odd]
}

fn output() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(piece(), 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_repainted_is_the_same(output in output(), cols in 1u16..14, rows in 1u16..8) {
        let mut it = screen(cols, rows, &output);
        it.skip();
        assert_same(&it, cols, rows);
    }

    #[test]
    fn splits_change_nothing(output in output(), at in 0usize..200, cols in 1u16..14, rows in 1u16..8) {
        let whole = screen(cols, rows, &output);
        let (first, rest) = output.split_at(at.min(output.len()));
        let mut split = screen(cols, rows, first);
        // One who comes between goes on from where the repaint ends.
        let unfinished = usize::try_from(split.unfinished()).unwrap();
        let mut other = screen(cols, rows, &split.repaint());
        other.feed(&output[first.len() - unfinished..]);
        split.feed(rest);
        prop_assert_eq!(state(&split), state(&whole));
        prop_assert_eq!(split.unfinished(), whole.unfinished());
        prop_assert_eq!(other.text(), whole.text(), "{} {}", output.escape_ascii(), first.escape_ascii());
    }

    #[test]
    fn any_bytes_and_sizes(
        steps in proptest::collection::vec((output(), 1u16..30, 1u16..12), 1..6),
        noise in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut it = Screen::new(size(7, 3));
        for (output, cols, rows) in steps {
            it.feed(&output);
            it.feed(&noise);
            it.resize(size(cols, rows));
            it.skip();
            assert_same(&it, cols, rows);
        }
    }

    /// What both understand, both show alike. `vt100` has a cursor for each screen, no background of
    /// what scrolls in, and its own ideas of lines outside of a scroll region and of a cursor behind the last column or saved.
    #[test]
    fn as_another_terminal_shows_it(
        pieces in proptest::collection::vec(prop::sample::select(vec![
            "abc", "de", "0123456789", "\r\n", "\r", "\rxy\x08", "\x1b[2;3H", "\r\x1b[A", "\r\x1b[2B", "\r\x1b[C",
            "\r\x1b[6C\x1b[3D", "\r\x1b[4C\x1b[K", "\r\x1b[4C\x1b[1K", "\r\x1b[4C\x1b[J", "\x1b[2J\r", "\x1b[L\r",
            "\x1b[M\r", "\r\x1b[2P", "\r\x1b[2@", "\r\x1b[3X", "\x1b[31m", "\x1b[1m", "\x1b[m", "\x1b[?1049l\x1b[?1049h\x1b[H\x1b[m",
            "\x1b[?1049l\x1b[H\x1b[m", "\r\x1bM", "\x1b[?25l", "\x1b[?25h", "\x1b[?2004h", "\x1b[?1h",
            "\x1b=", "\r\x1b[S", "\r\x1b[T",
        ]), 0..60),
    ) {
        let output = pieces.concat();
        let mut theirs = vt100::Parser::new(5, 12, 0);
        theirs.process(output.as_bytes());
        let it = screen(12, 5, output.as_bytes());
        let shown: Vec<_> = theirs.screen().rows(0, 12).map(|row| row.trim_end().to_owned()).collect();
        prop_assert_eq!(it.text(), shown, "{}", output.escape_debug());
        let mut repainted = vt100::Parser::new(5, 12, 0);
        repainted.process(&it.repaint());
        prop_assert_eq!(seen(&repainted), seen(&theirs), "{}", output.escape_debug());
    }
}

/// What a person sees of theirs, and what decides how keys are sent.
fn seen(parser: &vt100::Parser) -> Vec<String> {
    let screen = parser.screen();
    let mut lines =
        vec![format!("{:?} {:?}", screen.cursor_position(), screen.input_mode_formatted())];
    lines.push(format!("{} {}", screen.alternate_screen(), screen.hide_cursor()));
    for row in 0..5 {
        let cell = |col| {
            let cell = screen.cell(row, col).unwrap();
            let letter = cell.contents().trim_end();
            let style = (!letter.is_empty()).then(|| (cell.fgcolor(), cell.bold()));
            format!("{letter}{:?}{style:?}", cell.bgcolor())
        };
        lines.push((0..12).map(cell).collect());
    }
    lines
}

#[test]
fn another_program_begins_below() {
    let mut it = screen(10, 3, b"one\r\ntwo\x1b[?1049h\x1b[?25l\x1b[2;3r\x1b[44mfull");
    it.begin_anew();
    it.feed(b"new");
    assert_eq!(it.text(), ["new", "", ""]);
    assert_same(&it, 10, 3);
    let repaint = String::from_utf8(it.repaint()).unwrap();
    assert!(repaint.contains("one\r\ntwo\r\nnew"), "{repaint:?}");
    assert!(!repaint.contains("\x1b[?"), "{repaint:?}");
}

#[test]
fn the_end_of_a_full_line_is_erased_for_nothing() {
    assert_eq!(screen(3, 2, b"abc\x1b[K").text(), ["abc", ""]);
    assert_eq!(screen(3, 2, b"abc\x1b[D\x1b[K").text(), ["a", ""]);
}

/// A letter is repeated right behind it only: who comes between repeats nothing.
#[test]
fn a_letter_is_repeated() {
    assert_eq!(screen(5, 2, b"ab\x1b[4b").text(), ["abbbb", "b"]);
    assert_eq!(screen(5, 2, b"ab\r\x1b[4b").text(), ["ab", ""]);
}

#[test]
fn the_largest_and_the_smallest() {
    for (cols, rows) in [(1, 1), (1000, 1000), (1, 1000), (u16::MAX, u16::MAX), (0, 0)] {
        let mut it = Screen::new(size(cols, rows));
        it.feed(b"\x1b[2J\x1b[999;999Hx\x1b[44m\x1b[2J\x1b[65535b\x1b[65535S\x1b[65535L\x1b#8");
        it.feed("日\u{301}".repeat(100).as_bytes());
        it.resize(size(80, 24));
        assert_same(&it, 80, 24);
    }
}

/// What a hostile program could pile up: marks, parameters, titles, modes, pushes, lines.
#[test]
fn memory_is_bounded() {
    let mut it = Screen::new(size(80, 24));
    it.feed("a".as_bytes());
    it.feed("\u{301}".repeat(100_000).as_bytes());
    it.feed(format!("\x1b[{}m", "1;".repeat(100_000)).as_bytes());
    it.feed(format!("\x1b]2;{}\x07", "t".repeat(1_000_000)).as_bytes());
    it.feed(format!("\x1b[{}", "\n".repeat(1_000_000)).as_bytes());
    for n in 0..20_000 {
        it.feed(format!("\x1b[?{n}h\x1b[>{n}u\x1b7").as_bytes());
    }
    it.feed(b"\x1b[?1049l\x1b[?1047l\x1b[?47l");
    it.feed("x".repeat(80).repeat(60_000).as_bytes());
    let repaint = it.repaint();
    assert!(repaint.len() < 2_000_000, "{}", repaint.len());
    assert_eq!(it.terminal.scrollback.rows().count(), SCROLLBACK_LINES);
}
