// Reads a list of formulas as JSON, renders each with MathJax 3 and with KaTeX, and prints the errors as JSON: [[index, renderer, message], ...].
// NODE_PATH names the folder with both packages.
const katex = require("katex");
const formulas = JSON.parse(require("fs").readFileSync(0, "utf8"));

async function main() {
  const MathJax = await require("mathjax").init({
    loader: { load: ["input/tex", "output/svg"] },
    tex: { packages: { "[-]": ["noundefined", "noerrors"] }, formatError: (jax, error) => { throw error; } },
  });
  const errors = [];
  for (const [index, formula] of formulas.entries()) {
    try {
      const svg = MathJax.startup.adaptor.outerHTML(MathJax.tex2svg(formula, { display: true }));
      if (/merror|data-mjx-error/.test(svg)) errors.push([index, "MathJax", "it rendered an error"]);
    } catch (error) {
      errors.push([index, "MathJax", String(error.message ?? error)]);
    }
    try {
      katex.renderToString(formula, { displayMode: true, throwOnError: true, strict: "error" });
    } catch (error) {
      errors.push([index, "KaTeX", String(error.message ?? error)]);
    }
  }
  process.stdout.write(JSON.stringify(errors));
}

main();
