// Reads files with a compiled parser: node read.js PARSER.js [--as-it-is] takes paths, one a line, and prints for each
// one line of JSON with everything that the parser finds. Integers are text. The parser is as it was compiled; unless
// --as-it-is is given, its runtime loses nothing: 64-bit integers that no Number holds are read as BigInt, and a byte
// order mark at the start of a text stays.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const path = require("path");
const KaitaiStream = require("kaitai-struct/KaitaiStream");

const [file, option] = process.argv.slice(2);
const name = path.basename(file, ".js");
const Parser = require(path.resolve(file))[name];

function exact(method) {
  return function () {
    this.ensureBytesLeft(8);
    const value = this._dataView[method](this.pos, true);
    this.pos += 8;
    return BigInt.asIntN(54, value) === value ? Number(value) : value;
  };
}

if (option !== "--as-it-is") {
  KaitaiStream.bytesToStr = (bytes, encoding) => new TextDecoder(encoding, { ignoreBOM: true }).decode(bytes);
  KaitaiStream.prototype.readU8le = exact("getBigUint64");
  KaitaiStream.prototype.readS8le = exact("getBigInt64");
}

const snake = (key) => key.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());

function float(value) {
  if (Number.isNaN(value)) return "nan";
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  return view.getBigUint64(0).toString();
}

function shown(value) {
  if (value instanceof Uint8Array) {
    return { size: value.length, sha256: crypto.createHash("sha256").update(value).digest("hex") };
  }
  if (Array.isArray(value)) return value.map(shown);
  if (typeof value === "number" || typeof value === "bigint") return value.toString();
  return typeof value === "object" ? fields(value) : value;
}

function fields(value) {
  const own = Object.keys(value);
  const prototype = Object.getPrototypeOf(value);
  const instances = Object.entries(Object.getOwnPropertyDescriptors(prototype))
    .filter(([, descriptor]) => descriptor.get)
    .map(([key]) => key);
  const found = {};
  for (const key of [...own, ...instances]) {
    if (key.startsWith("_") || value[key] === undefined) continue;
    const isFloat = key === "value" && "bits" in value;
    found[snake(key)] = isFloat ? float(value[key]) : shown(value[key]);
  }
  return found;
}

for (const line of fs.readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const bytes = fs.readFileSync(line);
  const data = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  console.log(JSON.stringify(fields(new Parser(new KaitaiStream(data)))));
}
