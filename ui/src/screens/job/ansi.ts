/** Colours of terminals as classes. Everything else that a terminal would obey is left out: a log is text, never markup. */

export interface Piece {
  text: string;
  /** Such as `ansi-31 ansi-bold`; empty for plain text. */
  classes: string;
}

// Titles and links (OSC), other sequences (CSI and short ones), and control characters but the tab.
const SEQUENCE =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are what it is about
  /\u001b\[([0-9;]*)m|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b\[[0-?]*[ -/]*[@-~]|\u001b[@-_]?|[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export function pieces(line: string): Piece[] {
  const found: Piece[] = [];
  const style = { colour: "", bold: false, faint: false, italic: false };
  let end = 0;
  const add = (text: string) => {
    if (!text) return;
    const classes = [
      style.colour,
      style.bold ? "ansi-bold" : "",
      style.faint ? "ansi-faint" : "",
      style.italic ? "ansi-italic" : "",
    ];
    found.push({ text, classes: classes.filter(Boolean).join(" ") });
  };
  for (const match of line.matchAll(SEQUENCE)) {
    add(line.slice(end, match.index));
    end = match.index + match[0].length;
    if (match[1] !== undefined) obey(style, match[1]);
  }
  add(line.slice(end));
  return found;
}

export function plainText(line: string): string {
  return pieces(line)
    .map((piece) => piece.text)
    .join("");
}

function obey(style: { colour: string; bold: boolean; faint: boolean; italic: boolean }, codes: string): void {
  const numbers = codes.split(";").map(Number);
  for (let index = 0; index < numbers.length; index++) {
    const code = numbers[index] ?? 0;
    if (code === 0) Object.assign(style, { colour: "", bold: false, faint: false, italic: false });
    else if (code === 1) style.bold = true;
    else if (code === 2) style.faint = true;
    else if (code === 3) style.italic = true;
    else if (code === 22) style.bold = style.faint = false;
    else if (code === 39) style.colour = "";
    else if (code >= 30 && code <= 37) style.colour = `ansi-${code}`;
    else if (code >= 90 && code <= 97) style.colour = `ansi-${code - 60}`;
    else if (code === 38 || code === 48) index += numbers[index + 1] === 5 ? 2 : 4;
  }
}
