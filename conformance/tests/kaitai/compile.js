// Compiles descriptions: node compile.js OUT FILE.ksy ...; the parsers go to OUT/javascript and OUT/python.
"use strict";
const fs = require("fs");
const path = require("path");
const yaml = require("js-yaml");
const compiler = require("kaitai-struct-compiler");

async function main([out, ...descriptions]) {
  for (const description of descriptions) {
    const parsed = yaml.load(fs.readFileSync(description, "utf8"));
    for (const language of ["javascript", "python"]) {
      const files = await compiler.compile(language, parsed, null, false);
      fs.mkdirSync(path.join(out, language), { recursive: true });
      for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(out, language, name), text);
    }
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
