/* Bundles the web interface: hashed names, lazy chunks, compressed twins, a manifest, and a size table with its limit.
   `node build.mjs` builds once, `--watch` keeps building, `--out FOLDER` says where to (default: the Python package). */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const place = process.argv.indexOf("--out");
const out = place > 0 ? resolve(process.argv[place + 1]) : resolve(here, "../src/rmhdag/ui/static");
const watching = process.argv.includes("--watch");

/* What the limit covers is everything but the chunks that hold these: they load only with a map, an editor or a chart. */
const HEAVY = {
  map: /node_modules\/(ol|geotiff|proj4|world-atlas|rbush|earcut|pbf|quick-lru|lerc|pako|zstddec|xml-utils|web-worker)\/|^src\/map\/(base-map|map-frame|footprint-map|tile-map|cog-|bbox-picker|geojson-map|colours|projections)/,
  editor: /node_modules\/@(codemirror|lezer)\//,
  chart: /node_modules\/uplot\//,
};
const PAGE_LIMIT_BYTES = 100 * 1024;

const common = {
  absWorkingDir: here,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: !watching,
  sourcemap: watching ? "inline" : false,
  legalComments: "none",
  metafile: true,
  write: false,
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
  alias: { "~": join(here, "src") },
  define: { "process.env.NODE_ENV": '"production"' },
  loader: { ".svg": "file", ".woff2": "file" },
};

/* geotiff makes its worker from a blob, which our content security policy forbids; ours is a file of the same origin. */
const workerFile = (url) => ({
  name: "geotiff-worker",
  setup(build) {
    build.onResolve({ filter: /worker\/(create|decoder)(\.js)?$/ }, (args) =>
      args.resolveDir.includes("geotiff") ? { path: args.path, namespace: "geotiff-worker" } : undefined,
    );
    build.onLoad({ filter: /.*/, namespace: "geotiff-worker" }, () => ({
      contents: `export default function create() { return new Worker(${JSON.stringify(url)}, { type: "module" }); }
export { create };`,
    }));
  },
});

/* All style sheets below src in one file. Layers decide what wins, so the order of the files does not matter. */
const allStyles = {
  name: "all-styles",
  setup(build) {
    build.onResolve({ filter: /^all-styles$/ }, () => ({ path: "all-styles", namespace: "styles" }));
    build.onLoad({ filter: /.*/, namespace: "styles" }, () => {
      const files = readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile() && entry.name.endsWith(".css"))
        .map((entry) => relative(here, join(entry.parentPath ?? entry.path, entry.name)))
        .filter((path) => path !== "src/styles/layers.css")
        .sort();
      const contents = ["src/styles/layers.css", ...files].map((path) => `@import "./${path}";`).join("\n");
      return { contents, loader: "css", resolveDir: here };
    });
  },
};

const sources = readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
  .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
const START = join(here, "src/app.tsx");

/* Our modules that are imported dynamically. */
function lazyModules() {
  const lazy = new Set();
  for (const source of sources) {
    for (const [, path] of readFileSync(source, "utf8").matchAll(/import\("([.~][^"]+)"\)/g)) {
      const target = path.startsWith("~/") ? join(here, "src", path.slice(2)) : resolve(dirname(source), path);
      for (const ending of [".tsx", ".ts"]) if (sources.includes(target + ending)) lazy.add(target + ending);
    }
  }
  return lazy;
}

/* A chunk holds the modules that the same entry points need. Every lazy module therefore imports the start, and the
   start imports what several screens share: both become one file, and a screen is one more. Maps do the same among
   themselves. `shared` names modules, relative to here, by the kind of chunk in which a first build has found them. */
