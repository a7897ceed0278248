//! Malformed input: one sentence, exit code 2, and no loss of data.

use crate::common::{Place, diabetes, texts};

fn fitted() -> Place {
    let place = Place::new();
    place.write("train.csv", "a,b,y\n1,2,3\n2,1,4\n3,5,1\n4,4,2\n");
    place.good("fit train.csv --target y --ridge 1 -o m.riesz");
    place
}

#[test]
fn tables_that_cannot_be_explained() {
    let place = fitted();
    let cases: &[(&[u8], &str)] = &[
        (b"", "is empty: write the names of the columns"),
        (b"a,b\n", "names of columns but no rows"),
        (b"a,b\n1,2\n1\n", "line 3: 1 values, but the first line names 2 columns"),
        (b"a,b\n1,2,3\n", "line 2: 3 values"),
        (
            b"a,b\n1,NaN\n",
            "row 1 (line 2) of column 'b' is missing ('NaN'): fill the value in or remove the row",
        ),
        (b"a,b\n1,2\n,2\n", "row 2 (line 3) of column 'a' is empty"),
        (b"a,b\n1,NA\n", "is missing ('NA')"),
        (b"a,b\n1,null\n", "is missing ('null')"),
        (b"a,b\ninf,1\n", "'inf', which is not a finite number"),
        (b"a,b\n1,1e999\n", "'1e999', which is not a finite number"),
        (b"a,b\n1,two\n", "row 1 (line 2) of column 'b' is 'two', which is not a number"),
        (b"a,c\n1,2\n", "there is no column 'b'; the columns are: a, c"),
        (b"a\n1\n", "there is no column 'b'"),
        (b"a,b,a\n1,2,3\n", "two columns have the name 'a'"),
        (b"a,b\n1,\xff\n", "line 2: column 'b' is not UTF-8"),
        (b"a,\xff\n1,2\n", "not UTF-8"),
        (b"\xff\xfea\0,\0b\0", "no rows"),
        (b"a,,b\n1,2,3\n", "column 2 has no name"),
        (b"1.5,2.5\n1,2\n", "holds numbers, not the names"),
        (b"a;b|c\n1;2\n", "--delimiter"),
        (b"a,b\n1,\"2\n3,4\n", "which is not a number"),
        (b"PAR1 but not really", "cannot read t.csv as a Parquet file"),
        (b"\0\0\0\0\0\0\0", "give --encoding utf-16le"),
    ];
    for (content, expected) in cases {
        place.write("t.csv", content);
        place.write("out.csv", "precious");
        place.bad("explain m.riesz t.csv -o out.csv", expected);
        assert_eq!(place.read("out.csv"), "precious");
        place.bad("predict m.riesz t.csv -o out.csv", expected);
        assert_eq!(place.read("out.csv"), "precious");
        place.bad("explain m.riesz train.csv --background t.csv -o out.csv", expected);
    }
    place.bad_with("explain m.riesz -", "", "standard input is empty");
    place.bad("explain m.riesz nowhere.csv", "cannot read nowhere.csv: there is no such file");
    place.bad("explain m.riesz .", "it is a folder, not a file");
    // An error after rows that were explained does not lose existing files.
    place.write("late.csv", "a,b\n".to_string() + &"1,2\n".repeat(10_000) + "1,oops\n");
    place.bad("explain m.riesz late.csv -o out.csv", "row 10001 (line 10002) of column 'b' is 'oops'");
    assert_eq!(place.read("out.csv"), "precious");
    // Unusual but valid input.
    place.write("odd.csv", "\u{feff}b, a ,extra\r\n 2 ,1e300,x\r\n\r\n2,-0,\r\n2,1,y");
    assert_eq!(place.good("explain m.riesz odd.csv").0.lines().count(), 4);
}

