#!/usr/bin/env python3
"""Makes crates/riesz-cli/tests/tables: tables as users have them, and the expected reading of each by riesz.

    pip install pandas pyarrow openpyxl zstandard
    scripts/oracles/tables.py

Each file has an expectation, which is written by hand here. It is the type of each column with its number of
missing cells and its range or categories, or a part of the error message for the table. `tests/all/tables.rs`
compares the expectations with the output of `riesz inspect`."""

import datetime
import decimal
import gzip
import io
import json
import pathlib
import tarfile
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import zstandard

FOLDER = pathlib.Path(__file__).parents[2] / "crates/riesz-cli/tests/tables"
expected: list[dict] = []


def numbers(low, high, missing=0, remark=None):
    return {"kind": "numbers", "values": [low, high], "missing": missing, "remark": remark}


def categories(*levels, missing=0, remark=None):
    return {"kind": "categories", "levels": list(levels), "missing": missing, "remark": remark}


def refused(sentence):
    return {"kind": "refused", "remark": sentence}


def table(name, data, options="", **columns):
    """A file whose columns are read as given by ``columns``."""
    _write(name, data)
    expected.append({"file": name, "options": options, "columns": columns})


def bad(name, data, sentence, options=""):
    """A file that is refused with an error message that contains ``sentence``."""
    _write(name, data)
    expected.append({"file": name, "options": options, "refused": sentence})


def _write(name, data):
    if data is not None:
        (FOLDER / name).write_bytes(data.encode() if isinstance(data, str) else data)


def csv(**columns):
    """Cells by column as comma-separated text, quoted where they hold commas."""
    quoted = lambda cell: f'"{cell}"' if "," in str(cell) else str(cell)
    rows = zip(*columns.values())
    return "\n".join([",".join(columns), *(",".join(map(quoted, row)) for row in rows)]) + "\n"


