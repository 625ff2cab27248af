import assert from "node:assert/strict";
import { test } from "node:test";
import { labelProblem, labelTexts, readLabels, sameLabels, withChanges } from "../src/core/labels";
import { bodyOf, cliText, pythonText } from "../src/screens/submit/snippets";

test("labels are read line by line, and the first wrong line is told", () => {
  assert.deepEqual(readLabels("aoi=oslo\n\n note=a=b c \nteam-", true), {
    put: { aoi: "oslo", note: "a=b c" },
    remove: ["team"],
  });
  assert.deepEqual(readLabels("", false), { put: {}, remove: [] });
  for (const [text, word] of [
    ["aoi", "“aoi” is no label"],
    ["Aoi=oslo", "A key has 1 to 63"],
    ["=x", "A key has"],
    ["aoi=os\u202elo", "invisible character"],
    [`aoi=${"x".repeat(201)}`, "more than 200"],
    ["aoi=1\naoi=2", "“aoi” is there twice"],
    ["aoi=1\naoi-", "“aoi” is there twice"],
    [Array.from({ length: 17 }, (_, n) => `k${n}=`).join("\n"), "At most 16"],
  ] as const) {
    assert.match(readLabels(text, true).problem ?? "", new RegExp(word), text);
  }
  assert.match(readLabels("team-", false).problem ?? "", /“team-” is no label/);
  assert.equal(labelProblem(`aoi=${"🗺".repeat(200)}`), undefined);
});

test("changes are compared by what the labels are afterwards", () => {
  const before = { aoi: "oslo", team: "gis" };
  const after = withChanges(before, { put: { aoi: "bergen" }, remove: ["team", "other"] });
  assert.deepEqual(after, { aoi: "bergen" });
  assert.equal(sameLabels(before, withChanges(before, { put: { aoi: "oslo" }, remove: ["other"] })), true);
  assert.equal(sameLabels(before, after), false);
  assert.deepEqual(labelTexts(before), ["aoi=oslo", "team=gis"]);
});

test("labels are in what the form shows as code", () => {
  const order = { workflow_id: "w", values: {}, labels: { note: "it's", aoi: "oslo" } };
  assert.equal(cliText(order), "rmhdag submit w --label 'aoi=oslo' --label 'note=it'\\''s' --wait");
  assert.deepEqual(bodyOf(order), { workflow_id: "w", input_params: {}, labels: order.labels });
  assert.deepEqual(bodyOf({ ...order, labels: {} }), { workflow_id: "w", input_params: {} });
  assert.match(pythonText(order), /labels=\{"note": "it's", "aoi": "oslo"\}\)/);
  assert.match(pythonText({ ...order, platform_id: "ddh" }), /labels=\{"note": "it's", "aoi": "oslo"\},\n {4}\)/);
});
