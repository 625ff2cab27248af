/** Where the interface begins: who is there, then the shell with the screen that the address names. */
import { effect } from "@preact/signals";
import { render } from "preact";
import { onAnswer } from "./core/api";
import { startLive } from "./core/live";
import "./core/preferences";
import { checkSession, sessionEnded, sessionState } from "./core/session";
import { noteAnswer } from "./shell/connection";
import { Root } from "./shell/root";

onAnswer((reached, error) => {
  noteAnswer(reached);
  if (error?.isSignedOut) sessionEnded();
});
const begun = effect(() => {
  if (sessionState.value !== "signed-in") return;
  startLive();
  queueMicrotask(() => begun());
});
const host = document.getElementById("app");
if (host) render(<Root />, host);
void checkSession();