# Long: a table of cases.
def text_tables():
    three = ["1", "2", "3"]
    table("plain.csv", csv(a=three, b=["1.5", "-2", "1e3"]), a=numbers(1, 3), b=numbers(-2, 1000))
    thousands = "separators of thousands"
    table("thousands.csv", csv(a=["1,234", "12,345.5", "7"]), a=numbers(7, 12345.5, remark=thousands))
    table(
        "thousands-narrow-space.csv",
        csv(a=["1\u202f234", "2\u202f345"]),
        a=numbers(1234, 2345, remark=thousands),
    )
    table(
        "thousands-hard-space.csv",
        csv(a=["1\u00a0234", "2\u00a0345"]),
        a=numbers(1234, 2345, remark=thousands),
    )
    table("thousands-space.csv", csv(a=["1 234", "2 345 678"]), a=numbers(1234, 2345678, remark=thousands))
    table("thousands-apostrophe.csv", csv(a=["1'234", "2’345"]), a=numbers(1234, 2345, remark=thousands))
    table("lakhs.csv", csv(a=["12,34,567", "1,234"]), a=numbers(1234, 1234567, remark=thousands))
    table("dollars.csv", csv(a=["$6674", "$1,200.50"]), a=numbers(1200.5, 6674, remark="amounts in $"))
    table("euros.csv", csv(a=["5 €", "7,250 €"]), a=numbers(5, 7250, remark="amounts in €"))
    table(
        "codes-of-currencies.csv", csv(a=["CHF 5", "CHF 7.25"]), a=numbers(5, 7.25, remark="amounts in CHF")
    )
    table("accounting.csv", csv(a=["(5)", "3", "(1,200)"]), a=numbers(-1200, 3, remark=thousands))
    table("parentheses.csv", csv(a=["(5)", "3"]), a=numbers(-5, 3, remark="other notations of numbers"))
    table("dollars-negative.csv", csv(a=["-$5", "($6)", "$7"]), a=numbers(-6, 7, remark="amounts in $"))
    table("percent.csv", csv(a=["6.1%", "8.5 %"]), a=numbers(6.1, 8.5, remark="per cent"))
    table("kilograms.csv", csv(a=["62 kg", "58kg"]), a=numbers(58, 62, remark="amounts in kg"))
    table("degrees.csv", csv(a=["21 °C", "-3.5 °C"]), a=numbers(-3.5, 21, remark="amounts in °C"))
    table("minus-sign.csv", csv(a=["\u22125", "4"]), a=numbers(-5, 4, remark="other notations of numbers"))
    table("en-dash.csv", csv(a=["\u20135.5", "4"]), a=numbers(-5.5, 4, remark="other notations of numbers"))
    table("exponents.csv", csv(a=["1e3", "2.5E-2", "+4"]), a=numbers(0.025, 1000))
    table("zero-bytes.csv", csv(a=["0.5\0", "0.25\0"]), a=numbers(0.25, 0.5, remark="value 0"))
    table(
        "leading-zeros.csv", csv(a=["02139", "10001"]), a=categories("02139", "10001", remark="leading zeros")
    )
    table(
        "large-integers.csv",
        csv(a=["9007199254740993", "1"]),
        a=categories("1", "9007199254740993", remark="2^53"),
    )
    table("large-but-exact.csv", csv(a=["9007199254740992", "1"]), a=numbers(1, 9007199254740992))
    table("truth.csv", csv(a=["TRUE", "true", "False"]), a=categories("false", "true"))
    table("truth-as-written.csv", csv(a=["True", "False"]), a=categories("False", "True"))
    table("case.csv", csv(a=["yes", "Yes", "no"]), a=categories("Yes", "no", "yes"))
    table(
        "mixed-units.csv",
        csv(a=["62 kg", "137 lb"]),
        a=categories("137 lb", "62 kg", remark="different words"),
    )
    table(
        "ordinals.csv",
        csv(a=["1st", "2nd", "3rd"]),
        a=categories("1st", "2nd", "3rd", remark="different words"),
    )
    table("ranges.csv", csv(a=["18-24", "25-34", "65+"]), a=categories("18-24", "25-34", "65+"))
    table(
        "missing.csv",
        csv(a=["1", "", "NA", "3", "#N/A"], b=["x", "null", "y", "NaN", "x"]),
        a=numbers(1, 3, missing=3),
        b=categories("x", "y", missing=2),
    )
    table(
        "missing-marks.csv",
        csv(a=["1", "-9999", "?", "3"]),
        "--na-values -9999,?",
        a=numbers(1, 3, missing=2),
    )
    empty = {"kind": "numbers", "missing": 2}
    table("all-missing.csv", csv(a=["", "NA"], b=["1", "2"]), a=empty, b=numbers(1, 2))
    table("constant.csv", csv(a=["4", "4"]), a=numbers(4, 4))
    table("text-as-asked.csv", csv(a=["1", "2"]), "--column a=text", a=categories("1", "2"))
    table("number-as-asked.csv", csv(a=["02139", "10001"]), "--column a=number", a=numbers(2139, 10001))
    table(
        "same-number.csv",
        csv(a=["x", "2.0", "2", "y"]),
        a=categories("2", "2.0", "x", "y", remark="numbers ('2.0') and texts"),
    )
    count = [str(i) for i in range(100, 112)]
    table("row-numbers.csv", csv(id=count), id=numbers(100, 111, remark="numbers the rows"))
    no_data = [f"{0.1 * (i % 7):.1f}" for i in range(30)]
    no_data[7] = "-3.4e+38"
    table("no-data.csv", csv(a=no_data), a=numbers(-3.4e38, 0.6, remark="--na-values '-3.4e38'"))
    no_data[7] = "-9999"
    table("no-data-9999.csv", csv(a=no_data), a=numbers(-9999, 0.6, remark="interquartile ranges"))
    table("no-data-named.csv", csv(a=no_data), "--na-values -9999", a=numbers(0, 0.6, missing=1))
    labels = [f"note {i}" for i in range(12)]
    table(
        "labels.csv", csv(a=labels), a={"kind": "categories", "missing": 0, "remark": "has a different text"}
    )

    table(
        "one-word.csv", csv(a=["1", "x", "3", "4"]), a=refused("holds numbers, but its row 2 (line 3) is 'x'")
    )
    table("decimal-commas.csv", csv(a=["1,5", "2,25"]), a=refused("give --decimal ,"))
    table(
        "decimal-commas-grouped.csv",
        "a;b\n1.234,50;1\n0,75;2\n",
        a=refused("give --decimal ,"),
        b=numbers(1, 2),
    )
    points = "holds numbers with points between thousands (row 1 (line 2) is '1.234.567'): give --decimal ,"
    table("thousands-by-point.csv", csv(a=["1.234.567", "12.345"]), a=refused(points))
    table("dates.csv", csv(a=["2024-01-05", "2024-02-05"]), a=refused("holds dates or times"))
    table("dates-german.csv", csv(a=["5.1.2024", "6.2.2024"]), a=refused("holds dates or times"))
    table("some-units.csv", csv(a=["5%", "0.07"]), a=refused("different units"))
    table("bounds.csv", csv(a=["<5", "7", "8"]), a=refused("--na-values '<5'"))
    table("decimals.csv", "a;b\n0,5;1\n1,25;2\n", "--decimal ,", a=numbers(0.5, 1.25), b=numbers(1, 2))
    grouped = numbers(1234.5, 2000, remark=thousands)
    table("decimals-grouped.csv", "a\n1.234,5\n2.000\n", "--decimal ,", a=grouped)
    ambiguity = "can be read in two ways (row 1 (line 2) is '83,425', which is 83.425 or 83425)"
    table("ambiguous.csv", csv(a=["83,425", "83,675"]), "--decimal ,", a=refused(ambiguity))
    table("ambiguous-points.csv", "a\n83.425\n83.675\n", "--decimal ,", a=refused("can be read in two ways"))
    two = numbers(1, 2)
    table(
        "ambiguous-semicolons.csv", "a;b\n83,425;1\n83,675;2\n", a=refused("can be read in two ways"), b=two
    )
    settled = numbers(83425, 1683675, remark=thousands)
    table("settled-semicolons.csv", "a;b\n83,425;1\n1,683,675;2\n", a=settled, b=two)
    by_comma = csv(a=["1,234,567", "2,345,678"])
    table("thousands-by-comma.csv", by_comma, "--decimal ,", a=refused("without decimal commas"))
    as_asked = "--decimal , --column a=number"
    table("ambiguous-as-asked.csv", csv(a=["83,425", "83,675"]), as_asked, a=numbers(83.425, 83.675))

    a, b = numbers(1, 2), categories("x", "y")
    table("semicolons.csv", "a;b\n1;x\n2;y\n", a=a, b=b)
    table("tabs.csv", "a\tb\n1\tx\n2\ty\n", a=a, b=b)
    table("bars.csv", "a|b\n1|x\n2|y\n", a=a, b=b)
    table("tabs.tsv", "a,c\tb\n1\tx\n2\ty\n", **{"a,c": a, "b": b})
    table("colons.csv", "a:b\n1:x\n2:y\n", "--delimiter :", a=a, b=b)
    table("quoted.csv", '"a","b"\n"1","x"\n"2","y"\n', a=a, b=b)
    table("windows.csv", "a,b\r\n1,x\r\n2,y\r\n", a=a, b=b)
    table("blank-lines.csv", "\n\na,b\n1,x\n\n2,y\n\n", a=a, b=b)
    table("spaces.csv", "a , b\n 1 , x\n2 ,y\n", a=a, b=b)
    simple = "a,b\n1,x\n2,y\n"
    table("byte-order-mark.csv", "\ufeff" + simple, a=a, b=b)
    table("utf16-little.csv", b"\xff\xfe" + simple.encode("utf-16-le"), a=a, b=b)
    table("utf16-big.csv", b"\xfe\xff" + simple.encode("utf-16-be"), a=a, b=b)
    bad("utf16-unmarked.csv", simple.encode("utf-16-le"), "give --encoding utf-16le")
    table("utf16-unmarked.csv", None, "--encoding utf-16le", a=a, b=b)
    latin = "a,b\n1,Zürich\n2,Genève\n".encode("latin1")
    bad("latin1.csv", latin, "is not UTF-8 text")
    table("latin1.csv", None, "--encoding latin1", a=a, b=categories("Genève", "Zürich"))
    bad("plain.csv", None, "--encoding klingon is unknown", "--encoding klingon")
    zipped = gzip.compress(simple.encode(), mtime=0)
    table("gzip.csv.gz", zipped, a=a, b=b)
    table("zstd.csv.zst", zstandard.compress(simple.encode()), a=a, b=b)
    table("gzip-without-ending", zipped, a=a, b=b)
    bad("bzip2.csv.bz2", b"BZh91AY&SY" + bytes(20), "compressed with bzip2")
    bad("damaged.csv.gz", zipped[:-12], "cannot read")
    bad("empty.csv", "", "is empty")
    bad("no-rows.csv", "a,b\n", "has names of columns but no rows")
    bad("ragged.csv", "a,b\n1,2\n3\n", "line 3: 1 values, but the first line names 2 columns")
    bad("open-quote.csv", 'a,b,y\n"0,2.0\n1,2,3\n', "a quotation mark may be left open in it")
    bad("no-header.csv", "1.5,2.5\n3.5,4.5\n", "the first line holds numbers")
    bad("same-names.csv", "a,a\n1,2\n", "two columns have the name 'a'")
    bad("no-name.csv", ",a\n1,2\n", "column 1 has no name")


