import assert from "node:assert/strict";
import { test } from "node:test";
import { pieces, plainText } from "../src/screens/job/ansi";
import { fit, reveal, zoom } from "../src/screens/job/camera";
import { diffLines, folded, middles, paired } from "../src/screens/job/diff";
import { toTheRight } from "../src/screens/job/direction";
import { Lineage, timeShares, walk } from "../src/screens/job/lineage";
import {
  heightOf,
  lastTop,
  MOST_PX,
  moved,
  nextMatch,
  pagesFor,
  scrollAt,
  topAt,
  topFor,
} from "../src/screens/job/log-window";
import {
  averages,
  concurrency,
  gapsOf,
  minus,
  pack,
  readWindow,
  resized,
  shifted,
  ticks,
  union,
  windowText,
  zoomed,
} from "../src/screens/job/spans";
import { changed, childOf, gridFor, histogram, indexAt, placeOf, withDigit } from "../src/screens/job/squares";
import { toYaml } from "../src/screens/job/yaml";

const edges = [
  { source: "a", target: "b" },
  { source: "a", target: "c" },
  { source: "b", target: "d" },
  { source: "c", target: "d" },
  { source: "x", target: "y" },
];

test("lineage is what comes before and after, and the critical path is what was waited for", () => {
  const lineage = new Lineage(edges);
  assert.deepEqual([...lineage.of("b")].sort(), ["a", "b", "d"]);
  const run = (node_id: string, from: number, to: number | null) => ({
    node_id,
    started_at: new Date(from).toISOString(),
    completed_at: to === null ? null : new Date(to).toISOString(),
  });
  const runs = [run("a", 0, 10), run("b", 10, 20), run("c", 10, 50), run("d", 50, 60), run("x", 0, 5)];
  assert.deepEqual(lineage.criticalPath(runs), ["a", "c", "d"]);
  assert.deepEqual(lineage.criticalPath([run("a", 0, 10), run("b", 10, null), run("c", 10, 30)]), ["a", "b"]);
  assert.equal(
    timeShares([
      { node_id: "a", duration_seconds: 1 },
      { node_id: "b", duration_seconds: 3 },
    ]).get("b"),
    75,
  );
  const box = (id: string, x: number, y: number) => ({ id, x, y, width: 10, height: 10 });
  const boxes = [box("a", 20, 0), box("b", 0, 40), box("c", 40, 40), box("d", 20, 80)];
  assert.deepEqual(
    ["ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft"].map((key) => walk(boxes, lineage, "b", key, "TB")),
    ["d", "a", "c", undefined],
  );
});

test("zooming keeps the point, fitting shows all, revealing moves no more than needed", () => {
  const view = { width: 100, height: 100 };
  const camera = fit({ width: 400, height: 100 }, view, 0);
  assert.equal(camera.scale, 0.25);
  const closer = zoom(camera, 2, 30, 60);
  assert.equal((30 - camera.x) / camera.scale, (30 - closer.x) / closer.scale);
  const shown = reveal({ x: 0, y: 0, scale: 1 }, { x: 150, y: 10, width: 20, height: 20 }, view, 10);
  assert.deepEqual([shown.x, shown.y], [-80, 0]);
});

test("a million lines: the scroll bar reaches both ends, and the wheel moves by pixels", () => {
  const window = { total: 1_000_000, viewPx: 540 };
  assert.equal(heightOf(window), MOST_PX);
  assert.equal(topAt(window, MOST_PX - 540), lastTop(window));
  assert.ok(Math.abs(topAt(window, scrollAt(window, 654_321)) - 654_321) < 1e-6);
  assert.equal(moved(window, 500, 18), 501);
  assert.equal(moved(window, 0, -5), 0);
  assert.equal(topFor(window, 100, 110), 100);
  assert.equal(topFor(window, 100, 900_000), 900_000 - 10);
  assert.deepEqual(pagesFor(990, 30, 1_000_000, 500), [1, 2]);
  assert.deepEqual([nextMatch([3, 9], 3, 1), nextMatch([3, 9], 3, -1), nextMatch([], 0, 1)], [9, 9, undefined]);
});