const fewChunks = (shared) => ({
  name: "few-chunks",
  setup(build) {
    const lazy = lazyModules();
    const isMap = (path) => HEAVY.map.test(relative(here, path));
    const imports = (paths) => paths.map((path) => `import ${JSON.stringify(join(here, path))};\n`).join("");
    build.onLoad({ filter: /\/src\/.*\.tsx?$/ }, ({ path }) => {
      if (path !== START && !lazy.has(path)) return undefined;
      const own = relative(here, path);
      const before =
        path === START
          ? `import "~/shared";\n${imports(shared.app)}`
          : `import "~/app";\n${isMap(path) ? imports(shared.map.filter((one) => one !== own)) : ""}`;
      return { contents: before + readFileSync(path, "utf8"), loader: path.endsWith("x") ? "tsx" : "ts" };
    });
  },
});

/* Our modules in chunks that are nobody's own. */
function sharedModules(metafile) {
  const shared = { app: [], map: [] };
  for (const output of Object.values(metafile.outputs)) {
    if (output.entryPoint) continue;
    const own = Object.keys(output.inputs).filter((input) => /^src\/.*\.tsx?$/.test(input) && input !== "src/app.tsx");
    for (const input of own) shared[HEAVY.map.test(input) ? "map" : "app"].push(input);
  }
  return shared;
}

const hashOf = (bytes) => createHash("sha256").update(bytes).digest("hex").slice(0, 8).toUpperCase();

async function buildWorker() {
  const source = join(here, "node_modules/geotiff/dist-module/worker/decoder.js");
  const made = await esbuild.build({ ...common, entryPoints: [source], outdir: out });
  const bytes = made.outputFiles[0].contents;
  return { name: `geotiff-worker-${hashOf(bytes)}.js`, bytes };
}

function sizesOf(metafile, files) {
  const rows = [];
  for (const [path, output] of Object.entries(metafile.outputs)) {
    const name = relative(out, resolve(here, path));
    const inputs = Object.keys(output.inputs);
    const kind = Object.keys(HEAVY).find((key) => inputs.some((input) => HEAVY[key].test(input)));
    const source = output.entryPoint ? relative(here, resolve(here, output.entryPoint)) : "shared";
    rows.push({ name, kind: kind && /\.js$/.test(name) ? kind : "app", source, gzip: files.get(name).gzip });
  }
  return rows.sort((a, b) => b.gzip - a.gzip);
}

async function build() {
  const worker = await buildWorker();
  const bundle = (shared) =>
    esbuild.build({
      ...common,
      entryPoints: { app: "src/app.tsx", style: "all-styles" },
      outdir: out,
      splitting: true,
      entryNames: "[name]-[hash]",
      chunkNames: "[name]-[hash]",
      assetNames: "[name]-[hash]",
      plugins: [allStyles, fewChunks(shared), workerFile(`/ui/static/${worker.name}`)],
    });
  const first = await bundle({ app: [], map: [] });
  const made = await bundle(sharedModules(first.metafile));
  const outputs = [
    ...made.outputFiles.map((file) => ({ name: relative(out, file.path), bytes: file.contents })),
    worker,
  ];
  // Every chunk imports esbuild's helpers for packages in CommonJS; those that use none of them need not fetch the file.
  const isHelpers = ([path, { entryPoint, inputs }]) =>
    path.endsWith(".js") && !entryPoint && Object.keys(inputs).every((input) => input === "<runtime>");
  const [helpers] = Object.entries(made.metafile.outputs).find(isHelpers) ?? [];
  if (helpers) {
    const unused = new RegExp(`import ?"\\./${basename(helpers)}";\\n?`, "g");
    for (const output of outputs.filter(({ name }) => name.endsWith(".js"))) {
      output.bytes = Buffer.from(Buffer.from(output.bytes).toString().replace(unused, ""));
    }
  }
  const icon = readFileSync(join(here, "src/icon.svg"));
  const iconName = `icon-${hashOf(icon)}.svg`;
  outputs.push({ name: iconName, bytes: icon });

  // Beside the old one, then swapped: a page that is being served never sees half a build.
  const part = `${out}.part-${process.pid}`;
  rmSync(part, { recursive: true, force: true });
  mkdirSync(part, { recursive: true });
  const files = new Map();
  for (const { name, bytes } of outputs) {
    const gzip = gzipSync(bytes, { level: 9 });
    const quality = watching ? 4 : 11;
    const brotli = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } });
    writeFileSync(join(part, name), bytes);
    writeFileSync(join(part, `${name}.gz`), gzip);
    writeFileSync(join(part, `${name}.br`), brotli);
    files.set(name, { bytes: bytes.length, gzip: gzip.length, brotli: brotli.length });
  }
  const rows = sizesOf(made.metafile, files);
  const entry = (kind) => rows.find((row) => row.name.startsWith(`${kind}-`))?.name;
  // The file named after the start only imports the chunk that holds it; the page loads the chunk itself.
  const script = basename(
    Object.entries(made.metafile.outputs).find(
      ([, output]) => "src/app.tsx" in output.inputs && output.bytes > 1000,
    )[0],
  );
  const imports = Object.entries(made.metafile.outputs).find(([path]) => path.endsWith(script))[1].imports;
  const manifest = {
    script,
    style: entry("style"),
    icon: iconName,
    preload: imports.filter((one) => one.kind === "import-statement").map((one) => one.path.split("/").pop()),
    files: Object.fromEntries([...files].map(([name, sizes]) => [name, sizes])),
  };
  writeFileSync(join(part, "manifest.json"), JSON.stringify(manifest, null, 1));
  rmSync(out, { recursive: true, force: true });
  renameSync(part, out);
  return { rows, pages: pagesOf(made.metafile, rows) };
}