def record_tables():
    a, b = numbers(1, 2), categories("x", "y")
    records = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    table("lines.jsonl", lines, a=a, b=b)
    table("array.json", json.dumps(records), a=a, b=b)
    table("pretty.json", json.dumps(records, indent=2), a=a, b=b)
    table("lines-without-ending", lines, a=a, b=b)
    table("lines.jsonl.gz", gzip.compress(lines.encode(), mtime=0), a=a, b=b)
    lacking = '{"a": 1}\n{"a": null, "b": "x"}\n'
    table("lacking.jsonl", lacking, a=numbers(1, 1, missing=1), b=categories("x", missing=1))
    large = categories("1", "9007199254740993", remark="2^53")
    types = '{"a": true, "b": 9007199254740993}\n{"a": false, "b": 1}\n'
    table("types.jsonl", types, a=categories("false", "true"), b=large)
    bad("nested.jsonl", '{"a": [1, 2]}\n', "row 1 of column 'a' holds a list")
    bad("twice.jsonl", '{"a": 1, "a": 2}\n', "occurs twice")
    bad("broken.jsonl", '{"a": 1}\n{"a": \n', "cannot read")
    bad("scalars.json", "[1, 2]", "as JSON")


def arrow_tables():
    frame = pa.table({"a": [1.0, 2.0], "b": ["x", "y"]})
    a, b = numbers(1, 2), categories("x", "y")

    def parquet(columns, **options):
        out = io.BytesIO()
        pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), out, **options)
        return out.getvalue()

    for codec in ["none", "snappy", "gzip", "brotli", "lz4", "zstd"]:
        table(f"{codec}.parquet", parquet(frame, compression=codec), a=a, b=b)
    kinds = {
        "int8": pa.int8(),
        "int64": pa.int64(),
        "uint32": pa.uint32(),
        "float16": pa.float16(),
        "float32": pa.float32(),
    }
    for name, kind in kinds.items():
        values = np.array([1, 2], dtype=kind.to_pandas_dtype())
        table(f"{name}.parquet", parquet({"a": pa.array(values, type=kind)}), a=a)
    cells = [decimal.Decimal("1.25"), None, decimal.Decimal("-3.10")]
    for bits, kind in [(128, pa.decimal128(10, 2)), (256, pa.decimal256(50, 2))]:
        table(
            f"decimal{bits}.parquet",
            parquet({"a": pa.array(cells, type=kind)}),
            a=numbers(-3.1, 1.25, missing=1),
        )
    table(
        "nulls.parquet",
        parquet({"a": [1, None], "b": [None, "x"], "c": pa.nulls(2)}),
        a=numbers(1, 1, missing=1),
        b=categories("x", missing=1),
        c={"kind": "numbers", "missing": 2},
    )
    table("truth.parquet", parquet({"a": [True, False]}), a=categories("false", "true"))
    big = pa.array([9007199254740993, 1], type=pa.int64())
    table("large.parquet", parquet({"a": big}), a=categories("1", "9007199254740993", remark="2^53"))
    for name, index in [("8", pa.int8()), ("u16", pa.uint16()), ("64", pa.int64())]:
        indices = pa.array([1, 0, None], type=index)
        coded = pa.table({"b": pa.DictionaryArray.from_arrays(indices, pa.array(["x", "y"]))})
        table(f"dictionary{name}.parquet", parquet(coded), b=categories("x", "y", missing=1))
        table(f"dictionary{name}.feather", feather(coded), b=categories("x", "y", missing=1))
    structure = {"s": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}
    table("structure.parquet", parquet(structure), **{"s.a": a, "s.b": b})
    moments = pa.array([0, 1], type=pa.timestamp("ns"))
    dated = "column 'a' holds dates or times"
    bad("int96.parquet", parquet({"a": moments}, use_deprecated_int96_timestamps=True), dated)
    bad("dates.parquet", parquet({"a": pa.array([0, 1], type=pa.date32())}), dated)
    bad("list.parquet", parquet({"size": [[1], [2, 3]]}), "column 'size' holds lists")
    bad("damaged.parquet", parquet(frame)[:-30], "as a Parquet file")
    table("plain.feather", feather(frame), a=a, b=b)
    table("uncompressed.feather", feather(frame, compression="uncompressed"), a=a, b=b)
    table("zstd.feather", feather(frame, compression="zstd"), a=a, b=b)
    out = io.BytesIO()
    with pa.ipc.new_stream(out, frame.schema) as writer:
        writer.write_table(frame)
        writer.write_table(frame)
    table("stream.arrows", out.getvalue(), a=a, b=b)
    bad("list.feather", feather(pa.table({"size": [[1], [2, 3]]})), "column 'size' holds lists")
    bad("damaged.feather", feather(frame)[:-40], "as an Arrow file")