test("ten thousand squares fit, and each point finds its own", () => {
  const grid = gridFor(10_000, 900, 420);
  assert.ok(grid.height <= 420 && grid.width <= 900);
  for (const index of [0, 1, 4_321, 9_999]) {
    const [x, y] = placeOf(grid, index);
    assert.equal(indexAt(grid, x + 1, y + 1, 10_000), index);
  }
  assert.equal(indexAt(grid, 1, grid.height + 1, 10_000), undefined);
  assert.deepEqual(changed("0011", withDigit("0011", 1, "4")), [1]);
  assert.deepEqual(childOf("each__tile__17"), { parent: "each__tile", index: 17 });
  assert.equal(childOf("each_tile"), undefined);
  assert.equal(
    histogram([1, 2, 3, 100], 4).reduce((sum, bin) => sum + bin.count, 0),
    4,
  );
});

test("spans: unions, rests, lanes, concurrency and gaps", () => {
  const span = (from: number, to: number) => ({ from, to });
  assert.deepEqual(union([span(5, 7), span(0, 2), span(1, 5)]), [span(0, 7)]);
  assert.deepEqual(minus([span(0, 10)], [span(2, 3), span(8, 20)]), [span(0, 2), span(3, 8)]);
  assert.deepEqual(pack([span(0, 5), span(1, 2), span(2, 4)]), { lanes: 2, laneOf: [0, 1, 1] });
  assert.deepEqual(concurrency([span(0, 10), span(5, 10)], 0, 10, 2), [1, 2]);
  const gaps = gapsOf(span(0, 100), [span(20, 50), span(70, 100)], [span(0, 30), span(60, 70)]);
  assert.deepEqual([gaps.running, gaps.waiting, gaps.idle], [60, 30, 10]);
  assert.deepEqual(ticks(0, 95, 6), [0, 30, 60, 90]);
  assert.deepEqual(ticks(0, 0.9, 5).length, 5);
  assert.deepEqual(ticks(36_000, 36_001, 4), [36_000, 36_000.5, 36_001]);
  assert.deepEqual(ticks(5, 5, 4), [5]);
});

test("terminal sequences become classes or nothing, and no text is lost", () => {
  assert.deepEqual(pieces("\u001b[31mred\u001b[0m <b>x</b>"), [
    { text: "red", classes: "ansi-31" },
    { text: " <b>x</b>", classes: "" },
  ]);
  assert.equal(plainText("a\u001b]8;;http://x\u0007link\u001b]8;;\u0007\u001b[2Kb\u202ec\u0000"), "alinkbc");
  assert.equal(plainText("\u001b[38;5;200mpink\u001b[38;2;1;2;3mrgb"), "pinkrgb");
});

test("a definition is written as YAML that means the same", () => {
  const text = toYaml({
    name: "a: b",
    yes: "no",
    list: [{ x: 1, z: [1, 2] }, {}],
    text: "one\n\ntwo\n",
    empty: [],
    none: null,
  });
  assert.equal(
    text,
    'name: "a: b"\n"yes": "no"\nlist:\n  - x: 1\n    z: [1, 2]\n  - {}\ntext: |\n  one\n\n  two\nempty: []\nnone: null\n',
  );
});

test("a diff tells what went and came, and folds what stayed", () => {
  const lines = diffLines("a\nb\nc\nd\n", "a\nx\nc\nd\ne\n");
  assert.deepEqual(
    lines.map((line) => `${line.kind[0]}${line.text}`),
    ["sa", "gb", "nx", "sc", "sd", "ne"],
  );
  assert.equal(folded(diffLines("1\n2\n3\n4\n5\n6\n7\nx", "1\n2\n3\n4\n5\n6\n7\ny"), 2)[0], 5);
});

