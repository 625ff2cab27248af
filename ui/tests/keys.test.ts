import assert from "node:assert/strict";
import { test } from "node:test";
import { isCharacter } from "../src/core/key-names";

test("letters, digits and signs are keys that can be switched off; named keys and Ctrl are not", () => {
  for (const keys of ["r", "Shift+R", "g j", "1", "8", "+", "-", "?", "/", ".", "[", "]"]) {
    assert.equal(isCharacter(keys), true, keys);
  }
  for (const keys of ["Escape", "Mod+K", "ArrowUp", "Enter"]) assert.equal(isCharacter(keys), false, keys);
});
