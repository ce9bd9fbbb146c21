// Compiles a description of Kaitai Struct, given as JSON on standard input, to Python: node kaitai.js COMPILER
"use strict";
const compiler = require(process.argv[2]);
const description = JSON.parse(require("fs").readFileSync(0, "utf8"));
const none = { importYaml: (name) => Promise.reject(new Error("no import of " + name)) };
compiler.compile("python", description, none, false).then(
    (files) => process.stdout.write(Object.values(files).join("\n")),
    (error) => {
        console.error(String(error));
        process.exit(1);
    },
);
