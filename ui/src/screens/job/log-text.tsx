/** A line of a log as text with the colours of terminals, and with what was searched for marked in it. */
import type { JSX } from "preact";
import { pieces } from "./ansi";

export function LogText({ text, find }: { text: string; find?: string }): JSX.Element {
  return (
    <span class="log-text">
      {pieces(text).map((piece, index) => (
        <span key={index} class={piece.classes}>
          {find ? marked(piece.text, find) : piece.text}
        </span>
      ))}
    </span>
  );
}

function marked(text: string, find: string): (string | JSX.Element)[] {
  const parts: (string | JSX.Element)[] = [];
  const low = text.toLowerCase();
  const wanted = find.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(wanted); at >= 0 && wanted; at = low.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + wanted.length)}</mark>);
    from = at + wanted.length;
  }
  parts.push(text.slice(from));
  return parts;
}
