#!/usr/bin/env python3
"""Writes the bad safetensors files beside this script, each with the message
that the reader must give: NAME.safetensors and NAME.err, where %s stands for
the path.  The messages are written here by hand, from what the format says;
offsets are found by searching the header for the text in question."""
import os
import struct

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "safetensors")
CASES = {}


def case(name, header, data, at, message, length=None):
    """at: an offset in the file, or a text of the header."""
    if isinstance(header, str):
        header = header.encode()
    if isinstance(at, str):
        at = 8 + header.index(at.encode())
    if length is None:
        length = len(header)
    CASES[name] = (struct.pack("<Q", length) + header + data, at, message)


def raw(name, content, at, message):
    CASES[name] = (content, at, message)


def entry(name="a", dtype='"F32"', shape="[2]", offsets="[0,8]"):
    return '"%s":{"dtype":%s,"shape":%s,"data_offsets":%s}' % (
        name, dtype, shape, offsets)


def one(**keys):
    return "{" + entry(**keys) + "}"


EIGHT = bytes(8)

# The length and the outline of the file.
raw("empty", b"", 0,
    "file of 0 bytes has no room for the length of a header")
raw("seven_bytes", b"\x02" + bytes(6), 0,
    "file of 7 bytes has no room for the length of a header")
case("length_zero", "", b"", 8, "header does not begin with '{'")
case("length_beyond_file", "{}", b"", 0,
     "header of 3 bytes in a file of 10", length=3)
case("length_at_limit", "{}", b"", 0,
     "header of 100000000 bytes in a file of 10", length=100000000)
case("length_over_limit", "{}", b"", 0,
     "header of 100000001 bytes, at most 100000000 are read",
     length=100000001)
case("length_huge", "{}", b"", 0,
     "header of 18446744073709551615 bytes, at most 100000000 are read",
     length=2**64 - 1)
case("length_sign_bit", "{}", b"", 0,
     "header of 9223372036854775808 bytes, at most 100000000 are read",
     length=2**63)
case("length_cuts_header", one(), EIGHT, 8 + 20,
     "string without an end", length=24)
case("big_endian_length", "{}", b"", 0,
     "header of 144115188075855872 bytes, at most 100000000 are read",
     length=2 << 56)
case("leading_space", " {}", b"", 8, "header does not begin with '{'")
case("byte_order_mark", b"\xef\xbb\xbf{}", b"", 8,
     "header does not begin with '{'")
case("array_header", "[]", b"", 8, "header does not begin with '{'")
raw("pickle", b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}", 0,
    "header of 194315392 bytes, at most 100000000 are read")

# JSON.
case("not_closed", "{", b"", 9,
     "expected a key in quotes, found end of text")
case("text_after_header", "{}x", b"", 10, "expected end of text, found 'x'")
case("nul_padding", b"{}\0\0", b"", 10,
     "expected end of text, found byte 0x00")
case("trailing_comma", "{" + entry() + ",}", EIGHT, 10 + len(entry()),
     "expected a key in quotes, found '}'")
case("missing_colon", '{"a" {}}', b"", "{}", "expected ':', found '{'")
case("single_quotes", "{'a':1}", b"", 9,
     "expected a key in quotes, found '''")
case("duplicate_tensor", "{" + entry() + "," + entry() + "}", EIGHT,
     10 + len(entry()),
     "key 'a' appears twice")
case("duplicate_escaped",
     "{" + entry() + "," + entry(name="\\u0061") + "}", EIGHT,
     10 + len(entry()),
     "key 'a' appears twice")
case("duplicate_dtype", '{"a":{"dtype":"F32","shape":[2],"dtype":"F32",'
     '"data_offsets":[0,8]}}', EIGHT, 40, "key 'dtype' appears twice")
case("duplicate_metadata", '{"__metadata__":{"k":"1","k":"2"}}', b"",
     '"k":"2"', "key 'k' appears twice")
case("two_metadata", '{"__metadata__":{},"__metadata__":{"x":"y"}}', b"",
     '"__metadata__":{"x"', "key '__metadata__' appears twice")
case("deep_metadata", '{"__metadata__":' + "[" * 100, b"", "[",
     "__metadata__: expected object, found array")