#[test]
fn tables_that_cannot_be_learnt_from() {
    let place = fitted();
    let fit = "fit t.csv --target y --ridge 1 -o m.riesz";
    let before = std::fs::read(place.path("m.riesz")).unwrap();
    let cases = [
        ("", "is empty"),
        ("a,y\n", "no rows"),
        ("a,y\n1,2\n", "row"),
        ("y\n1\n2\n", "no column is left"),
        ("a,b\n1,2\n", "there is no column 'y'"),
        ("a,y\n1,2\n1\n", "line 3"),
        ("a,y\n1,2\n,3\n", "is empty"),
        ("a,y\n1,2\n2,nan\n", "is missing"),
        ("a,y\n1,2\n2,-inf\n", "not a finite number"),
        ("a,y\n1,low\n2,high\n", "is 'low', which is not a number"),
        ("a,y\n1,2\n2,3\n3,4\nfour,4\n", "column 'a' holds numbers, but its row 4 (line 5) is 'four'"),
        ("a,y\n1,2\n1,3\n1,4\n", "are they all equal"),
    ];
    for (content, expected) in cases {
        place.write("t.csv", content);
        place.bad(fit, expected);
        assert_eq!(std::fs::read(place.path("m.riesz")).unwrap(), before);
    }
    place.write("t.csv", "a,b,y\n1,7,2\n2,7,3\n2,7,3\n1e300,7,4\n-1e300,7,5\n");
    let output = place.run(fit);
    assert!(matches!(output.status.code(), Some(0 | 2)), "{}", texts(&output).1);
    assert!(!texts(&output).1.contains("bug in riesz"));
    // A constant column and repeated rows are valid.
    place.write("t.csv", "a,b,y\n1,7,2\n2,7,3\n2,7,3\n3,7,4\n");
    place.good(fit);
    for (options, expected) in [
        ("--ridge -1", "--ridge = -1 is not allowed: it is a positive number, or 'auto'"),
        ("--ridge much", "--ridge = 'much' is not allowed: it is a positive number, or 'auto'"),
        ("--kernel rbg", "there is no kernel 'rbg'"),
        ("--kernel rbf(z)", "there is no column 'z'"),
        ("--groups g=z", "no column 'z'"),
        ("--groups nowhere.txt", "cannot read nowhere.txt"),
        ("--ignore z", "there is no column 'z'"),
        ("--sample-weight z", "there is no column 'z'"),
        ("-o no/such/folder/m.riesz", "cannot write"),
        ("-o .", "it is a folder"),
    ] {
        let ridge = if options.starts_with("--ridge") { "" } else { "--ridge 1" };
        let output = if options.starts_with("-o") { "" } else { "-o n.riesz" };
        place.bad(&format!("fit t.csv --target y {ridge} {output} {options}"), expected);
    }
    for (options, expected) in [
        ("--model svr --ridge 1", "--ridge belongs to"),
        ("--model svr --c 0", "c"),
        ("--model svr --epsilon -1", "epsilon"),
        ("--model svr --class-weight balanced", "--class-weight belongs to"),
        ("--model svc --class-weight heavy", "class=weight"),
        (
            "--model svc --class-weight 9=1",
            "--class-weight = '9' is not allowed: it is not a class of the target; classes: 2, 3, 4",
        ),
        (
            "--model svc --class-weight 2=-1",
            "--class-weight = -1 is not allowed: the weight of '2' is a positive number",
        ),
        ("--model svc --target b", "has one value only, '7'"),
        ("--model svc --target a,y", "takes one --target"),
        ("--model krr --target y,a,y", "--target names 'y' twice"),
        ("--model gp --noise 0", "noise"),
        ("--model gp --target b", "the target 'b' is 7 in every row"),
        ("--model gp --sample-weight a", "--sample-weight belongs to"),
        ("--model gp --restarts -1", "--restarts = -1 is not allowed: it is a whole number from 0"),
        ("--model svc --c auto --folds 9", "fold"),
        ("--model svc --folds 3", "--folds belongs to c = 'auto', but here it is 1: leave it out"),
        ("--model klr --folds 1", "fold"),
        ("--model lasso", "invalid value 'lasso'"),
    ] {
        let target = if options.contains("--target") { "" } else { "--target y" };
        place.bad(&format!("fit t.csv {target} -o n.riesz {options}"), expected);
    }
    assert!(!place.path("n.riesz").exists());
}

