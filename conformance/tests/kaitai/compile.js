// Compiles descriptions: node compile.js LANGUAGE,... FILE.ksy ...; the parsers go to a folder of each language.
"use strict";
const fs = require("fs");
const path = require("path");
const yaml = require("js-yaml");
const compiler = require("kaitai-struct-compiler");

async function main([languages, ...descriptions]) {
  for (const description of descriptions) {
    const parsed = yaml.load(fs.readFileSync(description, "utf8"));
    for (const language of languages.split(",")) {
      const files = await compiler.compile(language, parsed, null, false);
      for (const [name, text] of Object.entries(files)) {
        fs.mkdirSync(path.dirname(path.join(language, name)), { recursive: true });
        fs.writeFileSync(path.join(language, name), text);
      }
    }
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