test("a graph drawn to the right keeps its layers and orders, and no two nodes overlap", () => {
  const node = (id: string, layer: number, x: number, width: number) => ({
    id,
    type: "task",
    label: id,
    detail: "",
    description: "",
    layer,
    x,
    y: 28 + layer * 92,
    width,
    height: 52,
  });
  const down = {
    title: "t",
    description: "",
    direction: "down",
    width: 500,
    height: 400,
    nodes: [node("a", 0, 120, 200), node("b", 1, 28, 120), node("c", 1, 180, 260), node("d", 3, 120, 120)],
    edges: [
      {
        source: "a",
        target: "b",
        kind: "next",
        label: "",
        points: [
          [220, 80],
          [88, 120],
        ],
      },
      {
        source: "a",
        target: "c",
        kind: "next",
        label: "",
        points: [
          [220, 80],
          [310, 120],
        ],
      },
      {
        source: "b",
        target: "d",
        kind: "next",
        label: "on_true",
        label_at: [88, 236],
        points: [
          [88, 172],
          [88, 226],
          [88, 246],
          [180, 304],
        ],
      },
    ],
  };
  const right = toTheRight(down as never);
  assert.equal(right.direction, "right");
  const [a, b, c, d] = right.nodes;
  assert.ok(a && b && c && d);
  assert.ok(a.x + a.width < c.x && c.x + c.width < d.x, "layers follow each other");
  assert.equal(b.x + b.width / 2, c.x + c.width / 2, "nodes of a layer are in one column");
  assert.ok(b.y + b.height + 30 <= c.y, "in the same order, with room for a line of text");
  for (const edge of right.edges) {
    const xs = edge.points.map(([x]) => x);
    assert.deepEqual(
      xs,
      [...xs].sort((one, other) => one - other),
      "no edge runs backwards",
    );
    const source = right.nodes.find((one) => one.id === edge.source);
    const target = right.nodes.find((one) => one.id === edge.target);
    assert.ok(source && target);
    assert.deepEqual(edge.points[0], [source.x + source.width, source.y + source.height / 2]);
    assert.deepEqual(edge.points.at(-1), [target.x, target.y + target.height / 2]);
  }
  const [labelX] = right.edges[2]?.label_at ?? [0];
  assert.ok(labelX > b.x + b.width && labelX < d.x);
  assert.ok(right.nodes.every((one) => one.y >= 28 && one.y + one.height <= right.height));
  assert.equal(toTheRight(right), right);
});

test("two columns hold what went beside what came in its place", () => {
  const rows = paired(folded(diffLines("a\nb: 1\nc\n", "a\nb: 2\nnew\nc\n")));
  assert.deepEqual(
    rows.map((row) => (typeof row === "number" ? row : [row.before?.text, row.after?.text])),
    [
      ["a", "a"],
      ["b: 1", "b: 2"],
      [undefined, "new"],
      ["c", "c"],
    ],
  );
  assert.deepEqual(paired([4]), [4]);
  assert.deepEqual(middles("queue: light", "queue: heavy"), ["queue: ", "light", ""]);
  assert.deepEqual(middles("retries: 3", "retries: 33"), ["retries: 3", "", ""]);
  assert.deepEqual(middles("abc", "xyz"), ["abc", "", ""]);
});

test("a part of the time is in the address, inside of the whole, and never too short to be seen", () => {
  const whole = { from: 1_000, to: 11_000 };
  assert.deepEqual(readWindow("2000-4000", whole), { from: 3_000, to: 5_000 });
  assert.deepEqual(readWindow("2000-40000", whole), { from: 3_000, to: 11_000 });
  for (const text of ["", "5-5", "9-2", "20000-30000", "-3-5", "1e3-2e3", "<b>-1"])
    assert.equal(readWindow(text, whole), undefined, text);
  assert.deepEqual(readWindow("100-101", whole), { from: 1_100, to: 1_105 });
  assert.equal(windowText({ from: 3_000, to: 5_000 }, whole), "2000-4000");
  assert.equal(windowText({ from: 0, to: 99_000 }, whole), null);
  assert.deepEqual(zoomed(whole, whole, 0.5), { from: 3_500, to: 8_500 });
  assert.deepEqual(zoomed({ from: 1_000, to: 2_000 }, whole, 4), { from: 1_000, to: 5_000 });
  assert.deepEqual(zoomed({ from: 1_000, to: 9_000 }, whole, 4), whole);
  assert.deepEqual(shifted({ from: 3_000, to: 5_000 }, whole, 9_000), { from: 9_000, to: 11_000 });
  assert.deepEqual(resized({ from: 3_000, to: 5_000 }, whole, "from", 8_000), { from: 4_995, to: 5_000 });
  assert.deepEqual(resized({ from: 3_000, to: 5_000 }, whole, "to", 99_000), { from: 3_000, to: 11_000 });
});

test("what ends and what follows it in the same step count once", () => {
  const spans = [
    { from: 0, to: 25 },
    { from: 25, to: 95 },
    { from: 90, to: 130 },
  ];
  assert.deepEqual(averages(spans, 0, 100, 10), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1.5]);
  assert.deepEqual(averages(spans, 0, 0, 2), [0, 0]);
  assert.deepEqual(averages([{ from: -50, to: -10 }], 0, 100, 2), [0, 0]);
});