/* What a page fetches: the start, the chunks of one screen, and what both import. Maps, editors and charts come later. */
function pagesOf(metafile, rows) {
  const byName = new Map(rows.map((row) => [row.name, row]));
  const outputs = new Map(Object.entries(metafile.outputs).map(([path, output]) => [basename(path), output]));
  const collect = (name, into) => {
    if (into.has(name) || byName.get(name)?.kind !== "app") return into;
    into.add(name);
    for (const one of outputs.get(name)?.imports ?? []) {
      if (one.kind === "import-statement") collect(basename(one.path), into);
    }
    return into;
  };
  const start = rows.filter((row) => /^(app|style)-/.test(row.name)).map((row) => row.name);
  const screens = rows.filter((row) => row.kind === "app" && row.source.startsWith("src/screens/"));
  return screens.map((screen) => {
    const names = [...start, screen.name].reduce((into, name) => collect(name, into), new Set());
    return { source: screen.source, gzip: [...names].reduce((sum, name) => sum + byName.get(name).gzip, 0) };
  });
}

function report({ rows, pages }) {
  const kilo = (bytes) => (bytes / 1024).toFixed(1);
  const width = Math.max(...rows.map((row) => row.name.length));
  for (const row of rows) {
    console.log(`${row.name.padEnd(width)} ${kilo(row.gzip).padStart(7)} kB gzip  ${row.kind.padEnd(6)} ${row.source}`);
  }
  const total = rows.filter((row) => row.kind === "app").reduce((sum, row) => sum + row.gzip, 0);
  const largest = pages.sort((a, b) => b.gzip - a.gzip)[0];
  console.log(
    `largest page ${kilo(largest.gzip)} of ${PAGE_LIMIT_BYTES / 1024} kB gzip (${largest.source}), all screens ${kilo(total)} kB,` +
      " without map, editor and charts",
  );
  if (largest.gzip > PAGE_LIMIT_BYTES) {
    console.error("build-ui: too large. Load the largest parts lazily, or leave a dependency out.");
    process.exitCode = 1;
  }
}

if (watching) {
  const context = await esbuild.context({
    ...common,
    entryPoints: { app: "src/app.tsx", style: "all-styles" },
    outdir: out,
    splitting: true,
    plugins: [
      allStyles,
      workerFile("/ui/static/x"),
      {
        name: "again",
        setup: (one) =>
          one.onEnd(async (result) => {
            if (result.errors.length === 0) await build().then(() => console.log("built", new Date().toISOString()));
          }),
      },
    ],
  });
  await context.watch();
} else {
  report(await build());
}