case("deep_extra", '{"a":{"dtype":' + "[" * 100, b"", "[",
     "dtype: expected string, found array")
case("bad_utf8_name", b'{"\xc3(":{}}', b"", 10, "string is not UTF-8")
case("overlong_utf8_name", b'{"\xc0\xaf":{}}', b"", 10,
     "string is not UTF-8")
case("surrogate_utf8_name", b'{"\xed\xa0\x80":{}}', b"", 10,
     "string is not UTF-8")
case("lone_high_surrogate", '{"\\ud800x":{}}', b"", 10,
     "lone high surrogate")
case("lone_low_surrogate", '{"\\udc00":{}}', b"", 10, "lone low surrogate")
case("bad_escape", '{"\\x41":{}}', b"", 10, "unknown escape")
case("newline_in_name", '{"a\nb":{}}', b"", 11,
     "control character in string")
case("nul_in_name", "{" + entry(name="a\\u0000b") + "}", EIGHT, 9,
     "name of a tensor contains a NUL")

# Fields of a tensor.
case("tensor_is_number", '{"a":1}', b"", "1",
     "tensor: expected object, found number")
case("tensor_is_null", '{"a":null}', b"", "null",
     "tensor: expected object, found null")
case("missing_dtype", '{"a":{"shape":[2],"data_offsets":[0,8]}}', EIGHT, 9,
     "tensor 'a': dtype is missing")
case("missing_shape", '{"a":{"dtype":"F32","data_offsets":[0,8]}}', EIGHT,
     9, "tensor 'a': shape is missing")
case("missing_offsets", '{"a":{"dtype":"F32","shape":[2]}}', EIGHT, 9,
     "tensor 'a': data_offsets is missing")
case("empty_tensor", '{"a":{}}', b"", 9, "tensor 'a': dtype is missing")
case("unknown_key", '{"a":{"dtype":"F32","shape":[2],"offsets":[0,8]}}',
     EIGHT, '"offsets"', "tensor 'a': unknown key 'offsets'")
case("unknown_dtype", one(dtype='"F31"'), EIGHT, '"F31"',
     "tensor 'a': unknown dtype 'F31'")
case("lower_case_dtype", one(dtype='"f32"'), EIGHT, '"f32"',
     "tensor 'a': unknown dtype 'f32'")
case("dtype_number", one(dtype="32"), EIGHT, "32",
     "dtype: expected string, found number")
case("shape_number", one(shape="2"), EIGHT, "2,\"data",
     "shape: expected array, found number")
case("shape_string", one(shape='["2"]'), EIGHT, '"2"',
     "shape: expected number, found string")
case("shape_negative", one(shape="[-2]"), EIGHT, "-2",
     "shape: -2 is negative")
case("shape_fraction", one(shape="[2.0]"), EIGHT, "2.0",
     "shape: expected a whole number below 2^63")
case("shape_exponent", one(shape="[2e0]"), EIGHT, "2e0",
     "shape: expected a whole number below 2^63")
case("shape_leading_zero", one(shape="[02]"), EIGHT, "02",
     "number begins with a zero")
case("shape_too_large", one(shape="[9223372036854775808]"), EIGHT, "92233",
     "shape: expected a whole number below 2^63")
case("shape_not_finite", one(shape="[1e999]"), EIGHT, "1e999",
     "number is outside the range of a double")
case("shape_nan", one(shape="[NaN]"), EIGHT, "NaN",
     "expected a value, found 'N'")
case("shape_overflow", one(shape="[4294967296,4294967296]"), EIGHT, 9,
     "tensor 'a': size overflows 63 bits")
case("shape_overflow_by_dtype", one(dtype='"F64"',
                                    shape="[1152921504606846976]"), EIGHT, 9,
     "tensor 'a': size overflows 63 bits")
case("shape_rank_17", one(shape="[" + ",".join(["1"] * 16) + ",7]"), EIGHT,
     "7]", "shape: more than 16 extents")
case("shape_nested", one(shape="[[2]]"), EIGHT, "[2]",
     "shape: expected number, found array")

