// Building the page. Whatever comes from a run gets in as text: nothing here parses HTML.

const LONGEST = 300; // characters
const MOST_TITLE = 5000;

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// A name of a run, a metric or a label. Each stands apart, so that a right-to-left one doesn't turn what's around it.
export function makeName(text, tag = "bdi") {
  const whole = printable(text);
  const shown = shorten(whole);
  const title = shown === text ? "" : whole.slice(0, MOST_TITLE);
  return make(tag, { className: "name", textContent: shown, title, dir: "auto" });
}

export function printable(text) {
  // Control characters and the marks that reorder text would hide what a name is.
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, (c) =>
    c === "\n" ? "\\n" : `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function shorten(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}

export function replace(element, ...children) {
  element.replaceChildren(...children.filter((child) => child !== null));
}