#[test]
fn files_that_are_no_models_are_refused() {
    let place = fitted();
    let bytes = std::fs::read(place.path("m.riesz")).unwrap();
    place.bad("predict nowhere.riesz train.csv", "cannot read nowhere.riesz");
    place.bad("predict . train.csv", "it is a folder");
    place.write("x.riesz", "");
    place.bad("predict x.riesz train.csv", "is empty");
    place.write("x.riesz", "hello");
    place.bad("inspect x.riesz", "is neither a riesz model");
    for cut in [4, 9, 100, bytes.len() / 2, bytes.len() - 1] {
        place.write("x.riesz", &bytes[..cut]);
        place.bad("predict x.riesz train.csv", "x.riesz");
    }
    let mut damaged = bytes.clone();
    for offset in (0..bytes.len()).step_by(7) {
        damaged[offset] ^= 0x5a;
        place.write("x.riesz", &damaged);
        let output = place.run("inspect x.riesz");
        assert!(matches!(output.status.code(), Some(0 | 2)));
        assert!(!texts(&output).1.contains("bug in riesz"), "{}", texts(&output).1);
        damaged[offset] ^= 0x5a;
    }
    let offset = bytes.windows(12).position(|w| w == b"version\\\":1,").unwrap();
    damaged[offset + 10] = b'9';
    place.write("x.riesz", &damaged);
    place.bad("predict x.riesz train.csv", "written by a newer riesz (format 9); update riesz");
    place.good("explain m.riesz train.csv -o e.json");
    place.bad("predict e.json train.csv", "is an explanation: give a model file");
    let json = place.read("e.json");
    place.write("e.json", &json[..json.len() / 2]);
    place.bad("inspect e.json", "not a riesz explanation, or it is damaged");
}

#[test]
fn questions_that_cannot_be_asked() {
    let place = fitted();
    place.good(
        "fit DIABETES --target target --ridge 1 --kernel linear*linear*linear*linear*linear*linear \
                -o l.riesz",
    );
    place.bad("explain l.riesz DIABETES", "multiplied out it has more than 100000 products");
    for (options, expected) in [
        ("--game interventional", "it needs a background"),
        ("--game marginal-product", "it needs a background"),
        ("--game baseline", "it needs a reference row"),
        ("--game baseline --baseline train.csv", "baseline"),
        ("--game functional --background train.csv", "no use for a background"),
        ("--background train.csv --baseline train.csv", "cannot be used with"),
        ("--background train.csv --background-weights z", "there is no column 'z'"),
        ("--groups g=z", "no column 'z'"),
        ("--groups g=a;h=a", "one group only"),
        ("--groups g;h=a", "cannot be read"),
        ("--format svg", "not for tables"),
        ("-o why.html", "not as .html; give one of these endings, or --format"),
        ("-o why.PNG", "tables are written as .csv, .parquet or .json, not as .png"),
        ("-o why.xlsx", "not as .xlsx"),
        ("-o no/such/place.csv", "cannot write"),
        ("-o .", "it is a folder"),
    ] {
        place.bad(&format!("explain m.riesz train.csv {options}"), expected);
    }
    place.bad("predict m.riesz train.csv -o p.html", "not as .html");
    place.bad("predict m.riesz m.riesz", "m.riesz is a model file of riesz, not a table");
    place.bad("explain m.riesz train.csv --threads 1000000", "it is a whole number from 1 to 1024");
    place.bad("explain m.riesz train.csv --threads 0", "it is a whole number from 1 to 1024");
    place.good("explain m.riesz train.csv -o why.json");
    for option in [
        "--background train.csv",
        "--baseline train.csv",
        "--game functional",
        "--groups g=a",
        "--conditional-ridge 1",
        "--coalitions 9",
        "--cg-tol",
        "--centered false",
        "--conditional-samples 9",
    ] {
        let name = option.split_whitespace().next().unwrap();
        place.bad(
            &format!("report why.json {option} -o why.html"),
            &format!("is an explanation, which does not use {name}"),
        );
    }
    assert_eq!(place.run("explain m.riesz train.csv --game mystery").status.code(), Some(2));
    assert_eq!(place.run("frobnicate").status.code(), Some(2));
    assert_eq!(place.run("").status.code(), Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_and_closed_pipe() {
    use std::process::{Command, Stdio};
    let place = fitted();
    place.good(&format!("fit {} --target target --ridge 1 -o d.riesz", diabetes().display()));
    for output in ["/dev/full", "full.csv", "full.parquet", "full.json"] {
        if output != "/dev/full" {
            std::os::unix::fs::symlink("/dev/full", place.path(output)).unwrap();
        }
        place.bad(&format!("explain d.riesz DIABETES -o {output}"), "no space is left");
    }
    place.bad("fit train.csv --target y --ridge 1 -o /dev/full", "no space is left");
    place.good("explain d.riesz DIABETES -o /dev/null");
    let binary = assert_cmd::cargo::cargo_bin!("riesz");
    let shell = |line: &str| {
        let output = Command::new("bash")
            .args(["-c", &format!("set -o pipefail; {line}")])
            .current_dir(place.path(""))
            .env("RIESZ", binary)
            .env("DIABETES", diabetes())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        (output.status.code(), texts(&output))
    };
    let (code, (_, err)) = shell("$RIESZ explain d.riesz $DIABETES --quiet > /dev/full");
    assert_eq!(code, Some(2));
    assert!(err.starts_with("error: cannot write standard output: no space is left"), "{err}");
    for format in ["csv", "json", "parquet"] {
        let (code, (_, err)) = shell(&format!(
            "$RIESZ explain d.riesz $DIABETES --quiet --format {format} | head -c 1 > /dev/null"
        ));
        assert_eq!((code, err.as_str()), (Some(0), ""), "{format}");
    }
    // A standard error stream that cannot be written to changes nothing.
    let (code, (out, _)) = shell("$RIESZ explain d.riesz $DIABETES 2> /dev/full | tail -n 1");
    assert_eq!(code, Some(0));
    assert!(out.starts_with("441,"));
    // A link remains a link, and permissions are kept.
    let (code, _) = shell(
        "touch real.csv; chmod 640 real.csv; ln -s real.csv link.csv; $RIESZ predict m.riesz train.csv -o \
         link.csv && test -L link.csv && test -s real.csv && test $(stat -c %a real.csv) = 640",
    );
    assert_eq!(code, Some(0));
}

#[cfg(unix)]
#[test]
fn an_interrupt_leaves_nothing_behind() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let place = fitted();
    place.write("out.csv", "precious");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("riesz"))
        .args(["explain", "m.riesz", "-", "-o", "out.csv"])
        .current_dir(place.path(""))
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"a,b\n").unwrap();
    stdin.write_all("1,2\n".repeat(50_000).as_bytes()).unwrap();
    // The temporary file exists when the first rows are done.
    for _ in 0..200 {
        if place.files().iter().any(|f| f.ends_with(".tmp")) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    assert!(place.files().iter().any(|f| f.ends_with(".tmp")));
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(place.read("out.csv"), "precious");
    assert!(place.files().iter().all(|f| !f.ends_with(".tmp")));
}

