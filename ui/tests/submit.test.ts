import assert from "node:assert/strict";
import { test } from "node:test";
import { cellsOf, rowsOf, secondsOf, secondsText } from "../src/screens/submit/typed-text";

test("durations are read as people write them, and nothing else is", () => {
  const read = ["90", "1m 30s", "1h30m", "2 h", "1.5d", " 10 MIN ", "1w"].map(secondsOf);
  assert.deepEqual(read, [90, 90, 5400, 7200, 129_600, 600, 604_800]);
  for (const text of ["", "soon", "1x", "1m and 2s", "-5", "1h;drop", "<b>1h</b>"]) {
    assert.equal(secondsOf(text), undefined, text);
  }
  assert.deepEqual([59, 90, 5400, 90_061.5].map(secondsText), ["", "1m 30s", "1h 30m", "1d 1h 1m 1.5s"]);
});

test("pasted tables become rows by their header", () => {
  assert.deepEqual(cellsOf('a,b\r\n"x, ""y""\nz",2\r\n\r\n'), [
    ["a", "b"],
    ['x, "y"\nz', "2"],
  ]);
  const properties = { tile: { type: "string" }, weight: { type: "number" }, used: { type: "boolean" } };
  assert.deepEqual(rowsOf("tile\tweight\tused\n007\t1.5\tyes\nb\t\tno", properties), [
    { tile: "007", weight: 1.5, used: true },
    { tile: "b", used: false },
  ]);
  assert.deepEqual(rowsOf("tile;weight\na;much", properties), [{ tile: "a", weight: "much" }]);
  assert.deepEqual(rowsOf("n,name\n1,007", null), [{ n: 1, name: "007" }]);
  const hostile = rowsOf("__proto__,b\n<img src=x>,2", null);
  assert.deepEqual(Object.keys(hostile?.[0] ?? {}).length, 2);
  assert.equal(({} as Record<string, unknown>).b, undefined);
  for (const text of ["", "one line", '[{"a": 1}]', "a,a\n1,2", "a,\n1,2"]) assert.equal(rowsOf(text, null), undefined);
});
