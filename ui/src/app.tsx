/** Where the interface begins: who is there, then the shell with the screen that the address names. */
import { render } from "preact";
import { onAnswer } from "./core/api";
import "./core/preferences";
import { checkSession, sessionEnded } from "./core/session";
import { noteAnswer } from "./shell/connection";
import { Root } from "./shell/root";

onAnswer((reached, error) => {
  noteAnswer(reached);
  if (error?.isSignedOut) sessionEnded();
});
const host = document.getElementById("app");
if (host) render(<Root />, host);
void checkSession();