#[test]
fn times_in_parquet_are_not_taken_for_numbers() {
    use parquet::data_type::{DoubleType, Int64Type};
    use parquet::file::writer::SerializedFileWriter;

    let place = Place::new();
    for kind in ["TIMESTAMP(MILLIS,true)", "TIMESTAMP(NANOS,false)", "TIME(MICROS,true)", "TIMESTAMP_MILLIS"]
    {
        let text =
            format!("message t {{ required double a; required int64 when ({kind}); required double y; }}");
        let schema = parquet::schema::parser::parse_message_type(&text).unwrap().into();
        let file = std::fs::File::create(place.path("t.parquet")).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Default::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for j in 0..3 {
            let mut column = group.next_column().unwrap().unwrap();
            if j == 1 {
                column.typed::<Int64Type>().write_batch(&[1, 2, 3, 4], None, None).unwrap();
            } else {
                column.typed::<DoubleType>().write_batch(&[1.0, 2.5, 3.0, 5.0], None, None).unwrap();
            }
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
        place.bad(
            "fit t.parquet --target y --ridge 1 -o m.riesz",
            "column 'when' holds dates or times: write them as numbers",
        );
        place.good("fit t.parquet --target y --ridge 1 --ignore when -o m.riesz");
    }
}

/// Numbers with decimal commas are not categories: they are refused without the option, and read with it.
#[test]
fn decimal_commas() {
    let place = Place::new();
    let rows: Vec<String> =
        (0..30).map(|i| format!("{}.5;{};{}.25", i * 7 % 11, i % 3, i * 5 % 13)).collect();
    let pointed = format!("a;b;y\n{}\n", rows.join("\n"));
    place.write("pointed.csv", &pointed);
    place.write("commas.csv", pointed.replace('.', ","));
    place.write("thousands.csv", "a;b;y\n1.000,5;1;2\n2;3;4\n");
    place.write("rows.csv", "a;b\n0,5;1\n");
    place.good("fit pointed.csv --delimiter ; --target y -o pointed.riesz");
    place.good("fit commas.csv --decimal , --target y -o commas.riesz");
    let predict = |args: &str| place.good(&format!("predict {args}")).0;
    assert_eq!(
        predict("pointed.riesz pointed.csv --delimiter ;"),
        predict("commas.riesz commas.csv --decimal comma")
    );
    let cases = [
        (
            "fit commas.csv --delimiter ; --target y -o m.riesz",
            "column 'a' holds numbers with decimal commas (row 1 (line 2) is '0,5'): give --decimal ,",
        ),
        (
            "predict pointed.riesz rows.csv --delimiter ;",
            "is '0,5', which has a decimal comma: give --decimal ,",
        ),
        (
            "fit pointed.csv --decimal , --target y -o m.riesz",
            "column 'a' holds numbers that are written without decimal commas (row 1 (line 2) is '0.5'): \
             give --decimal .",
        ),
        ("test two-sample commas.csv commas.csv --delimiter ;", "holds numbers with decimal commas"),
    ];
    for (args, words) in cases {
        place.bad(args, words);
    }
    let (_, err) = place.good("fit thousands.csv --decimal , --target y -o m.riesz");
    assert!(err.contains("separators of thousands are left out: '1.000,5' is 1000.5"), "{err}");
    // With an option they are names.
    place.good("fit commas.csv --delimiter ; --target b --categorical a,y -o names.riesz");
}

/// Dates are neither numbers nor names, in CSV and in Parquet.
#[test]
fn dates_in_csv() {
    let place = Place::new();
    for (k, date) in
        ["2026-11-%", "%.11.2026", "11/%/26", "2026-11-% 10:30", "2026-11-%T10:30:05.5Z"].iter().enumerate()
    {
        let rows: Vec<String> =
            (10..28).map(|i| format!("{},{i},{}", date.replace('%', &i.to_string()), i % 5)).collect();
        place.write("d.csv", format!("when,b,y\n{}\n", rows.join("\n")));
        place.bad("fit d.csv --target y -o m.riesz", "column 'when' holds dates or times (row 1");
        if k == 0 {
            place.good("fit d.csv --target y --ignore when -o m.riesz");
            place.good("fit d.csv --target y --categorical when -o m.riesz");
        }
    }
    // Version numbers and addresses have points too.
    let rows: Vec<String> = (0..18).map(|i| format!("1.2.{}.7,{i},{}", i % 3, i % 5)).collect();
    place.write("d.csv", format!("address,b,y\n{}\n", rows.join("\n")));
    place.good("fit d.csv --target y -o m.riesz");
}

/// A name with a comma is accepted in every list of names.
#[test]
fn names_with_commas() {
    let place = Place::new();
    let rows: Vec<String> = (0..20).map(|i| format!("{},{},{}", i * 7 % 11, i % 3, i * 5 % 13)).collect();
    place.write("t.csv", format!("\"price, USD\",\"a,b\",y\n{}\n", rows.join("\n")));
    let run = |list: &[&str]| {
        let output = place.command().args(list).output().unwrap();
        assert!(output.status.success(), "{list:?}: {}", texts(&output).1);
    };
    run(&["fit", "t.csv", "--target", "price, USD", "-o", "m.riesz"]);
    run(&["fit", "t.csv", "--target", "price, USD,y", "-o", "m.riesz"]);
    run(&[
        "fit",
        "t.csv",
        "--target",
        "y",
        "--ignore",
        "price, USD",
        "--categorical",
        "a,b",
        "-o",
        "m.riesz",
    ]);
    run(&[
        "fit",
        "t.csv",
        "--target",
        "y",
        "--kernel",
        "rbf('price, USD') * matern32('a,b')",
        "-o",
        "m.riesz",
    ]);
    run(&["fit", "t.csv", "--target", "y", "--protect", "price, USD", "-o", "p.riesz"]);
    run(&["explain", "m.riesz", "t.csv", "--groups", "both=a,b,price, USD", "-o", "e.csv"]);
    run(&[
        "explain",
        "m.riesz",
        "t.csv",
        "--background",
        "t.csv",
        "--robustness",
        "price, USD=1,a,b=0.5",
        "-o",
        "e.csv",
    ]);
    run(&["test", "two-sample", "t.csv", "t.csv", "--ignore", "a,b,y", "--permutations", "9"]);
    run(&[
        "test",
        "independence",
        "t.csv",
        "--target",
        "price, USD",
        "--given",
        "a,b",
        "--permutations",
        "9",
    ]);
    run(&["test", "select", "t.csv", "--target", "price, USD"]);
}