def feather(columns, compression="lz4"):
    out = io.BytesIO()
    pyarrow.feather.write_feather(columns, out, compression=compression)
    return out.getvalue()


def workbooks():
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    a, b = numbers(1, 2), categories("x", "y")

    def workbook(*sheets):
        out = io.BytesIO()
        with pd.ExcelWriter(out) as writer:
            for name, columns, start in sheets:
                columns.to_excel(writer, sheet_name=name, index=False, startrow=start, startcol=start)
        return out.getvalue()

    table("plain.xlsx", workbook(("data", frame, 0)), a=a, b=b)
    table("moved.xlsx", workbook(("data", frame, 2)), a=a, b=b)
    lacking = pd.DataFrame({"a": [1.0, None, 3.0], "b": ["x", "y", None]})
    table(
        "lacking.xlsx",
        workbook(("data", lacking, 0)),
        a=numbers(1, 3, missing=1),
        b=categories("x", "y", missing=1),
    )
    bad("sheets.xlsx", workbook(("one", frame, 0), ("two", frame, 0)), "has several sheets")
    table("sheets.xlsx", None, "--sheet two", a=a, b=b)
    bad("sheets.xlsx", None, "has no sheet 'three'", "--sheet three")
    dated = pd.DataFrame({"a": pd.to_datetime(["2024-01-05", "2024-02-05"])})
    table("dates.xlsx", workbook(("data", dated, 0)), a=refused("holds dates or times"))
    book = openpyxl.Workbook()
    for row, cell in enumerate(["a", datetime.timedelta(hours=30), datetime.timedelta(minutes=75)], 1):
        book.active.cell(row, 1, cell).number_format = "[h]:mm"
    out = io.BytesIO()
    book.save(out)
    table("durations.xlsx", out.getvalue(), a=refused("holds dates or times"))
    bad("damaged.xlsx", workbook(("data", frame, 0))[:-200], "as a workbook")


