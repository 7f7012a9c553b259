// The search of the site: it understands a pasted log line, and works in a folder without a web server.
"use strict";

// In a query, a colon, a bracket or a lonely hyphen is an instruction, and most lines of a log would be refused. Of what is
// pasted, the name in capitals counts, such as OVERLAP; without one, the words, and not who logged it when.
document.addEventListener("input", (event) => {
  if (event.inputType !== "insertFromPaste" || !event.target.matches(".md-search__input")) return;
  const line = event.target.value.replace(/^.*?\[\d+\]: /, "");
  const words = line.match(/[\p{L}\p{N}_]([\p{L}\p{N}_./@-]*[\p{L}\p{N}_])?/gu) ?? [];
  event.target.value = line.match(/\b[A-Z]{2}[A-Z -]{2,}(?=:)/)?.[0] ?? words.join(" ");
  event.target.dispatchEvent(new KeyboardEvent("keyup")); // what the search waits for; a mouse gives none
}, true);

// A page from a folder may not start a worker from a file. `make docs` writes the worker's text into a script.
if (location.protocol === "file:") {
  document.write(`<script src="${new URL("search/worker.js", document.currentScript.src)}"></script>`);
  window.Worker = class extends Worker {
    constructor() {
      super(URL.createObjectURL(new Blob([window.searchWorker], { type: "text/javascript" })));
    }
  };
}