# Where the data lies.
case("offsets_one", one(offsets="[0]"), EIGHT, "]}",
     "data_offsets: expected number, found end of array")
case("offsets_three", one(offsets="[0,8,9]"), EIGHT, "9]",
     "data_offsets: expected end of array, found number")
case("offsets_negative", one(offsets="[-8,0]"), EIGHT, "-8",
     "data_offsets: -8 is negative")
case("offsets_reversed", one(offsets="[8,0]"), EIGHT, "0]}",
     "tensor 'a': data_offsets end at 0, before they begin at 8")
case("offsets_beyond_file", one(offsets="[0,9]"), EIGHT, "9]",
     "tensor 'a': data_offsets end at 9, the file has 8 bytes of data")
case("offsets_huge", one(offsets="[0,9223372036854775807]"), EIGHT, "92233",
     "tensor 'a': data_offsets end at 9223372036854775807, the file has 8 "
     "bytes of data")
case("data_cut_short", one(), bytes(7), "8]",
     "tensor 'a': data_offsets end at 8, the file has 7 bytes of data")
case("size_too_small", one(shape="[1]"), EIGHT, 9,
     "tensor 'a': dtype and shape make 4 bytes, data_offsets 8")
case("size_too_large", one(shape="[3]"), EIGHT, 9,
     "tensor 'a': dtype and shape make 12 bytes, data_offsets 8")
case("size_of_dtype", one(dtype='"F16"'), EIGHT, 9,
     "tensor 'a': dtype and shape make 4 bytes, data_offsets 8")
case("scalar_with_two", one(shape="[]"), EIGHT, 9,
     "tensor 'a': dtype and shape make 4 bytes, data_offsets 8")
case("empty_with_bytes", one(shape="[0,2]"), EIGHT, 9,
     "tensor 'a': dtype and shape make 0 bytes, data_offsets 8")
case("hole_at_begin", one(offsets="[8,16]"), bytes(16), 9,
     "bytes 0 to 8 of the data, before tensor 'a', belong to no tensor")
case("hole_between", "{" + entry() + "," +
     entry(name="b", offsets="[12,20]") + "}", bytes(20), '"b"',
     "bytes 8 to 12 of the data, before tensor 'b', belong to no tensor")
case("overlap", "{" + entry() + "," +
     entry(name="b", offsets="[4,12]") + "}", bytes(12), '"b"',
     "tensor 'b' begins at byte 4 of the data, inside tensor 'a', which "
     "ends at 8")
case("overlap_out_of_order", "{" + entry(name="b", offsets="[4,12]") + "," +
     entry(name="z") + "}", bytes(12), '"b"',
     "tensor 'b' begins at byte 4 of the data, inside tensor 'z', which "
     "ends at 8")
case("bytes_at_end", one(), bytes(9), 8 + len(one()) + 8,
     "bytes 8 to 9 of the data, the last, belong to no tensor")
case("no_tensors_but_data", "{}", bytes(4), 10,
     "bytes 0 to 4 of the data, the last, belong to no tensor")

# Metadata.
case("metadata_number", '{"__metadata__":{"k":1}}', b"", "1",
     "__metadata__: expected string, found number")
case("metadata_array", '{"__metadata__":[]}', b"", "[]",
     "__metadata__: expected object, found array")
case("metadata_nested", '{"__metadata__":{"k":{}}}', b"", "{}",
     "__metadata__: expected string, found object")
case("metadata_nul", '{"__metadata__":{"k":"a\\u0000"}}', b"", '"a',
     "value in __metadata__ contains a NUL")

# A name must not write to the terminal.
case("hostile_name", '{"\\u001b[2J":{}}', b"", 9,
     "tensor '?[2J': dtype is missing")
case("long_name", '{"%s":{}}' % ("n" * 500), b"", 9,
     "tensor '%s...': dtype is missing" % ("n" * 72))


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name, (content, at, message) in sorted(CASES.items()):
        path = os.path.join(FOLDER, name)
        with open(path + ".safetensors", "wb") as file:
            file.write(content)
        with open(path + ".err", "w", encoding="utf-8") as file:
            file.write("%%s:%d: error: %s\n" % (at, message))


main()