# Long: a table of cases.
def reported_tables():
    """Tables that an earlier version of riesz misread, or read without a warning."""
    # The notation of these cells only begins like a number.
    table(
        "durations.csv",
        csv(a=["1h30", "2h15"]),
        a=categories("1h30", "2h15", remark="texts that hold numbers"),
    )
    table("fortran.csv", csv(a=["1.5D+3", "2.5D-1"]), a=numbers(0.25, 1500, remark="other notations"))
    table("trailing-minus.csv", csv(a=["3-", "4"]), a=numbers(-3, 4, remark="other notations"))
    table("no-cents.csv", csv(a=["CHF 1'020.-", "CHF 20.-"]), a=numbers(20, 1020, remark="amounts in CHF"))
    table(
        "pressures.csv",
        csv(a=["120/80", "130/85"]),
        a=categories("120/80", "130/85", remark="texts that hold numbers"),
    )
    table(
        "versions.csv",
        csv(a=["1.0.0", "1.2.10"]),
        a=categories("1.0.0", "1.2.10", remark="texts that hold numbers"),
    )
    table("grades.csv", csv(a=["1", "2", "A"]), a=refused("holds numbers, but its row 3"))
    table(
        "mixed-grades.csv",
        csv(a=["A", "1", "B"]),
        a=categories("1", "A", "B", remark="numbers ('1') and texts ('A')"),
    )
    # Half or more of the cells are not numbers.
    table("mostly-bounds.csv", csv(a=["<5", "<5", "<5", "7"]), a=refused("holds bounds beside numbers"))
    table(
        "mostly-unknown.csv",
        csv(a=["unknown", "?", "unknown", "7"]),
        a=refused("holds numbers, but its row 1"),
    )
    table("age-groups.csv", csv(a=["<18", "18-24", "65+"]), a=categories("18-24", "65+", "<18"))
    semicolons = "a;b\n0,5;1\n-;2\n1,5;3\n"
    table("decimal-commas-and-dashes.csv", semicolons, a=refused("decimal commas"), b=numbers(1, 3))
    table("dates-and-unknown.csv", csv(a=["2024-01-05", "unknown"]), a=refused("holds dates or times"))
    for name, cells in [
        ("months", ["2024-01", "2024-02"]),
        ("month-names", ["Jan 2024", "Feb 2024"]),
        ("quarters", ["Q1 2024", "Q2 2024"]),
        ("times", ["10:30", "11:45"]),
    ]:
        table(f"{name}.csv", csv(a=cells), a=refused("holds dates or times"))
    days = [20240101 + k for k in range(28)] + [20240201, 20240315]
    table("dates-as-numbers.csv", csv(a=days), a=numbers(days[0], days[-1], remark="looks like dates"))
    # These numbers have more digits than a double represents.
    large = ["12345678901234561.0", "12345678901234562.0"]
    table("large-with-point.csv", csv(a=large), a=categories(*large, remark="2^53"))
    keys = [decimal.Decimal("12345678901234567890"), decimal.Decimal("12345678901234567891")]
    table(
        "large-decimals.feather",
        feather(pa.table({"a": pa.array(keys, type=pa.decimal128(38, 0))})),
        a=categories(*map(str, keys), remark="2^53"),
    )
    # Marks of missing values: in a third of the rows, beside zeros, and several marks.
    sea = [-9999 if i % 3 == 0 else i % 17 for i in range(60)]
    table("sea.csv", csv(a=sea), a=numbers(-9999, 16, remark="interquartile ranges"))
    survey = [99 if i % 9 == 0 else 1 + i % 5 for i in range(60)]
    table("survey.csv", csv(a=survey), a=numbers(1, 99, remark="--na-values '99'"))
    # Row numbers with gaps, and row numbers of a sample.
    gaps = [i + i // 7 for i in range(60)]
    table("row-numbers-with-gaps.csv", csv(a=gaps), a=numbers(0, gaps[-1], remark="numbers the rows"))
    sample = [(i * 37) % 60 * 2 + i % 2 for i in range(60)]
    table(
        "row-numbers-of-a-sample.csv",
        csv(a=sample),
        a=numbers(min(sample), max(sample), remark="numbers the rows"),
    )
    # Whole files that are not tables or are nested.
    table("excel-separator.csv", "sep=;\na;b\n1;x\n2;y\n", a=numbers(1, 2), b=categories("x", "y"))
    bad("blank-before-quotes.csv", '"a", "b"\n"1", "x"\n', "there is a blank before the quotation mark")
    table("marked.json", "\ufeff" + '[{"a": 1}, {"a": 2}]', a=numbers(1, 2))
    nested = '{"a": 1, "b": {"c": 2, "d": [3]}}\n{"a": 2, "b": {"c": 4, "d": []}}\n'
    table(
        "objects.jsonl", nested, **{"a": numbers(1, 2), "b.c": numbers(2, 4), "b.d": refused("holds a list")}
    )
    table("nan.json", '[{"a": 1}, {"a": NaN}, {"a": 3}]', a=numbers(1, 3, missing=1))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("plain.csv"), "a\n1\n")
    bad("plain.zip", out.getvalue(), "is a zip archive: unpack it")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("plain.csv"), io.BytesIO())
    bad("plain.tar.gz", out.getvalue(), "is a tar archive")
    bad("utf32.csv", "a,b\n1,x\n".encode("utf-32-le"), "UTF-32")
    bad("page.html", "<!DOCTYPE html>\n<table></table>\n", "is a web page")
    bad("weka.arff", "@RELATION t\n@ATTRIBUTE a NUMERIC\n@DATA\n1\n", "is an ARFF file")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file in FOLDER.iterdir():
        file.unlink()
    text_tables()
    record_tables()
    arrow_tables()
    workbooks()
    reported_tables()
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(expected)} expectations of {len(list(FOLDER.iterdir())) - 1} files")
